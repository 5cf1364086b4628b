// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title IStakeTask
/// @notice What the registry asks of a task that stake is allocated to.
interface IStakeTask {
    /// @notice Tells the task that an account's bonded stake is now `bonded`, after it was allocated or deallocated.
    /// @dev Called by the registry, last in its function. Slashes are not told: it is the task itself that slashes.
    /// Warning: it must not revert when stake is deallocated, or nobody could leave.
    function onStakeChanged(address account, uint256 bonded) external;

    /// @notice Tells the task that an owner of stake named this key as its operator, or with the zero address none.
    /// @dev Called by the registry, last in its function. The task lets the operator that it knew act until the next draw.
    function onOperatorNamed(address owner, address operator) external;

    /// @notice Whether the account has a part in an open round or was elected for the next: its unbonding stake then waits,
    /// however long ago it was deallocated.
    function isLocked(address account) external view returns (bool);

    /// @notice How long stake stays slashable after it is deallocated: the longest round with all backups; 0 when the task
    /// has ended.
    function unbondingSeconds() external view returns (uint64);
}
