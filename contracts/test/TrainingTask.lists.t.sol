// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingTask, Role, TaskConfig} from "../src/interfaces/ITrainingTask.sol";
import {List} from "./List.sol";
import {TaskTest} from "./TaskScene.t.sol";

/// @notice A task with a list: accounts 1 to 4 are internals, of whom three fit in, 5 to 8 are participants.
contract TrainingTaskListsTest is TaskTest {
    bytes32[8] private _leaves;

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < 8; ++i) {
            _leaves[i] = List.leaf(_account(i + 1), _roleOf(i + 1));
        }
        TaskConfig memory terms = _terms();
        terms.admissionRoot = List.root(_leaves);
        (terms.minInternals, terms.internalsTrain) = (2, true);
        _task = _create(terms);
    }

    function test_enrol_withoutAProof_reverts() external {
        _stake(1);

        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(1)));
        vm.prank(_account(1));
        _task.enrol();
    }

    function testFuzz_enrolAdmitted_withAnotherProof_reverts(uint256 who, uint256 place) external {
        (who, place) = (_bound(who, 1, 9), _bound(place, 1, 8));
        vm.assume(who != place);
        _stake(who);

        bytes memory proof = List.proof(_leaves, place - 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(who)));
        vm.prank(_account(who));
        _task.enrolAdmitted(_account(who), _roleOf(place), proof);
    }

    function testFuzz_enrolAdmitted_withASpoiltProof_reverts(uint256 who, uint256 at, bytes1 other) external {
        (who, at) = (_bound(who, 1, 8), _bound(at, 0, 59));
        bytes memory proof = List.proof(_leaves, who - 1);
        vm.assume(proof[at] != other);
        _stake(who);

        proof[at] = other;
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(who)));
        vm.prank(_account(who));
        _task.enrolAdmitted(_account(who), _roleOf(who), proof);
    }

    function testFuzz_enrolAdmitted_withAProofOfAnotherLength_reverts(uint256 who, uint256 length) external {
        (who, length) = (_bound(who, 1, 8), _bound(length, 0, 100));
        vm.assume(length != 60);
        _stake(who);

        // Past the three siblings come those of another entry: what is too long may still be made of nodes.
        bytes memory proof = abi.encodePacked(List.proof(_leaves, who - 1), List.proof(_leaves, who % 8));
        assembly ("memory-safe") {
            mstore(proof, length)
        }
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(who)));
        vm.prank(_account(who));
        _task.enrolAdmitted(_account(who), _roleOf(who), proof);
    }

    function test_enrolAdmitted_ofAListOfOne_takesAnEmptyProofOfThatLengthAlone() external {
        TaskConfig memory terms = _terms();
        terms.admissionRoot = List.leaf(_account(5), Role.Participant);
        _task = _create(terms);
        _stake(5);

        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(5)));
        vm.prank(_account(5));
        _task.enrolAdmitted(_account(5), Role.Participant, new bytes(19));
        vm.prank(_account(5));
        _task.enrolAdmitted(_account(5), Role.Participant, "");

        vm.assertEq(_task.accountCount(), 1);
    }

    function testFuzz_enrolAdmitted_inAnotherRole_reverts(uint256 who, bool isNone) external {
        who = _bound(who, 1, 8);
        _stake(who);
        Role other = _roleOf(who) == Role.Internal ? Role.Participant : Role.Internal;

        bytes memory proof = List.proof(_leaves, who - 1);
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(who)));
        vm.prank(_account(who));
        _task.enrolAdmitted(_account(who), isNone ? Role.None : other, proof);
    }

    function test_enrolAdmitted_ofOneInternalTooMany_revertsAndAParticipantStillJoins() external {
        for (uint256 who = 1; who <= 3; ++who) {
            _join(who);
        }
        _stake(4);

        bytes memory proof = List.proof(_leaves, 3);
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.TooManyInternals.selector, 3));
        vm.prank(_account(4));
        _task.enrolAdmitted(_account(4), Role.Internal, proof);
        _join(5);

        vm.assertEq(_task.accountCount(), 4);
        vm.assertEq(_task.internals().length, 3);
    }

    function test_leave_ofAnInternal_keepsItsSeatForIt() external {
        _join(1);
        _join(2);

        vm.prank(_account(1));
        _task.leave();

        vm.assertEq(_task.internals().length, 2);
        vm.prank(_account(1));
        _task.enrol();
        vm.assertEq(_task.internals().length, 2);
        vm.assertEq(_task.account(_account(1)).id, 1);
    }

    function test_enrolAdmitted_byAnOperator_givesTheIdToItsOwner() external {
        address key = _account(20);
        _stake(5);
        vm.prank(_account(5));
        _registry.setOperator(address(_task), key);

        bytes memory proof = List.proof(_leaves, 4);
        vm.prank(key);
        _task.enrolAdmitted(_account(5), Role.Participant, proof);

        vm.assertEq(_task.accountOf(1), _account(5));
        vm.assertEq(_task.account(key).id, 0);
    }

    function test_enrolAdmitted_byAKeyThatNobodyNamed_reverts() external {
        _stake(5);

        bytes memory proof = List.proof(_leaves, 4);
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotOperator.selector, _account(5)));
        vm.prank(_account(20));
        _task.enrolAdmitted(_account(5), Role.Participant, proof);
    }

    function test_enrolFor_byAParticipant_reverts() external {
        _join(5);
        _join(6);
        vm.prank(_account(6));
        _registry.setOperator(address(_task), _account(5));

        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.OperatorInUse.selector, _account(5)));
        vm.prank(_account(5));
        _task.enrolFor(_account(6));
    }

    function test_operator_namedAfterTheDraw_actsFromTheNextRoundOn() external {
        for (uint256 who = 1; who <= 6; ++who) {
            if (who != 4) _join(who);
        }
        _task.draw(_seedHeader());
        address key = _account(20);
        vm.prank(_account(1));
        _registry.setOperator(address(_task), key);
        vm.prank(key);
        _task.enrolFor(_account(1));

        vm.expectRevert();
        vm.prank(key);
        _task.commitUpdate(1, bytes32(uint256(1)));

        (address owner, uint48 since,) = _task.operates(key);
        vm.assertEq(owner, _account(1));
        vm.assertEq(since, 2);
    }

    function test_operator_calledBackInOneRound_neverStopped() external {
        address key = _account(20);
        _join(1);
        _hire(1, key);
        for (uint256 who = 2; who <= 6; ++who) {
            if (who != 4) _join(who);
        }
        _task.draw(_seedHeader());

        vm.prank(_account(1));
        _registry.setOperator(address(_task), address(0));
        _hire(1, key);

        (, uint48 since, uint48 until) = _task.operates(key);
        vm.assertEq(since, 1);
        vm.assertEq(until, type(uint48).max);
    }

    function test_enrolAdmitted_asInternalByTheProofOfAnyone_reverts() external {
        _leaves[7] = List.leaf(address(0), Role.Participant);
        TaskConfig memory terms = _terms();
        terms.admissionRoot = List.root(_leaves);
        (terms.minInternals, terms.internalsTrain) = (2, true);
        _task = _create(terms);
        _stake(30);

        bytes memory proof = List.proof(_leaves, 7);
        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.NotAdmitted.selector, _account(30)));
        vm.prank(_account(30));
        _task.enrolAdmitted(_account(30), Role.Internal, proof);
        vm.prank(_account(30));
        _task.enrolAdmitted(_account(30), Role.Participant, proof);

        vm.assertTrue(_task.account(_account(30)).role == Role.Participant);
    }

    function _hire(uint256 who, address key) private {
        vm.prank(_account(who));
        _registry.setOperator(address(_task), key);
        vm.prank(key);
        _task.enrolFor(_account(who));
    }

    function _join(uint256 who) private {
        _stake(who);
        bytes memory proof = List.proof(_leaves, who - 1);
        vm.prank(_account(who));
        _task.enrolAdmitted(_account(who), _roleOf(who), proof);
    }

    function _stake(uint256 who) private {
        vm.deal(_account(who), 1 ether);
        vm.prank(_account(who));
        _registry.allocate{value: 1 ether}(address(_task), 1 ether);
    }

    function _roleOf(uint256 who) private pure returns (Role) {
        return who <= 4 ? Role.Internal : Role.Participant;
    }
}
