// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Books
/// @notice The rules of draw, shares and pay once more, in the plainest way, for a handful of accounts: what a task says is held
/// against them. Nothing here is the contracts' own; only exp is Solady's, as the rules say.
/// @dev Sets are bits. Lists of ids are packed, 8 bits each, the first lowest; weights and shares likewise, 32 bits each.
library Books {
    uint256 internal constant TOTAL = 1 << 31;
    uint256 private constant WAD = 1e18;
    uint256 private constant LANE = type(uint32).max;

    /* DRAW */

    /// @notice Draws `count` ids by weight, one after the other, none of those in `taken`; account i has id i + 1.
    function draw(bytes32 seed, uint256 weights, uint256 taken, uint256 count)
        internal
        pure
        returns (uint256 ids)
    {
        for (uint256 k = 0; k < count; ++k) {
            uint256 left = 0;
            for (uint256 i = 0; i < 8; ++i) {
                if (taken >> i & 1 == 0) left += lane(weights, i);
            }
            if (left == 0) break;
            uint256 ticket = uint256(keccak256(abi.encode(seed, k))) % left;
            uint256 winner = 0;
            while (taken >> winner & 1 != 0 || ticket >= lane(weights, winner)) {
                if (taken >> winner & 1 == 0) ticket -= lane(weights, winner);
                ++winner;
            }
            taken |= 1 << winner;
            ids |= (winner + 1) << 8 * k;
        }
    }

    /// @notice The ids by ascending `keccak256(abi.encode(seed, id))`.
    function byLot(bytes32 seed, uint256 ids) internal pure returns (uint256 line) {
        uint256 last = 0;
        for (uint256 place = 0; ids >> 8 * place != 0; ++place) {
            uint256 best = type(uint256).max;
            uint256 next = 0;
            for (uint256 left = ids; left != 0; left >>= 8) {
                uint256 lot = uint256(keccak256(abi.encode(seed, left & 0xff)));
                if (lot > last && lot < best) (best, next) = (lot, left & 0xff);
            }
            last = best;
            line |= next << 8 * place;
        }
    }

    /* SHARES */

    /// @notice One number for an update that a majority vouches for: the mean of those, or the median of all `seats`, a seat that
    /// does not vouch counting as the largest.
    function statistic(uint256[] memory scores, bool isMean, uint256 seats) internal pure returns (uint256) {
        uint256 sum = 0;
        for (uint256 i = 0; i < scores.length; ++i) {
            sum += scores[i];
            uint256 below = 0;
            for (uint256 j = 0; j < scores.length; ++j) {
                if (scores[j] < scores[i] || (scores[j] == scores[i] && j < i)) ++below;
            }
            if (!isMean && below == seats / 2) return scores[i];
        }
        return sum / scores.length;
    }

    /// @notice Softmax of minus the statistics of the included; the remainder to the best. Shares start at lane 1.
    function softmax(uint256[] memory statistics, uint256 included, uint256 beta, uint256 amount)
        internal
        pure
        returns (uint256 shares)
    {
        uint256 best = ranking(statistics, included) & 0xff;
        uint256[] memory exps = new uint256[](statistics.length);
        uint256 sum = 0;
        for (uint256 k = 0; k < exps.length; ++k) {
            if (included >> k & 1 == 0) continue;
            uint256 above = (statistics[k] - statistics[best]) * beta / WAD;
            sum += exps[k] = uint256(FixedPointMathLib.expWad(-int256(above)));
        }
        uint256 rest = amount;
        for (uint256 k = 0; k < exps.length; ++k) {
            uint256 part = exps[k] * amount / sum;
            shares |= part << 32 * (k + 1);
            rest -= part;
        }
        shares += rest << 32 * (best + 1);
    }

    /// @notice Equal parts to the members of a set, the remainder to the lowest. Shares start at lane 1.
    function equal(uint256 set, uint256 amount) internal pure returns (uint256 shares) {
        uint256 count = size(set);
        uint256 rest = amount % count;
        for (uint256 k = 0; set >> k != 0; ++k) {
            if (set >> k & 1 == 0) continue;
            shares |= (amount / count + rest) << 32 * (k + 1);
            rest = 0;
        }
    }

    /// @notice The included by ascending statistic, the lower index first among equals: 8 bits each.
    function ranking(uint256[] memory statistics, uint256 included) internal pure returns (uint256 order) {
        for (uint256 k = 0; k < statistics.length; ++k) {
            if (included >> k & 1 == 0) continue;
            uint256 place = 0;
            for (uint256 j = 0; j < statistics.length; ++j) {
                if (included >> j & 1 == 0) continue;
                if (statistics[j] < statistics[k] || (statistics[j] == statistics[k] && j < k)) ++place;
            }
            order |= k << 8 * place;
        }
    }

    /* PAY */

    /// @notice What a validator gets out of `amount`, the closer to the others the more.
    function ofValidator(uint256 amount, uint256 deviation, uint256 sum, uint256 paid)
        internal
        pure
        returns (uint256)
    {
        return sum == 0 || paid == 1 ? amount / paid : amount * (sum - deviation) / ((paid - 1) * sum);
    }

    /* SMALL THINGS */

    function lane(uint256 word, uint256 i) internal pure returns (uint256) {
        return word >> 32 * i & LANE;
    }

    function withLane(uint256 word, uint256 i, uint256 value) internal pure returns (uint256) {
        return word & ~(LANE << 32 * i) | value << 32 * i;
    }

    function size(uint256 set) internal pure returns (uint256 count) {
        for (; set != 0; set &= set - 1) {
            ++count;
        }
    }

    function gap(uint256 a, uint256 b) internal pure returns (uint256) {
        return a < b ? b - a : a - b;
    }
}
