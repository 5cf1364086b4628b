// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ScoreKind, Statistic} from "../../src/math/Scores.sol";
import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

contract ScoresTest is BaseTest {
    struct Case {
        bytes32 seed;
        ScoreKind kind;
        uint256 included;
        uint256[] statistics;
        uint256 cap;
    }

    uint256 private constant UPDATES = 11;

    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function testFuzz_judge_losses_agreesWithThePlainDefinition(bytes32 seed, uint256 size, bool mean)
        external
        view
    {
        _agrees(seed, 3 + 2 * _bound(size, 0, 8), ScoreKind.Loss, mean ? Statistic.Mean : Statistic.Median);
    }

    function testFuzz_judge_distances_agreesWithThePlainDefinition(bytes32 seed, uint256 size, bool mean)
        external
        view
    {
        _agrees(
            seed, 3 + 2 * _bound(size, 0, 8), ScoreKind.Distance, mean ? Statistic.Mean : Statistic.Median
        );
    }

    function testFuzz_judge_bits_agreesWithThePlainDefinition(bytes32 seed, uint256 size) external view {
        _agrees(seed, 3 + 2 * _bound(size, 0, 8), ScoreKind.Bit, Statistic.Median);
    }

    function test_judge_minorityOfAbsurdLosses_doesNotMoveTheMedian() external view {
        bytes[] memory reveals = new bytes[](5);
        for (uint256 j = 0; j < 5; ++j) {
            reveals[j] = abi.encodePacked(uint64(7), j < 2 ? type(uint64).max - 1 : uint64(100 + j));
        }

        (uint256 included,, uint256[] memory statistics,,) =
            _rules.judge(reveals, ScoreKind.Loss, Statistic.Median, 1);

        vm.assertEq(included, 1);
        vm.assertEq(statistics[0], 104e6);
    }

    function test_judge_headWithoutAMajorityOfNumbers_hasNoStatistic() external view {
        bytes[] memory reveals = new bytes[](5);
        for (uint256 j = 0; j < 4; ++j) {
            reveals[j] = abi.encodePacked(j < 2 ? type(uint64).max : uint64(9), uint64(1));
        }

        (uint256 included,,, uint256 head, bool isHeadWithheld) =
            _rules.judge(reveals, ScoreKind.Loss, Statistic.Mean, 1);

        vm.assertEq(included, 1);
        vm.assertEq(head, type(uint256).max);
        vm.assertFalse(isHeadWithheld);
    }

    function testFuzz_isWellFormed_wrongLength_isRefused(uint256 length, uint256 updates, uint256 kind)
        external
        view
    {
        updates = _bound(updates, 0, 128);
        length = _bound(length, 0, 2200);
        ScoreKind which = ScoreKind(kind % 3);
        uint256 right = 8
            + (which == ScoreKind.Loss
                    ? 8 * updates
                    : which == ScoreKind.Distance ? 16 * updates : (updates + 7) / 8);

        vm.assertEq(_rules.isWellFormed(new bytes(length), which, updates), length == right);
        vm.assertTrue(_rules.isWellFormed(new bytes(right), which, updates));
    }

    function testFuzz_isWellFormed_spareBits_haveToBeZero(uint256 bits, uint256 updates) external view {
        updates = _bound(updates, 1, 8);
        bits = _bound(bits, 0, 255);

        bool wellFormed =
            _rules.isWellFormed(abi.encodePacked(uint64(0), uint8(bits)), ScoreKind.Bit, updates);

        vm.assertEq(wellFormed, bits >> updates == 0);
    }

    function testFuzz_deviation_capped_countsOnlyIncluded(bytes32 seed, uint256 cap, uint256 kind)
        external
        view
    {
        Case memory it;
        it.seed = seed;
        it.cap = _bound(cap, 0, type(uint128).max);
        it.kind = ScoreKind(kind % 3);
        bytes[] memory reveals = _reveals(seed, 5, it.kind);
        (it.included,, it.statistics,,) = _rules.judge(reveals, it.kind, Statistic.Median, UPDATES);

        for (uint256 j = 0; j < 5; ++j) {
            if (reveals[j].length == 0) continue;
            uint256 found = _rules.deviation(reveals[j], it.kind, it.included, it.statistics, it.cap);
            vm.assertEq(found, _deviation(it, j));
        }
    }

    function test_gas_ofATally() external {
        bytes[] memory reveals = new bytes[](5);
        for (uint256 j = 0; j < 5; ++j) {
            for (uint256 i = 0; i <= 20; ++i) {
                reveals[j] =
                    abi.encodePacked(reveals[j], uint64(1e12 + uint256(keccak256(abi.encode(i, j))) % 1e11));
            }
        }

        _rules.tally(reveals, Statistic.Median, 20, 10e18, 1e18);
        vm.snapshotGasLastCall("libraries", "softmax shares and deviations, 5 validators, 20 updates, median");
        _rules.tally(reveals, Statistic.Mean, 20, 10e18, 1e18);
        vm.snapshotGasLastCall("libraries", "softmax shares and deviations, 5 validators, 20 updates, mean");
    }

    function _agrees(bytes32 seed, uint256 size, ScoreKind kind, Statistic statistic) private view {
        bytes[] memory reveals = _reveals(seed, size, kind);

        (uint256 included, uint256 withheld, uint256[] memory statistics,,) =
            _rules.judge(reveals, kind, statistic, UPDATES);

        uint256[] memory expected = new uint256[](UPDATES);
        uint256 majority = size / 2 + 1;
        for (uint256 i = 0; i < UPDATES; ++i) {
            (uint256[] memory column, uint256 denials) = _column(seed, size, kind, i);
            vm.assertEq(included >> i & 1 == 1, column.length >= majority);
            vm.assertEq(withheld >> i & 1 == 1, denials >= majority);
            if (column.length >= majority) expected[i] = _expected(column, size, kind, statistic);
        }
        vm.assertEq(statistics, expected);
    }

    function _expected(uint256[] memory column, uint256 size, ScoreKind kind, Statistic statistic)
        private
        pure
        returns (uint256)
    {
        return kind == ScoreKind.Bit ? 0 : _statistic(column, size, statistic);
    }

    /// @dev What those say of an update who vouch for it, and how many say that it is not available.
    function _column(bytes32 seed, uint256 size, ScoreKind kind, uint256 i)
        private
        pure
        returns (uint256[] memory column, uint256 denials)
    {
        column = new uint256[](size);
        uint256 count = 0;
        for (uint256 j = 0; j < size; ++j) {
            if (_isSilent(seed, j)) continue;
            uint256 score = _score(seed, j, i, kind);
            if (score == type(uint256).max) ++denials;
            else column[count++] = score;
        }
        assembly ("memory-safe") {
            mstore(column, count)
        }
    }

    function _statistic(uint256[] memory column, uint256 size, Statistic statistic)
        private
        pure
        returns (uint256)
    {
        uint256 count = column.length;
        uint256 sum = 0;
        for (uint256 j = 0; j < count; ++j) {
            sum += column[j];
        }
        if (statistic == Statistic.Mean) return sum / count;
        for (uint256 j = 0; j < count; ++j) {
            uint256 below = 0;
            uint256 same = 0;
            for (uint256 k = 0; k < count; ++k) {
                if (column[k] < column[j]) ++below;
                if (column[k] == column[j]) ++same;
            }
            if (below <= size / 2 && size / 2 < below + same) return column[j];
        }
        revert("no element has the middle rank");
    }

    function _deviation(Case memory it, uint256 j) private pure returns (uint256) {
        uint256 sum = 0;
        uint256 count = 0;
        for (uint256 i = 0; i < UPDATES; ++i) {
            if (it.included >> i & 1 == 0) continue;
            ++count;
            uint256 score = _score(it.seed, j, i, it.kind);
            uint256 gap = score > it.statistics[i] ? score - it.statistics[i] : it.statistics[i] - score;
            sum += score != type(uint256).max && gap < it.cap ? gap : it.cap;
        }
        return count == 0 ? 0 : sum / count;
    }

    function _isSilent(bytes32 seed, uint256 j) private pure returns (bool) {
        return uint256(keccak256(abi.encode("silent", seed, j))) % 6 == 0;
    }

    /// @dev The score as the statistic counts it; all ones for "not available".
    function _score(bytes32 seed, uint256 j, uint256 i, ScoreKind kind) private pure returns (uint256) {
        uint256 word = uint256(keccak256(abi.encode(seed, j, i)));
        if (word % 5 == 0) return type(uint256).max;
        if (kind == ScoreKind.Bit) return 0;
        if (kind == ScoreKind.Loss) return 1e6 * (word % 7 == 0 ? type(uint64).max - 1 : (word >> 8) % 1e12);
        return word % 7 == 0 ? type(uint128).max - 1 : (word >> 8) % 1e30;
    }

    function _reveals(bytes32 seed, uint256 size, ScoreKind kind)
        private
        pure
        returns (bytes[] memory reveals)
    {
        reveals = new bytes[](size);
        for (uint256 j = 0; j < size; ++j) {
            if (_isSilent(seed, j)) continue;
            uint256 bits = 0;
            bytes memory out = abi.encodePacked(uint64(j));
            for (uint256 i = 0; i < UPDATES; ++i) {
                uint256 score = _score(seed, j, i, kind);
                bool vouched = score != type(uint256).max;
                if (vouched) bits |= 1 << i;
                if (kind == ScoreKind.Loss) {
                    out = bytes.concat(out, bytes8(vouched ? uint64(score / 1e6) : type(uint64).max));
                }
                if (kind == ScoreKind.Distance) out = bytes.concat(out, bytes16(uint128(score)));
            }
            if (kind == ScoreKind.Bit) {
                out = bytes.concat(out, bytes1(uint8(bits)), bytes1(uint8(bits >> 8)));
            }
            reveals[j] = out;
        }
    }
}
