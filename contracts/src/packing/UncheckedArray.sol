// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title UncheckedArray
/// @notice Lists in memory without bounds checks, for the loops that a tally and a proof spend their gas in. Whoever calls
/// stays below the length.
library UncheckedArray {
    function get(uint256[] memory list, uint256 i) internal pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := mload(add(add(list, 32), shl(5, i)))
        }
    }

    function put(uint256[] memory list, uint256 i, uint256 value) internal pure {
        assembly ("memory-safe") {
            mstore(add(add(list, 32), shl(5, i)), value)
        }
    }

    /// @notice Sorts the first `count` words ascending, in place.
    /// @dev Insertion: at about 60 gas a move, 128 words in the worst order cost half a million.
    function sort(uint256[] memory list, uint256 count) internal pure {
        assembly ("memory-safe") {
            let first := add(list, 32)
            let end := add(first, shl(5, count))
            for { let next := add(first, 32) } lt(next, end) { next := add(next, 32) } {
                let value := mload(next)
                let place := next
                for {} gt(place, first) {} {
                    let below := mload(sub(place, 32))
                    if iszero(gt(below, value)) { break }
                    mstore(place, below)
                    place := sub(place, 32)
                }
                mstore(place, value)
            }
        }
    }
}
