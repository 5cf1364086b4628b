// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

contract CommitteeTest is BaseTest {
    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function testFuzz_rank_anyStatistics_ascendsWithTheLowerIndexFirst(bytes32 seed, uint128 included)
        external
        view
    {
        uint256[] memory statistics = _statistics(seed, 1 + uint256(seed) % 50);

        uint256[] memory order = _rules.rank(included, statistics);

        uint256 members = 0;
        for (uint256 i = 0; i < order.length; ++i) {
            members |= 1 << order[i];
            if (i == 0) continue;
            (uint256 low, uint256 high) = (order[i - 1], order[i]);
            vm.assertTrue(
                statistics[low] < statistics[high] || (statistics[low] == statistics[high] && low < high)
            );
        }
        vm.assertEq(members, included);
    }

    function testFuzz_select_nearAndFar_takeTheTwoEnds(bytes32 seed, uint256 keep, uint128 included)
        external
        view
    {
        vm.assume(included != 0);
        keep = _bound(keep, 0, 1e18);
        uint256[] memory statistics = _statistics(seed, 1000);
        uint256[] memory order = _rules.rank(included, statistics);
        uint256 count = keep * order.length / 1e18;
        if (count == 0) count = 1;

        uint256 near = _rules.select(order, keep, false);
        uint256 far = _rules.select(order, keep, true);

        for (uint256 i = 0; i < order.length; ++i) {
            vm.assertEq(near >> order[i] & 1 == 1, i < count);
            vm.assertEq(far >> order[i] & 1 == 1, i >= order.length - count);
        }
        vm.assertEq((near | far) & ~uint256(included), 0);
    }

    function testFuzz_electMiddle_anySize_leavesEqualEnds(uint256 length, uint256 size) external view {
        length = _bound(length, 1, 128);
        size = _bound(size, 1, length);
        uint256[] memory order = new uint256[](length);
        for (uint256 i = 0; i < length; ++i) {
            order[i] = 3 * i;
        }

        uint256[] memory elected = _rules.electMiddle(order, size);

        vm.assertEq(elected.length, size);
        vm.assertEq(elected[0], 3 * ((length - size) / 2));
        vm.assertEq(elected[size - 1], elected[0] + 3 * (size - 1));
    }

    function testFuzz_dropRepeats_copiedRoots_countOnceAndTheHeadNever(bytes32 seed, uint128 included)
        external
        view
    {
        bytes32[] memory roots = new bytes32[](128);
        for (uint256 i = 0; i < 128; ++i) {
            roots[i] = bytes32(uint256(keccak256(abi.encode(seed, i))) % 60);
        }

        uint256 kept = _rules.dropRepeats(included, roots, 0);

        for (uint256 i = 0; i < 128; ++i) {
            bool first = included >> i & 1 == 1 && roots[i] != 0;
            for (uint256 j = 0; j < i && first; ++j) {
                first = included >> j & 1 == 0 || roots[j] != roots[i];
            }
            vm.assertEq(kept >> i & 1 == 1, first);
        }
    }

    function _statistics(bytes32 seed, uint256 values) private pure returns (uint256[] memory statistics) {
        statistics = new uint256[](128);
        for (uint256 i = 0; i < 128; ++i) {
            statistics[i] = uint256(keccak256(abi.encode(seed, i))) % values;
        }
    }
}
