// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeTask} from "./interfaces/IStakeTask.sol";
import {
    AccountView,
    ITrainingTask,
    Phase,
    PlaceView,
    Rule,
    SeatsView,
    TaskConfig
} from "./interfaces/ITrainingTask.sol";
import {SortitionTree, StakeTree} from "./libraries/SortitionTree.sol";
import {Origin, TaskArgs} from "./libraries/TaskArgs.sol";
import {TaskEnrolment} from "./libraries/TaskEnrolment.sol";
import {TaskLists} from "./libraries/TaskLists.sol";
import {TaskMoves} from "./libraries/TaskMoves.sol";
import {TaskOrders} from "./libraries/TaskOrders.sol";
import {TaskProof} from "./libraries/TaskProof.sol";
import {TaskRound} from "./libraries/TaskRound.sol";
import {Account, Head, Place, Seats, State, TaskRules} from "./libraries/TaskState.sol";
import {TaskTally} from "./libraries/TaskTally.sol";
import {TaskUpdates} from "./libraries/TaskUpdates.sol";
import {TaskViews} from "./libraries/TaskViews.sol";

/// @title TrainingTask
/// @notice See `ITrainingTask`.
contract TrainingTask is ITrainingTask {
    using SortitionTree for StakeTree;
    using TaskLists for mapping(uint256 => uint256);
    using TaskUpdates for mapping(uint256 => uint256);

    /* STORAGE */

    State private _s;

    /* CONSTRUCTOR */

    /// @dev The implementation that clones run is itself no task: nobody can initialise it.
    constructor() {
        _s.place.round = type(uint64).max;
    }

    /// @notice Sets up a clone in the transaction that creates it. What is paid is the escrow.
    function initialize() external payable {
        require(_s.place.round == 0, AlreadyInitialized());
        TaskConfig memory c = TaskArgs.config();

        _s.place.round = 1;
        (_s.place.committeeSize, _s.place.rule) = (c.committeeSize, c.rule);
        _s.seats.convictedLine = TaskRound.NOBODY_CONVICTED;
        _s.heads[0].root = c.firstRoot;
        // All ether there is fits 128 bits.
        // forge-lint: disable-next-line(unsafe-typecast)
        _s.escrow = uint128(msg.value);
    }

    /// @notice Takes the task's part of lie slashes, from the registry alone.
    receive() external payable {
        require(msg.sender == TaskArgs.origin().registry, NotRegistry());
    }

    /* ENROLMENT */

    /// @inheritdoc ITrainingTask
    function enrol() external {
        TaskEnrolment.enrol(_s);
    }

    /// @inheritdoc ITrainingTask
    function leave() external {
        TaskEnrolment.leave_(_s);
    }

    /// @inheritdoc ITrainingTask
    function applyChange(address who) external {
        TaskEnrolment.applyChange(_s, who);
    }

    /// @inheritdoc ITrainingTask
    function noteAbsent(uint64 round, uint32[] calldata ids) external {
        TaskEnrolment.noteAbsent(_s, round, ids);
    }

    /// @inheritdoc IStakeTask
    function onStakeChanged(address who, uint256 bonded) external {
        TaskEnrolment.onStakeChanged(_s, who, bonded);
    }

    /// @inheritdoc IStakeTask
    function unbondingSeconds() external view returns (uint64) {
        return _s.place.phase == Phase.Ended ? 0 : TaskRound.unbondingSeconds();
    }

    /// @inheritdoc IStakeTask
    function isLocked(address who) external view returns (bool) {
        return TaskEnrolment.isLocked(_s, who);
    }

    /* ROUND LIFE */

    /// @inheritdoc ITrainingTask
    function draw(bytes calldata header) external {
        TaskMoves.draw(_s, header);
    }

    /// @inheritdoc ITrainingTask
    function commitUpdate(uint64 round, bytes32 digest) external {
        (Place storage p, uint32 id) = _acting(round, Phase.Train);
        require(TaskRound.trains(_s, p, _s.accounts[msg.sender], id), NotWorker(round));
        // Only one of the two answers is asked for.
        // slither-disable-next-line unused-return
        (bool committed,) = _s.updates.state(round, id);
        require(!committed, AlreadyCommitted(round));
        require(digest != 0, ZeroCommitment());

        _s.updates.commit(round, id);
        _s.digests[id] = digest;
        if (_s.accounts[msg.sender].missed != 0) _s.accounts[msg.sender].missed = 0;

        emit UpdateCommitted(round, id, digest);
    }

    /// @inheritdoc ITrainingTask
    function revealUpdate(uint64 round, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt) external {
        (Place storage p, uint32 id) = _acting(round, Phase.Reveal);
        (bool committed, bool revealed) = _s.updates.state(round, id);
        require(committed, NotCommitted(round));
        require(!revealed, AlreadyRevealed(round));
        uint64 limit = TaskArgs.maxSamples();
        require(samples >= 1 && samples <= limit, BadSamples(samples, limit));
        bytes32 payload = keccak256(abi.encode(root, cid, samples));
        require(_s.digests[id] == _sealed(round, Phase.Train, payload, salt), WrongReveal());

        _s.updates.reveal(id);
        _s.digests[id] = root;
        if (p.rule == Rule.FedAvg || TaskRules.isElected(p.rule)) _s.samples[id] = samples;

        emit UpdateRevealed(round, id, root, cid, samples, salt);
    }

    /// @inheritdoc ITrainingTask
    function commitScores(uint64 round, bytes32 digest) external {
        (Place storage p, uint32 id) = _acting(round, Phase.Score);
        uint256 position = _s.roster.find(0, p.committeeSize, id);
        require(position < p.committeeSize, NotValidator(round));
        require(!TaskRules.isElected(p.rule) || _revealedOwn(round, id), NoOwnUpdate(round));
        uint256 committed = _s.seats.committed;
        require(committed >> position & 1 == 0, AlreadyCommitted(round));
        require(digest != 0, ZeroCommitment());

        // A committee has at most 45 positions.
        // forge-lint: disable-next-line(unsafe-typecast)
        _s.seats.committed = uint48(committed | 1 << position);
        _s.scores[position] = digest;

        emit ScoresCommitted(round, id, digest);
    }

    /// @inheritdoc ITrainingTask
    function revealScores(uint64 round, bytes calldata scores, bytes32 salt) external {
        (Place storage p, uint32 id) = _acting(round, Phase.Tally);
        uint256 position = _s.roster.find(0, p.committeeSize, id);
        Seats storage t = _s.seats;
        require(t.committed >> position & 1 != 0, NotCommitted(round));
        require(t.revealed >> position & 1 == 0, AlreadyRevealed(round));
        TaskViews.expectWellFormed(scores, p);
        bytes32 payload = keccak256(abi.encode(_s.rootsHash, scores));
        require(_s.scores[position] == _sealed(round, Phase.Score, payload, salt), WrongReveal());

        // A committee has at most 45 positions.
        // forge-lint: disable-next-line(unsafe-typecast)
        t.revealed |= uint48(1 << position);
        _s.scores[position] = keccak256(scores);

        emit ScoresRevealed(round, id, scores, salt);
    }

    /// @inheritdoc ITrainingTask
    function tally(uint64 round, bytes[] calldata vectors) external {
        TaskTally.tally(_s, round, vectors);
    }

    /// @inheritdoc ITrainingTask
    function propose(
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        uint32[] calldata shares
    ) external {
        (Place storage p, uint32 id) = _acting(round, Phase.Propose);
        require(attempt == p.attempt, WrongAttempt(attempt, p.attempt));
        require(id == _proposer(p), NotProposer());
        if (TaskRules.isAttested(p.rule)) _s.sharesDigest = TaskViews.postShares(_s, p, shares);
        else require(shares.length == 0, BadShares());

        (_s.modelRoot, _s.modelBlock) = (modelRoot, blockCid);

        emit Proposed(round, attempt, id, modelRoot, blockCid, shares);

        Place memory next = p;
        TaskRound.enter(next, Phase.Challenge);
        TaskRound.save(_s, next);
    }

    /// @inheritdoc ITrainingTask
    function attest(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external
    {
        _vote(round, attempt, modelRoot, blockCid, sharesDigest, true);
    }

    /// @inheritdoc ITrainingTask
    function object(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external
    {
        _vote(round, attempt, modelRoot, blockCid, sharesDigest, false);
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
        TaskProof.prove(_s, round, attempt, position, evidence, salt);
    }

    /// @inheritdoc ITrainingTask
    function advance(uint64 round) external {
        TaskMoves.advance(_s, round);
    }

    /* MONEY */

    /// @inheritdoc ITrainingTask
    function claim(uint64[] calldata rounds) external returns (uint256 amount) {
        amount = TaskViews.claim(_s, rounds);

        _send(msg.sender, amount);
    }

    /// @inheritdoc ITrainingTask
    function abandon() external {
        require(msg.sender == TaskArgs.origin().sponsor, NotSponsor());
        Place memory p = _s.place;
        require(p.phase != Phase.Ended, WrongPhase(p.round, p.phase));
        require(!p.ending, AlreadyAbandoned());

        p.ending = true;

        emit Abandoned(p.round);

        if (p.phase == Phase.Draw) TaskRound.endTask(p);
        TaskRound.save(_s, p);
    }

    /// @inheritdoc ITrainingTask
    function refund() external returns (uint256 amount) {
        require(msg.sender == TaskArgs.origin().sponsor, NotSponsor());
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
        return TaskArgs.config();
    }

    /// @inheritdoc ITrainingTask
    function taskId() external view returns (uint64) {
        return TaskArgs.origin().taskId;
    }

    /// @inheritdoc ITrainingTask
    function sponsor() external view returns (address) {
        return TaskArgs.origin().sponsor;
    }

    /// @inheritdoc ITrainingTask
    function registry() external view returns (address) {
        return TaskArgs.origin().registry;
    }

    /// @inheritdoc ITrainingTask
    function seedDelay() external view returns (uint64) {
        return TaskArgs.origin().seedDelay;
    }

    /// @inheritdoc ITrainingTask
    function place() external view returns (PlaceView memory) {
        return TaskViews.place(_s);
    }

    /// @inheritdoc ITrainingTask
    function account(address who) external view returns (AccountView memory) {
        Account memory a = _s.accounts[who];
        return AccountView(a.id, a.weight, a.activeFrom, a.wants, a.missed, a.credit);
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
    function committee() external view returns (uint32[] memory) {
        return TaskViews.committee(_s);
    }

    /// @inheritdoc ITrainingTask
    function proposers() external view returns (uint32[] memory) {
        return _s.roster.load(_s.place.committeeSize, _s.place.line);
    }

    /// @inheritdoc ITrainingTask
    function workers() external view returns (uint32[] memory) {
        Place memory p = _s.place;
        return _s.roster.load(uint256(p.committeeSize) + p.line, p.workers);
    }

    /// @inheritdoc ITrainingTask
    function currentProposer() public view returns (uint32) {
        Place memory p = _s.place;
        if (p.phase != Phase.Propose && p.phase != Phase.Challenge) return 0;
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint32(TaskRound.proposerOf(_s, p));
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
        if (committed) digest = _s.digests[id];
        // forge-lint: disable-next-line(unsafe-typecast)
        if (revealed) samples = uint64(_s.samples[id]);
    }

    /// @inheritdoc ITrainingTask
    function order() external view returns (uint32[] memory) {
        return TaskOrders.load(_s.orders[_s.place.round], _s.place.updates);
    }

    /// @inheritdoc ITrainingTask
    function rootsHash() external view returns (bytes32) {
        return _s.rootsHash;
    }

    /// @inheritdoc ITrainingTask
    function seats() external view returns (SeatsView memory) {
        Seats memory t = _s.seats;
        return SeatsView(t.committed, t.revealed, t.attested, t.voted, t.convicted, _s.gate.absent);
    }

    /// @inheritdoc ITrainingTask
    function scoresOf(uint32 id) external view returns (bool committed, bool revealed, bytes32 digest) {
        uint32[] memory members = TaskViews.committee(_s);
        uint256 position = TaskLists.find(members, id);
        if (position == members.length) return (false, false, 0);
        committed = _s.seats.committed >> position & 1 != 0;
        revealed = _s.seats.revealed >> position & 1 != 0;
        if (committed) digest = _s.scores[position];
    }

    /// @inheritdoc ITrainingTask
    function tallied() external view returns (bool[] memory included, uint32[] memory shares) {
        return TaskViews.tallied(_s);
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
        return TaskViews.creditOf(_s, who, rounds);
    }

    /// @inheritdoc ITrainingTask
    function escrow() external view returns (uint256) {
        return _s.escrow;
    }

    /// @inheritdoc ITrainingTask
    function owed() external view returns (uint256) {
        return _s.owed;
    }

    /// @inheritdoc ITrainingTask
    function budget() external view returns (uint256 forWorkers, uint256 forCommittee, uint256 forMiner) {
        Origin memory o = TaskArgs.origin();
        return (o.workersBudget, o.committeeBudget, o.minerBudget);
    }

    /// @inheritdoc ITrainingTask
    function headRoot() external view returns (bytes32) {
        return TaskRound.head(_s, _s.place).root;
    }

    /// @inheritdoc ITrainingTask
    function headBlock() external view returns (bytes32) {
        return TaskRound.head(_s, _s.place).blockCid;
    }

    /// @inheritdoc ITrainingTask
    function olderHead() external view returns (bytes32 root, bytes32 blockCid) {
        Head memory older = TaskRound.olderHead(_s, _s.place);
        return (older.root, older.blockCid);
    }

    /* INTERNAL */

    /// @dev The id of a participant who acts in time, in the phase it means. Reading single fields of the one word that the place
    /// takes costs less than a copy of it.
    function _acting(uint64 round, Phase phase) private view returns (Place storage p, uint32 id) {
        p = _s.place;
        require(round == p.round, WrongRound(round, p.round));
        require(p.phase == phase, WrongPhase(p.round, p.phase));
        require(block.timestamp < p.deadline, PhaseOver(p.deadline));
        id = _s.accounts[msg.sender].id;
        require(id != 0, NotEnrolled());
    }

    function _revealedOwn(uint64 round, uint256 id) private view returns (bool revealed) {
        // Only one of the two answers is asked for.
        // slither-disable-next-line unused-return
        (, revealed) = _s.updates.state(round, id);
    }

    function _proposer(Place storage p) private view returns (uint256) {
        return _s.roster.get(uint256(p.committeeSize) + p.taken - 1);
    }

    function _vote(
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        bytes32 sharesDigest,
        bool attests
    ) private {
        (Place storage p, uint32 id) = _acting(round, Phase.Challenge);
        require(attempt == p.attempt, WrongAttempt(attempt, p.attempt));
        Seats storage t = _s.seats;
        uint256 position = _s.roster.find(0, p.committeeSize, id);
        require(position < p.committeeSize && t.convicted >> position & 1 == 0, NotValidator(round));
        require(id != _proposer(p), ProposerVotes());
        bytes32 posted = TaskRules.isAttested(p.rule) ? _s.sharesDigest : bytes32(0);
        require(
            modelRoot == _s.modelRoot && blockCid == _s.modelBlock && sharesDigest == posted, OtherProposal()
        );
        require(t.voted >> position & 1 == 0, AlreadyVoted());

        // A committee has at most 45 positions.
        // forge-lint: disable-next-line(unsafe-typecast)
        t.voted |= uint48(1 << position);
        // forge-lint: disable-next-line(unsafe-typecast)
        if (attests) t.attested |= uint48(1 << position);

        emit Voted(round, attempt, id, attests);
    }

    function _sealed(uint64 round, Phase phase, bytes32 payload, bytes32 salt)
        private
        view
        returns (bytes32)
    {
        return keccak256(
            abi.encode(
                block.chainid,
                address(this),
                TaskArgs.origin().taskId,
                round,
                phase,
                msg.sender,
                payload,
                salt
            )
        );
    }

    function _send(address to, uint256 amount) private {
        (bool sent,) = to.call{value: amount}("");
        require(sent, TransferFailed(to, amount));
    }
}
