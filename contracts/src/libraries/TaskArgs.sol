// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TaskConfig} from "../interfaces/ITrainingTask.sol";

/// @notice What a task is made with, besides its terms.
struct Origin {
    address registry;
    uint64 taskId;
    address sponsor;
    /// A round's money, after the callers' fees.
    uint128 workersBudget;
    uint128 committeeBudget;
    uint128 minerBudget;
}

/// @title TaskArgs
/// @notice The frozen part of a task, which lives in its code: appended to the clone as `abi.encode(Origin, TaskConfig)`.
/// @dev Nothing can change it, and reading all of it costs less than one word of storage. Both structs are static, so their
/// encoding is their layout in memory.
library TaskArgs {
    /// Where the arguments of a clone start (OpenZeppelin's `Clones`).
    uint256 private constant START = 45;
    uint256 private constant ORIGIN_BYTES = 6 * 32;
    uint256 private constant CONFIG_BYTES = 38 * 32;

    /// @notice Who made the task, and its budgets.
    function origin() internal view returns (Origin memory o) {
        assembly ("memory-safe") {
            o := mload(0x40)
            mstore(0x40, add(o, ORIGIN_BYTES))
            extcodecopy(address(), o, START, ORIGIN_BYTES)
        }
    }

    /// @notice The terms.
    function config() internal view returns (TaskConfig memory c) {
        assembly ("memory-safe") {
            c := mload(0x40)
            mstore(0x40, add(c, CONFIG_BYTES))
            extcodecopy(address(), c, add(START, ORIGIN_BYTES), CONFIG_BYTES)
        }
    }
}
