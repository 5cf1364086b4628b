// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeTask} from "./interfaces/IStakeTask.sol";
import {
    AccountView,
    ITrainingTask,
    Phase,
    PlaceView,
    Role,
    Rule,
    SeatsView,
    TaskConfig
} from "./interfaces/ITrainingTask.sol";
import {SortitionTree, StakeTree} from "./math/SortitionTree.sol";
import {Origin, ImmutableArgs} from "./packing/ImmutableArgs.sol";
import {Acts} from "./round/Acts.sol";
import {Enrolment} from "./round/Enrolment.sol";
import {Internals} from "./round/Internals.sol";
import {Operators} from "./round/Operators.sol";
import {PackedList} from "./packing/PackedList.sol";
import {Transitions} from "./round/Transitions.sol";
import {PackedIds} from "./packing/PackedIds.sol";
import {Proof} from "./round/Proof.sol";
import {RoundSteps} from "./round/RoundSteps.sol";
import {Account, Head, Operator, RoundState, CommitteeBits, State, Rules} from "./types/TaskState.sol";
import {Tally} from "./round/Tally.sol";
import {CommitBitmap} from "./packing/CommitBitmap.sol";
import {Settlement} from "./round/Settlement.sol";

/// @title TrainingTask
/// @notice See `ITrainingTask`.
/// @dev A task runs this on its own storage, but for what `TaskFront` answers itself.
contract TrainingTask is ITrainingTask {
    using SortitionTree for StakeTree;
    using PackedList for mapping(uint256 => uint256);
    using CommitBitmap for mapping(uint256 => uint256);

    /* STORAGE */

    State private _s;

    /* CONSTRUCTOR */

    /// @dev The implementation that tasks forward to is itself no task: nobody can initialise it.
    constructor() {
        _s.place.round = type(uint64).max;
    }

    /// @notice Sets up a task in the transaction that creates it. What is paid is the escrow.
    function initialize() external payable {
        require(_s.place.round == 0, AlreadyInitialized());
        TaskConfig memory c = ImmutableArgs.config();

        _s.place.round = 1;
        (_s.place.committeeSize, _s.place.rule) = (c.committeeSize, c.rule);
        _s.place.heads = Internals.bits(c);
        _s.seats.convictedLine = RoundSteps.NOBODY_CONVICTED;
        _s.heads[0].root = c.firstRoot;
        // All ether there is fits 128 bits.
        // forge-lint: disable-next-line(unsafe-typecast)
        _s.escrow = uint128(msg.value);
    }

    /// @notice Takes the task's part of lie slashes, from the registry alone.
    receive() external payable {
        require(msg.sender == ImmutableArgs.origin().registry, NotRegistry());
    }

    /* ENROLMENT */

    /// @inheritdoc ITrainingTask
    function enrol() external {
        Enrolment.enrol(_s);
    }

    /// @inheritdoc ITrainingTask
    function enrolFor(address owner) external {
        Enrolment.enrolFor(_s, owner);
    }

    /// @inheritdoc ITrainingTask
    function enrolAdmitted(address owner, Role role, bytes calldata proof) external {
        Enrolment.enrolAdmitted(_s, owner, role, proof);
    }

    /// @inheritdoc ITrainingTask
    function leave() external {
        Enrolment.leave_(_s);
    }

    /// @inheritdoc ITrainingTask
    function applyChange(address who) external {
        Enrolment.applyChange(_s, who);
    }

    /// @inheritdoc ITrainingTask
    function noteAbsent(uint64 round, uint32[] calldata ids) external {
        Enrolment.noteAbsent(_s, round, ids);
    }

    /// @inheritdoc IStakeTask
    function onStakeChanged(address who, uint256 bonded) external {
        Enrolment.onStakeChanged(_s, who, bonded);
    }

    /// @inheritdoc IStakeTask
    function onOperatorNamed(address owner, address operator) external {
        Enrolment.onOperatorNamed(_s, owner, operator);
    }

    /// @inheritdoc IStakeTask
    function unbondingSeconds() external view returns (uint64) {
        return _s.place.phase == Phase.Ended ? 0 : RoundSteps.unbondingSeconds();
    }

    /// @inheritdoc IStakeTask
    function isLocked(address who) external view returns (bool) {
        return Enrolment.isLocked(_s, who);
    }

    /* ROUND LIFE */

    /// @inheritdoc ITrainingTask
    function draw(bytes calldata header) external {
        Transitions.draw(_s, header);
    }

    /// @inheritdoc ITrainingTask
    function commitUpdate(uint64 round, bytes32 digest) external {
        Acts.commitUpdate(_s, round, digest);
    }

    /// @inheritdoc ITrainingTask
    function revealUpdate(uint64 round, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt) external {
        Acts.revealUpdate(_s, round, root, cid, samples, salt);
    }

    /// @inheritdoc ITrainingTask
    function commitScores(uint64 round, bytes32 digest) external {
        Acts.commitScores(_s, round, digest);
    }

    /// @inheritdoc ITrainingTask
    function revealScores(uint64 round, bytes calldata scores, bytes32 salt) external {
        Acts.revealScores(_s, round, scores, salt);
    }

    /// @inheritdoc ITrainingTask
    function tally(uint64 round, bytes[] calldata vectors) external {
        Tally.tally(_s, round, vectors);
    }

    /// @inheritdoc ITrainingTask
    function propose(
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        uint32[] calldata shares
    ) external {
        Acts.propose(_s, round, attempt, modelRoot, blockCid, shares);
    }

    /// @inheritdoc ITrainingTask
    function attest(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external
    {
        Acts.vote(_s, round, attempt, modelRoot, blockCid, sharesDigest, true);
    }

    /// @inheritdoc ITrainingTask
    function object(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external
    {
        Acts.vote(_s, round, attempt, modelRoot, blockCid, sharesDigest, false);
    }

    /// @inheritdoc ITrainingTask
    function noteFinding(bytes32 note) external {
        // A note names its finder: whoever posts it first posts it for that one, so a second time changes nothing.
        if (_s.notes[note] != 0) return;

        _s.notes[note] = block.number;

        emit FindingNoted(msg.sender, note);
    }

    /// @inheritdoc ITrainingTask
    function prove(uint64 round, uint8 attempt, uint64 position, bytes calldata evidence, bytes32 salt)
        external
    {
        Proof.prove(_s, round, attempt, position, evidence, salt);
    }

    /// @inheritdoc ITrainingTask
    function advance(uint64 round) external {
        Transitions.advance(_s, round);
    }

    /* MONEY */

    /// @inheritdoc ITrainingTask
    function claim(uint64[] calldata rounds) external returns (uint256 amount) {
        amount = Settlement.claim(_s, rounds);

        _send(msg.sender, amount);
    }

    /// @inheritdoc ITrainingTask
    function abandon() external {
        require(msg.sender == ImmutableArgs.origin().sponsor, NotSponsor());
        RoundState memory p = _s.place;
        require(p.phase != Phase.Ended, WrongPhase(p.round, p.phase));
        require(!p.ending, AlreadyAbandoned());

        p.ending = true;

        emit Abandoned(p.round);

        if (p.phase == Phase.Draw) RoundSteps.endTask(p);
        RoundSteps.save(_s, p);
    }

    /// @inheritdoc ITrainingTask
    function refund() external returns (uint256 amount) {
        require(msg.sender == ImmutableArgs.origin().sponsor, NotSponsor());
        require(_s.place.phase == Phase.Ended, TaskNotEnded());
        amount = _s.escrow;
        require(amount != 0, NothingToClaim());

        _s.escrow = 0;

        emit Refunded(amount);

        _send(msg.sender, amount);
    }

    /* VIEWS */

    /// @inheritdoc ITrainingTask
    function config() external view returns (TaskConfig memory) {
        return ImmutableArgs.config();
    }

    /// @inheritdoc ITrainingTask
    function taskId() external view returns (uint64) {
        return ImmutableArgs.origin().taskId;
    }

    /// @inheritdoc ITrainingTask
    function sponsor() external view returns (address) {
        return ImmutableArgs.origin().sponsor;
    }

    /// @inheritdoc ITrainingTask
    function registry() external view returns (address) {
        return ImmutableArgs.origin().registry;
    }

    /// @inheritdoc ITrainingTask
    function seedDelay() external view returns (uint64) {
        return ImmutableArgs.origin().seedDelay;
    }

    /// @inheritdoc ITrainingTask
    function place() external view returns (PlaceView memory) {
        return Settlement.place(_s);
    }

    /// @inheritdoc ITrainingTask
    function account(address who) external view returns (AccountView memory) {
        Account memory a = _s.accounts[who];
        return AccountView(a.id, a.weight, a.activeFrom, a.isEnrolled, a.missed, a.credit, a.role);
    }

    /// @inheritdoc ITrainingTask
    function operates(address key) external view returns (address owner, uint48 since, uint48 until) {
        Operator storage o = Operators.kept(key);
        return (o.owner, o.since, o.until);
    }

    /// @inheritdoc ITrainingTask
    function accountOf(uint32 id) external view returns (address) {
        return _s.addresses[id];
    }

    /// @inheritdoc ITrainingTask
    function accountCount() external view returns (uint32) {
        return _s.gate.accounts;
    }

    /// @inheritdoc ITrainingTask
    function eligible() external view returns (uint32) {
        return _s.gate.eligible;
    }

    /// @inheritdoc ITrainingTask
    function totalWeight() external view returns (uint256) {
        return _s.tree.total();
    }

    /// @inheritdoc ITrainingTask
    function internals() external view returns (uint32[] memory) {
        return Internals.all(_s);
    }

    /// @inheritdoc ITrainingTask
    function committee() external view returns (uint32[] memory) {
        return Settlement.committee(_s);
    }

    /// @inheritdoc ITrainingTask
    function proposers() external view returns (uint32[] memory) {
        return _s.roster.load(_s.place.committeeSize, _s.place.proposers);
    }

    /// @inheritdoc ITrainingTask
    function workers() external view returns (uint32[] memory) {
        RoundState memory p = _s.place;
        return _s.roster.load(uint256(p.committeeSize) + p.proposers, p.workers);
    }

    /// @inheritdoc ITrainingTask
    function currentProposer() public view returns (uint32) {
        RoundState memory p = _s.place;
        if (p.phase != Phase.Propose && p.phase != Phase.Challenge) return 0;
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint32(RoundSteps.proposerOf(_s, p));
    }

    /// @inheritdoc ITrainingTask
    function elected() external view returns (uint32[] memory) {
        return _s.elected.load(0, _s.place.hasElected ? _s.place.committeeSize : 0);
    }

    /// @inheritdoc ITrainingTask
    function update(uint32 id)
        external
        view
        returns (bool committed, bool revealed, bytes32 digest, uint64 samples)
    {
        (committed, revealed) = _s.updates.state(_s.place.round, id);
        if (!committed) return (false, false, 0, 0);
        uint256 kept = _s.updates.placeOf(id);
        digest = _s.digests[kept];
        // forge-lint: disable-next-line(unsafe-typecast)
        if (revealed) samples = uint64(_s.samples[kept]);
    }

    /// @inheritdoc ITrainingTask
    function order() external view returns (uint32[] memory) {
        return PackedIds.load(_s.orders[_s.place.round], _s.place.updates);
    }

    /// @inheritdoc ITrainingTask
    function rootsHash() external view returns (bytes32) {
        return _s.rootsHash;
    }

    /// @inheritdoc ITrainingTask
    function seats() external view returns (SeatsView memory) {
        CommitteeBits memory t = _s.seats;
        return SeatsView(t.committed, t.revealed, t.attested, t.voted, t.convicted, _s.gate.absent);
    }

    /// @inheritdoc ITrainingTask
    function scoresOf(uint32 id) external view returns (bool committed, bool revealed, bytes32 digest) {
        uint32[] memory members = Settlement.committee(_s);
        uint256 position = PackedList.find(members, id);
        if (position == members.length) return (false, false, 0);
        committed = _s.seats.committed >> position & 1 != 0;
        revealed = _s.seats.revealed >> position & 1 != 0;
        if (committed) digest = _s.scores[position];
    }

    /// @inheritdoc ITrainingTask
    function tallied() external view returns (bool[] memory included, uint32[] memory shares) {
        return Settlement.tallied(_s);
    }

    /// @inheritdoc ITrainingTask
    function proposal()
        external
        view
        returns (uint32 proposer, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
    {
        if (_s.place.phase != Phase.Challenge) return (0, 0, 0, 0);
        return (currentProposer(), _s.modelRoot, _s.modelBlock, _s.sharesDigest);
    }

    /// @inheritdoc ITrainingTask
    function creditOf(address who, uint64[] calldata rounds) external view returns (uint256) {
        return Settlement.creditOf(_s, who, rounds);
    }

    /// @inheritdoc ITrainingTask
    function escrow() external view returns (uint256) {
        return _s.escrow - RoundSteps.pending(_s.place);
    }

    /// @inheritdoc ITrainingTask
    function owed() external view returns (uint256) {
        return _s.owed + RoundSteps.pending(_s.place);
    }

    /// @inheritdoc ITrainingTask
    function budget() external view returns (uint256 forWorkers, uint256 forCommittee, uint256 forMiner) {
        Origin memory o = ImmutableArgs.origin();
        return (o.workersBudget, o.committeeBudget, o.minerBudget);
    }

    /// @inheritdoc ITrainingTask
    function headRoot() external view returns (bytes32) {
        return RoundSteps.head(_s, _s.place).root;
    }

    /// @inheritdoc ITrainingTask
    function headBlock() external view returns (bytes32) {
        return RoundSteps.head(_s, _s.place).blockCid;
    }

    /// @inheritdoc ITrainingTask
    function olderHead() external view returns (bytes32 root, bytes32 blockCid) {
        Head memory older = RoundSteps.olderHead(_s, _s.place);
        return (older.root, older.blockCid);
    }

    /* INTERNAL */

    function _send(address to, uint256 amount) private {
        (bool sent,) = to.call{value: amount}("");
        require(sent, TransferFailed(to, amount));
    }
}
