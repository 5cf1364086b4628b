// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

import {Merkle} from "./Merkle.sol";
import {UncheckedArray} from "../packing/UncheckedArray.sol";

/// @notice What a proof is held against: everything here is on chain before the proof comes.
struct Claim {
    /// The root that the proposer posted.
    bytes32 aggregateRoot;
    /// The root of the model that the round started from.
    bytes32 headRoot;
    /// The roots of the updates in index order: all revealed ones (by update), the included ones (by rank).
    bytes32[] roots;
    /// p_0, then one share per entry of `roots`: of that update, or of that rank.
    uint256[] shares;
    /// Whether shares belong to ranks (coordinate-wise rules) and not to updates.
    bool byRank;
    /// How many parameters the model has.
    uint256 parameters;
    /// Depth of the tree.
    uint256 depth;
}

/// @title AggregateProof
/// @notice Re-executes one parameter of an aggregate and says what it had to be.
/// @dev The evidence is one item (`Merkle`) after another: the aggregate's; the head's if `p_0 > 0`; those of the updates
/// with a part (`p_i > 0`; by rank: all). Nobody else's, or a root without bytes and without a part would block every
/// proof. At a position behind the last parameter the value has to be 2^31 whatever the updates hold, so there the
/// aggregate's item stands alone.
library AggregateProof {
    uint256 private constant BIAS = 1 << 31;
    uint256 private constant HALF = 1 << 30;

    /// The position lies beyond the tree.
    error BadPosition(uint256 position);
    /// This item of the evidence is missing, does not lead to its root on chain, or is one too many.
    error BadProof(uint256 item);
    /// The aggregate holds what it has to hold here: nothing is proven.
    error NoLie(uint256 value);

    /// @notice Returns what the aggregate holds at `position` and what it had to hold; reverts when these are equal or
    /// the evidence is not what the claim asks for.
    function refute(Claim memory claim, uint256 position, bytes calldata evidence)
        internal
        view
        returns (uint256 found, uint256 expected)
    {
        require(position < Merkle.PARAMETERS_PER_LEAF << claim.depth, BadPosition(position));
        bool isPadding = position >= claim.parameters;
        uint256 items = isPadding ? 1 : 1 + _partCount(claim);
        uint256 size = Merkle.itemBytes(claim.depth);
        require(
            evidence.length == items * size, BadProof(FixedPointMathLib.min(items, evidence.length / size))
        );

        found = _value(claim, evidence, 0, claim.aggregateRoot, position);
        if (isPadding) expected = BIAS;
        else if (claim.byRank) expected = _byRank(claim, evidence, position);
        else expected = _byUpdate(claim, evidence, position);

        require(found != expected, NoLie(found));
    }

    /// @dev `u' = (Σ p_i·u_i + 2^30) >> 31`, exact: shares sum to 2^31 and values are below 2^32.
    function _byUpdate(Claim memory claim, bytes calldata evidence, uint256 position)
        private
        view
        returns (uint256)
    {
        uint256 item = 1;
        uint256 sum = HALF;
        if (claim.shares[0] != 0) {
            sum += claim.shares[0] * _value(claim, evidence, item++, claim.headRoot, position);
        }
        for (uint256 i = 0; i < claim.roots.length; ++i) {
            uint256 share = claim.shares[i + 1];
            if (share == 0) continue;
            sum += share * _value(claim, evidence, item++, claim.roots[i], position);
        }
        return sum >> 31;
    }

    /// @dev The same formula on the sorted values: share r belongs to whoever has rank r at this parameter.
    function _byRank(Claim memory claim, bytes calldata evidence, uint256 position)
        private
        view
        returns (uint256)
    {
        uint256 item = 1;
        uint256 sum = HALF;
        if (claim.shares[0] != 0) {
            sum += claim.shares[0] * _value(claim, evidence, item++, claim.headRoot, position);
        }
        uint256[] memory sorted = new uint256[](claim.roots.length);
        for (uint256 i = 0; i < sorted.length; ++i) {
            sorted[i] = _value(claim, evidence, item++, claim.roots[i], position);
        }
        UncheckedArray.sort(sorted, sorted.length);
        for (uint256 rank = 0; rank < sorted.length; ++rank) {
            sum += claim.shares[rank + 1] * sorted[rank];
        }
        return sum >> 31;
    }

    function _value(Claim memory claim, bytes calldata evidence, uint256 item, bytes32 root, uint256 position)
        private
        view
        returns (uint256)
    {
        uint256 size = Merkle.itemBytes(claim.depth);
        bytes calldata part = evidence[item * size:(item + 1) * size];
        uint256 leaf = position / Merkle.PARAMETERS_PER_LEAF;
        require(Merkle.root(part, leaf, claim.depth) == root, BadProof(item));
        return Merkle.valueAt(part, position);
    }

    function _partCount(Claim memory claim) private pure returns (uint256 count) {
        if (claim.shares[0] != 0) ++count;
        if (claim.byRank) return count + claim.roots.length;
        for (uint256 i = 1; i < claim.shares.length; ++i) {
            if (claim.shares[i] != 0) ++count;
        }
    }
}
