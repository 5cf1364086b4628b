// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {Slash} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Phase, Rule, TaskConfig} from "../interfaces/ITrainingTask.sol";
import {Committee} from "../math/Committee.sol";
import {ScoreKind, Scores, Verdict} from "../math/Scores.sol";
import {Shares} from "../math/Shares.sol";
import {SortitionTree, StakeTree} from "../math/SortitionTree.sol";
import {CommitBitmap} from "../packing/CommitBitmap.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedDeviations} from "../packing/PackedDeviations.sol";
import {PackedList} from "../packing/PackedList.sol";
import {PackedIds} from "../packing/PackedIds.sol";
import {Internals} from "./Internals.sol";
import {RoundSteps} from "./RoundSteps.sol";
import {RoundState, CommitteeBits, State, TallyBits, Rules} from "../types/TaskState.sol";
import {UncheckedArray} from "../packing/UncheckedArray.sol";

/// @title Tally
/// @notice Turns the revealed scores of a round into inclusion, shares, deviations and the next committee.
library Tally {
    using CommitBitmap for mapping(uint256 => uint256);
    using PackedList for mapping(uint256 => uint256);
    using SortitionTree for StakeTree;

    uint128 private constant NO_SCORE = type(uint128).max;

    /// @notice See `ITrainingTask.tally`.
    function tally(State storage s, uint64 round, bytes[] calldata vectors) external {
        RoundState memory p = s.place;
        CommitteeBits memory seats = s.seats;
        RoundSteps.expectRound(p, round);
        RoundSteps.expectPhase(p, Phase.Tally);
        uint256 hidden = seats.committed & ~uint256(seats.revealed);
        if (hidden != 0) RoundSteps.expectOver(p);
        uint256[] memory starts = _expectRevealed(s, seats.revealed, vectors);

        for (; hidden != 0; hidden &= hidden - 1) {
            RoundSteps.punish(s, p, s.roster.get(LibBit.ffs(hidden)), Slash.NoReveal);
        }
        RoundSteps.payCaller(s, p);
        if (starts.length < p.committeeSize / 2 + 1) _giveUp(s, p);
        else _decide(s, p, seats.revealed, starts);

        RoundSteps.save(s, p);
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
                UncheckedArray.put(starts, n++, Scores.startOf(scores));
            }
        }
    }

    /// @dev Too few revealed: nothing was judged, so no update is paid for.
    function _giveUp(State storage s, RoundState memory p) private {
        s.tally = TallyBits(0, false, 0);

        emit ITrainingTask.Tallied(p.round, 0, "", new uint32[](0), NO_SCORE);

        RoundSteps.voidRound(s, p);
    }

    function _decide(State storage s, RoundState memory p, uint256 revealed, uint256[] memory starts)
        private
    {
        TaskConfig memory c = ImmutableArgs.config();
        ScoreKind kind = Rules.scoreKind(p.rule);
        Verdict memory verdict = Scores.judge(starts, p.committeeSize, kind, c.statistic, p.updates);
        uint256[] memory own = new uint256[](0);
        if (Internals.train(p)) own = _judgeOwn(s, p, c, revealed, starts, verdict);
        if (p.repeats && c.uniqueRoots) verdict.included = _withoutRepeats(s, p, verdict.included);
        bool formed = _isEnough(s, p, verdict.included, c.minUpdates);
        uint256[] memory deviations = Scores.deviations(starts, kind, verdict, c.devCap);
        _leaveOut(own, starts, kind, verdict, c.devCap, deviations);
        uint120 spare = PackedDeviations.save(s.deviations, revealed, deviations, c.devCap);
        s.tally = TallyBits(uint128(verdict.included), formed, spare);

        bytes memory shares = "";
        uint32[] memory elected = new uint32[](0);
        if (formed && !Rules.isAttested(p.rule)) {
            shares = _formShares(s, p, c, verdict);
            if (Rules.isElected(p.rule)) elected = _elect(s, p, verdict);
        }
        uint128 head = verdict.head == Scores.NO_NUMBER ? NO_SCORE : uint128(verdict.head);

        // At most 128 updates.
        // forge-lint: disable-next-line(unsafe-typecast)
        emit ITrainingTask.Tallied(p.round, uint128(verdict.included), shares, elected, head);

        if (verdict.withheld != 0) _punishWithheld(s, p, verdict.withheld);
        bool reached = c.target != 0 && head <= c.target;
        if (reached) p.ending = true;
        bool lost = verdict.isHeadWithheld && RoundSteps.dropHead(s, p);
        if (reached || lost || !formed) RoundSteps.voidRound(s, p);
        else RoundSteps.nextProposer(s, p);
    }

    /// @dev Whether so many updates count that there can be shares; VaRSeL weighs the others against an internal one.
    function _isEnough(State storage s, RoundState memory p, uint256 included, uint256 least)
        private
        view
        returns (bool)
    {
        if (LibBit.popCount(included) < least) return false;
        return p.rule != Rule.Varsel || included & Internals.updates(s, p) != 0;
    }

    /// @dev Judges the updates of a committee that trains again, each without what its trainer says of it.
    /// @return own The update of each member that revealed scores, as a set; empty where it has none.
    function _judgeOwn(
        State storage s,
        RoundState memory p,
        TaskConfig memory c,
        uint256 revealed,
        uint256[] memory starts,
        Verdict memory verdict
    ) private view returns (uint256[] memory own) {
        uint32[] memory order = PackedIds.load(s.orders[p.round], p.updates);
        own = new uint256[](starts.length);
        uint256 n = 0;
        for (uint256 position = 0; position < p.committeeSize; ++position) {
            bool hasScores = revealed >> position & 1 != 0;
            uint256 i = PackedList.find(order, s.roster.get(position));
            if (i < order.length) {
                uint256[] memory others = hasScores ? _without(starts, n) : starts;
                Scores.judgeAgain(
                    others, p.committeeSize - 1, Rules.scoreKind(p.rule), c.statistic, i, verdict
                );
                if (hasScores) own[n] = 1 << i;
            }
            if (hasScores) ++n;
        }
    }

    /// @dev Nobody's deviation counts what it says of its own update.
    function _leaveOut(
        uint256[] memory own,
        uint256[] memory starts,
        ScoreKind kind,
        Verdict memory verdict,
        uint256 cap,
        uint256[] memory deviations
    ) private pure {
        uint256 included = verdict.included;
        uint256[] memory one = new uint256[](1);
        for (uint256 n = 0; n < own.length; ++n) {
            if (own[n] & included == 0) continue;
            one[0] = starts[n];
            verdict.included = included & ~own[n];
            deviations[n] = Scores.deviations(one, kind, verdict, cap)[0];
        }
        verdict.included = included;
    }

    function _without(uint256[] memory values, uint256 n) private pure returns (uint256[] memory others) {
        others = new uint256[](values.length - 1);
        for (uint256 i = 0; i < others.length; ++i) {
            others[i] = values[i < n ? i : i + 1];
        }
    }

    /// @dev Who shows a root and keeps its bytes from a majority loses what it would have lost by not revealing.
    function _punishWithheld(State storage s, RoundState memory p, uint256 withheld) private {
        for (; withheld != 0; withheld &= withheld - 1) {
            RoundSteps.punish(s, p, PackedIds.get(s.orders[p.round], LibBit.ffs(withheld)), Slash.NoReveal);
        }
    }

    function _withoutRepeats(State storage s, RoundState memory p, uint256 included)
        private
        view
        returns (uint256)
    {
        uint32[] memory order = PackedIds.load(s.orders[p.round], p.updates);
        bytes32[] memory roots = new bytes32[](order.length);
        for (uint256 i = 0; i < order.length; ++i) {
            roots[i] = s.digests[s.updates.placeOf(order[i])];
        }
        return Committee.dropRepeats(included, roots, RoundSteps.head(s, p).root);
    }

    /// @dev p_0 and the shares per revealed update (on ranks: per rank), packed; kept where pay and proofs cannot derive them.
    function _formShares(State storage s, RoundState memory p, TaskConfig memory c, Verdict memory verdict)
        private
        returns (bytes memory shares)
    {
        uint256 headShare = Shares.ofHead(c.alpha);
        uint256 amount = Shares.TOTAL - headShare;
        if (Rules.isOnRanks(p.rule)) {
            uint256 count = LibBit.popCount(verdict.included);
            return PackedList.pack(headShare, onRanks(c, p.rule, count, amount), (1 << count) - 1, count);
        }

        uint256 chosen = verdict.included;
        if (Rules.isElected(p.rule)) {
            uint256[] memory ranking = Committee.rank(chosen, verdict.statistics);
            chosen = Committee.select(ranking, c.keep, p.rule == Rule.CommitteeFar);
        }
        uint256[] memory parts = _parts(s, p, c, chosen, verdict.statistics, amount);
        shares = PackedList.pack(headShare, parts, chosen, p.updates);
        s.shares[p.round].savePacked(shares, 1);
    }

    function _parts(
        State storage s,
        RoundState memory p,
        TaskConfig memory c,
        uint256 chosen,
        uint256[] memory statistics,
        uint256 amount
    ) private view returns (uint256[] memory) {
        uint256 count = LibBit.popCount(chosen);
        if (Rules.isSoftmax(p.rule)) {
            return Shares.softmax(_pick(statistics, chosen, count), c.beta, amount);
        }
        if (!countsSamples(c)) return Shares.equal(count, amount);
        uint256[] memory values = Committee.members(chosen);
        for (uint256 i = 0; i < count; ++i) {
            values[i] = s.samples[s.updates.placeOf(PackedIds.get(s.orders[p.round], values[i]))];
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
                if (chosen & 1 != 0) UncheckedArray.put(picked, n++, UncheckedArray.get(values, i));
            }
        }
    }

    /// @notice Whether shares depend on declared sample counts.
    function countsSamples(TaskConfig memory c) internal pure returns (bool) {
        Rule rule = c.rule;
        return rule == Rule.FedAvg || (Rules.isElected(rule) && c.bySamples);
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
    function _elect(State storage s, RoundState memory p, Verdict memory verdict)
        private
        returns (uint32[] memory elected)
    {
        uint256[] memory ranking = Committee.rank(verdict.included, verdict.statistics);
        uint32[] memory order = PackedIds.load(s.orders[p.round], p.updates);
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
