// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

contract RewardsTest is BaseTest {
    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function testFuzz_ofWorker_allShares_spendNoMoreThanThePool(uint256 pool, uint256 count, uint256 head)
        external
        view
    {
        pool = _bound(pool, 0, 1e27);
        count = _bound(count, 1, 128);
        head = _bound(head, 0, 2 ** 31 - count);
        uint256[] memory parts = _rules.equal(count, 2 ** 31 - head);

        uint256 paid = 0;
        for (uint256 i = 0; i < count; ++i) {
            paid += _rules.ofWorker(pool, parts[i], head);
        }

        vm.assertLe(paid, pool);
        vm.assertLt(pool - paid, count);
    }

    function testFuzz_ofValidator_allPaid_spendTheCommitteesPartToTheLastFew(
        bytes32 seed,
        uint256 pool,
        uint256 paid
    ) external view {
        pool = _bound(pool, 0, 1e27);
        paid = _bound(paid, 1, 45);
        uint256[] memory deviations = new uint256[](paid);
        uint256 sum = 0;
        for (uint256 j = 0; j < paid; ++j) {
            sum += deviations[j] = uint256(keccak256(abi.encode(seed, j))) >> (128 + uint256(seed) % 128);
        }

        uint256 spent = 0;
        for (uint256 j = 0; j < paid; ++j) {
            spent += _rules.ofValidator(pool, deviations[j], sum, paid);
        }

        vm.assertLe(spent, pool);
        vm.assertLt(pool - spent, paid);
    }

    function test_ofValidator_nobodyDeviates_isEqual() external view {
        vm.assertEq(_rules.ofValidator(100, 0, 0, 3), 33);
    }

    function test_ofValidator_alone_getsAll() external view {
        vm.assertEq(_rules.ofValidator(100, 7, 7, 1), 100);
    }
}
