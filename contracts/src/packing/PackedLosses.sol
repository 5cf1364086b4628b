// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

/// @notice What a validator's losses are held against. `PackedLosses.gaps` reads the fields by their places.
struct Yardstick {
    /// Statistics in WAD in lanes with their signs set, two words for every four; empty when one is too large.
    uint256[] pairs;
    /// The sum of the statistics.
    uint256 total;
    /// In both lanes, a power of two that the cap is not below: gaps within it are plain.
    uint256 reach;
    /// Which bits of the last word of losses are losses.
    uint256 kept;
}

/// @title PackedLosses
/// @notice Works on four losses at once: the four of a word of calldata become two words of two lanes of 128 bits each, the
/// first and the third, the second and the fourth. A lane has room for the sum of a committee's losses, and for a difference
/// of losses in WAD with a sign.
/// @dev A tally spends its gas here, on 2048 losses at most: one by one they take four times as much. Only plain cases are
/// answered: everybody vouches, losses are no larger than makes sense, no gap comes near the cap. Else `plain` is false, and
/// the caller goes through the losses one by one. One that says "not available or invalid" is so large that it never looks
/// plain.
library PackedLosses {
    uint256 private constant ONES = 0x0000000000000000000000000000000100000000000000000000000000000001;
    uint256 private constant LOSSES = 0x0000000000000000ffffffffffffffff0000000000000000ffffffffffffffff;
    uint256 private constant SIGNS = 0x8000000000000000000000000000000080000000000000000000000000000000;
    uint256 private constant LOW_LANE = 0x00000000000000000000000000000000ffffffffffffffffffffffffffffffff;
    uint256 private constant TO_WAD = 1e6;
    /// The largest loss is above 2^83 in WAD. A statistic below that, and gaps below half of it, leave it out.
    uint256 private constant STATISTIC_BITS = 83;

    /// @notice Adds up four columns, or fewer.
    /// @param starts Where each validator's scores begin in calldata.
    /// @param offset How far behind it the losses stand.
    /// @param count How many there are: 1 to 4.
    /// @return even The sums of the first and the third column.
    /// @return odd The sums of the second and the fourth column.
    function sum(uint256[] memory starts, uint256 offset, uint256 count)
        internal
        pure
        returns (uint256 even, uint256 odd, bool plain)
    {
        assembly ("memory-safe") {
            let end := add(add(starts, 32), shl(5, mload(starts)))
            for { let place := add(starts, 32) } lt(place, end) { place := add(place, 32) } {
                let losses := calldataload(add(mload(place), offset))
                even := add(even, and(shr(64, losses), LOSSES))
                odd := add(odd, and(losses, LOSSES))
            }
            if lt(count, 4) {
                odd := mul(shl(128, shr(128, odd)), gt(count, 1))
                if lt(count, 3) { even := shl(128, shr(128, even)) }
            }
            // A sum below the largest loss has no such loss in it.
            plain := iszero(and(or(add(even, ONES), add(odd, ONES)), not(LOSSES)))
        }
    }

    /// @notice Puts four means in WAD into `list` from place `i` on, out of sums over so many validators.
    function putMeans(uint256[] memory list, uint256 i, uint256 even, uint256 odd, uint256 validators)
        internal
        pure
    {
        assembly ("memory-safe") {
            let place := add(add(list, 32), shl(5, i))
            mstore(place, div(mul(shr(128, even), TO_WAD), validators))
            mstore(add(place, 32), div(mul(shr(128, odd), TO_WAD), validators))
            mstore(add(place, 64), div(mul(and(even, LOW_LANE), TO_WAD), validators))
            mstore(add(place, 96), div(mul(and(odd, LOW_LANE), TO_WAD), validators))
        }
    }

    /// @notice Prepares the statistics for `gaps`. Behind `statistics` is room for three more, which are zero.
    function yardstick(uint256[] memory statistics, uint256 cap)
        internal
        pure
        returns (Yardstick memory stick)
    {
        if (cap == 0) return stick;
        unchecked {
            uint256 count = statistics.length;
            uint256 bits = LibBit.fls(cap);
            stick.reach = ONES << (bits < STATISTIC_BITS ? bits : STATISTIC_BITS - 1);
            stick.kept = type(uint256).max << (((0 - count) & 3) << 6);
            (stick.pairs, stick.total) = _pairs(statistics, (count + 3) / 4);
        }
    }

    function _pairs(uint256[] memory statistics, uint256 fours)
        private
        pure
        returns (uint256[] memory pairs, uint256 total)
    {
        pairs = new uint256[](2 * fours);
        assembly ("memory-safe") {
            let all := 0
            let from := add(statistics, 32)
            let end := add(add(pairs, 32), shl(5, mload(pairs)))
            for { let to := add(pairs, 32) } lt(to, end) { to := add(to, 64) } {
                let even := or(shl(128, mload(from)), mload(add(from, 64)))
                let odd := or(shl(128, mload(add(from, 32))), mload(add(from, 96)))
                all := or(all, or(even, odd))
                total := add(total, add(even, odd))
                mstore(to, or(even, SIGNS))
                mstore(add(to, 32), or(odd, SIGNS))
                from := add(from, 128)
            }
            total := add(shr(128, total), and(total, LOW_LANE))
            if shr(STATISTIC_BITS, or(shr(128, all), and(all, LOW_LANE))) { mstore(pairs, 0) }
        }
    }

    /// @notice `Σ |loss − statistic|` in WAD over the losses of one validator, which begin at `place`.
    /// @dev It is `Σ loss − Σ statistic + 2·Σ (statistic − loss)`, the last over the losses below their statistic.
    function gaps(uint256 place, Yardstick memory stick) internal pure returns (uint256 total, bool plain) {
        uint256 reach = stick.reach;
        assembly ("memory-safe") {
            let losses := 0
            let below := 0
            let seen := 0
            let pair := mload(stick)
            let last := add(pair, shl(5, mload(pair)))
            for { pair := add(pair, 32) } lt(pair, last) { pair := add(pair, 64) } {
                let word := calldataload(place)
                if eq(add(pair, 32), last) { word := and(word, mload(add(stick, 96))) }
                place := add(place, 32)

                let some := and(shr(64, word), LOSSES)
                losses := add(losses, some)
                let difference := sub(mload(pair), mul(some, TO_WAD))
                seen := or(seen, add(difference, reach))
                some := and(difference, SIGNS)
                below := add(below, and(difference, sub(some, shr(127, some))))

                some := and(word, LOSSES)
                losses := add(losses, some)
                difference := sub(mload(add(pair, 32)), mul(some, TO_WAD))
                seen := or(seen, add(difference, reach))
                some := and(difference, SIGNS)
                below := add(below, and(difference, sub(some, shr(127, some))))
            }
            losses := add(shr(128, losses), and(losses, LOW_LANE))
            below := add(shr(128, below), and(below, LOW_LANE))
            total := add(sub(mul(losses, TO_WAD), mload(add(stick, 32))), shl(1, below))
            // With the reach added, a plain difference is positive and has no bit above twice the reach.
            plain := iszero(and(seen, not(or(SIGNS, sub(shl(1, reach), ONES)))))
        }
    }
}
