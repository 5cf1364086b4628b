// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeTask} from "./IStakeTask.sol";
import {Statistic} from "../math/Scores.sol";

/// @notice Where a round stands. The number is the `phaseTag` of commitments.
enum Phase {
    Draw,
    Train,
    Reveal,
    Score,
    Tally,
    Propose,
    Challenge,
    Ended
}

/// @notice How a round ended.
enum Outcome {
    Open,
    Final,
    Void
}

/// @notice How the updates of a round become shares.
enum Rule {
    Softmax,
    SoftmaxAccuracy,
    CommitteeNear,
    CommitteeFar,
    Mean,
    FedAvg,
    FedReg,
    FedRob,
    Median,
    Krum,
    MultiKrum
}

/// @notice The frozen terms of a task. Parts, rates and fractions are WAD (10^18 is one); money is wei; times are seconds.
struct TaskConfig {
    /// The digests inside the CIDs of the manifest and of the first model's node, and the first model's root.
    bytes32 manifest;
    bytes32 firstRoot;
    bytes32 firstModel;
    /// Parameters of the model, depth of its tree, binary digits behind the point.
    uint64 dimension;
    uint8 depth;
    uint8 scale;
    Rule rule;
    Statistic statistic;
    /// Sharpness of the softmax, and the part of the updates against the head (1: the head keeps nothing).
    uint128 beta;
    uint64 alpha;
    /// b of `fedrob`, f of `krum`; m of `multi-krum`; the part kept by `committee-near` and `committee-far`.
    uint8 tolerated;
    uint8 selected;
    uint64 keep;
    bool bySamples;
    bool uniqueRoots;
    uint8 committeeSize;
    uint64 redrawEvery;
    uint8 minUpdates;
    uint8 maxUpdates;
    uint64 maxSamples;
    uint64 rounds;
    /// Ends the task when the committee's score of the head, in WAD, is at most this; 0: never.
    uint128 target;
    uint128 minStake;
    uint32 trainSeconds;
    uint32 revealSeconds;
    uint32 scoreSeconds;
    uint32 tallySeconds;
    uint32 proposeSeconds;
    uint32 challengeSeconds;
    uint64 workersPart;
    uint64 committeePart;
    uint128 callerFee;
    uint128 devCap;
    uint64 lieSlash;
    uint64 livenessSlash;
    uint64 noRevealSlash;
    uint64 finderPart;
    uint64 burnPart;
}

/// @notice Where a task stands.
struct PlaceView {
    uint64 round;
    uint8 attempt;
    Phase phase;
    /// Actions count before it; 0 in Draw.
    uint64 deadline;
    /// The block whose header seeds the draw; 0 while too few are enrolled.
    uint64 drawBlock;
    /// How many can commit an update: Train ends early when all have.
    uint16 expected;
    /// Train was extended.
    bool extended;
    /// The task ends with this round.
    bool ending;
    /// Only the drawn workers and the backups train.
    bool limited;
    /// Updates that count as revealed; known from Score on.
    uint8 updates;
}

/// @notice An account as the task knows it.
struct AccountView {
    /// 1, 2, 3 … in order of first enrolment, kept for ever; 0: never enrolled.
    uint32 id;
    /// Thousandths of the minimum stake that count in the draw.
    uint32 weight;
    /// The first round in which the weight counts.
    uint40 activeFrom;
    /// Whether it isEnrolled to take part.
    bool isEnrolled;
    /// How often in a row it was noted as absent.
    uint8 missed;
    /// What it may claim besides its pay as a worker.
    uint128 credit;
}

/// @notice What the committee did so far, as sets: bit i is the member at position i of `committee()`.
struct SeatsView {
    uint48 committed;
    uint48 revealed;
    uint48 attested;
    uint48 voted;
    uint48 convicted;
    uint48 absent;
}

/// @title ITrainingTask
/// @notice One training task: its terms, its participants, its rounds and its money.
///
/// A round goes Draw, Train, Reveal, Score, Tally, Propose, Challenge and ends Final or Void. Actions count while
/// `block.timestamp < deadline`. Anyone may call `draw`, `advance` and `tally`; a call that moves the round on is credited
/// the caller's fee. Silence always has a next state, and no transition reverts for lack of participants.
///
/// Every wei of the task is escrow (the sponsor's in the end) or owed (credits and workers' pay). Ether leaves in `claim` and
/// `refund` only, last in the function.
///
/// Warning: a proposer's model is binding only after Challenge. Read `headRoot`, not `proposal`.
interface ITrainingTask is IStakeTask {
    /* EVENTS */

    /// @notice An account put itself forward; the id is its own for ever.
    event Enrolled(uint32 indexed id, address indexed account);

    /// @notice An account no longer isEnrolled to take part.
    event Left(uint32 indexed id, address indexed account);

    /// @notice A change waits until the open draw is done; then anyone may call `applyChange`.
    event ChangeQueued(uint32 indexed id, address indexed account);

    /// @notice An account's weight in the stake tree, and the first round in which it counts.
    event WeightSet(uint32 indexed id, uint32 weight, uint64 activeFrom);

    /// @notice The header of this block, which lies a few blocks ahead, will seed the draw.
    event DrawOpened(uint64 indexed round, uint64 blockNumber);

    /// @notice The committee that was elected no longer stands: its draw did not open before its stake could have left.
    event ElectionDropped(uint64 indexed round);

    /// @notice An account that was drawn to train had not committed in time, for the `times`-th time in a row.
    event Absent(uint64 indexed round, uint32 indexed id, uint8 times);

    /// @notice The roles of a round. `limited` says that only the listed workers (and backups) train.
    event Drawn(
        uint64 indexed round,
        uint64 blockNumber,
        bytes32 seed,
        uint32[] committee,
        uint32[] proposers,
        bool limited,
        uint32[] workers,
        uint16 expected
    );

    /// @notice A phase opened; actions count before the deadline.
    event PhaseEntered(uint64 indexed round, uint8 attempt, Phase phase, uint64 deadline);

    /// @notice Too few updates were committed in time; the phase runs once more.
    event TrainExtended(uint64 indexed round, uint64 deadline);

    /// @notice A worker (or a training member) committed to an update.
    event UpdateCommitted(uint64 indexed round, uint32 indexed id, bytes32 commitment);

    /// @notice A committed update was opened.
    event UpdateRevealed(
        uint64 indexed round, uint32 indexed id, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt
    );

    /// @notice A validator committed to its scores.
    event ScoresCommitted(uint64 indexed round, uint32 indexed id, bytes32 commitment);

    /// @notice A validator's scores were opened.
    event ScoresRevealed(uint64 indexed round, uint32 indexed id, bytes scores, bytes32 salt);

    /// @notice Scores became shares: bit i of `included` says that revealed update i, from 0, counts; `shares` are p_0 and one
    /// per revealed update (on ranks: per rank), four bytes each; then who was elected. `shares` is empty where none were
    /// formed or the proposer posts them; `headScore` is the committee's score of the head in WAD, the maximum of its type
    /// when no majority gave one.
    event Tallied(uint64 indexed round, uint128 included, bytes shares, uint32[] elected, uint128 headScore);

    /// @notice A model was proposed. `shares` is filled only where the proposer decides them.
    event Proposed(
        uint64 indexed round,
        uint8 attempt,
        uint32 indexed id,
        bytes32 modelRoot,
        bytes32 blockCid,
        uint32[] shares
    );

    /// @notice A validator attests the proposal or objects to it.
    event Voted(uint64 indexed round, uint8 attempt, uint32 indexed id, bool attests);

    /// @notice Somebody noted, sealed, that it found a lie.
    event FindingNoted(address indexed account, bytes32 note);

    /// @notice Re-execution gave another value than the proposal holds.
    event LieProven(
        uint64 indexed round,
        uint8 attempt,
        uint64 position,
        uint32 expected,
        uint32 found,
        address indexed finder
    );

    /// @notice An account proposed or attested a proven lie. Part of what is slashed goes to the task's escrow.
    event Convicted(
        uint64 indexed round, uint8 attempt, uint32 indexed id, uint256 slashed, uint256 toEscrow
    );

    /// @notice An account did not do its part in time. In Tally also: it showed a root, and a majority could not get the bytes.
    event Silent(uint64 indexed round, Phase phase, uint32 indexed id, uint256 slashed);

    /// @notice A majority of the committee could not get the head: the one before it is head again.
    event HeadDropped(uint64 indexed round, bytes32 root, bytes32 blockCid);

    /// @notice A round is over and settled: the head after it, and what workers, committee and miner were paid.
    event RoundEnded(
        uint64 indexed round,
        uint8 attempt,
        Outcome outcome,
        bytes32 headRoot,
        bytes32 headBlock,
        uint256 workersPaid,
        uint256 committeePaid,
        uint256 minerPaid
    );

    /// @notice An account may claim more: a validator's, a miner's or a caller's pay.
    event Credited(address indexed account, uint256 amount);

    /// @notice An account pulled what it earned.
    event Claimed(address indexed account, uint256 amount, uint64[] rounds);

    /// @notice The sponsor gives up; the task ends with the current round.
    event Abandoned(uint64 indexed round);

    /// @notice No further round follows.
    event TaskEnded(uint64 indexed round);

    /// @notice The sponsor pulled what was left.
    event Refunded(uint256 amount);

    /* ERRORS */

    /// @notice The call names another round than the current one.
    error WrongRound(uint64 named, uint64 current);

    /// @notice The call names another attempt than the current one.
    error WrongAttempt(uint8 named, uint8 current);

    /// @notice The action does not belong to the current phase.
    error WrongPhase(uint64 round, Phase phase);

    /// @notice The phase's deadline has passed.
    error PhaseOver(uint64 deadline);

    /// @notice The phase can still be acted in, so it cannot be left.
    error PhaseStillOpen(uint64 deadline);

    /// @notice Only the sponsor may do this.
    error NotSponsor();

    /// @notice Only the registry may do this.
    error NotRegistry();

    /// @notice A task is set up once, by the transaction that creates it.
    error AlreadyInitialized();

    /// @notice The account has never enrolled in this task, or has left.
    error NotEnrolled();

    /// @notice The account is enrolled.
    error AlreadyEnrolled();

    /// @notice The stake allocated to the task is below its minimum.
    error StakeTooLow(uint256 stake, uint256 minStake);

    /// @notice Enrolment changes wait until the open draw is done.
    error DrawOpen(uint64 round);

    /// @notice Too few accounts are enrolled for a draw.
    error DrawNotOpen(uint64 round);

    /// @notice The block whose header seeds the draw is not yet in the past.
    error DrawTooEarly(uint64 blockNumber);

    /// @notice The bytes are not the header of this block.
    error BadHeader(uint64 blockNumber);

    /// @notice The account does not train in this round, has committed, or was noted in this round already.
    error NotAbsent(uint32 id);

    /// @notice The account does not train in this round.
    error NotWorker(uint64 round);

    /// @notice The account does not sit in this round's committee, or lost its seat by a conviction.
    error NotValidator(uint64 round);

    /// @notice It is somebody else's turn to propose.
    error NotProposer();

    /// @notice A proposer's own vote does not count.
    error ProposerVotes();

    /// @notice A commitment of zero is no commitment.
    error ZeroCommitment();

    /// @notice One commitment per account and phase.
    error AlreadyCommitted(uint64 round);

    /// @notice There is no commitment to reveal.
    error NotCommitted(uint64 round);

    /// @notice One reveal per commitment.
    error AlreadyRevealed(uint64 round);

    /// @notice What is revealed is not what was committed to.
    error WrongReveal();

    /// @notice The declared sample count is zero or above the task's limit.
    error BadSamples(uint64 samples, uint64 limit);

    /// @notice The score bytes have a wrong length or spare bits set.
    error BadScores(uint256 given, uint256 expected);

    /// @notice A member of an elected committee scores only if it revealed its own update.
    error NoOwnUpdate(uint64 round);

    /// @notice The scores given to the tally are not the revealed ones, all of them, in committee order.
    error WrongScores();

    /// @notice Posted shares are not of the rule's form.
    error BadShares();

    /// @notice The vote names another proposal than the one that stands.
    error OtherProposal();

    /// @notice One vote per member and attempt.
    error AlreadyVoted();

    /// @notice The proof names a parameter beyond the tree.
    error BadPosition(uint256 position);

    /// @notice This item of the evidence is missing, does not lead to its root, or is one too many.
    error BadProof(uint256 item);

    /// @notice The aggregate is right at this position.
    error NoLie(uint256 value);

    /// @notice The round has not ended yet, or ended before there was anything to pay.
    error RoundNotSettled(uint64 round);

    /// @notice A round is claimed once.
    error AlreadyClaimed(uint64 round);

    /// @notice There is no credit.
    error NothingToClaim();

    /// @notice The escrow stays until the task has ended.
    error TaskNotEnded();

    /// @notice The task is already abandoned.
    error AlreadyAbandoned();

    /// @notice The receiver refused the ether.
    error TransferFailed(address to, uint256 amount);

    /* ENROLMENT */

    /// @notice Take part from the next draw on, with the stake that the caller has allocated to this task.
    function enrol() external;

    /// @notice Take no part in later draws. The stake stays locked while a round needs it.
    function leave() external;

    /// @notice Brings an account's weight in line with its stake and wish. Anyone may, unless a draw is open.
    function applyChange(address who) external;

    /// @notice Notes that these accounts were drawn to train and did not commit in Train's first length. Anyone may, from then
    /// on until the round ends, once a round for each. A commitment in a later round, or late in this one, forgets it; the
    /// third time in a row puts the account out of the draw until it enrols again. No stake is lost.
    function noteAbsent(uint64 round, uint32[] calldata ids) external;

    /* ROUND LIFE */

    /// @notice Draws the roles of the round from the randomness (`mixHash`, EIP-4399) of the block that the opening named. When
    /// its hash is out of reach, the draw opens again, and no fee is paid.
    /// @param header The block's header in RLP, which must hash to the block's hash; not read when that is out of reach.
    function draw(bytes calldata header) external;

    /// @notice A worker, or a member of a training committee, commits to its update. Once.
    /// @param digest `keccak256(abi.encode(chainid, task, taskId, round, uint8(Phase.Train), sender, payload, salt))` with
    /// `payload = keccak256(abi.encode(root, cid, samples))`.
    function commitUpdate(uint64 round, bytes32 digest) external;

    /// @notice Opens the commitment.
    /// @param root The update's Merkle root.
    /// @param cid The digest inside the CID of its node.
    /// @param samples How many samples are behind it.
    function revealUpdate(uint64 round, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt) external;

    /// @notice A validator commits to its scores of the head and of every revealed update. Once.
    /// @param digest As in `commitUpdate` with `Phase.Score` and `payload = keccak256(abi.encode(rootsHash, scores))`.
    function commitScores(uint64 round, bytes32 digest) external;

    /// @notice Opens the scores; only their hash is kept, the event carries them.
    function revealScores(uint64 round, bytes calldata scores, bytes32 salt) external;

    /// @notice Turns the revealed scores into inclusion, shares and, where the rule elects, the next committee.
    /// @param vectors Every revealed score vector, in committee order, nothing for those who did not reveal.
    function tally(uint64 round, bytes[] calldata vectors) external;

    /// @notice The proposer of this attempt posts the next model. Once.
    /// @param shares p_0 and one share per revealed update where the proposer decides them (`krum`, `multi-krum`), else empty.
    function propose(
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        uint32[] calldata shares
    ) external;

    /// @notice A validator attests this very proposal. It answers for it with its stake.
    /// @param sharesDigest `keccak256(abi.encodePacked(uint256[] shares))`; zero where the contract decided the shares.
    function attest(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external;

    /// @notice A validator objects to this very proposal.
    function object(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external;

    /// @notice Seals a finding at least one block before it is shown, so that nobody can take the finder's part by copying it.
    /// A note that stands already stays as it is.
    /// @param note `keccak256(abi.encode(chainid, task, round, attempt, position, sender, salt))`.
    function noteFinding(bytes32 note) external;

    /// @notice Shows one wrong parameter of the proposal: proposer and attesters are slashed, the next in line proposes.
    /// @param evidence The leaves and their paths, as `AggregateProof` says.
    /// @param salt That of the caller's note; any, when there is none.
    function prove(uint64 round, uint8 attempt, uint64 position, bytes calldata evidence, bytes32 salt)
        external;

    /// @notice Leaves a phase that is over. Every transition without data of its own is here.
    function advance(uint64 round) external;

    /* MONEY */

    /// @notice Pulls the caller's credit and its pay as a worker of the rounds named.
    /// @return amount What was sent.
    function claim(uint64[] calldata rounds) external returns (uint256 amount);

    /// @notice The sponsor gives up: at once while nobody works, else when the round ends.
    function abandon() external;

    /// @notice The sponsor pulls what nobody earned, after the task has ended.
    /// @return amount What was sent.
    function refund() external returns (uint256 amount);

    /* VIEWS */

    /// @notice The frozen terms.
    function config() external view returns (TaskConfig memory);

    /// @notice The task's number at its factory, from 1.
    function taskId() external view returns (uint64);

    /// @notice Who pays for the task.
    function sponsor() external view returns (address);

    /// @notice Where the stakes are.
    function registry() external view returns (address);

    /// @notice How many blocks after the opening of a draw the one lies whose header seeds it.
    function seedDelay() external view returns (uint64);

    /// @notice Where the task stands.
    function place() external view returns (PlaceView memory);

    /// @notice An account; all zero but perhaps its credit when it never enrolled.
    function account(address who) external view returns (AccountView memory);

    /// @notice The address behind an enrolment id.
    function accountOf(uint32 id) external view returns (address);

    /// @notice How many ever enrolled; ids run from 1 to this.
    function accountCount() external view returns (uint32);

    /// @notice How many have a weight above zero.
    function eligible() external view returns (uint32);

    /// @notice The weight of all accounts.
    function totalWeight() external view returns (uint256);

    /// @notice This round's validators; empty before the draw.
    function committee() external view returns (uint32[] memory);

    /// @notice Who proposes, in order: the miner and its backups; empty before the draw.
    function proposers() external view returns (uint32[] memory);

    /// @notice The drawn workers, where more were enrolled than may train.
    function workers() external view returns (uint32[] memory);

    /// @notice Whose turn it is in Propose and Challenge; else 0.
    function currentProposer() external view returns (uint32);

    /// @notice The committee that this round (or the last one) elected; empty where none stands.
    function elected() external view returns (uint32[] memory);

    /// @notice An account's update in this round. `digest` is its commitment, after the reveal its root.
    /// @dev `samples` is kept only where the shares depend on it.
    function update(uint32 id)
        external
        view
        returns (bool committed, bool revealed, bytes32 digest, uint64 samples);

    /// @notice The ids of the revealed updates in index order; known from Score on.
    function order() external view returns (uint32[] memory);

    /// @notice The hash of the ordered roots that scores are bound to; known from Score on.
    function rootsHash() external view returns (bytes32);

    /// @notice What the committee did in this round.
    function seats() external view returns (SeatsView memory);

    /// @notice A member's scores in this round. `digest` is the commitment, after the reveal the hash of the scores.
    function scoresOf(uint32 id) external view returns (bool committed, bool revealed, bytes32 digest);

    /// @notice What the tally decided, known from Propose on: which updates count, p_0 and the shares (attested rules: as
    /// posted, empty before).
    function tallied() external view returns (bool[] memory included, uint32[] memory shares);

    /// @notice The standing proposal; all zero outside Challenge.
    function proposal()
        external
        view
        returns (uint32 proposer, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest);

    /// @notice What the account could claim with these rounds; rounds it cannot claim count nothing.
    function creditOf(address who, uint64[] calldata rounds) external view returns (uint256);

    /// @notice What nobody has earned yet.
    function escrow() external view returns (uint256);

    /// @notice What was earned and not yet claimed.
    function owed() external view returns (uint256);

    /// @notice A round's money for workers, committee and miner, after the callers' fees.
    function budget() external view returns (uint256 forWorkers, uint256 forCommittee, uint256 forMiner);

    /// @notice The root of the current model.
    function headRoot() external view returns (bytes32);

    /// @notice The digest inside the CID of the newest final block; zero before the first.
    function headBlock() external view returns (bytes32);

    /// @notice Root and block of the head before this one, where a majority can go back to it; zero when there is none.
    function olderHead() external view returns (bytes32 root, bytes32 blockCid);
}
