// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ImmutableArgs} from "./packing/ImmutableArgs.sol";
import {Acts} from "./round/Acts.sol";
import {Proof} from "./round/Proof.sol";
import {Tally} from "./round/Tally.sol";
import {Transitions} from "./round/Transitions.sol";
import {State} from "./types/TaskState.sol";

/// @title TaskFront
/// @notice The code at a task's address. What every participant posts in a round runs right here, and what moves a round on goes
/// straight to its library; all other calls run in `TrainingTask`, on this contract's storage.
/// @dev A task's code is this one's and behind it `ImmutableArgs`. Reaching into another contract costs 2,600 gas
/// a call: a round of 100 workers makes 215 of those that are here, and a task is created once.
contract TaskFront {
    State private _s;

    /// @notice See `ITrainingTask.commitUpdate`.
    function commitUpdate(uint64 round, bytes32 digest) external {
        Acts.commitUpdate(_s, round, digest);
    }

    /// @notice See `ITrainingTask.revealUpdate`.
    function revealUpdate(uint64 round, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt) external {
        Acts.revealUpdate(_s, round, root, cid, samples, salt);
    }

    /// @notice See `ITrainingTask.commitScores`.
    function commitScores(uint64 round, bytes32 digest) external {
        Acts.commitScores(_s, round, digest);
    }

    /// @notice See `ITrainingTask.revealScores`.
    function revealScores(uint64 round, bytes calldata scores, bytes32 salt) external {
        Acts.revealScores(_s, round, scores, salt);
    }

    /// @notice See `ITrainingTask.attest`.
    function attest(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external
    {
        Acts.vote(_s, round, attempt, modelRoot, blockCid, sharesDigest, true);
    }

    /// @notice See `ITrainingTask.draw`.
    function draw(bytes calldata header) external {
        Transitions.draw(_s, header);
    }

    /// @notice See `ITrainingTask.advance`.
    function advance(uint64 round) external {
        Transitions.advance(_s, round);
    }

    /// @notice See `ITrainingTask.tally`.
    function tally(uint64 round, bytes[] calldata vectors) external {
        Tally.tally(_s, round, vectors);
    }

    /// @notice See `ITrainingTask.prove`.
    function prove(uint64 round, uint8 attempt, uint64 position, bytes calldata evidence, bytes32 salt)
        external
    {
        Proof.prove(_s, round, attempt, position, evidence, salt);
    }

    /// @notice Everything else, with whatever is paid.
    fallback() external payable {
        _forward();
    }

    /// @notice Ether that comes without a call: the task's part of lie slashes.
    receive() external payable {
        _forward();
    }

    /// @dev Ends the call with what `TrainingTask` answers.
    function _forward() private {
        address target = ImmutableArgs.implementation();
        assembly ("memory-safe") {
            let at := mload(0x40)
            calldatacopy(at, 0, calldatasize())
            let good := delegatecall(gas(), target, at, calldatasize(), 0, 0)
            returndatacopy(at, 0, returndatasize())
            if good { return(at, returndatasize()) }
            revert(at, returndatasize())
        }
    }
}
