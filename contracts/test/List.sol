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

    /// @notice The siblings of an entry up to the root.
    function proof(bytes32[8] memory leaves, uint256 place)
        internal
        pure
        returns (bytes32[] memory siblings)
    {
        siblings = new bytes32[](3);
        for (uint256 level = 0; level < 3; ++level) {
            siblings[level] = _at(leaves, level, place >> level ^ 1);
        }
    }

    function _at(bytes32[8] memory leaves, uint256 level, uint256 place) private pure returns (bytes32) {
        if (level == 0) return leaves[place];
        bytes32 one = _at(leaves, level - 1, place << 1);
        bytes32 other = _at(leaves, level - 1, place << 1 | 1);
        return one < other ? keccak256(abi.encode(one, other)) : keccak256(abi.encode(other, one));
    }
}
