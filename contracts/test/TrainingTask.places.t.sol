// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase} from "../src/interfaces/ITrainingTask.sol";
import {TaskTest} from "./TaskScene.t.sol";

/// @notice Words that one round leaves behind are written again by the next: nothing that stands in them counts any more.
contract TaskPlacesTest is TaskTest {
    bytes32 private constant ROOT = bytes32(uint256(2));
    bytes32 private constant CID = bytes32(uint256(3));
    bytes32 private constant SALT = bytes32(uint256(4));

    function _draw() private returns (uint32[] memory line) {
        _task.draw(_seedHeader());
        return _task.proposers();
    }

    function _commit(uint32 id, bytes32 digest) private {
        uint64 round = _task.place().round;
        vm.prank(_task.accountOf(id));
        _task.commitUpdate(round, digest);
    }

    /// @dev What opens as an update of this account in this round.
    function _sealed(uint32 id, uint64 round) private view returns (bytes32) {
        bytes32 payload = keccak256(abi.encode(ROOT, CID, uint64(1)));
        return keccak256(
            abi.encode(
                block.chainid,
                address(_task),
                _task.taskId(),
                round,
                uint8(Phase.Train),
                _task.accountOf(id),
                payload,
                SALT
            )
        );
    }

    function _opens(uint32 id, uint64 round) private returns (bool) {
        vm.prank(_task.accountOf(id));
        try _task.revealUpdate(round, ROOT, CID, 1, SALT) {
            return true;
        } catch {
            return false;
        }
    }

    function _passTrain() private {
        vm.warp(_task.place().deadline);
        _task.advance(_task.place().round);
    }

    function test_revealUpdate_ofWhatWasCommittedInAnEarlierRound_reverts() external {
        uint32[] memory line = _draw();
        uint32 early = line[1];
        _commit(early, _sealed(early, 2));
        _passTrain();
        _passTrain();
        vm.assertEq(_task.place().round, 2);

        line = _draw();
        for (uint256 i = 1; i < line.length; ++i) {
            // Whoever comes first here writes where the early one wrote.
            if (line[i] != early) _commit(line[i], _sealed(line[i], 2));
            else _commit(early, _sealed(early, 1));
        }
        _task.advance(2);

        vm.assertTrue(_task.place().phase == Phase.Reveal);
        vm.assertFalse(_opens(early, 2));
        for (uint256 i = 1; i < line.length; ++i) {
            vm.assertEq(_opens(line[i], 2), line[i] != early);
            (,, bytes32 digest,) = _task.update(line[i]);
            vm.assertEq(digest, line[i] == early ? _sealed(early, 1) : ROOT);
        }
        (bool committed,,,) = _task.update(line[0]);
        vm.assertFalse(committed);
    }
}
