// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingTask} from "../src/interfaces/ITrainingTask.sol";
import {ReentrantCaller, RejectingCaller, TaskTest} from "./TaskScene.t.sol";

contract TrainingTaskClaimTest is TaskTest {
    function test_claim_byAReentrantCaller_isPaidOnce() external {
        ReentrantCaller caller = new ReentrantCaller(_task);
        caller.draw(_seedHeader());

        caller.claim();

        vm.assertEq(caller.taken(), _terms().callerFee);
        vm.assertEq(caller.refusals(), 1);
        _assertAllAccountedFor();
    }

    function test_claim_byACallerThatRejectsEther_revertsAndHarmsNobody() external {
        RejectingCaller caller = new RejectingCaller(_task);
        caller.draw(_seedHeader());
        uint256 fee = _terms().callerFee;

        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.TransferFailed.selector, address(caller), fee));
        caller.claim();

        vm.assertEq(_task.creditOf(address(caller), new uint64[](0)), fee);
        vm.assertEq(_task.owed(), fee);
        _assertAllAccountedFor();
    }

    function test_claim_withNothingEarned_reverts() external {
        vm.expectRevert(ITrainingTask.NothingToClaim.selector);
        _task.claim(new uint64[](0));
    }

    function test_claim_ofARoundThatIsNotSettled_reverts() external {
        uint64[] memory rounds = new uint64[](1);
        rounds[0] = 1;

        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.RoundNotSettled.selector, uint64(1)));
        _task.claim(rounds);
    }
}
