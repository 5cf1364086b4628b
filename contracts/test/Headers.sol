// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Headers
/// @notice Headers of blocks as tests make them: only number and randomness say something.
library Headers {
    /// @notice A block's header in RLP.
    function header(uint256 number) internal pure returns (bytes memory) {
        bytes memory word = abi.encodePacked(bytes1(0xa0), bytes32(0));
        bytes memory fields = abi.encodePacked(word, word, bytes1(0x94), bytes20(0), word, word, word);
        fields = abi.encodePacked(fields, hex"b90100", new bytes(256), hex"80", hex"84", uint32(number));
        fields = abi.encodePacked(fields, hex"80808080", bytes1(0xa0), mixHash(number), hex"88", bytes8(0));
        return abi.encodePacked(bytes1(0xf9), uint16(fields.length), fields);
    }

    /// @notice Its randomness.
    function mixHash(uint256 number) internal pure returns (bytes32) {
        return keccak256(abi.encode("randomness of block", number));
    }
}
