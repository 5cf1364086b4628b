// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Merkle
/// @notice The SHA-256 tree over a model vector: a leaf is 64 parameters (256 bytes, big-endian uint32), hashed as
/// `SHA-256(0x00 ‖ leaf)`; a node is `SHA-256(0x01 ‖ left ‖ right)`. The prefixes keep a node from posing as a leaf.
/// @dev An *item* is what a proof carries for one model: the leaf, then its siblings from the bottom up, in
/// `256 + 32·depth` bytes without any padding or length.
library Merkle {
    uint256 internal constant LEAF_BYTES = 256;
    uint256 internal constant PARAMETERS_PER_LEAF = 64;

    /// @notice How many bytes an item takes in a tree of this depth.
    function itemBytes(uint256 depth) internal pure returns (uint256) {
        return LEAF_BYTES + 32 * depth;
    }

    /// @notice The root that an item leads to when its leaf stands at `index`.
    /// @dev The caller has checked that `item` is `itemBytes(depth)` long and `index < 2^depth`. Assembly because a
    /// proof hashes up to 130 paths: one buffer is reused, at about 250 gas a level instead of 900.
    function root(bytes calldata item, uint256 index, uint256 depth) internal view returns (bytes32 hash) {
        assembly ("memory-safe") {
            let buffer := mload(0x40)

            mstore8(buffer, 0)
            calldatacopy(add(buffer, 1), item.offset, LEAF_BYTES)
            if iszero(staticcall(gas(), 2, buffer, 257, 0, 32)) { revert(0, 0) }

            mstore8(buffer, 1)
            let sibling := add(item.offset, LEAF_BYTES)
            for { let end := add(sibling, shl(5, depth)) } lt(sibling, end) { sibling := add(sibling, 32) } {
                // An odd index is a right child: its own hash goes second.
                let right := shl(5, and(index, 1))
                mstore(add(add(buffer, 1), right), mload(0))
                // Exclusive or is meant: the other one of the two halves.
                // slither-disable-next-line incorrect-exp
                mstore(add(add(buffer, 1), xor(right, 32)), calldataload(sibling))
                if iszero(staticcall(gas(), 2, buffer, 65, 0, 32)) { revert(0, 0) }
                index := shr(1, index)
            }
            hash := mload(0)
        }
    }

    /// @notice The stored (biased) value of a parameter, from the item of the leaf that holds it.
    function valueAt(bytes calldata item, uint256 position) internal pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(224, calldataload(add(item.offset, shl(2, and(position, 63)))))
        }
    }
}
