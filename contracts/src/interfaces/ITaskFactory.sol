// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITaskList} from "./ITaskList.sol";
import {TaskConfig} from "./ITrainingTask.sol";

/// @title ITaskFactory
/// @notice Creates training tasks and knows which are its own. A task runs `TaskFront` at its own address and one locked implementation behind it.
interface ITaskFactory is ITaskList {
    /// @notice A task exists, with its escrow. Its terms are at `ITrainingTask(task).config()`.
    event TaskCreated(uint64 indexed taskId, address indexed task, address indexed sponsor, uint256 escrow);

    /// @notice A field of the config is out of bounds; the name is the struct's, or `proofBytes`, `phaseSeconds`, `parts`.
    error BadConfig(string name);

    /// @notice The block that seeds a draw comes 1 to 64 blocks after the one that opens it.
    error BadSeedDelay(uint64 delay);

    /// @notice Creates a task. What is paid is its escrow, `⌊escrow / rounds⌋` a round's budget.
    /// @dev The caller is the sponsor. Terms that could stall a task, overflow a transaction or make a lie pay are refused.
    /// The task's address binds sponsor, terms, budgets and number.
    function createTask(TaskConfig calldata terms) external payable returns (uint64 taskId, address task);

    /// @notice The registry that holds all stakes.
    function registry() external view returns (address);

    /// @notice Whose code the tasks run behind their front; it is locked itself.
    function implementation() external view returns (address);

    /// @notice The least length of a phase on this chain, in seconds.
    function phaseFloor() external view returns (uint32);

    /// @notice How many blocks after the opening of a draw the one lies whose header seeds it.
    function seedDelay() external view returns (uint64);

    /// @notice How many tasks there are.
    function taskCount() external view returns (uint64);

    /// @notice A task by its number, from 1; zero when there is none.
    function taskAt(uint64 taskId) external view returns (address);
}
