// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

import {IStakeRegistry, Slash} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Outcome, Phase, Rule, TaskConfig} from "../interfaces/ITrainingTask.sol";
import {Rewards} from "../math/Rewards.sol";
import {Shares} from "../math/Shares.sol";
import {SortitionTree, StakeTree} from "../math/SortitionTree.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedDeviations} from "../packing/PackedDeviations.sol";
import {PackedList} from "../packing/PackedList.sol";
import {PackedIds} from "../packing/PackedIds.sol";
import {Internals} from "./Internals.sol";
import {Operators} from "./Operators.sol";
import {Account, Head, Pay, RoundState, CommitteeBits, State, TallyBits, Rules} from "../types/TaskState.sol";

/// @title RoundSteps
/// @notice What several moves of a round share: entering a phase, the next proposer, the end, weights and money.
/// @dev A move works on a copy of the place in memory and saves it once, at its end.
library RoundSteps {
    using PackedList for mapping(uint256 => uint256);
    using SortitionTree for StakeTree;

    uint256 internal constant ATTEMPTS = 3;
    uint256 internal constant UNITS_PER_MIN_STAKE = 1000;
    uint16 internal constant NOBODY_CONVICTED = 1 << 15;

    /* PLACES AND TIMES */

    function expectRound(RoundState memory p, uint64 round) internal pure {
        require(round == p.round, ITrainingTask.WrongRound(round, p.round));
    }

    function expectPhase(RoundState memory p, Phase phase) internal pure {
        require(p.phase == phase, ITrainingTask.WrongPhase(p.round, p.phase));
    }

    function expectAttempt(RoundState memory p, uint8 attempt) internal pure {
        require(attempt == p.attempt, ITrainingTask.WrongAttempt(attempt, p.attempt));
    }

    /// @param word The place as one word (`Operators.place`).
    function expectOpen(uint256 word, uint64 round, Phase phase) internal view {
        // Fields of the packed word.
        // forge-lint: disable-start(unsafe-typecast)
        require(round == uint64(word), ITrainingTask.WrongRound(round, uint64(word)));
        Phase running = Phase(uint8(word >> 128));
        require(running == phase, ITrainingTask.WrongPhase(round, running));
        require(block.timestamp < uint56(word >> 64), ITrainingTask.PhaseOver(uint56(word >> 64)));
        // forge-lint: disable-end(unsafe-typecast)
    }

    function expectOver(RoundState memory p) internal view {
        require(block.timestamp >= p.deadline, ITrainingTask.PhaseStillOpen(p.deadline));
    }

    function enter(RoundState memory p, Phase phase) internal {
        p.phase = phase;
        p.deadline = deadline(phase);

        emit ITrainingTask.PhaseEntered(p.round, p.attempt, phase, p.deadline);
    }

    /// @notice When a phase that begins now ends.
    function deadline(Phase phase) internal view returns (uint56) {
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint56(block.timestamp) + uint56(ImmutableArgs.secondsOf(phase));
    }

    /// @notice Saves the place that a move worked on.
    /// @dev In one write: the compiler's own copy of a struct that has enums and flags writes its word five times over.
    function save(State storage s, RoundState memory p) internal {
        uint256 flags = LibBit.rawToUint(p.extended) | LibBit.rawToUint(p.ending) << 8
            | LibBit.rawToUint(p.limited) << 16 | LibBit.rawToUint(p.hasElected) << 24
            | LibBit.rawToUint(p.repeats) << 32;
        uint256 counts = uint256(p.nextProposer) | uint256(p.expected) << 8 | uint256(p.updates) << 24
            | uint256(p.proposers) << 32 | uint256(p.workers) << 40 | uint256(p.committeeSize) << 48
            | uint256(p.rule) << 56 | uint256(p.heads) << 64;
        uint256 word = uint256(p.round) | uint256(p.deadline) << 64 | uint256(p.fees) << 120
            | uint256(p.phase) << 128 | uint256(p.attempt) << 136 | flags << 144 | counts << 184;

        RoundState storage place = s.place;
        assembly ("memory-safe") {
            sstore(place.slot, word)
        }
    }

    /* WEIGHTS */

    /// @notice The weight that a stake asks for: thousandths of the minimum; below the minimum nothing.
    function dueWeight(bool isEnrolled, uint256 stake) internal view returns (uint256) {
        uint256 least = ImmutableArgs.minStake();
        return isEnrolled && stake >= least ? stake * UNITS_PER_MIN_STAKE / least : 0;
    }

    /// @notice Sets the weight that stake and wish ask for. A draw that waits for participants opens when this makes enough.
    /// @dev A full tree takes what still fits instead of refusing, or a queued top-up could block a conviction.
    function applyWeight(State storage s, RoundState memory p, address who, uint256 stake) internal {
        Account memory a = s.accounts[who];
        uint256 weight = FixedPointMathLib.min(
            dueWeight(a.isEnrolled, stake), SortitionTree.MAX_TOTAL - (s.tree.total() - a.weight)
        );
        if (weight == a.weight) return;

        bool waiting = p.phase == Phase.Draw;
        if (a.weight == 0) {
            a.activeFrom = uint40(waiting ? p.round : p.round + 1);
            ++s.gate.eligible;
        } else if (weight == 0) {
            --s.gate.eligible;
        }
        s.tree.set(a.id, weight);
        // The tree takes 32 bits in all.
        // forge-lint: disable-next-line(unsafe-typecast)
        a.weight = uint32(weight);
        s.accounts[who] = a;

        emit ITrainingTask.WeightSet(a.id, a.weight, a.activeFrom);

        if (waiting) openIfEnough(s, p);
    }

    function openIfEnough(State storage s, RoundState memory p) internal {
        if (s.gate.eligible >= _needed(s, p)) openDraw(s, p);
    }

    /// @dev How many accounts with a weight a draw takes. No number is enough while too few internals have one.
    function _needed(State storage s, RoundState memory p) private view returns (uint256) {
        uint256 updates = ImmutableArgs.minUpdates();
        if (!Internals.areAppointed(p)) {
            return uint256(p.committeeSize) + updates + (Rules.isElected(p.rule) ? 0 : 1);
        }

        uint256 members = Internals.staked(s).length;
        if (members < ImmutableArgs.minInternals()) return type(uint256).max;
        // A miner, who does not train, and at least one who does; the committee's own updates count where it trains.
        if (!Internals.train(p)) return members + 1 + updates;
        return FixedPointMathLib.max(members + 2, 1 + updates);
    }

    /// @notice Fixes the block whose header will seed the draw. From here on elected members are locked.
    function openDraw(State storage s, RoundState memory p) internal {
        if (p.hasElected) _dropOldElection(s, p);
        uint64 drawBlock = uint64(block.number) + ImmutableArgs.origin().seedDelay;
        s.gate.drawBlock = drawBlock;

        emit ITrainingTask.DrawOpened(p.round, drawBlock);
    }

    /// @dev A member could have asked for its stake since it was elected. It may have it by now, and nothing would be at risk.
    function _dropOldElection(State storage s, RoundState memory p) private {
        if (block.timestamp < uint256(s.gate.electedAt) + unbondingSeconds()) return;

        // Who opens a draw by a change of stake works on a copy of the place that is not saved.
        p.hasElected = false;
        s.place.hasElected = false;

        emit ITrainingTask.ElectionDropped(p.round);
    }

    /// @notice How long stake stays slashable after it is deallocated: the longest round.
    function unbondingSeconds() internal view returns (uint64) {
        TaskConfig memory c = ImmutableArgs.config();
        return 2 * uint64(c.trainSeconds) + c.revealSeconds + c.scoreSeconds + c.tallySeconds + 3
            * (uint64(c.proposeSeconds) + c.challengeSeconds);
    }

    /* HEAD */

    uint8 private constant _WHICH = 1;
    uint8 private constant _HAS_OLDER = 2;

    /// @notice The newest final model.
    function head(State storage s, RoundState memory p) internal view returns (Head storage) {
        return s.heads[p.heads & _WHICH];
    }

    /// @notice The final model before it; all zero when there is none to go back to.
    function olderHead(State storage s, RoundState memory p) internal view returns (Head memory older) {
        // Exclusive or is meant: the other place of the two.
        // slither-disable-next-line incorrect-exp
        if (p.heads & _HAS_OLDER != 0) older = s.heads[(p.heads & _WHICH) ^ 1];
    }

    /// @notice The standing proposal becomes the head, in the place of the head before the last.
    function setHead(State storage s, RoundState memory p) internal {
        p.heads = (p.heads ^ _WHICH) | _HAS_OLDER;
        Head storage next = head(s, p);
        (next.root, next.blockCid) = (s.modelRoot, s.modelBlock);
    }

    /// @notice Goes back to the head before this one, once: there is none before that.
    /// @return dropped Whether there was one to go back to.
    function dropHead(State storage s, RoundState memory p) internal returns (bool dropped) {
        if (p.heads & _HAS_OLDER == 0) return false;
        Head memory gone = head(s, p);

        p.heads = (p.heads ^ _WHICH) & ~_HAS_OLDER;

        emit ITrainingTask.HeadDropped(p.round, gone.root, gone.blockCid);
        return true;
    }

    /// @notice Whether an account trains in this round: a training member, a backup, or a worker not shut out by the draw.
    /// @param word The place as one word (`Operators.place`), laid out as `save` writes it.
    /// @param account The account as one word (`wordOf`).
    function trains(State storage s, uint256 word, uint256 account) internal view returns (bool) {
        // Fields of the packed words.
        // forge-lint: disable-start(unsafe-typecast)
        uint256 size = uint8(word >> 232);
        uint256 seated = size + uint8(word >> 216);
        uint256 id = uint32(account);
        uint256 seat = s.roster.find(0, seated, id);
        if (seat < size) return Internals.train(word) || Rules.isElected(Rule(uint8(word >> 240)));
        if (uint32(account >> 32) == 0 || uint40(account >> 64) > uint64(word)) return false;
        // The miner does not train, its backups do.
        if (seat < seated) return seat != size;
        uint256 workers = uint8(word >> 224);
        bool isLimited = uint8(word >> 160) != 0;
        // forge-lint: disable-end(unsafe-typecast)
        return !isLimited || s.roster.find(seated, workers, id) < workers;
    }

    /// @notice What is kept of an account, as one word.
    function wordOf(Account storage a) internal view returns (uint256 word) {
        assembly ("memory-safe") {
            word := sload(a.slot)
        }
    }

    /* PROPOSERS */

    /// @notice Whose turn it is.
    function proposerOf(State storage s, RoundState memory p) internal view returns (uint256) {
        return s.roster.get(uint256(p.committeeSize) + p.nextProposer - 1);
    }

    /// @notice E: the committee without the proposer, who has place `k` in the line, and the convicted, as a set.
    function votersOf(State storage s, RoundState memory p, CommitteeBits memory seats, uint256 k)
        internal
        view
        returns (uint256 voters)
    {
        uint256 size = p.committeeSize;
        voters = ((1 << size) - 1) & ~uint256(seats.convicted);
        if (Rules.isElected(p.rule)) voters &= ~(1 << s.roster.find(0, size, s.roster.get(size + k)));
    }

    /// @notice Hands the turn to the next in line who was not convicted; nobody left, or nobody left to vote: Void.
    function nextProposer(State storage s, RoundState memory p) internal {
        CommitteeBits memory seats = s.seats;
        uint256 k = p.nextProposer;
        while (k < p.proposers && _isConvicted(s, p, seats, k)) {
            ++k;
        }
        if (p.attempt == ATTEMPTS || k == p.proposers) return voidRound(s, p);
        if (votersOf(s, p, seats, k) == 0) return voidRound(s, p);

        // The line has at most 45 places.
        // forge-lint: disable-next-line(unsafe-typecast)
        p.nextProposer = uint8(k + 1);
        ++p.attempt;
        (seats.attested, seats.voted) = (0, 0);
        s.seats = seats;
        enter(p, Phase.Propose);
    }

    function _isConvicted(State storage s, RoundState memory p, CommitteeBits memory seats, uint256 k)
        private
        view
        returns (bool)
    {
        if (!Rules.isElected(p.rule)) return seats.convictedLine >> k & 1 != 0;
        uint256 size = p.committeeSize;
        return seats.convicted >> s.roster.find(0, size, s.roster.get(size + k)) & 1 != 0;
    }

    /* THE END */

    /// @notice Ends the round without a new model; what was elected in it falls.
    function voidRound(State storage s, RoundState memory p) internal {
        p.hasElected = false;
        endRound(s, p, Outcome.Void);
    }

    /// @notice Settles, then opens the next round, or ends the task.
    function endRound(State storage s, RoundState memory p, Outcome outcome) internal {
        (uint256 workers, uint256 committee, uint256 miner) = (0, 0, 0);
        if (p.phase >= Phase.Tally) (workers, committee, miner) = _settle(s, p, outcome);
        _owe(s, workers + committee + miner + pending(p));
        p.fees = 0;

        Head memory after_ = head(s, p);
        emit ITrainingTask.RoundEnded(
            p.round, p.attempt, outcome, after_.root, after_.blockCid, workers, committee, miner
        );

        TaskConfig memory c = ImmutableArgs.config();
        if (p.ending || p.round == c.rounds) return endTask(p);
        if (p.round % c.redrawEvery == 0) p.hasElected = false;
        _reset(p);
        s.gate.drawBlock = 0;
        s.gate.absent = 0;
        s.seats = CommitteeBits(0, 0, 0, 0, 0, NOBODY_CONVICTED);
        openIfEnough(s, p);
    }

    function endTask(RoundState memory p) internal {
        p.phase = Phase.Ended;
        p.hasElected = false;

        emit ITrainingTask.TaskEnded(p.round);
    }

    function _reset(RoundState memory p) private pure {
        ++p.round;
        p.phase = Phase.Draw;
        (p.attempt, p.nextProposer, p.proposers, p.workers, p.updates) = (0, 0, 0, 0, 0);
        (p.deadline, p.expected) = (0, 0);
        (p.extended, p.limited, p.repeats) = (false, false, false);
    }

    /* MONEY */

    /// @dev The caller of this function takes the amount out of escrow, now or at the end of the round.
    function _credit(State storage s, address who, uint256 amount) private {
        if (amount == 0) return;
        // All ether there is fits 128 bits.
        // forge-lint: disable-next-line(unsafe-typecast)
        s.accounts[who].credit += uint128(amount);

        emit ITrainingTask.Credited(who, amount);
    }

    /// @notice Whoever moves the round on earns the caller's fee; an operator earns it for its owner.
    /// @dev A round pays at most eleven. They are booked together: the place is saved anyway, and a word less is written.
    function payCaller(State storage s, RoundState memory p) internal {
        _credit(s, Operators.actsFor(Operators.place(s), msg.sender), ImmutableArgs.callerFee());
        ++p.fees;
    }

    /// @notice Callers' fees of this round that are credited, and still part of `State.escrow`.
    function pending(RoundState memory p) internal view returns (uint256) {
        return p.fees == 0 ? 0 : p.fees * ImmutableArgs.callerFee();
    }

    /// @notice Books the fees of the running round, for a claim that needs them.
    function bookFees(State storage s) internal {
        RoundState memory p = s.place;
        _owe(s, pending(p));
        p.fees = 0;
        save(s, p);
    }

    /// @notice Slashes for silence, or for bytes that a majority could not get; the weight follows at once.
    function punish(State storage s, RoundState memory p, uint256 id, Slash kind) internal {
        TaskConfig memory c = ImmutableArgs.config();
        uint256 share = kind == Slash.Liveness ? c.livenessSlash : c.noRevealSlash;
        address who = s.addresses[id];
        (uint256 amount, uint256 left) =
            IStakeRegistry(ImmutableArgs.origin().registry).slash(who, kind, share);

        // forge-lint: disable-next-line(unsafe-typecast)
        emit ITrainingTask.Silent(p.round, p.phase, uint32(id), amount);

        if (amount != 0) applyWeight(s, p, who, left);
    }

    /// @dev Amounts are parts of an escrow of 128 bits.
    function _owe(State storage s, uint256 amount) private {
        // forge-lint: disable-next-line(unsafe-typecast)
        (uint128 escrow, uint128 owed) = (s.escrow - uint128(amount), s.owed + uint128(amount));
        (s.escrow, s.owed) = (escrow, owed);
    }

    /// @dev Credits committee and miner, notes how workers are paid; answers what each group gets.
    function _settle(State storage s, RoundState memory p, Outcome outcome)
        private
        returns (uint256 workers, uint256 committee, uint256 miner)
    {
        CommitteeBits memory seats = s.seats;
        TallyBits memory tally = s.tally;
        workers = _settleWorkers(s, p, seats, tally, outcome);
        committee = _settleCommittee(s, p, seats, tally);
        if (outcome == Outcome.Final) {
            miner = ImmutableArgs.origin().minerBudget;
            _credit(s, s.addresses[proposerOf(s, p)], miner);
        }
    }

    /// @dev By shares where the rule gives them to updates, else in equal parts over the included; nothing to the convicted,
    /// and nothing for updates that nobody judged.
    function _settleWorkers(
        State storage s,
        RoundState memory p,
        CommitteeBits memory seats,
        TallyBits memory tally,
        Outcome outcome
    ) private returns (uint256 sum) {
        uint256 paid = tally.included;
        if (seats.convictedLine != NOBODY_CONVICTED) paid &= ~uint256(_convictedUpdates(s, p, seats));
        // The sponsor's own earn nothing by what they judge.
        if (Internals.train(p)) paid &= ~Internals.updates(s, p);
        // INVARIANT: without weights that a majority attested nobody is paid, or the outsiders, most of whom these give little
        // or nothing, would earn more by a round that they void than by one that counts.
        if (p.rule == Rule.Varsel && outcome != Outcome.Final) paid = 0;
        bool byShares = tally.formed && !Rules.isOnRanks(p.rule)
            && (!Rules.isAttested(p.rule) || outcome == Outcome.Final);
        PackedIds.settle(s.orders[p.round], byShares);

        uint256 amount = ImmutableArgs.origin().workersBudget;
        if (byShares) return _payShares(s, p, paid, amount);
        // Too few to form shares: each gets what it would have got among the fewest that are enough.
        uint256 whole = tally.formed ? LibBit.popCount(tally.included) : ImmutableArgs.minUpdates();
        // Both fit: at most 128 updates.
        // forge-lint: disable-next-line(unsafe-typecast)
        if (paid != 0) s.pays[p.round] = Pay(uint128(paid), uint128(whole));
        // Everybody is paid the same whole number of wei; the rest stays in escrow.
        // slither-disable-next-line divide-before-multiply
        return LibBit.popCount(paid) * (amount / whole);
    }

    /// @dev Answers what is paid by shares, and takes away those of updates that are not paid.
    function _payShares(State storage s, RoundState memory p, uint256 paid, uint256 amount)
        private
        returns (uint256 sum)
    {
        mapping(uint256 => uint256) storage shares = s.shares[p.round];
        uint256 whole = Shares.TOTAL - Shares.ofHead(ImmutableArgs.alpha());
        uint256 count = p.updates;
        unchecked {
            for (uint256 first = 0; first < count; first += 8) {
                uint256 word = shares[first >> 3];
                uint256 left = 0;
                for (uint256 i = first; i < first + 8; ++i) {
                    uint256 share = word << ((i & 7) << 5) >> 224;
                    // Behind the last update stands none.
                    if (share == 0 || paid >> i & 1 == 0) continue;
                    // Below 2^128 · 2^31 each.
                    sum += Rewards.ofWorker(amount, share, whole);
                    left |= share << (224 - ((i & 7) << 5));
                }
                if (left != word) shares[first >> 3] = left;
            }
        }
    }

    /// @dev Backups also work: the updates of the convicted among them.
    function _convictedUpdates(State storage s, RoundState memory p, CommitteeBits memory seats)
        private
        view
        returns (uint128 updates)
    {
        uint32[] memory order = PackedIds.load(s.orders[p.round], p.updates);
        for (uint256 k = 0; k < p.proposers; ++k) {
            if (seats.convictedLine >> k & 1 == 0) continue;
            uint256 i = PackedList.find(order, s.roster.get(p.committeeSize + k));
            // At most 128 updates.
            // forge-lint: disable-next-line(unsafe-typecast)
            if (i < order.length) updates |= uint128(1 << i);
        }
    }

    /// @dev By closeness where shares were formed, else the plain part of one seat.
    function _settleCommittee(
        State storage s,
        RoundState memory p,
        CommitteeBits memory seats,
        TallyBits memory tally
    ) private returns (uint256 sum) {
        bool formed = tally.formed;
        uint256 paid = seats.revealed;
        if (formed) paid &= ~uint256(seats.convicted | s.gate.absent);
        if (paid == 0) return 0;

        uint256 count = LibBit.popCount(paid);
        uint256 amount = ImmutableArgs.origin().committeeBudget;
        uint256 cap = ImmutableArgs.devCap();
        uint256[] memory devs = new uint256[](count);
        uint256 total = 0;
        uint256 n = 0;
        for (uint256 left = formed ? paid : 0; left != 0; left &= left - 1) {
            total += devs[n++] = PackedDeviations.get(s.deviations, tally.spare, LibBit.ffs(left), cap);
        }
        n = 0;
        for (uint256 left = paid; left != 0; left &= left - 1) {
            uint256 part =
                formed ? Rewards.ofValidator(amount, devs[n++], total, count) : amount / p.committeeSize;
            _credit(s, s.addresses[s.roster.get(LibBit.ffs(left))], part);
            sum += part;
        }
    }
}
