// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Create2} from "@openzeppelin/contracts/utils/Create2.sol";

import {StakeRegistry} from "./StakeRegistry.sol";
import {TaskFront} from "./TaskFront.sol";
import {TrainingTask} from "./TrainingTask.sol";
import {ITaskFactory} from "./interfaces/ITaskFactory.sol";
import {ITaskList} from "./interfaces/ITaskList.sol";
import {TaskConfig} from "./interfaces/ITrainingTask.sol";
import {Origin} from "./packing/ImmutableArgs.sol";
import {Terms} from "./round/Terms.sol";

/// @title TaskFactory
/// @notice See `ITaskFactory`.
contract TaskFactory is ITaskFactory {
    uint256 private constant WAD = 1e18;
    uint64 private constant MAX_SEED_DELAY = 64;

    /* STORAGE */

    /// @inheritdoc ITaskFactory
    address public immutable registry;
    /// @inheritdoc ITaskFactory
    address public immutable implementation;
    /// @inheritdoc ITaskFactory
    uint32 public immutable phaseFloor;
    /// @inheritdoc ITaskFactory
    uint64 public immutable seedDelay;
    /// @inheritdoc ITaskFactory
    uint64 public taskCount;
    /// @inheritdoc ITaskFactory
    mapping(uint64 taskId => address) public taskAt;
    /// @inheritdoc ITaskList
    mapping(address task => bool) public isTask;

    /* CONSTRUCTOR */

    /// @param floor The least length of a phase on this chain, in seconds.
    /// @param delay How many blocks after its opening the one lies that seeds a draw.
    constructor(uint32 floor, uint64 delay) {
        // INVARIANT: whoever opens a draw in a block must not know the randomness that will seed it; its own block's is known.
        require(delay >= 1 && delay <= MAX_SEED_DELAY, BadSeedDelay(delay));

        phaseFloor = floor;
        seedDelay = delay;
        registry = address(new StakeRegistry());
        implementation = address(new TrainingTask());
    }

    /* TASKS */

    /// @inheritdoc ITaskFactory
    function createTask(TaskConfig calldata terms) external payable returns (uint64 taskId, address task) {
        Terms.check(terms, msg.value, phaseFloor);

        taskId = ++taskCount;
        // The address follows from sponsor, terms, money and number: after a reorganisation nobody's stake goes to other terms.
        task = Create2.deploy(0, bytes32(uint256(taskId)), _creationCode(taskId, terms));
        taskAt[taskId] = task;
        isTask[task] = true;

        emit TaskCreated(taskId, task, msg.sender, msg.value);

        TrainingTask(payable(task)).initialize{value: msg.value}();
    }

    /* INTERNAL */

    /// @dev What makes a task: a few bytes that return all that follows them, `TaskFront`, and the frozen part.
    function _creationCode(uint64 taskId, TaskConfig calldata terms) private view returns (bytes memory) {
        bytes memory front = type(TaskFront).runtimeCode;
        bytes memory frozen = abi.encode(_origin(taskId, terms), terms);
        // Both are of a length that is known when this is compiled, and code has at most 24,576 bytes.
        // forge-lint: disable-next-line(unsafe-typecast)
        uint16 size = uint16(front.length + frozen.length);
        // PUSH2 size, DUP1, PUSH1 10, RETURNDATASIZE, CODECOPY, RETURNDATASIZE, RETURN: zero is what nothing returned.
        return abi.encodePacked(hex"61", size, hex"80600a3d393df3", front, frozen);
    }

    /// @dev A round's budget, less the callers' fees, is split between workers, committee and miner.
    function _origin(uint64 taskId, TaskConfig calldata terms) private view returns (Origin memory) {
        uint256 rest = msg.value / terms.rounds - Terms.PAID_CALLS * terms.callerFee;
        uint256 forWorkers = rest * terms.workersPart / WAD;
        uint256 forCommittee = rest * terms.committeePart / WAD;
        uint256 forMiner = rest - forWorkers - forCommittee;
        // All ether there is fits 128 bits.
        // forge-lint: disable-next-item(unsafe-typecast)
        return Origin(
            implementation,
            registry,
            taskId,
            msg.sender,
            uint128(forWorkers),
            uint128(forCommittee),
            uint128(forMiner),
            seedDelay
        );
    }
}
