// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase, TaskConfig} from "../interfaces/ITrainingTask.sol";

/// @notice What a task is made with, besides its terms.
struct Origin {
    /// Whose code answers what `TaskFront` does not.
    address implementation;
    address registry;
    uint64 taskId;
    address sponsor;
    /// A round's money, after the callers' fees.
    uint128 workersBudget;
    uint128 committeeBudget;
    uint128 minerBudget;
    /// How many blocks after the opening of a draw the one lies whose header seeds it.
    uint64 seedDelay;
}

/// @title ImmutableArgs
/// @notice The frozen part of a task, which lives in its code: behind `TaskFront`, as `abi.encode(Origin, TaskConfig)`.
/// @dev Nothing can change it, and reading all of it costs less than one word of storage. Both structs are static, so their
/// encoding is their layout in memory.
library ImmutableArgs {
    uint256 private constant ORIGIN_BYTES = 8 * 32;
    uint256 private constant CONFIG_BYTES = 42 * 32;
    uint256 private constant BYTES = 50 * 32;

    /// @notice Who made the task, and its budgets.
    function origin() internal view returns (Origin memory o) {
        assembly ("memory-safe") {
            extcodecopy(address(), o, sub(extcodesize(address()), BYTES), ORIGIN_BYTES)
        }
    }

    /// @notice Whose code the task runs where it has none of its own.
    function implementation() internal view returns (address target) {
        target = address(uint160(_word(0)));
    }

    /// @notice The task's number at its factory.
    function taskId() internal view returns (uint64 id) {
        id = uint64(_word(2));
    }

    /// @notice The head's share of every round is a function of this.
    function alpha() internal view returns (uint256) {
        return _field(9);
    }

    function committeeSize() internal view returns (uint256) {
        return _field(15);
    }

    function minUpdates() internal view returns (uint256) {
        return _field(17);
    }

    function maxUpdates() internal view returns (uint256) {
        return _field(18);
    }

    function maxSamples() internal view returns (uint64) {
        return uint64(_field(19));
    }

    function minStake() internal view returns (uint256) {
        return _field(22);
    }

    /// @notice How long a phase from Train to Challenge runs at most.
    function secondsOf(Phase phase) internal view returns (uint64) {
        return uint64(_field(22 + uint256(phase)));
    }

    function callerFee() internal view returns (uint256) {
        return _field(31);
    }

    function devCap() internal view returns (uint256) {
        return _field(32);
    }

    function admissionRoot() internal view returns (bytes32) {
        return bytes32(_field(38));
    }

    function minInternals() internal view returns (uint256) {
        return _field(39);
    }

    function budget() internal view returns (uint256) {
        return _field(41);
    }

    /// @dev One field of the terms by its place in the struct, from 0: a tenth of the gas of reading them all.
    function _field(uint256 place) private view returns (uint256 value) {
        return _word(ORIGIN_BYTES / 32 + place);
    }

    /// @dev The frozen part ends the code.
    function _word(uint256 place) private view returns (uint256 value) {
        assembly ("memory-safe") {
            extcodecopy(address(), 0, sub(extcodesize(address()), sub(BYTES, shl(5, place))), 32)
            value := mload(0)
        }
    }

    /// @notice The terms.
    function config() internal view returns (TaskConfig memory c) {
        assembly ("memory-safe") {
            extcodecopy(address(), c, sub(extcodesize(address()), CONFIG_BYTES), CONFIG_BYTES)
        }
    }
}
