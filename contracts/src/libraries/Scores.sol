// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

import {Words} from "./Words.sol";

/// @notice What a validator posts about an update: a loss (uint64), a squared distance (uint128), or one bit.
enum ScoreKind {
    Loss,
    Distance,
    Bit
}

/// @notice How a committee's scores of one update become one number.
enum Statistic {
    Median,
    Mean
}

/// @notice What a committee's revealed scores amount to, before shares are formed.
struct Verdict {
    /// Bit i is set when update i (counted from 0 in index order) is vouched for by a majority of the committee.
    uint256 included;
    /// Per update, the statistic over those who vouched for it: WAD for losses, plain for distances, 0 for bits.
    uint256[] statistics;
    /// The statistic of the head's loss in WAD, or `NO_NUMBER` when no majority gave a number.
    uint256 head;
}

/// @title Scores
/// @notice Reads revealed score bytes: entry 0 (the head's loss, uint64), then one entry per update in index order: uint64,
/// uint128, or ⌈R/8⌉ bytes of bits, lowest first, spare bits 0. The maximum value says "not available or invalid": it
/// vouches for nothing and enters no statistic.
/// @dev A validator that did not reveal has empty bytes. All divisions round down.
library Scores {
    uint256 internal constant NO_NUMBER = type(uint256).max;
    /// Losses carry 12 decimals, statistics 18.
    uint256 internal constant TO_WAD = 1e6;
    uint256 private constant HEAD_BYTES = 8;

    /// @notice Whether `scores` has exactly the bytes that `updates` updates ask for, with spare bits 0.
    function isWellFormed(bytes calldata scores, ScoreKind kind, uint256 updates)
        internal
        pure
        returns (bool)
    {
        uint256 length = kind == ScoreKind.Bit ? (updates + 7) / 8 : updates * _entryBytes(_format(kind));
        if (scores.length != HEAD_BYTES + length) return false;
        uint256 spare = kind == ScoreKind.Bit ? updates & 7 : 0;
        return spare == 0 || uint8(scores[scores.length - 1]) >> spare == 0;
    }

    /// @notice Inclusion and statistics of all updates, and the head's loss, from every revealed vector.
    /// @param reveals Well-formed scores; empty or left out where a member did not reveal.
    /// @param size How many members the committee has: a majority is more than half of them.
    function judge(
        bytes[] calldata reveals,
        uint256 size,
        ScoreKind kind,
        Statistic statistic,
        uint256 updates
    ) internal pure returns (Verdict memory verdict) {
        uint256 majority = size / 2 + 1;
        uint256[] memory starts = _starts(reveals);
        uint256[] memory column = new uint256[](starts.length);

        uint256 numbers = _column(starts, _LOSS, 0, column);
        verdict.head = numbers < majority ? NO_NUMBER : _statistic(column, numbers, statistic);

        verdict.statistics = new uint256[](updates);
        verdict.included = kind == ScoreKind.Bit
            ? _vouchedBits(starts, majority, updates)
            : _vouchedNumbers(starts, majority, _format(kind), statistic, column, verdict.statistics);
    }

    /// @notice How far one validator's scores are from the committee's: `⌊Σ min(|score − statistic|, cap) / K⌋` over the K
    /// included updates, one it did not vouch for counting `cap`. A bit has no value to be far from: vouching deviates by 0.
    function deviation(bytes calldata scores, ScoreKind kind, Verdict memory verdict, uint256 cap)
        internal
        pure
        returns (uint256)
    {
        uint256 included = verdict.included;
        uint256 count = LibBit.popCount(included);
        if (count == 0) return 0;

        uint256 place = _start(scores) + HEAD_BYTES;
        uint256 sum = kind == ScoreKind.Bit
            ? cap * _unvouched(place, included)
            : _gaps(place, _format(kind), included, verdict.statistics, cap);
        return sum / count;
    }

    /// @dev Assembly because a tally runs it for every score: at most 2048 times, at a third of the gas.
    function _gaps(uint256 place, uint256 format, uint256 included, uint256[] memory statistics, uint256 cap)
        private
        pure
        returns (uint256 sum)
    {
        assembly ("memory-safe") {
            let drop := shr(128, format)
            let factor := and(format, 0xffffffff)
            let none := shr(drop, not(0))
            let step := sub(32, shr(3, drop))
            let statistic := add(statistics, 32)
            for {} included { included := shr(1, included) } {
                if and(included, 1) {
                    let raw := shr(drop, calldataload(place))
                    let gap := cap
                    if lt(raw, none) {
                        let score := mul(raw, factor)
                        let middle := mload(statistic)
                        gap := sub(score, middle)
                        if gt(middle, score) { gap := sub(middle, score) }
                        if gt(gap, cap) { gap := cap }
                    }
                    sum := add(sum, gap)
                }
                place := add(place, step)
                statistic := add(statistic, 32)
            }
        }
    }

    /// @dev How many of the included updates this validator did not vouch for.
    function _unvouched(uint256 place, uint256 included) private pure returns (uint256 count) {
        unchecked {
            for (uint256 i = 0; included != 0; (++i, included >>= 1)) {
                if (included & 1 != 0 && _bit(place, i) == 0) ++count;
            }
        }
    }

    /* FORMATS */

    /// @dev A format packs what reading an entry needs: how far to shift its word right, and what to multiply it with.
    uint256 private constant _LOSS = 192 << 128 | TO_WAD;
    uint256 private constant _DISTANCE = 128 << 128 | 1;

    function _format(ScoreKind kind) private pure returns (uint256) {
        return kind == ScoreKind.Loss ? _LOSS : _DISTANCE;
    }

    function _entryBytes(uint256 format) private pure returns (uint256) {
        unchecked {
            return 32 - (format >> 131);
        }
    }

    function _bit(uint256 place, uint256 i) private pure returns (uint256 bit) {
        assembly ("memory-safe") {
            bit := and(shr(and(i, 7), byte(0, calldataload(add(place, shr(3, i))))), 1)
        }
    }

    function _start(bytes calldata scores) private pure returns (uint256 start) {
        assembly ("memory-safe") {
            start := scores.offset
        }
    }

    /* COLUMNS */

    /// @dev Where in calldata the scores of those who revealed begin: found once, for decoding `reveals[j]` is the dear part.
    function _starts(bytes[] calldata reveals) private pure returns (uint256[] memory starts) {
        starts = new uint256[](reveals.length);
        uint256 count = 0;
        for (uint256 j = 0; j < reveals.length; ++j) {
            bytes calldata scores = reveals[j];
            if (scores.length != 0) starts[count++] = _start(scores);
        }
        assembly ("memory-safe") {
            mstore(starts, count)
        }
    }

    /// @dev Puts the entries at `offset` that vouch in front of `column` and says how many they are.
    function _column(uint256[] memory starts, uint256 format, uint256 offset, uint256[] memory column)
        private
        pure
        returns (uint256 vouches)
    {
        assembly ("memory-safe") {
            let drop := shr(128, format)
            let factor := and(format, 0xffffffff)
            let none := shr(drop, not(0))
            let first := add(column, 32)
            let next := first
            let end := add(add(starts, 32), shl(5, mload(starts)))
            for { let place := add(starts, 32) } lt(place, end) { place := add(place, 32) } {
                let raw := shr(drop, calldataload(add(mload(place), offset)))
                mstore(next, mul(raw, factor))
                next := add(next, shl(5, lt(raw, none)))
            }
            vouches := shr(5, sub(next, first))
        }
    }

    function _vouchedNumbers(
        uint256[] memory starts,
        uint256 majority,
        uint256 format,
        Statistic statistic,
        uint256[] memory column,
        uint256[] memory statistics
    ) private pure returns (uint256 included) {
        unchecked {
            uint256 offset = HEAD_BYTES;
            for (uint256 i = 0; i < statistics.length; ++i) {
                uint256 vouches = _column(starts, format, offset, column);
                offset += _entryBytes(format);
                if (vouches < majority) continue;
                included |= 1 << i;
                Words.put(statistics, i, _statistic(column, vouches, statistic));
            }
        }
    }

    function _vouchedBits(uint256[] memory starts, uint256 majority, uint256 updates)
        private
        pure
        returns (uint256 included)
    {
        unchecked {
            for (uint256 i = 0; i < updates; ++i) {
                uint256 vouches = 0;
                for (uint256 j = 0; j < starts.length; ++j) {
                    vouches += _bit(Words.get(starts, j) + HEAD_BYTES, i);
                }
                if (vouches >= majority) included |= 1 << i;
            }
        }
    }

    /// @dev Mean: `⌊Σ/count⌋` of values already in WAD equals `⌊Σ·10^6/n⌋`. Median: element `⌊count/2⌋` of the sorted, from 0.
    function _statistic(uint256[] memory column, uint256 count, Statistic statistic)
        private
        pure
        returns (uint256)
    {
        if (statistic == Statistic.Median) {
            Words.sort(column, count);
            return Words.get(column, count / 2);
        }
        uint256 sum = 0;
        unchecked {
            for (uint256 j = 0; j < count; ++j) {
                sum += Words.get(column, j);
            }
        }
        return FixedPointMathLib.rawDiv(sum, count);
    }
}
