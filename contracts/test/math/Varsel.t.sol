// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

/// @dev M internal updates first, then N external ones, then one that does not count.
contract VarselTest is BaseTest {
    uint256 private constant TOTAL = 1 << 31;
    uint256 private constant WHOLE = 1 << 20;

    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function testFuzz_hasForm_sharesOfWeights_holdsForTheirBudgetAndNoLess(
        bytes32 seed,
        uint256 internals,
        uint256 externals
    ) external view {
        internals = _bound(internals, 2, 45);
        externals = _bound(externals, 1, 82);
        uint256[] memory weights = new uint256[](externals);
        for (uint256 j = 0; j < externals; ++j) {
            weights[j] = uint256(keccak256(abi.encode(seed, j))) % (WHOLE + 1);
        }
        (uint32[] memory shares, uint256 taken) = _sharesOf(internals, weights);
        uint256 least = (taken + shares[internals] - 1) / shares[internals];

        vm.assertTrue(_isWeighed(shares, internals, externals, least));
        vm.assertTrue(_isWeighed(shares, internals, externals, 255));
        if (least != 0) vm.assertFalse(_isWeighed(shares, internals, externals, least - 1));
    }

    function testFuzz_hasForm_oneShareMoved_failsButForTheRest(uint256 internals, uint256 from, uint256 by)
        external
        view
    {
        internals = _bound(internals, 3, 45);
        from = _bound(from, 2, internals);
        by = _bound(by, 1, 1e6);
        (uint32[] memory shares,) = _sharesOf(internals, new uint256[](1));

        shares[from] -= uint32(by);
        shares[1] += uint32(by);

        vm.assertFalse(_isWeighed(shares, internals, 1, 255));
    }

    function test_hasForm_aPartForWhatDoesNotCount_fails() external view {
        (uint32[] memory shares,) = _sharesOf(2, new uint256[](1));
        vm.assertTrue(_isWeighed(shares, 2, 1, 1));

        shares[4] = 1;
        vm.assertFalse(_isWeighed(shares, 2, 1, 1));

        --shares[1];
        vm.assertFalse(_isWeighed(shares, 2, 1, 1));
    }

    function test_hasForm_anExternalAboveAnInternal_fails() external view {
        uint256[] memory weights = new uint256[](1);
        weights[0] = WHOLE;
        (uint32[] memory shares,) = _sharesOf(2, weights);
        vm.assertTrue(_isWeighed(shares, 2, 1, 255));

        weights[0] = WHOLE + 1;
        (shares,) = _sharesOf(2, weights);

        vm.assertFalse(_isWeighed(shares, 2, 1, 255));
    }

    function test_hasForm_oneInternal_takesNothingExternal() external view {
        uint256[] memory weights = new uint256[](1);
        (uint32[] memory shares,) = _sharesOf(1, weights);
        vm.assertTrue(_isWeighed(shares, 1, 1, 255));

        weights[0] = 1;
        (shares,) = _sharesOf(1, weights);

        vm.assertFalse(_isWeighed(shares, 1, 1, 255));
    }

    function test_hasForm_noInternal_fails() external view {
        uint32[] memory shares = new uint32[](2);
        shares[1] = uint32(TOTAL);

        vm.assertFalse(_rules.isWeighed(shares, 1, 0, 255));
        vm.assertTrue(_rules.isWeighed(shares, 1, 1, 255));
    }

    function _isWeighed(uint32[] memory shares, uint256 internals, uint256 externals, uint256 budget)
        private
        view
        returns (bool)
    {
        uint256 included = (1 << (internals + externals)) - 1;
        return _rules.isWeighed(shares, included, (1 << internals) - 1, budget);
    }

    /// @dev As docs/protocol.md 7.1 says; the last update has no share.
    function _sharesOf(uint256 internals, uint256[] memory weights)
        private
        pure
        returns (uint32[] memory shares, uint256 taken)
    {
        uint256 sum = internals * WHOLE;
        for (uint256 j = 0; j < weights.length; ++j) {
            sum += weights[j];
        }
        uint256 share = TOTAL * WHOLE / sum;
        shares = new uint32[](internals + weights.length + 2);
        for (uint256 j = 0; j < weights.length; ++j) {
            shares[1 + internals + j] = uint32(share * weights[j] / WHOLE);
            taken += shares[1 + internals + j];
        }
        for (uint256 i = 1; i <= internals; ++i) {
            shares[i] = uint32(share);
        }
        shares[1] = uint32(TOTAL - taken - (internals - 1) * share);
    }
}
