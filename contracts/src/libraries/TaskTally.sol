// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {Slash} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Phase, Rule, TaskConfig} from "../interfaces/ITrainingTask.sol";
import {Committee} from "./Committee.sol";
import {ScoreKind, Scores, Verdict} from "./Scores.sol";
import {Shares} from "./Shares.sol";
import {SortitionTree, StakeTree} from "./SortitionTree.sol";
import {TaskArgs} from "./TaskArgs.sol";
import {TaskDeviations} from "./TaskDeviations.sol";
import {TaskLists} from "./TaskLists.sol";
import {TaskOrders} from "./TaskOrders.sol";
import {TaskRound} from "./TaskRound.sol";
import {Place, Seats, State, Tally, TaskRules} from "./TaskState.sol";
import {Words} from "./Words.sol";

/// @title TaskTally
/// @notice Turns the revealed scores of a round into inclusion, shares, deviations and the next committee.
library TaskTally {
    using TaskLists for mapping(uint256 => uint256);
    using SortitionTree for StakeTree;

    uint128 private constant NO_SCORE = type(uint128).max;

    /// @notice See `ITrainingTask.tally`.
    function tally(State storage s, uint64 round, bytes[] calldata vectors) external {
        Place memory p = s.place;
        Seats memory seats = s.seats;
        TaskRound.expectRound(p, round);
        TaskRound.expectPhase(p, Phase.Tally);
        uint256 hidden = seats.committed & ~uint256(seats.revealed);
        if (hidden != 0) TaskRound.expectOver(p);
        uint256[] memory starts = _expectRevealed(s, seats.revealed, vectors);

        for (; hidden != 0; hidden &= hidden - 1) {
            TaskRound.punish(s, p, s.roster.get(LibBit.ffs(hidden)), Slash.NoReveal);
        }
        TaskRound.payCaller(s);
        if (starts.length < p.committeeSize / 2 + 1) _giveUp(s, p);
        else _decide(s, p, seats.revealed, starts);

        TaskRound.save(s, p);
    }

    /// @dev They have to be all revealed vectors in committee order; their hashes are on chain. Answers where they begin.
    function _expectRevealed(State storage s, uint256 revealed, bytes[] calldata vectors)
        private
        view
        returns (uint256[] memory starts)
    {
        uint256 count = vectors.length;
        require(count == LibBit.popCount(revealed), ITrainingTask.WrongScores());
        starts = new uint256[](count);
        unchecked {
            uint256 n = 0;
            for (uint256 position = 0; revealed != 0; (++position, revealed >>= 1)) {
                if (revealed & 1 == 0) continue;
                bytes calldata scores = vectors[n];
                require(keccak256(scores) == s.scores[position], ITrainingTask.WrongScores());
                Words.put(starts, n++, Scores.startOf(scores));
            }
        }
    }

    /// @dev Too few revealed: nothing was judged, so no update is paid for.
    function _giveUp(State storage s, Place memory p) private {
        s.tally = Tally(0, false, 0);

        emit ITrainingTask.Tallied(p.round, 0, "", new uint32[](0), NO_SCORE);

        TaskRound.voidRound(s, p);
    }

    function _decide(State storage s, Place memory p, uint256 revealed, uint256[] memory starts) private {
        TaskConfig memory c = TaskArgs.config();
        ScoreKind kind = TaskRules.scoreKind(p.rule);
        Verdict memory verdict = Scores.judge(starts, p.committeeSize, kind, c.statistic, p.updates);
        if (p.repeats && c.uniqueRoots) verdict.included = _withoutRepeats(s, p, verdict.included);
        bool formed = LibBit.popCount(verdict.included) >= c.minUpdates;
        uint256[] memory deviations = Scores.deviations(starts, kind, verdict, c.devCap);
        uint120 spare = TaskDeviations.save(s.deviations, revealed, deviations, c.devCap);
        s.tally = Tally(uint128(verdict.included), formed, spare);

        bytes memory shares = "";
        uint32[] memory elected = new uint32[](0);
        if (formed && !TaskRules.isAttested(p.rule)) {
            shares = _formShares(s, p, c, verdict);
            if (TaskRules.isElected(p.rule)) elected = _elect(s, p, verdict);
        }
        uint128 head = verdict.head == Scores.NO_NUMBER ? NO_SCORE : uint128(verdict.head);

        // At most 128 updates.
        // forge-lint: disable-next-line(unsafe-typecast)
        emit ITrainingTask.Tallied(p.round, uint128(verdict.included), shares, elected, head);

        if (verdict.withheld != 0) _punishWithheld(s, p, verdict.withheld);
        bool reached = c.target != 0 && head <= c.target;
        if (reached) p.ending = true;
        bool lost = verdict.isHeadWithheld && TaskRound.dropHead(s, p);
        if (reached || lost || !formed) TaskRound.voidRound(s, p);
        else TaskRound.nextProposer(s, p);
    }

    /// @dev Who shows a root and keeps its bytes from a majority loses what it would have lost by not revealing.
    function _punishWithheld(State storage s, Place memory p, uint256 withheld) private {
        for (; withheld != 0; withheld &= withheld - 1) {
            TaskRound.punish(s, p, TaskOrders.get(s.orders[p.round], LibBit.ffs(withheld)), Slash.NoReveal);
        }
    }

    function _withoutRepeats(State storage s, Place memory p, uint256 included)
        private
        view
        returns (uint256)
    {
        uint32[] memory order = TaskOrders.load(s.orders[p.round], p.updates);
        bytes32[] memory roots = new bytes32[](order.length);
        for (uint256 i = 0; i < order.length; ++i) {
            roots[i] = s.digests[order[i]];
        }
        return Committee.dropRepeats(included, roots, TaskRound.head(s, p).root);
    }

    /// @dev p_0 and the shares per revealed update (on ranks: per rank), packed; kept where pay and proofs cannot derive them.
    function _formShares(State storage s, Place memory p, TaskConfig memory c, Verdict memory verdict)
        private
        returns (bytes memory shares)
    {
        uint256 headShare = Shares.ofHead(c.alpha);
        uint256 amount = Shares.TOTAL - headShare;
        if (TaskRules.isOnRanks(p.rule)) {
            uint256 count = LibBit.popCount(verdict.included);
            return TaskLists.pack(headShare, onRanks(c, p.rule, count, amount), (1 << count) - 1, count);
        }

        uint256 chosen = verdict.included;
        if (TaskRules.isElected(p.rule)) {
            uint256[] memory ranking = Committee.rank(chosen, verdict.statistics);
            chosen = Committee.select(ranking, c.keep, p.rule == Rule.CommitteeFar);
        }
        uint256[] memory parts = _parts(s, p, c, chosen, verdict.statistics, amount);
        shares = TaskLists.pack(headShare, parts, chosen, p.updates);
        s.shares.savePacked(shares, 1);
    }

    function _parts(
        State storage s,
        Place memory p,
        TaskConfig memory c,
        uint256 chosen,
        uint256[] memory statistics,
        uint256 amount
    ) private view returns (uint256[] memory) {
        uint256 count = LibBit.popCount(chosen);
        if (TaskRules.isSoftmax(p.rule)) {
            return Shares.softmax(_pick(statistics, chosen, count), c.beta, amount);
        }
        if (!countsSamples(c)) return Shares.equal(count, amount);
        uint256[] memory values = Committee.members(chosen);
        for (uint256 i = 0; i < count; ++i) {
            values[i] = s.samples[TaskOrders.get(s.orders[p.round], values[i])];
        }
        return Shares.bySamples(values, amount);
    }

    /// @dev The values of the chosen, in order.
    function _pick(uint256[] memory values, uint256 chosen, uint256 count)
        private
        pure
        returns (uint256[] memory picked)
    {
        if (count == values.length) return values;
        picked = new uint256[](count);
        unchecked {
            uint256 n = 0;
            for (uint256 i = 0; chosen != 0; (++i, chosen >>= 1)) {
                if (chosen & 1 != 0) Words.put(picked, n++, Words.get(values, i));
            }
        }
    }

    /// @notice Whether shares depend on declared sample counts.
    function countsSamples(TaskConfig memory c) internal pure returns (bool) {
        Rule rule = c.rule;
        return rule == Rule.FedAvg || (TaskRules.isElected(rule) && c.bySamples);
    }

    /// @notice The shares on ranks of a coordinate-wise rule with `count` included updates.
    function onRanks(TaskConfig memory c, Rule rule, uint256 count, uint256 amount)
        internal
        pure
        returns (uint256[] memory)
    {
        return Shares.onRanks(count, rule == Rule.Median ? (count - 1) / 2 : c.tolerated, amount);
    }

    /// @notice p_0, then the others.
    function withHead(uint256 headShare, uint256[] memory parts) internal pure returns (uint32[] memory all) {
        all = new uint32[](parts.length + 1);
        // forge-lint: disable-next-line(unsafe-typecast)
        all[0] = uint32(headShare);
        for (uint256 i = 0; i < parts.length; ++i) {
            // forge-lint: disable-next-line(unsafe-typecast)
            all[i + 1] = uint32(parts[i]);
        }
    }

    /// @dev The middle of the ranking, of those still staked (CMFL); nobody when too few are electable.
    function _elect(State storage s, Place memory p, Verdict memory verdict)
        private
        returns (uint32[] memory elected)
    {
        uint256[] memory ranking = Committee.rank(verdict.included, verdict.statistics);
        uint32[] memory order = TaskOrders.load(s.orders[p.round], p.updates);
        uint256 electable = 0;
        for (uint256 i = 0; i < ranking.length; ++i) {
            uint256 id = order[ranking[i]];
            if (s.tree.get(id) != 0) ranking[electable++] = id;
        }
        if (electable < p.committeeSize) return new uint32[](0);
        assembly ("memory-safe") {
            mstore(ranking, electable)
        }

        uint256[] memory middle = Committee.electMiddle(ranking, p.committeeSize);
        elected = new uint32[](middle.length);
        for (uint256 i = 0; i < middle.length; ++i) {
            // forge-lint: disable-next-line(unsafe-typecast)
            elected[i] = uint32(middle[i]);
        }
        s.elected.save(elected);
        s.gate.electedAt = uint64(block.timestamp);
        p.hasElected = true;
    }
}
