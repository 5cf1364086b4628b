// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title ITaskList
/// @notice What the registry asks of the factory that made it.
interface ITaskList {
    /// @notice Whether `task` was created by this factory.
    function isTask(address task) external view returns (bool);
}
