// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SortitionTree} from "../../src/math/SortitionTree.sol";
import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

contract SortitionTreeTest is BaseTest {
    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));
    uint256[] private _nobody;

    function testFuzz_draw_anyStakes_isTheDrawByWalking(
        bytes32 seed,
        uint256 accounts,
        uint256 count,
        uint256 out
    ) external {
        accounts = _bound(accounts, 1, 90);
        count = _bound(count, 0, accounts + 3);
        uint256[] memory weights = _enrol(seed, accounts, 1000);
        uint256[] memory excluded = _someOf(seed, accounts, _bound(out, 0, 5));

        uint256[] memory drawn = _rules.treeDraw(seed, excluded, count);

        vm.assertEq(drawn, _drawByWalking(seed, weights, excluded, count));
    }

    function testFuzz_draw_allOfThem_areDistinctAndStaked(bytes32 seed, uint256 accounts) external {
        accounts = _bound(accounts, 1, 90);
        uint256[] memory weights = _enrol(seed, accounts, 3);

        uint256[] memory drawn = _rules.treeDraw(seed, _nobody, accounts);

        bool[] memory seen = new bool[](accounts);
        for (uint256 k = 0; k < drawn.length; ++k) {
            vm.assertFalse(seen[drawn[k]]);
            vm.assertTrue(weights[drawn[k]] != 0);
            seen[drawn[k]] = true;
        }
        for (uint256 id = 0; id < accounts; ++id) {
            vm.assertEq(seen[id], weights[id] != 0);
        }
    }

    function testFuzz_set_inAnyOrder_keepsEveryWeightAndTheTotal(
        uint256[40] calldata ids,
        uint32[40] calldata values
    ) external {
        uint256 sum = 0;
        for (uint256 i = 0; i < 40; ++i) {
            uint256 id = _bound(ids[i], 0, 1 << (i % 20));
            uint256 weight = values[i] / 64;

            sum = sum + weight - _rules.treeGet(id);
            _rules.treeSet(id, weight);

            vm.assertEq(_rules.treeGet(id), weight);
            vm.assertEq(_rules.treeTotal(), sum);
        }
    }

    function test_set_largestTotal_isDrawnFromExactly() external {
        _rules.treeSet(7, type(uint32).max - 1);
        _rules.treeSet(100, 1);

        uint256[] memory drawn = _rules.treeDraw("seed", _nobody, 3);

        vm.assertEq(drawn.length, 2);
        vm.assertEq(drawn[0] + drawn[1], 107);
    }

    function testFuzz_set_beyondTheTotal_reverts(uint256 first, uint256 second) external {
        first = _bound(first, 1, type(uint32).max);
        second = _bound(second, uint256(type(uint32).max) - first + 1, type(uint128).max);
        _rules.treeSet(1, first);

        vm.expectRevert(abi.encodeWithSelector(SortitionTree.StakeTooHigh.selector, first + second));
        _rules.treeSet(9, second);
    }

    function test_draw_equalStakes_areDrawnEquallyOften() external {
        for (uint256 id = 1; id <= 20; ++id) {
            _rules.treeSet(id, 5);
        }
        uint256[] memory hits = new uint256[](21);

        for (uint256 i = 0; i < 2000; ++i) {
            uint256[] memory drawn = _rules.treeDraw(bytes32(i), _nobody, 5);
            for (uint256 k = 0; k < 5; ++k) {
                ++hits[drawn[k]];
            }
        }

        // 500 expected, standard deviation 19.4: five of them either way.
        for (uint256 id = 1; id <= 20; ++id) {
            vm.assertGe(hits[id], 400);
            vm.assertLe(hits[id], 600);
        }
    }

    function test_gas_ofAnUpdateAndADrawAmongTenThousand() external {
        for (uint256 id = 1; id <= 10_000; ++id) {
            _rules.treeSet(id, 100_000 + id);
        }

        vm.cool(address(_rules));
        _rules.treeSet(4321, 777);
        vm.snapshotGasLastCall("libraries", "change one stake among 10,000 accounts");
        vm.cool(address(_rules));
        _rules.treeDraw("seed", _nobody, 6);
        vm.snapshotGasLastCall("libraries", "draw 5+1 among 10,000 accounts");
        vm.cool(address(_rules));
        _rules.treeDraw("seed", _nobody, 8 + 128);
        vm.snapshotGasLastCall("libraries", "draw 5+3 and 128 workers among 10,000 accounts");
    }

    function _enrol(bytes32 seed, uint256 accounts, uint256 limit)
        private
        returns (uint256[] memory weights)
    {
        weights = new uint256[](accounts);
        for (uint256 id = 0; id < accounts; ++id) {
            weights[id] = uint256(keccak256(abi.encode("weight", seed, id))) % limit;
            _rules.treeSet(id, weights[id]);
        }
    }

    function _someOf(bytes32 seed, uint256 accounts, uint256 count)
        private
        pure
        returns (uint256[] memory some)
    {
        some = new uint256[](accounts < count ? 0 : count);
        uint256 first = uint256(seed) % accounts;
        for (uint256 i = 0; i < some.length; ++i) {
            some[i] = (first + 7 * i) % accounts;
            for (uint256 j = 0; j < i; ++j) {
                if (some[j] == some[i]) return new uint256[](0);
            }
        }
    }

    function _drawByWalking(bytes32 seed, uint256[] memory weights, uint256[] memory excluded, uint256 count)
        private
        pure
        returns (uint256[] memory drawn)
    {
        for (uint256 i = 0; i < excluded.length; ++i) {
            weights[excluded[i]] = 0;
        }
        uint256[] memory found = new uint256[](count);
        uint256 k = 0;
        for (; k < count; ++k) {
            uint256 left = 0;
            for (uint256 id = 0; id < weights.length; ++id) {
                left += weights[id];
            }
            if (left == 0) break;
            uint256 ticket = uint256(keccak256(abi.encode(seed, k))) % left;
            uint256 holder = 0;
            while (ticket >= weights[holder]) ticket -= weights[holder++];
            found[k] = holder;
            weights[holder] = 0;
        }
        drawn = new uint256[](k);
        for (uint256 i = 0; i < k; ++i) {
            drawn[i] = found[i];
        }
    }
}
