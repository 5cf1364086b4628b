// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Rewards
/// @notice What a round pays. Every part is rounded down; what rounding leaves stays in escrow.
library Rewards {
    uint256 private constant TOTAL = 1 << 31;

    /// @notice A worker's part: `⌊pool · p_i / (2^31 − p_0)⌋`.
    function ofWorker(uint256 pool, uint256 share, uint256 headShare) internal pure returns (uint256) {
        return pool * share / (TOTAL - headShare);
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
