// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "./Base.t.sol";
import {ListsHandler} from "./TrainingTask.lists.handler.t.sol";

/// @notice Who has an id, who judges and who acts for whom, after any action of anybody: an operator never moves money, nobody has an
/// id who was not admitted, and an internal stays one.
contract TrainingTaskListsInvariantTest is BaseTest {
    ListsHandler private _handler;
    bytes4[] private _actions;

    function setUp() external {
        vm.warp(1_000_000);
        vm.roll(100);
        address factory = vm.deployCode("TaskFactory.sol:TaskFactory", abi.encode(uint32(1), uint64(1)));
        _handler =
            ListsHandler(vm.deployCode("TrainingTask.lists.handler.t.sol:ListsHandler", abi.encode(factory)));
        _actions = [
            ListsHandler.join.selector,
            ListsHandler.hire.selector,
            ListsHandler.quit.selector,
            ListsHandler.work.selector,
            ListsHandler.steal.selector,
            ListsHandler.stake.selector,
            ListsHandler.move.selector
        ];
        _target(address(_handler), _actions);
    }

    /// @dev Books of a play in which nothing happens would prove nothing.
    function test_handlers_inALongPlayOfLists_reachEverything() external {
        for (uint256 i = 0; i < 4500; ++i) {
            bytes4 action = _actions[_random(i, 0) % _actions.length];
            (bool done,) =
                address(_handler).call(abi.encodeWithSelector(action, _random(i, 1), _random(i, 2)));
            vm.assertTrue(done);
        }

        _expectAll();
        string[10] memory reached = [
            "joined",
            "refused",
            "accepted",
            "dismissed",
            "left",
            "owner worked",
            "key worked",
            "key stole",
            "key called",
            "drawn"
        ];
        for (uint256 i = 0; i < reached.length; ++i) {
            vm.assertTrue(_handler.seen(reached[i]) >= 20, reached[i]);
        }
    }

    /// forge-config: default.invariant.runs = 64
    /// forge-config: default.invariant.depth = 300
    /// forge-config: default.invariant.check_interval = 10
    /// forge-config: default.invariant.fail_on_revert = true
    /// forge-config: fast.invariant.runs = 8
    /// forge-config: fast.invariant.depth = 300
    /// forge-config: deep.invariant.runs = 640
    /// forge-config: deep.invariant.depth = 500
    function invariant_listsOperatorsAndInternals_hold() external view {
        _expectAll();
    }

    function _random(uint256 i, uint256 k) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(i, k)));
    }

    function _expectAll() private view {
        string memory wrong = _handler.check();
        vm.assertTrue(bytes(wrong).length == 0, wrong);
    }
}
