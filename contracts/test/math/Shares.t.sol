// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

contract SharesTest is BaseTest {
    uint256 private constant TOTAL = 1 << 31;
    /// A loss is below 2^64, its statistic below that in WAD.
    uint256 private constant MAX_STATISTIC = (2 ** 64 - 2) * 1e6;

    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function testFuzz_softmax_anyStatistics_sumsToWhatIsAvailable(
        uint256 seed,
        uint256 count,
        uint256 beta,
        uint256 a
    ) external view {
        count = _bound(count, 1, 128);
        beta = _bound(beta, 0, 1e21);
        a = _bound(a, count, TOTAL);

        uint256[] memory parts = _rules.softmax(_statistics(seed, count), beta, a);

        vm.assertEq(_sum(parts), a);
    }

    function testFuzz_softmax_lowerStatistic_neverGetsLess(uint256 seed, uint256 count, uint256 beta)
        external
        view
    {
        count = _bound(count, 2, 30);
        beta = _bound(beta, 0, 1e21);
        uint256[] memory statistics = _statistics(seed, count);

        uint256[] memory parts = _rules.softmax(statistics, beta, TOTAL);

        for (uint256 i = 0; i < count; ++i) {
            for (uint256 j = 0; j < count; ++j) {
                if (statistics[i] < statistics[j]) vm.assertGe(parts[i], parts[j]);
            }
        }
    }

    function test_softmax_extremes_leaveAllToTheBest() external view {
        uint256[] memory statistics = new uint256[](3);
        (statistics[0], statistics[1], statistics[2]) = (MAX_STATISTIC, 0, MAX_STATISTIC);

        uint256[] memory parts = _rules.softmax(statistics, 1e21, TOTAL);

        vm.assertEq(parts[0] + parts[2], 0);
        vm.assertEq(parts[1], TOTAL);
    }

    function test_softmax_equalStatistics_giveTheRemainderToTheLowestIndex() external view {
        uint256[] memory parts = _rules.softmax(new uint256[](3), 1e18, TOTAL);

        vm.assertEq(parts[0], 715_827_884);
        vm.assertEq(parts[1], 715_827_882);
        vm.assertEq(parts[2], 715_827_882);
    }

    function test_softmax_oneNatApart_isTheLogisticFunction() external view {
        uint256[] memory statistics = new uint256[](2);
        (statistics[0], statistics[1]) = (1e18, 2e18);

        uint256[] memory parts = _rules.softmax(statistics, 1e18, TOTAL);

        // 2^31 / (1 + e) = 577,547,304.5…
        vm.assertEq(parts[1], 577_547_304);
    }

    function testFuzz_equal_anyCount_differsByLessThanTheCount(uint256 count, uint256 a) external view {
        count = _bound(count, 1, 128);
        a = _bound(a, count, TOTAL);

        uint256[] memory parts = _rules.equal(count, a);

        vm.assertEq(_sum(parts), a);
        vm.assertLt(parts[0] - parts[count - 1], count);
    }

    function testFuzz_bySamples_anyCounts_areProportionalRoundedDown(uint256 seed, uint256 count, uint256 a)
        external
        view
    {
        count = _bound(count, 1, 128);
        a = _bound(a, count, TOTAL);
        uint256[] memory samples = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            samples[i] = 1 + uint256(keccak256(abi.encode(seed, i))) % type(uint64).max;
        }

        uint256[] memory parts = _rules.bySamples(samples, a);

        vm.assertEq(_sum(parts), a);
        uint256 all = _sum(samples);
        for (uint256 i = 1; i < count; ++i) {
            vm.assertEq(parts[i], samples[i] * a / all);
        }
    }

    function testFuzz_onRanks_anyTrim_keepsTheMiddle(uint256 count, uint256 trim, uint256 a) external view {
        count = _bound(count, 1, 128);
        trim = _bound(trim, 0, (count - 1) / 2);
        a = _bound(a, count, TOTAL);

        uint256[] memory parts = _rules.onRanks(count, trim, a);

        vm.assertEq(_sum(parts), a);
        for (uint256 rank = 0; rank < count; ++rank) {
            vm.assertEq(parts[rank] != 0, rank >= trim && rank < count - trim);
        }
    }

    function testFuzz_headShare_anyRate_leavesEnoughForAll(uint256 alpha) external view {
        alpha = _bound(alpha, 1, 1e18);

        uint256 share = _rules.headShare(alpha);

        vm.assertEq(TOTAL - share, alpha * TOTAL / 1e18);
    }

    /// @dev Clustered as losses are, with an extreme now and then.
    function _statistics(uint256 seed, uint256 count) private pure returns (uint256[] memory statistics) {
        statistics = new uint256[](count);
        uint256 spread = 10 ** (seed % 26);
        for (uint256 i = 0; i < count; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            statistics[i] = word >> 252 == 0 ? MAX_STATISTIC : word % spread;
        }
    }

    function _sum(uint256[] memory parts) private pure returns (uint256 sum) {
        for (uint256 i = 0; i < parts.length; ++i) {
            sum += parts[i];
        }
    }
}
