// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Rewards
/// @notice What a round pays. Every part is rounded down; what rounding leaves stays in escrow.
library Rewards {
    /// @notice A worker's part: `⌊pool · part / whole⌋`, by shares `⌊pool · p_i / (2^31 − p_0)⌋`.
    /// @param pool Below 2^128, as all ether there is; a part fits 32 bits.
    function ofWorker(uint256 pool, uint256 part, uint256 whole) internal pure returns (uint256) {
        unchecked {
            return pool * part / whole;
        }
    }

    /// @notice A validator's part: `⌊pool · (S − dev) / ((n−1)·S)⌋`, the closer to the committee the more; equal parts when
    /// nobody deviates or it is alone.
    /// @param deviationSum S, the sum over the `paid` validators that are paid, this one's `deviation` among them.
    function ofValidator(uint256 pool, uint256 deviation, uint256 deviationSum, uint256 paid)
        internal
        pure
        returns (uint256)
    {
        if (deviationSum == 0 || paid == 1) return pool / paid;
        return FixedPointMathLib.fullMulDiv(pool, deviationSum - deviation, (paid - 1) * deviationSum);
    }
}
