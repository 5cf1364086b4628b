// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AggregateProof, Claim} from "../src/math/AggregateProof.sol";
import {BlockHeader} from "../src/math/BlockHeader.sol";
import {Committee} from "../src/math/Committee.sol";
import {PackedLosses, Yardstick} from "../src/packing/PackedLosses.sol";
import {Merkle} from "../src/math/Merkle.sol";
import {Rewards} from "../src/math/Rewards.sol";
import {ScoreKind, Scores, Statistic, Verdict} from "../src/math/Scores.sol";
import {Shares} from "../src/math/Shares.sol";
import {SortitionTree, StakeTree} from "../src/math/SortitionTree.sol";
import {Varsel} from "../src/math/Varsel.sol";
import {IRules} from "./IRules.sol";

/// @notice See `IRules`.
contract RulesHarness is IRules {
    using SortitionTree for StakeTree;

    StakeTree private _tree;

    /* MERKLE, PROOF */

    function merkleRoot(bytes calldata item, uint256 index, uint256 depth) external view returns (bytes32) {
        return Merkle.root(item, index, depth);
    }

    function valueAt(bytes calldata item, uint256 position) external pure returns (uint256) {
        return Merkle.valueAt(item, position);
    }

    function refute(Claim calldata claim, uint256 position, bytes calldata evidence)
        external
        view
        returns (uint256 found, uint256 expected)
    {
        return AggregateProof.refute(claim, position, evidence);
    }

    /* HEADER */

    function mixHash(bytes calldata header) external pure returns (bool found, bytes32 value) {
        return BlockHeader.mixHash(header);
    }

    /* SHARES */

    function headShare(uint256 alpha) external pure returns (uint256) {
        return Shares.ofHead(alpha);
    }

    function equal(uint256 count, uint256 available) external pure returns (uint256[] memory) {
        return Shares.equal(count, available);
    }

    function bySamples(uint256[] memory samples, uint256 available) external pure returns (uint256[] memory) {
        return Shares.bySamples(samples, available);
    }

    function softmax(uint256[] memory statistics, uint256 beta, uint256 available)
        external
        pure
        returns (uint256[] memory)
    {
        return Shares.softmax(statistics, beta, available);
    }

    function onRanks(uint256 count, uint256 trim, uint256 available)
        external
        pure
        returns (uint256[] memory)
    {
        return Shares.onRanks(count, trim, available);
    }

    function isWeighed(uint32[] calldata shares, uint256 included, uint256 own, uint256 budget)
        external
        pure
        returns (bool)
    {
        return Varsel.hasForm(shares, included, own, budget);
    }

    /* SCORES, COMMITTEE */

    function isWellFormed(bytes calldata scores, ScoreKind kind, uint256 updates)
        external
        pure
        returns (bool)
    {
        return Scores.isWellFormed(scores, kind, updates);
    }

    function judge(bytes[] calldata reveals, ScoreKind kind, Statistic statistic, uint256 updates)
        external
        pure
        returns (
            uint256 included,
            uint256 withheld,
            uint256[] memory statistics,
            uint256 head,
            bool isHeadWithheld
        )
    {
        Verdict memory verdict = Scores.judge(_startsOf(reveals), reveals.length, kind, statistic, updates);
        return (verdict.included, verdict.withheld, verdict.statistics, verdict.head, verdict.isHeadWithheld);
    }

    function deviation(
        bytes calldata scores,
        ScoreKind kind,
        uint256 included,
        uint256[] memory statistics,
        uint256 cap
    ) external pure returns (uint256) {
        uint256[] memory starts = new uint256[](1);
        starts[0] = Scores.startOf(scores);
        return Scores.deviations(starts, kind, Verdict(included, 0, _roomy(statistics), 0, false), cap)[0];
    }

    function laneSums(bytes[] calldata losses, uint256 count)
        external
        pure
        returns (uint256[] memory means, bool plain)
    {
        means = new uint256[](4);
        uint256 even;
        uint256 odd;
        (even, odd, plain) = PackedLosses.sum(_startsOf(losses), 0, count);
        PackedLosses.putMeans(means, 0, even, odd, losses.length);
    }

    function laneGaps(bytes calldata losses, uint256[] memory statistics, uint256 cap)
        external
        pure
        returns (uint256 total, bool plain)
    {
        Yardstick memory stick = PackedLosses.yardstick(_roomy(statistics), cap);
        if (stick.pairs.length != 0) return PackedLosses.gaps(Scores.startOf(losses), stick);
    }

    function dropRepeats(uint256 included, bytes32[] memory roots, bytes32 headRoot)
        external
        pure
        returns (uint256)
    {
        return Committee.dropRepeats(included, roots, headRoot);
    }

    function rank(uint256 included, uint256[] memory statistics) external pure returns (uint256[] memory) {
        return Committee.rank(included, statistics);
    }

    function select(uint256[] memory order, uint256 keep, bool far) external pure returns (uint256) {
        return Committee.select(order, keep, far);
    }

    function electMiddle(uint256[] memory order, uint256 size) external pure returns (uint256[] memory) {
        return Committee.electMiddle(order, size);
    }

    function tally(bytes[] calldata reveals, Statistic statistic, uint256 updates, uint256 beta, uint256 cap)
        external
        pure
        returns (uint256[] memory shares, uint256[] memory deviations)
    {
        uint256[] memory starts = _startsOf(reveals);
        Verdict memory verdict = Scores.judge(starts, reveals.length, ScoreKind.Loss, statistic, updates);
        shares = Shares.softmax(verdict.statistics, beta, Shares.TOTAL);
        deviations = Scores.deviations(starts, ScoreKind.Loss, verdict, cap);
    }

    /// @dev Where the scores of those who revealed begin; a vector is empty for one who did not.
    function _startsOf(bytes[] calldata reveals) private pure returns (uint256[] memory starts) {
        starts = new uint256[](reveals.length);
        uint256 count = 0;
        for (uint256 j = 0; j < reveals.length; ++j) {
            bytes calldata scores = reveals[j];
            if (scores.length != 0) starts[count++] = Scores.startOf(scores);
        }
        assembly ("memory-safe") {
            mstore(starts, count)
        }
    }

    /// @dev A copy with room for three more behind it, as `judge` leaves.
    function _roomy(uint256[] memory list) private pure returns (uint256[] memory copy) {
        copy = new uint256[](list.length + 3);
        for (uint256 i = 0; i < list.length; ++i) {
            copy[i] = list[i];
        }
        assembly ("memory-safe") {
            mstore(copy, mload(list))
        }
    }

    /* REWARDS */

    function ofWorker(uint256 pool, uint256 share, uint256 head) external pure returns (uint256) {
        return Rewards.ofWorker(pool, share, Shares.TOTAL - head);
    }

    function ofValidator(uint256 pool, uint256 dev, uint256 devSum, uint256 paid)
        external
        pure
        returns (uint256)
    {
        return Rewards.ofValidator(pool, dev, devSum, paid);
    }

    /* STAKE TREE */

    function treeSet(uint256 id, uint256 weight) external {
        _tree.set(id, weight);
    }

    function treeSetAll(uint256[] calldata weights) external {
        for (uint256 id = 0; id < weights.length; ++id) {
            _tree.set(id, weights[id]);
        }
    }

    function treeGet(uint256 id) external view returns (uint256) {
        return _tree.get(id);
    }

    function treeTotal() external view returns (uint256) {
        return _tree.total();
    }

    function treeDraw(bytes32 seed, uint256[] memory excluded, uint256 count)
        external
        view
        returns (uint256[] memory)
    {
        return _tree.draw(seed, excluded, count);
    }
}
