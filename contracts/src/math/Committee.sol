// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

import {UncheckedArray} from "../packing/UncheckedArray.sol";

/// @title Committee
/// @notice Which updates count and who judges next: inclusion, ranking by statistic, selection of the near or far, and
/// election of the middle (CMFL).
/// @dev Sets of updates are bitmaps: bit i is update i, counted from 0 in index order (at most 128).
library Committee {
    uint256 private constant WAD = 1e18;

    /// @notice Drops from `included` every update whose root is the head's or that of an included one with a lower index.
    function dropRepeats(uint256 included, bytes32[] memory roots, bytes32 headRoot)
        internal
        pure
        returns (uint256)
    {
        uint256[] memory kept = members(included);
        uint256 count = 0;
        for (uint256 i = 0; i < kept.length; ++i) {
            uint256 update = kept[i];
            bytes32 root = roots[update];
            bool repeats = root == headRoot;
            for (uint256 j = 0; j < count && !repeats; ++j) {
                repeats = roots[kept[j]] == root;
            }
            if (repeats) included &= ~(1 << update);
            else kept[count++] = update;
        }
        return included;
    }

    /// @notice The members of a set, ascending.
    function members(uint256 set) internal pure returns (uint256[] memory list) {
        list = new uint256[](LibBit.popCount(set));
        unchecked {
            uint256 count = 0;
            for (uint256 i = 0; set != 0; (++i, set >>= 1)) {
                if (set & 1 != 0) UncheckedArray.put(list, count++, i);
            }
        }
    }

    /// @notice The included updates by ascending statistic; the lower index first among equals.
    function rank(uint256 included, uint256[] memory statistics)
        internal
        pure
        returns (uint256[] memory order)
    {
        order = members(included);
        for (uint256 next = 1; next < order.length; ++next) {
            uint256 update = order[next];
            uint256 value = statistics[update];
            uint256 place = next;
            for (; place > 0 && statistics[order[place - 1]] > value; --place) {
                order[place] = order[place - 1];
            }
            order[place] = update;
        }
    }

    /// @notice The first (`far`: the last) `max(1, ⌊keep·K/10^18⌋)` of the ranking, as a set.
    /// @param keep WAD, at most 10^18.
    function select(uint256[] memory order, uint256 keep, bool far) internal pure returns (uint256 selected) {
        uint256 count = FixedPointMathLib.max(1, keep * order.length / WAD);
        uint256 first = far ? order.length - count : 0;
        for (uint256 i = first; i < first + count; ++i) {
            selected |= 1 << order[i];
        }
    }

    /// @notice The `size` updates in the middle of the ranking, from position `⌊(K−size)/2⌋`: neither the nearest, whom
    /// nobody learns from, nor the farthest.
    /// @dev The caller has checked that the ranking holds at least `size`.
    function electMiddle(uint256[] memory order, uint256 size)
        internal
        pure
        returns (uint256[] memory elected)
    {
        elected = new uint256[](size);
        uint256 first = (order.length - size) / 2;
        for (uint256 i = 0; i < size; ++i) {
            elected[i] = order[first + i];
        }
    }
}
