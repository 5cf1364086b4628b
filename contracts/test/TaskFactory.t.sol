// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TaskConfig, ITrainingTask, Phase} from "../src/interfaces/ITrainingTask.sol";
import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {TaskTest} from "./TaskScene.t.sol";

interface IInitialize {
    function initialize() external payable;
}

contract TaskFactoryTest is TaskTest {
    function test_createTask_listsTheTaskAndKeepsItsTerms() external {
        TaskConfig memory terms = _terms();
        terms.rounds = 7;

        ITrainingTask task = _create(terms);

        vm.assertEq(_factory.taskCount(), 2);
        vm.assertEq(_factory.taskAt(2), address(task));
        vm.assertTrue(_factory.isTask(address(task)));
        vm.assertEq(task.sponsor(), _sponsor);
        vm.assertEq(task.escrow(), ESCROW);
        vm.assertEq(keccak256(abi.encode(task.config())), keccak256(abi.encode(terms)));
    }

    function test_createTask_withBadTerms_namesTheField() external {
        TaskConfig memory terms = _terms();
        terms.committeeSize = 4;

        vm.expectRevert(abi.encodeWithSelector(ITaskFactory.BadConfig.selector, "committeeSize"));
        _factory.createTask(terms);
    }

    function test_initialize_ofTheImplementation_reverts() external {
        IInitialize implementation = IInitialize(_factory.implementation());

        vm.expectRevert(ITrainingTask.AlreadyInitialized.selector);
        implementation.initialize();
    }

    function test_initialize_ofATask_reverts() external {
        vm.expectRevert(ITrainingTask.AlreadyInitialized.selector);
        IInitialize(address(_task)).initialize();
    }

    function test_receive_fromAnybodyButTheRegistry_reverts() external {
        vm.deal(_stranger, 1 ether);

        vm.prank(_stranger);
        (bool sent,) = address(_task).call{value: 1}("");

        vm.assertFalse(sent);
        _assertAllAccountedFor();
    }

    function test_onOperatorNamed_fromAnybodyButTheRegistry_reverts() external {
        vm.expectRevert(ITrainingTask.NotRegistry.selector);
        _task.onOperatorNamed(_account(1), _account(2));
    }

    function test_onStakeChanged_fromAnybodyButTheRegistry_reverts() external {
        vm.expectRevert(ITrainingTask.NotRegistry.selector);
        _task.onStakeChanged(_account(1), 100 ether);
    }

    function test_abandon_beforeTheDraw_endsTheTaskAndFreesTheEscrow() external {
        vm.prank(_sponsor);
        _task.abandon();
        vm.prank(_sponsor);
        uint256 amount = _task.refund();

        vm.assertEq(amount, ESCROW);
        vm.assertTrue(_task.place().phase == Phase.Ended);
        vm.assertEq(_sponsor.balance, ESCROW);
    }
}
