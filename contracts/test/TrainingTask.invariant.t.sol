// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {ITrainingTask, Phase} from "../src/interfaces/ITrainingTask.sol";
import {BaseTest} from "./Base.t.sol";
import {TrainingTaskHandler} from "./TrainingTask.handler.t.sol";

/// @notice What holds after any action of anybody. One function: forge plays a campaign of its own for each.
contract TrainingTaskInvariantTest is BaseTest {
    TrainingTaskHandler private _handler;
    bytes4[] private _actions;

    function setUp() external {
        vm.warp(1_000_000);
        vm.roll(100);
        _handler = new TrainingTaskHandler(
            ITaskFactory(vm.deployCode("TaskFactory.sol:TaskFactory", abi.encode(uint32(1))))
        );
        _actions = [
            TrainingTaskHandler.join.selector,
            TrainingTaskHandler.leave.selector,
            TrainingTaskHandler.release.selector,
            TrainingTaskHandler.withdraw.selector,
            TrainingTaskHandler.work.selector,
            TrainingTaskHandler.judge.selector,
            TrainingTaskHandler.propose.selector,
            TrainingTaskHandler.vote.selector,
            TrainingTaskHandler.prove.selector,
            TrainingTaskHandler.move.selector,
            TrainingTaskHandler.claim.selector,
            TrainingTaskHandler.end.selector
        ];
        _target(address(_handler), _actions);
    }

    /// @dev Handlers that always fail would prove nothing: each succeeds in a tenth of its calls.
    function afterInvariant() external view {
        for (uint256 i = 0; i < _actions.length; ++i) {
            uint256 calls = _handler.calls(_actions[i]);
            bool often = calls < 20 || _handler.successes(_actions[i]) * 10 >= calls;
            vm.assertTrue(often, string.concat("seldom succeeds: action ", vm.toString(i)));
        }
    }

    /// forge-config: default.invariant.runs = 16
    /// forge-config: default.invariant.depth = 500
    /// forge-config: fast.invariant.runs = 2
    /// forge-config: fast.invariant.depth = 300
    /// forge-config: deep.invariant.runs = 160
    /// forge-config: deep.invariant.depth = 500
    function invariant_moneyAndOrderAndTruth_hold() external view {
        ITrainingTask task = _handler.task();
        vm.assertTrue(bytes(_handler.violation()).length == 0, _handler.violation());
        vm.assertEq(address(task).balance, task.escrow() + task.owed() + _handler.forced(), "task's balance");
        vm.assertEq(task.owed(), _handler.claimable(), "what is owed can be claimed");
        vm.assertEq(address(_handler.registry()).balance, _handler.held(), "registry's balance");
        Phase phase = task.place().phase;
        if (phase != Phase.Propose && phase != Phase.Challenge) return;
        (, uint32[] memory shares) = task.tallied();
        uint256 sum = 0;
        for (uint256 i = 0; i < shares.length; ++i) {
            sum += shares[i];
        }
        vm.assertEq(sum, 1 << 31, "shares");
    }
}
