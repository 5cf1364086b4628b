// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Role} from "../interfaces/ITrainingTask.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";

/// @title Admission
/// @notice Who may join a task that has a list: its root is a term, a leaf is an account in a role.
/// @dev A pair is hashed by the leading 20 bytes of both nodes, in ascending order, because a proof's bytes are most of what it
/// costs. Two leaves that agree in them are found with 2^80 hashes, but only by who settles both before the root is known: the
/// sponsor, who may admit whom it likes. A stranger needs one that agrees with a node of the list, as hard as the key of an
/// account on it. A leaf hashes 64 bytes and a pair 40, so neither passes for the other.
library Admission {
    /// Named as participant, it stands for everybody.
    address private constant ANYONE = address(0);
    /// What of a leaf or node is hashed with its sibling; the root alone is whole.
    uint256 private constant NODE_BYTES = 20;

    /// @notice Whether the task has a list at all.
    function hasList() internal view returns (bool) {
        return ImmutableArgs.admissionRoot() != 0;
    }

    /// @notice Whether the list names the account, or everybody, in this role.
    /// @param proof The leading 20 bytes of each sibling from the leaf up, without any padding.
    function isListed(address account, Role role, bytes calldata proof) internal view returns (bool) {
        if (proof.length % NODE_BYTES != 0) return false;
        bytes32 root = ImmutableArgs.admissionRoot();
        if (_climb(_leaf(account, role), proof) == root) return role != Role.None;
        return role == Role.Participant && _climb(_leaf(ANYONE, Role.Participant), proof) == root;
    }

    function _leaf(address account, Role role) private pure returns (bytes32) {
        return keccak256(abi.encode(account, role));
    }

    /// @dev Assembly because a long proof has many levels: in Solidity each takes 300 gas more.
    function _climb(bytes32 node, bytes calldata proof) private pure returns (bytes32 top) {
        assembly ("memory-safe") {
            top := node
            let at := proof.offset
            for { let end := add(at, proof.length) } lt(at, end) { at := add(at, NODE_BYTES) } {
                // Whole words are compared and written, and their leading 20 bytes hashed: what follows these decides the order
                // of equal ones alone.
                let sibling := calldataload(at)
                let swap := mul(xor(top, sibling), gt(top, sibling))
                mstore(0, xor(top, swap))
                mstore(NODE_BYTES, xor(sibling, swap))
                top := keccak256(0, 40)
            }
        }
    }
}
