// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {MerkleProofLib} from "solady/utils/MerkleProofLib.sol";

import {Role} from "../interfaces/ITrainingTask.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";

/// @title Admission
/// @notice Who may join a task that has a list: its root is a term, a leaf is an account in a role.
/// @dev A leaf is 64 bytes, as a pair of nodes is. Nobody can pass one for the other: pairs are hashed in ascending order, so a
/// pair that reads as a leaf would begin with a digest no larger than a role.
library Admission {
    /// Named as participant, it stands for everybody.
    address private constant ANYONE = address(0);

    /// @notice Whether the task has a list at all.
    function hasList() internal view returns (bool) {
        return ImmutableArgs.admissionRoot() != 0;
    }

    /// @notice Whether the list names the account, or everybody, in this role.
    function isListed(address account, Role role, bytes32[] calldata proof) internal view returns (bool) {
        bytes32 root = ImmutableArgs.admissionRoot();
        if (MerkleProofLib.verifyCalldata(proof, root, _leaf(account, role))) return role != Role.None;
        return role == Role.Participant
            && MerkleProofLib.verifyCalldata(proof, root, _leaf(ANYONE, Role.Participant));
    }

    function _leaf(address account, Role role) private pure returns (bytes32) {
        return keccak256(abi.encode(account, role));
    }
}
