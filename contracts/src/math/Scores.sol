// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {PackedLosses, Yardstick} from "../packing/PackedLosses.sol";
import {UncheckedArray} from "../packing/UncheckedArray.sol";

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
    /// Bit i is set when a majority of the committee says that update i is not available or invalid.
    uint256 withheld;
    /// Per update: WAD for losses, plain for distances, 0 for bits. The median is over all seats, one that does not vouch
    /// counting as the largest number; the mean is over those who vouch.
    uint256[] statistics;
    /// The statistic of the head's loss in WAD, or `NO_NUMBER` when no majority gave a number.
    uint256 head;
    /// A majority of the committee says that the head is not available.
    bool isHeadWithheld;
}

/// @title Scores
/// @notice Reads revealed score bytes: entry 0 (the head's loss, uint64), then one entry per update in index order: uint64,
/// uint128, or ⌈R/8⌉ bytes of bits, lowest first, spare bits 0. The maximum value says "not available or invalid": it
/// vouches for nothing.
/// @dev The median counts every seat, or a minority could choose who vouches, and with it the middle. Sorted, those who do not
/// vouch come last: the middle of all seats is entry ⌊size / 2⌋ of those who vouch, whenever a majority does. All divisions
/// round down.
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
        uint256 length = (updates + 7) / 8;
        if (kind == ScoreKind.Loss) length = updates * _entryBytes(_LOSS_DROP);
        else if (kind == ScoreKind.Distance) length = updates * _entryBytes(_DISTANCE_DROP);
        if (scores.length != HEAD_BYTES + length) return false;
        uint256 spare = kind == ScoreKind.Bit ? updates & 7 : 0;
        return spare == 0 || uint8(scores[scores.length - 1]) >> spare == 0;
    }

    /// @notice Where in calldata these scores begin.
    function startOf(bytes calldata scores) internal pure returns (uint256 start) {
        assembly ("memory-safe") {
            start := scores.offset
        }
    }

    /// @notice Inclusion and statistics of all updates, and the head's loss, from every revealed vector.
    /// @param starts Where in calldata the scores of those who revealed begin; they are well-formed.
    /// @param size How many members the committee has: a majority is more than half of them.
    function judge(
        uint256[] memory starts,
        uint256 size,
        ScoreKind kind,
        Statistic statistic,
        uint256 updates
    ) internal pure returns (Verdict memory verdict) {
        uint256 majority = size / 2 + 1;
        bool isMean = statistic == Statistic.Mean;
        uint256[] memory column = _roomFor(starts.length);

        (uint256 numbers, uint256 value) = _column(starts, _LOSS_DROP, TO_WAD, 0, isMean, column, majority);
        verdict.head = numbers < majority ? NO_NUMBER : value;
        verdict.isHeadWithheld = numbers + majority <= starts.length;

        uint256[] memory statistics = _statisticsOf(updates);
        verdict.statistics = statistics;
        if (kind == ScoreKind.Bit) {
            (verdict.included, verdict.withheld) = _vouchedBits(starts, majority, updates);
        } else if (kind == ScoreKind.Loss) {
            (verdict.included, verdict.withheld) = isMean && starts.length >= majority
                ? _meansOfLosses(starts, majority, column, statistics)
                : _vouched(starts, majority, _LOSS_DROP, TO_WAD, isMean, column, statistics, 0, updates);
        } else {
            (verdict.included, verdict.withheld) =
                _vouched(starts, majority, _DISTANCE_DROP, 1, isMean, column, statistics, 0, updates);
        }
    }

    /// @notice Inclusion and statistic of update `i` anew, from other vectors and of another number of seats.
    function judgeAgain(
        uint256[] memory starts,
        uint256 size,
        ScoreKind kind,
        Statistic statistic,
        uint256 i,
        Verdict memory verdict
    ) internal pure {
        uint256 majority = size / 2 + 1;
        (uint256 vouches, uint256 value) = (0, 0);
        if (kind == ScoreKind.Bit) {
            for (uint256 j = 0; j < starts.length; ++j) {
                vouches += _bit(starts[j] + HEAD_BYTES, i);
            }
        } else {
            (uint256 drop, uint256 factor) =
                kind == ScoreKind.Loss ? (_LOSS_DROP, TO_WAD) : (_DISTANCE_DROP, 1);
            uint256 offset = HEAD_BYTES + i * _entryBytes(drop);
            bool isMean = statistic == Statistic.Mean;
            uint256[] memory column = _roomFor(starts.length);
            (vouches, value) = _column(starts, drop, factor, offset, isMean, column, majority);
        }

        verdict.included &= ~(1 << i);
        verdict.withheld &= ~(1 << i);
        verdict.statistics[i] = value;
        if (vouches >= majority) verdict.included |= 1 << i;
        else if (vouches + majority <= starts.length) verdict.withheld |= 1 << i;
    }

    /// @notice How far each validator's scores are from the committee's: `⌊Σ min(|score − statistic|, cap) / K⌋` over the K
    /// included updates, one it did not vouch for counting `cap`. A bit has no value to be far from: vouching deviates by 0.
    function deviations(uint256[] memory starts, ScoreKind kind, Verdict memory verdict, uint256 cap)
        internal
        pure
        returns (uint256[] memory all)
    {
        all = new uint256[](starts.length);
        uint256 included = verdict.included;
        uint256 count = LibBit.popCount(included);
        if (count == 0) return all;

        Yardstick memory stick = _yardstick(kind, verdict.statistics, count, cap);
        bool inLanes = stick.pairs.length != 0;
        unchecked {
            for (uint256 j = 0; j < starts.length; ++j) {
                uint256 place = UncheckedArray.get(starts, j) + HEAD_BYTES;
                (uint256 sum, bool plain) = inLanes ? PackedLosses.gaps(place, stick) : (0, false);
                if (!plain) sum = _gaps(place, kind, included, verdict.statistics, cap);
                UncheckedArray.put(all, j, sum / count);
            }
        }
    }

    /// @dev Empty where scores are no losses, or an update is not included.
    function _yardstick(ScoreKind kind, uint256[] memory statistics, uint256 count, uint256 cap)
        private
        pure
        returns (Yardstick memory stick)
    {
        if (kind != ScoreKind.Loss || count != statistics.length) return stick;
        return PackedLosses.yardstick(statistics, cap);
    }

    function _gaps(uint256 place, ScoreKind kind, uint256 included, uint256[] memory statistics, uint256 cap)
        private
        pure
        returns (uint256)
    {
        if (kind == ScoreKind.Bit) return cap * _unvouched(place, included);
        return kind == ScoreKind.Loss
            ? _gapsOf(place, _LOSS_DROP, TO_WAD, included, statistics, cap)
            : _gapsOf(place, _DISTANCE_DROP, 1, included, statistics, cap);
    }

    /// @dev Run by run of included updates: nearly always there is one run, and nothing is asked about each update.
    function _gapsOf(
        uint256 place,
        uint256 drop,
        uint256 factor,
        uint256 included,
        uint256[] memory statistics,
        uint256 cap
    ) private pure returns (uint256 sum) {
        unchecked {
            uint256 statistic = 32;
            while (included != 0) {
                uint256 skipped = LibBit.ffs(included);
                uint256 run = LibBit.ffs(~(included >> skipped));
                place += skipped * _entryBytes(drop);
                statistic += skipped * 32;
                sum += _gapsOfRun(place, drop, factor, statistics, statistic, run, cap);
                place += run * _entryBytes(drop);
                statistic += run * 32;
                included >>= skipped + run;
            }
        }
    }

    /// @dev Assembly because a tally runs it for every score: at most 2048 times, at a third of the gas. The compiler makes
    /// one of these for each kind of score.
    function _gapsOfRun(
        uint256 place,
        uint256 drop,
        uint256 factor,
        uint256[] memory statistics,
        uint256 statistic,
        uint256 run,
        uint256 cap
    ) private pure returns (uint256 sum) {
        assembly ("memory-safe") {
            statistic := add(statistics, statistic)
            let end := add(statistic, shl(5, run))
            // Entries are 8 or 16 bytes, statistics 32: one pointer serves both, divided by 4 or 2.
            let ratio := sub(shr(6, drop), 1)
            place := sub(place, shr(ratio, statistic))
            for {} lt(statistic, end) { statistic := add(statistic, 32) } {
                let raw := shr(drop, calldataload(add(place, shr(ratio, statistic))))
                // Both are at most 2^128: the difference has a sign, and its absolute value follows without a jump.
                let gap := sub(mul(raw, factor), mload(statistic))
                let sign := sar(255, gap)
                gap := sub(xor(gap, sign), sign)
                if or(gt(gap, cap), eq(raw, shr(drop, not(0)))) { gap := cap }
                sum := add(sum, gap)
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

    /// @dev How far to shift a word right that starts with an entry.
    uint256 private constant _LOSS_DROP = 192;
    uint256 private constant _DISTANCE_DROP = 128;

    function _entryBytes(uint256 drop) private pure returns (uint256) {
        unchecked {
            return 32 - drop / 8;
        }
    }

    function _bit(uint256 place, uint256 i) private pure returns (uint256 bit) {
        assembly ("memory-safe") {
            bit := and(shr(and(i, 7), byte(0, calldataload(add(place, shr(3, i))))), 1)
        }
    }

    /* COLUMNS */

    /// @dev Room for one column. The word before its first entry is 0: an insertion stops there at the latest.
    function _roomFor(uint256 count) private pure returns (uint256[] memory column) {
        column = new uint256[](count);
        assembly ("memory-safe") {
            mstore(column, 0)
        }
    }

    /// @dev How many entries at `offset` vouch, and their statistic (0 when too few do). Mean: `⌊Σ/n⌋` in WAD, which is
    /// `⌊Σ·10^6/n⌋`. Median: the `majority`-th smallest.
    function _column(
        uint256[] memory starts,
        uint256 drop,
        uint256 factor,
        uint256 offset,
        bool isMean,
        uint256[] memory column,
        uint256 majority
    ) private pure returns (uint256 vouches, uint256 value) {
        unchecked {
            (vouches, value) =
                isMean ? _sum(starts, drop, offset) : _middle(starts, drop, offset, column, majority);
            value *= factor;
            if (isMean && vouches != 0) value /= vouches;
        }
    }

    /// @dev An entry stands in the high bits of its word and vouches when they are not all ones.
    function _sum(uint256[] memory starts, uint256 drop, uint256 offset)
        private
        pure
        returns (uint256 vouches, uint256 sum)
    {
        assembly ("memory-safe") {
            let end := add(add(starts, 32), shl(5, mload(starts)))
            for { let place := add(starts, 32) } lt(place, end) { place := add(place, 32) } {
                let word := calldataload(add(mload(place), offset))
                if lt(word, shl(drop, not(0))) {
                    sum := add(sum, shr(drop, word))
                    vouches := add(vouches, 1)
                }
            }
        }
    }

    /// @dev Sorts while it reads, whole words: what stands below an entry orders only equal ones. `column` is room for it.
    function _middle(
        uint256[] memory starts,
        uint256 drop,
        uint256 offset,
        uint256[] memory column,
        uint256 majority
    ) private pure returns (uint256 vouches, uint256 middle) {
        assembly ("memory-safe") {
            let last := column
            let end := add(add(starts, 32), shl(5, mload(starts)))
            for { let place := add(starts, 32) } lt(place, end) { place := add(place, 32) } {
                let word := calldataload(add(mload(place), offset))
                if lt(word, shl(drop, not(0))) {
                    let at := last
                    for { let below := mload(at) } gt(below, word) { below := mload(at) } {
                        mstore(add(at, 32), below)
                        at := sub(at, 32)
                    }
                    mstore(add(at, 32), word)
                    last := add(last, 32)
                }
            }
            vouches := shr(5, sub(last, column))
            if iszero(lt(vouches, majority)) {
                middle := shr(drop, mload(add(column, shl(5, majority))))
            }
        }
    }

    /// @dev Room for the statistics, and for three more: losses are taken four by four.
    function _statisticsOf(uint256 updates) private pure returns (uint256[] memory statistics) {
        unchecked {
            statistics = new uint256[](updates + 3);
        }
        assembly ("memory-safe") {
            mstore(statistics, updates)
        }
    }

    /// @dev Four by four; a four in which somebody does not vouch, one by one.
    function _meansOfLosses(
        uint256[] memory starts,
        uint256 majority,
        uint256[] memory column,
        uint256[] memory statistics
    ) private pure returns (uint256 included, uint256 withheld) {
        unchecked {
            uint256 count = statistics.length;
            uint256 validators = starts.length;
            for (uint256 i = 0; i < count; i += 4) {
                uint256 end = i + 4 < count ? i + 4 : count;
                (uint256 even, uint256 odd, bool plain) =
                    PackedLosses.sum(starts, HEAD_BYTES + 8 * i, end - i);
                if (plain) {
                    included |= (1 << end) - (1 << i);
                    PackedLosses.putMeans(statistics, i, even, odd, validators);
                } else {
                    (uint256 more, uint256 less) =
                        _vouched(starts, majority, _LOSS_DROP, TO_WAD, true, column, statistics, i, end);
                    included |= more;
                    withheld |= less;
                }
            }
        }
    }

    /// @dev Updates `i` to `end`, one by one.
    function _vouched(
        uint256[] memory starts,
        uint256 majority,
        uint256 drop,
        uint256 factor,
        bool isMean,
        uint256[] memory column,
        uint256[] memory statistics,
        uint256 i,
        uint256 end
    ) private pure returns (uint256 included, uint256 withheld) {
        unchecked {
            uint256 offset = HEAD_BYTES + i * _entryBytes(drop);
            for (; i < end; ++i) {
                (uint256 vouches, uint256 value) =
                    _column(starts, drop, factor, offset, isMean, column, majority);
                offset += _entryBytes(drop);
                if (vouches < majority) {
                    // Whoever revealed and does not vouch says: not available. Silence says nothing about an update.
                    if (vouches + majority <= starts.length) withheld |= 1 << i;
                    continue;
                }
                included |= 1 << i;
                UncheckedArray.put(statistics, i, value);
            }
        }
    }

    function _vouchedBits(uint256[] memory starts, uint256 majority, uint256 updates)
        private
        pure
        returns (uint256 included, uint256 withheld)
    {
        unchecked {
            for (uint256 i = 0; i < updates; ++i) {
                uint256 vouches = 0;
                for (uint256 j = 0; j < starts.length; ++j) {
                    vouches += _bit(UncheckedArray.get(starts, j) + HEAD_BYTES, i);
                }
                if (vouches >= majority) included |= 1 << i;
                else if (vouches + majority <= starts.length) withheld |= 1 << i;
            }
        }
    }
}
