// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {ITrainingTask, Rule, TaskConfig} from "../src/interfaces/ITrainingTask.sol";
import {BaseTest} from "./Base.t.sol";
import {Headers} from "./Headers.sol";

/// @notice Claims, and takes ether by claiming again.
contract ReentrantCaller {
    ITrainingTask private immutable _task;
    uint256 public taken;
    uint256 public refusals;

    constructor(ITrainingTask task) {
        _task = task;
    }

    receive() external payable {
        taken += msg.value;
        try _task.claim(new uint64[](0)) {}
        catch {
            ++refusals;
        }
    }

    function draw(bytes calldata header) external {
        _task.draw(header);
    }

    function claim() external {
        _task.claim(new uint64[](0));
    }
}

/// @notice Earns a fee and cannot take it.
contract RejectingCaller {
    ITrainingTask private immutable _task;

    constructor(ITrainingTask task) {
        _task = task;
    }

    function draw(bytes calldata header) external {
        _task.draw(header);
    }

    function claim() external {
        _task.claim(new uint64[](0));
    }
}

/// @notice A factory with one small task, and as many enrolled as its first draw needs.
abstract contract TaskTest is BaseTest {
    uint256 internal constant ESCROW = 0.1 ether;
    uint256 internal constant PEOPLE = 6;

    ITaskFactory internal _factory;
    IStakeRegistry internal _registry;
    ITrainingTask internal _task;
    address internal immutable _sponsor = _account(1000);
    address internal immutable _stranger = _account(1001);

    function setUp() public virtual {
        vm.warp(1_000_000);
        vm.roll(100);
        _factory =
            ITaskFactory(vm.deployCode("TaskFactory.sol:TaskFactory", abi.encode(uint32(1), uint64(1))));
        _registry = IStakeRegistry(_factory.registry());
        _task = _create(_terms());
        for (uint256 i = 1; i <= PEOPLE; ++i) {
            _enrol(_account(i));
        }
    }

    /// @dev The header that seeds the open draw; its block is made to lie in the past.
    function _seedHeader() internal returns (bytes memory header) {
        uint256 at = _task.place().drawBlock;
        header = Headers.header(at);
        if (vm.getBlockNumber() <= at) vm.roll(at + 1);
        vm.setBlockhash(at, keccak256(header));
    }

    function _create(TaskConfig memory terms) internal returns (ITrainingTask) {
        vm.deal(_sponsor, ESCROW);
        vm.prank(_sponsor);
        (, address task) = _factory.createTask{value: ESCROW}(terms);
        return ITrainingTask(task);
    }

    function _enrol(address who) internal {
        vm.deal(who, 1 ether);
        vm.prank(who);
        _registry.allocate{value: 1 ether}(address(_task), 1 ether);
        vm.prank(who);
        _task.enrol();
    }

    function _terms() internal pure returns (TaskConfig memory c) {
        c.firstRoot = bytes32(uint256(1));
        c.dimension = 200;
        c.depth = 2;
        c.scale = 20;
        c.rule = Rule.Softmax;
        (c.beta, c.alpha) = (1e18, 1e18);
        c.uniqueRoots = true;
        (c.committeeSize, c.redrawEvery) = (3, 10);
        (c.minUpdates, c.maxUpdates, c.maxSamples) = (2, 8, 10_000);
        (c.rounds, c.minStake) = (2, 1 ether);
        (c.trainSeconds, c.revealSeconds, c.scoreSeconds) = (60, 60, 60);
        (c.tallySeconds, c.proposeSeconds, c.challengeSeconds) = (60, 60, 60);
        (c.workersPart, c.committeePart) = (0.6e18, 0.3e18);
        (c.callerFee, c.devCap) = (1e12, 1e18);
        (c.lieSlash, c.livenessSlash, c.noRevealSlash) = (0.5e18, 0.01e18, 0.05e18);
        (c.finderPart, c.burnPart) = (0.2e18, 0.5e18);
    }

    /// @dev Every wei of the task is escrow or owed.
    function _assertAllAccountedFor() internal view {
        vm.assertEq(address(_task).balance, _task.escrow() + _task.owed());
    }
}
