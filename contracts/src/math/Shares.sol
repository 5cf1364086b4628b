// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

import {UncheckedArray} from "../packing/UncheckedArray.sol";

/// @title Shares
/// @notice How much each update counts: non-negative integers that sum to exactly 2^31 together with the head's.
/// @dev Every function divides `available = 2^31 − p_0` among its entries, each part rounded down, the remainder to one
/// entry that the function names. Entries are in index order; none of the functions knows the head.
library Shares {
    uint256 internal constant TOTAL = 1 << 31;
    uint256 private constant WAD = 1e18;

    /// @notice The head's share under a moving average or server rate `alpha` (WAD, in (0, 1]): `2^31 − ⌊α·2^31/10^18⌋`.
    function ofHead(uint256 alpha) internal pure returns (uint256) {
        return TOTAL - alpha * TOTAL / WAD;
    }

    /// @notice Equal parts, rounded down; the remainder to the lowest index.
    function equal(uint256 count, uint256 available) internal pure returns (uint256[] memory parts) {
        parts = new uint256[](count);
        uint256 part = available / count;
        for (uint256 i = 0; i < count; ++i) {
            parts[i] = part;
        }
        // The remainder of the division, on purpose.
        // slither-disable-next-line divide-before-multiply
        parts[0] += available - part * count;
    }

    /// @notice Parts in proportion to declared sample counts, rounded down; the remainder to the lowest index.
    function bySamples(uint256[] memory samples, uint256 available)
        internal
        pure
        returns (uint256[] memory parts)
    {
        uint256 count = samples.length;
        uint256 sum = 0;
        for (uint256 i = 0; i < count; ++i) {
            sum += samples[i];
        }

        parts = new uint256[](count);
        uint256 given = 0;
        for (uint256 i = 0; i < count; ++i) {
            given += parts[i] = samples[i] * available / sum;
        }
        parts[0] += available - given;
    }

    /// @notice Softmax of the committee's statistic: `z = −⌊(L − min L)·β/10^18⌋`, `p = ⌊exp(z)·A/Σ exp⌋`, the remainder to
    /// the best (lowest statistic, then lowest index).
    /// @dev Nothing can overflow: a statistic is below 2^64·10^6 and β at most 10^21, so a product stays below 2^155.
    /// @param statistics L, in WAD.
    /// @param beta β, in WAD.
    function softmax(uint256[] memory statistics, uint256 beta, uint256 available)
        internal
        pure
        returns (uint256[] memory parts)
    {
        uint256 count = statistics.length;
        parts = new uint256[](count);
        (uint256 best, uint256 lowest) = _lowest(statistics);
        unchecked {
            uint256 sum = 0;
            for (uint256 i = 0; i < count; ++i) {
                uint256 distance = (UncheckedArray.get(statistics, i) - lowest) * beta / WAD;
                // Casts are safe: the distance is below 2^96, and exp is never negative.
                // forge-lint: disable-next-line(unsafe-typecast)
                uint256 e = uint256(FixedPointMathLib.expWad(-int256(distance)));
                UncheckedArray.put(parts, i, e);
                sum += e;
            }
            uint256 left = available;
            assembly ("memory-safe") {
                let end := add(add(parts, 32), shl(5, count))
                for { let place := add(parts, 32) } lt(place, end) { place := add(place, 32) } {
                    let part := div(mul(mload(place), available), sum)
                    mstore(place, part)
                    left := sub(left, part)
                }
            }
            parts[best] += left;
        }
    }

    /// @dev The first among the lowest, and its value.
    function _lowest(uint256[] memory values) private pure returns (uint256 best, uint256 lowest) {
        assembly ("memory-safe") {
            let first := add(values, 32)
            let end := add(first, shl(5, mload(values)))
            let found := first
            lowest := mload(first)
            for { let place := add(first, 32) } lt(place, end) { place := add(place, 32) } {
                if lt(mload(place), lowest) {
                    found := place
                    lowest := mload(place)
                }
            }
            best := shr(5, sub(found, first))
        }
    }

    /// @notice Shares on ranks of a trimmed mean: ranks `trim … count−trim−1` share equally, rounded down; the remainder to
    /// the lowest kept rank. The middle one or two (`median`) are kept with `trim = (count−1)/2`.
    /// @dev The caller has checked that `count > 2·trim`.
    function onRanks(uint256 count, uint256 trim, uint256 available)
        internal
        pure
        returns (uint256[] memory parts)
    {
        parts = new uint256[](count);
        uint256 kept = count - 2 * trim;
        uint256 part = available / kept;
        for (uint256 rank = trim; rank < count - trim; ++rank) {
            parts[rank] = part;
        }
        // The remainder of the division, on purpose.
        // slither-disable-next-line divide-before-multiply
        parts[trim] += available - part * kept;
    }
}
