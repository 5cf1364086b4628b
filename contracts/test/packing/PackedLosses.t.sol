// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";

contract LanesTest is BaseTest {
    uint64 private constant UNAVAILABLE = type(uint64).max;
    uint256 private constant TO_WAD = 1e6;
    /// Stands behind the losses in calldata, and must not be read.
    bytes32 private constant JUNK = bytes32(type(uint256).max);

    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function testFuzz_sum_ofLossesThatMakeSense_isPlainAndRight(bytes32 seed, uint256 size, uint256 count)
        external
        view
    {
        (size, count) = (_bound(size, 1, 45), _bound(count, 1, 4));
        bytes[] memory losses = _columns(seed, size, count);

        (uint256[] memory means, bool plain) = _rules.laneSums(losses, count);

        vm.assertTrue(plain);
        for (uint256 i = 0; i < 4; ++i) {
            uint256 sum = 0;
            for (uint256 j = 0; j < size; ++j) {
                sum += i < count ? _loss(seed, i, j) : 0;
            }
            vm.assertEq(means[i], sum * TO_WAD / size);
        }
    }

    function testFuzz_sum_withOneUnavailable_isNotPlain(
        bytes32 seed,
        uint256 size,
        uint256 count,
        uint256 who,
        uint256 which
    ) external view {
        (size, count) = (_bound(size, 1, 45), _bound(count, 1, 4));
        bytes[] memory losses = _columns(seed, size, count);
        (who, which) = (_bound(who, 0, size - 1), _bound(which, 0, count - 1));
        _put(losses[who], which, UNAVAILABLE);

        (, bool plain) = _rules.laneSums(losses, count);

        vm.assertFalse(plain);
    }

    function testFuzz_gaps_withinTheReach_arePlainAndRight(bytes32 seed, uint256 count, uint256 bits)
        external
        view
    {
        (count, bits) = (_bound(count, 1, 128), _bound(bits, 0, 127));
        uint256 reach = bits < 82 ? 1 << bits : 1 << 82;
        (bytes memory losses, uint256[] memory statistics, uint256 sum) = _near(seed, count, reach);

        (uint256 total, bool plain) = _rules.laneGaps(losses, statistics, 1 << bits);

        vm.assertTrue(plain);
        vm.assertEq(total, sum);
    }

    function testFuzz_gaps_aboveTheCap_areNotPlain(bytes32 seed, uint256 count, uint256 which, uint256 cap)
        external
        view
    {
        (count, cap) = (_bound(count, 1, 128), _bound(cap, 0, 1e24));
        which = _bound(which, 0, count - 1);
        (bytes memory losses, uint256[] memory statistics,) = _near(seed, count, cap | 1);
        uint256 far = cap + 1 + uint256(seed) % 1e24;
        uint256 loss = _read(losses, which) * TO_WAD;
        statistics[which] = uint256(seed) & 1 == 0 || far > loss ? loss + far : loss - far;

        (, bool plain) = _rules.laneGaps(losses, statistics, cap);

        vm.assertFalse(plain);
    }

    function testFuzz_gaps_withOneUnavailable_areNotPlain(
        bytes32 seed,
        uint256 count,
        uint256 which,
        uint256 cap,
        uint256 statistic
    ) external view {
        (count, cap) = (_bound(count, 1, 128), _bound(cap, 0, type(uint128).max));
        which = _bound(which, 0, count - 1);
        (bytes memory losses, uint256[] memory statistics,) = _near(seed, count, 1e24);
        statistics[which] = _bound(statistic, 0, UNAVAILABLE * TO_WAD);
        _put(losses, which, UNAVAILABLE);

        (, bool plain) = _rules.laneGaps(losses, statistics, cap);

        vm.assertFalse(plain);
    }

    /* INTERNAL */

    /// @dev Below the largest loss in all, however many validators there are.
    function _loss(bytes32 seed, uint256 i, uint256 j) private pure returns (uint64) {
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint64(uint256(keccak256(abi.encode(seed, i, j))) % (uint256(UNAVAILABLE) / 45));
    }

    function _columns(bytes32 seed, uint256 size, uint256 count)
        private
        pure
        returns (bytes[] memory losses)
    {
        losses = new bytes[](size);
        for (uint256 j = 0; j < size; ++j) {
            for (uint256 i = 0; i < count; ++i) {
                losses[j] = abi.encodePacked(losses[j], _loss(seed, i, j));
            }
            losses[j] = abi.encodePacked(losses[j], JUNK);
        }
    }

    /// @dev Losses, statistics nearer to them than `reach`, and the sum of the gaps.
    function _near(bytes32 seed, uint256 count, uint256 reach)
        private
        pure
        returns (bytes memory losses, uint256[] memory statistics, uint256 sum)
    {
        losses = new bytes(8 * count);
        statistics = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            uint64 loss = _loss(seed, i, 0);
            uint256 gap = uint256(keccak256(abi.encode(seed, i))) % reach;
            uint256 wad = loss * TO_WAD;
            bool below = gap <= wad && (uint256(seed) >> i) & 1 == 0;
            if (!below && wad + gap >= 1 << 83) gap = 0;
            _put(losses, i, loss);
            statistics[i] = below ? wad - gap : wad + gap;
            sum += gap;
        }
        losses = abi.encodePacked(losses, JUNK);
    }

    function _put(bytes memory losses, uint256 i, uint64 loss) private pure {
        for (uint256 k = 0; k < 8; ++k) {
            // forge-lint: disable-next-line(unsafe-typecast)
            losses[8 * i + k] = bytes1(uint8(loss >> (56 - 8 * k)));
        }
    }

    function _read(bytes memory losses, uint256 i) private pure returns (uint256 loss) {
        for (uint256 k = 0; k < 8; ++k) {
            loss = loss << 8 | uint8(losses[8 * i + k]);
        }
    }
}
