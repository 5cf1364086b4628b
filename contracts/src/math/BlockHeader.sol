// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title BlockHeader
/// @notice Reads the randomness out of a block's header, given in the RLP bytes that hash to the block's hash.
/// @dev The bytes are those of a real header once their hash is that of a block of this chain, so nothing else is checked
/// about their form. Forks append fields; those up to `mixHash` have kept their place since the first block.
library BlockHeader {
    /// Fields before `mixHash`: parent, uncles, miner, three roots, bloom, difficulty, number, two gas fields, time, extra data.
    uint256 private constant FIELDS_BEFORE = 13;
    /// The head of a string of 32 bytes.
    uint256 private constant WORD_HEAD = 0xa0;

    /// @notice The beacon chain's randomness of the block (EIP-4399).
    /// @return found Whether there is a word where `mixHash` belongs.
    function mixHash(bytes calldata header) internal pure returns (bool found, bytes32 value) {
        unchecked {
            // The head of a list of more than 55 bytes: 0xf7 and how many bytes its length takes.
            uint256 at = 1 + _byteAt(header, 0) - 0xf7;
            for (uint256 i = 0; i < FIELDS_BEFORE; ++i) {
                at = _skip(header, at);
            }
            found = at + 33 <= header.length && _byteAt(header, at) == WORD_HEAD;
            if (found) {
                assembly ("memory-safe") {
                    value := calldataload(add(add(header.offset, at), 1))
                }
            }
        }
    }

    /// @dev Where the string that begins at `at` ends.
    function _skip(bytes calldata header, uint256 at) private pure returns (uint256) {
        unchecked {
            uint256 first = _byteAt(header, at);
            if (first < 0x80) return at + 1;
            if (first < 0xb8) return at + 1 + first - 0x80;
            // Longer than 55 bytes: the length stands in one or two bytes in front.
            uint256 length = _byteAt(header, at + 1);
            if (first == 0xb8) return at + 2 + length;
            return at + 3 + (length << 8 | _byteAt(header, at + 2));
        }
    }

    function _byteAt(bytes calldata header, uint256 at) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := byte(0, calldataload(add(header.offset, at)))
        }
    }
}
