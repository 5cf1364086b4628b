// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingTask, Rule} from "../src/interfaces/ITrainingTask.sol";
import {BaseTest} from "./Base.t.sol";
import {TrainingTaskHandler} from "./TrainingTask.handler.t.sol";

/// @notice What holds after any action of anybody. The handler looks at clockwork, stakes and the task's balance after every call;
/// the sums over everybody are made now and then, for what is missing in them stays missing.
abstract contract TrainingTaskInvariants is BaseTest {
    TrainingTaskHandler internal _handler;
    bytes4[] private _actions;

    function _rule() internal pure virtual returns (Rule);

    function setUp() external {
        vm.warp(1_000_000);
        vm.roll(100);
        address factory = vm.deployCode("TaskFactory.sol:TaskFactory", abi.encode(uint32(1), uint64(1)));
        _handler = TrainingTaskHandler(
            vm.deployCode("TrainingTask.handler.t.sol:TrainingTaskHandler", abi.encode(factory, _rule()))
        );
        _handler.start();
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

    /// @dev Handlers that always fail would prove nothing: in a long random play each succeeds in a tenth of its calls.
    function test_handlers_inALongPlay_succeedOftenEnough() external {
        for (uint256 i = 0; i < 3000; ++i) {
            bytes4 action = _actions[_random(i, 0) % _actions.length];
            (bool done,) =
                address(_handler).call(abi.encodeWithSelector(action, _random(i, 1), _random(i, 2)));
            vm.assertTrue(done);
        }

        for (uint256 i = 0; i < _actions.length; ++i) {
            vm.assertGe(_handler.successes(_actions[i]) * 10, _handler.calls(_actions[i]));
        }
        _expectAll();
    }

    function _random(uint256 i, uint256 k) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(i, k)));
    }

    function _expectAll() internal view {
        ITrainingTask task = _handler.task();
        vm.assertTrue(bytes(_handler.violation()).length == 0, _handler.violation());
        vm.assertEq(task.owed(), _handler.claimable(), "what is owed can be claimed");
        vm.assertEq(address(_handler.registry()).balance, _handler.held(), "registry's balance");
    }
}

/// @notice Shares by score.
contract TrainingTaskSoftmaxInvariantTest is TrainingTaskInvariants {
    function _rule() internal pure override returns (Rule) {
        return Rule.Softmax;
    }

    /// forge-config: default.invariant.runs = 176
    /// forge-config: default.invariant.depth = 500
    /// forge-config: default.invariant.check_interval = 20
    /// forge-config: default.invariant.fail_on_revert = true
    /// forge-config: fast.invariant.runs = 8
    /// forge-config: fast.invariant.depth = 500
    /// forge-config: deep.invariant.runs = 1760
    /// forge-config: deep.invariant.depth = 500
    function invariant_moneyAndOrderAndTruth_hold() external view {
        _expectAll();
    }
}

/// @notice A committee that trains and elects its successor.
contract TrainingTaskCommitteeInvariantTest is TrainingTaskInvariants {
    function _rule() internal pure override returns (Rule) {
        return Rule.CommitteeNear;
    }

    /// forge-config: default.invariant.runs = 176
    /// forge-config: default.invariant.depth = 500
    /// forge-config: default.invariant.check_interval = 20
    /// forge-config: default.invariant.fail_on_revert = true
    /// forge-config: fast.invariant.runs = 8
    /// forge-config: fast.invariant.depth = 500
    /// forge-config: deep.invariant.runs = 1760
    /// forge-config: deep.invariant.depth = 500
    function invariant_moneyAndOrderAndTruth_hold() external view {
        _expectAll();
    }
}

/// @notice Shares on ranks.
contract TrainingTaskRanksInvariantTest is TrainingTaskInvariants {
    function _rule() internal pure override returns (Rule) {
        return Rule.FedRob;
    }

    /// forge-config: default.invariant.runs = 176
    /// forge-config: default.invariant.depth = 500
    /// forge-config: default.invariant.check_interval = 20
    /// forge-config: default.invariant.fail_on_revert = true
    /// forge-config: fast.invariant.runs = 8
    /// forge-config: fast.invariant.depth = 500
    /// forge-config: deep.invariant.runs = 1760
    /// forge-config: deep.invariant.depth = 500
    function invariant_moneyAndOrderAndTruth_hold() external view {
        _expectAll();
    }
}

/// @notice Shares that the proposer posts.
contract TrainingTaskAttestedInvariantTest is TrainingTaskInvariants {
    function _rule() internal pure override returns (Rule) {
        return Rule.Krum;
    }

    /// forge-config: default.invariant.runs = 176
    /// forge-config: default.invariant.depth = 500
    /// forge-config: default.invariant.check_interval = 20
    /// forge-config: default.invariant.fail_on_revert = true
    /// forge-config: fast.invariant.runs = 8
    /// forge-config: fast.invariant.depth = 500
    /// forge-config: deep.invariant.runs = 1760
    /// forge-config: deep.invariant.depth = 500
    function invariant_moneyAndOrderAndTruth_hold() external view {
        _expectAll();
    }
}
