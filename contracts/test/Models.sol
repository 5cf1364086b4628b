// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Model vectors, their trees and their proof items, the slow and plain way.
library Models {
    uint32 internal constant BIAS = 1 << 31;

    function random(bytes32 seed, uint256 parameters) internal pure returns (uint32[] memory model) {
        model = new uint32[](parameters);
        for (uint256 i = 0; i < parameters; ++i) {
            uint256 word = uint256(keccak256(abi.encode(seed, i)));
            // One in eight is an extreme: that is where arithmetic breaks.
            model[i] = word >> 253 == 0 ? type(uint32).max : word >> 253 == 1 ? 0 : uint32(word);
        }
    }

    function depthOf(uint256 parameters) internal pure returns (uint256 depth) {
        while (64 << depth < parameters) ++depth;
    }

    function leafBytes(uint32[] memory model, uint256 leaf) internal pure returns (bytes memory out) {
        out = new bytes(256 + 28);
        for (uint256 i = 0; i < 64; ++i) {
            uint256 value = 64 * leaf + i < model.length ? model[64 * leaf + i] : BIAS;
            // Each word overwrites what the last one left behind its four bytes.
            assembly ("memory-safe") {
                mstore(add(add(out, 32), shl(2, i)), shl(224, value))
            }
        }
        assembly ("memory-safe") {
            mstore(out, 256)
        }
    }

    function levels(uint32[] memory model) internal pure returns (bytes32[][] memory tree) {
        uint256 depth = depthOf(model.length);
        tree = new bytes32[][](depth + 1);
        tree[0] = new bytes32[](1 << depth);
        for (uint256 leaf = 0; leaf < tree[0].length; ++leaf) {
            tree[0][leaf] = sha256(bytes.concat(hex"00", leafBytes(model, leaf)));
        }
        for (uint256 level = 1; level <= depth; ++level) {
            tree[level] = new bytes32[](1 << (depth - level));
            for (uint256 i = 0; i < tree[level].length; ++i) {
                tree[level][i] =
                    sha256(bytes.concat(hex"01", tree[level - 1][2 * i], tree[level - 1][2 * i + 1]));
            }
        }
    }

    function root(uint32[] memory model) internal pure returns (bytes32) {
        bytes32[][] memory tree = levels(model);
        return tree[tree.length - 1][0];
    }

    function item(uint32[] memory model, uint256 leaf) internal pure returns (bytes memory out) {
        bytes32[][] memory tree = levels(model);
        out = leafBytes(model, leaf);
        for (uint256 level = 0; level + 1 < tree.length; ++level) {
            out = bytes.concat(out, tree[level][(leaf >> level) ^ 1]);
        }
    }
}
