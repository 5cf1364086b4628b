// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Role} from "../src/interfaces/ITrainingTask.sol";

/// @title List
/// @notice A list of who may join with eight entries, as a sponsor makes it.
library List {
    function leaf(address account, Role role) internal pure returns (bytes32) {
        return keccak256(abi.encode(account, role));
    }

    function root(bytes32[8] memory leaves) internal pure returns (bytes32) {
        return _at(leaves, 3, 0);
    }

    /// @notice The leading 20 bytes of the siblings of an entry up to the root, packed.
    function proof(bytes32[8] memory leaves, uint256 place) internal pure returns (bytes memory siblings) {
        for (uint256 level = 0; level < 3; ++level) {
            siblings = abi.encodePacked(siblings, bytes20(_at(leaves, level, place >> level ^ 1)));
        }
    }

    /// @notice The node above two others.
    function pair(bytes32 one, bytes32 other) internal pure returns (bytes32) {
        (bytes20 left, bytes20 right) = (bytes20(one), bytes20(other));
        return keccak256(left < right ? abi.encodePacked(left, right) : abi.encodePacked(right, left));
    }

    function _at(bytes32[8] memory leaves, uint256 level, uint256 place) private pure returns (bytes32) {
        if (level == 0) return leaves[place];
        return pair(_at(leaves, level - 1, place << 1), _at(leaves, level - 1, place << 1 | 1));
    }
}
