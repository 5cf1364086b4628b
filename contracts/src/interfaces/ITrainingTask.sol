// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeTask} from "./IStakeTask.sol";
import {Statistic} from "../math/Scores.sol";

/// @notice Where a round stands. The number is the `phaseTag` of commitments.
enum Phase {
    /// Roles are drawn, once enough are enrolled and the named block exists.
    Draw,
    /// Workers train and commit to their updates.
    Train,
    /// Updates are opened, and their bytes published.
    Reveal,
    /// Validators commit to their scores.
    Score,
    /// Scores are opened, then turned into shares.
    Tally,
    /// The proposer of this attempt posts the next model.
    Propose,
    /// The committee votes on it, and anyone may prove it wrong.
    Challenge,
    /// The task is over: stake can leave, money can be pulled.
    Ended
}

/// @notice How a round ended.
enum Outcome {
    /// The round still runs.
    Open,
    /// The proposal is the new head.
    Final,
    /// No new model; work that counted is paid.
    Void
}

/// @notice How the updates of a round become shares.
enum Rule {
    /// Softmax of minus the committee's losses (SABFL).
    Softmax,
    /// The same with the part of samples that a model gets wrong.
    SoftmaxAccuracy,
    /// The updates nearest to the committee's own; it is elected (CMFL, strategy I).
    CommitteeNear,
    /// The farthest ones (CMFL, strategy II).
    CommitteeFar,
    /// All included updates alike.
    Mean,
    /// By declared sample counts: an attacker may declare what it likes, up to `maxSamples`.
    FedAvg,
    /// As `Mean`, and the head keeps a part.
    FedReg,
    /// Coordinate-wise mean without the `tolerated` lowest and highest; the head keeps a part.
    FedRob,
    /// Coordinate-wise median.
    Median,
    /// The one update with the nearest neighbours; shares are posted and attested.
    Krum,
    /// The `selected` updates with the nearest neighbours; shares are posted and attested.
    MultiKrum,
    /// Minimum variance around the mean of the internals' updates, weights attested by the committee (VaRSeL).
    Varsel
}

/// @notice As what an account was admitted to a task that has a list of who may join.
enum Role {
    /// The task has no list.
    None,
    /// Trains, and proposes where it is drawn to.
    Participant,
    /// One of the sponsor's own.
    Internal
}

/// @notice The frozen terms of a task. Parts, rates and fractions are WAD (10^18 is one); money is wei; times are seconds.
struct TaskConfig {
    /// The digest inside the CID of the manifest: what is trained, and how.
    bytes32 manifest;
    /// The Merkle root of the first model.
    bytes32 firstRoot;
    /// The digest inside the CID of the first model's node.
    bytes32 firstModel;
    /// Parameters of the model.
    uint64 dimension;
    /// Depth of a model's Merkle tree; follows from `dimension`.
    uint8 depth;
    /// A parameter is its integer divided by 2 to this.
    uint8 scale;
    /// How updates become shares.
    Rule rule;
    /// The committee's one number for an update: median over all seats, or mean over those who vouch.
    Statistic statistic;
    /// Sharpness of the softmax.
    uint128 beta;
    /// The part of the updates against the head (1: the head keeps nothing).
    uint64 alpha;
    /// b of `fedrob`, f of `krum` and `multi-krum`: how many hostile updates the rule bears.
    uint8 tolerated;
    /// m of `multi-krum`.
    uint8 selected;
    /// The part kept by `committee-near` and `committee-far`.
    uint64 keep;
    /// The kept updates share by declared sample counts instead of alike.
    bool bySamples;
    /// An update whose root stood before it in the order, or is the head's, does not count.
    bool uniqueRoots;
    /// Validators of a round: odd; of an appointed committee the most, odd or even.
    uint8 committeeSize;
    /// After so many rounds an elected committee gives way to a drawn one.
    uint64 redrawEvery;
    /// Fewer included updates than this: Void.
    uint8 minUpdates;
    /// Most workers of a round.
    uint8 maxUpdates;
    /// Most samples that a worker may declare.
    uint64 maxSamples;
    /// The task ends after so many rounds at the latest.
    uint64 rounds;
    /// Ends the task when the committee's score of the head, in WAD, is at most this; 0: never.
    uint128 target;
    /// The least stake that counts in a draw.
    uint128 minStake;
    /// How long Train runs; it may run twice.
    uint32 trainSeconds;
    /// How long Reveal runs at most.
    uint32 revealSeconds;
    /// How long Score runs at most: it has to be enough to fetch and judge all updates.
    uint32 scoreSeconds;
    /// How long scores can be opened at most.
    uint32 tallySeconds;
    /// How long one proposer has.
    uint32 proposeSeconds;
    /// How long a proposal can be challenged; it never ends early.
    uint32 challengeSeconds;
    /// The workers' part of a round's budget.
    uint64 workersPart;
    /// The committee's part; the rest is the miner's.
    uint64 committeePart;
    /// What a call that moves the round on is credited.
    uint128 callerFee;
    /// The most by which one score can count as deviating.
    uint128 devCap;
    /// The part of the stake that proposers and attesters of a proven lie lose.
    uint64 lieSlash;
    /// The part lost for a missed commitment, proposal or vote.
    uint64 livenessSlash;
    /// The part lost for a commitment that is not opened, or a root whose bytes a majority could not get.
    uint64 noRevealSlash;
    /// The finder's part of a lie slash.
    uint64 finderPart;
    /// The part of a lie slash that is burned; the rest goes to the escrow.
    uint64 burnPart;
    /// Root of the list of who may join (`enrolAdmitted`); 0: everybody may.
    bytes32 admissionRoot;
    /// The committee is appointed: all internals with stake, at least this many and at most `committeeSize`; 0: it is not.
    uint8 minInternals;
    /// The appointed committee trains too, and its updates count; nobody's entry for an update of its own does.
    bool internalsTrain;
    /// `varsel`: external updates together count for no more than so many internal ones.
    uint8 budget;
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
    /// Whether it takes part from the next draw on.
    bool isEnrolled;
    /// How often in a row it was noted as absent.
    uint8 missed;
    /// What it may claim besides its pay as a worker.
    uint128 credit;
    /// As what it was admitted, where the task has a list.
    Role role;
}

/// @notice What the committee did so far, as sets: bit i is the member at position i of `committee()`.
struct SeatsView {
    /// Committed to scores.
    uint48 committed;
    /// Opened them.
    uint48 revealed;
    /// Attested the standing proposal.
    uint48 attested;
    /// Attested it or objected to it.
    uint48 voted;
    /// Convicted in this round: no seat any more.
    uint48 convicted;
    /// Did not vote in a Challenge of this round.
    uint48 absent;
}

/// @title ITrainingTask
/// @notice One training task: its terms, its participants, its rounds and its money.
///
/// What ends each phase, and what follows:
///
///     Draw       draw     anyone, from the randomness of a block named before  -> Train
///     Train      advance  enough commitments, or Train again, once             -> Reveal | Void
///     Reveal     advance  who hides is slashed; updates get their index        -> Score
///     Score      advance  who is silent is slashed                             -> Tally
///     Tally      tally    every revealed score becomes inclusion and shares    -> Propose | Void
///     Propose    propose  the proposer posts the next model                    -> Challenge
///                advance  a silent proposer is slashed, the next in line       -> Propose | Void
///     Challenge  advance  a majority attests at the end                        -> Final | Propose | Void
///                prove    one wrong parameter convicts, the next in line       -> Propose | Void
///
/// Actions count while `block.timestamp < deadline`. A phase can be left when its deadline has passed, or, but for
/// Challenge, as soon as everybody expected has acted. Anyone may call `draw`, `advance` and `tally`; a call that moves
/// the round on is credited the caller's fee. Silence always has a next state, and no transition reverts for lack of
/// participants.
///
/// Whoever acts names the round, and the attempt where there is one, so that a late transaction never lands on another.
/// Commitments name their sender: a copied one cannot be opened by anybody else.
///
/// The contract computes the shares of all rules but `krum`, `multi-krum` and `varsel`, from scores alone. It never sees a model: that
/// the head is what the shares make of the updates can be shown wrong by one parameter (`prove`), by anyone, in one
/// transaction.
///
/// Every wei of the task is escrow (the sponsor's in the end) or owed (credits and workers' pay). Ether leaves in `claim` and
/// `refund` only, last in the function.
///
/// Warning: a proposer's model is binding only after Challenge. Read `headRoot`, not `proposal`.
///
/// Warning: a head can be left again, once, when a later majority says that it cannot get its bytes (`HeadDropped`).
///
/// Warning: the median bears any minority of a committee, the mean none; and no rule bears a majority. What a majority can
/// and cannot do is in docs/security.md.
interface ITrainingTask is IStakeTask {
    /* EVENTS */

    /// @notice The list of who may join names this account; it enrols for the first time in the same call.
    event Admitted(address indexed account, Role role);

    /// @notice An account put itself forward; the id is its own for ever.
    event Enrolled(uint32 indexed id, address indexed account);

    /// @notice An account takes no part from the next draw on.
    event Left(uint32 indexed id, address indexed account);

    /// @notice A change waits until the open draw is done; then anyone may call `applyChange`.
    event ChangeQueued(uint32 indexed id, address indexed account);

    /// @notice An account's weight in the stake tree, and the first round in which it counts.
    /// @dev Emitted by slashes too: the weight follows the stake in the same call.
    event WeightSet(uint32 indexed id, uint32 weight, uint64 activeFrom);

    /// @notice From this round on `operator` acts for the owner; the zero address: nobody but the owner itself.
    event OperatorSet(address indexed owner, address indexed operator, uint64 fromRound);

    /// @notice The header of this block, which lies a few blocks ahead, will seed the draw.
    event DrawOpened(uint64 indexed round, uint64 blockNumber);

    /// @notice The committee that was elected no longer stands: its draw did not open before its stake could have left.
    event ElectionDropped(uint64 indexed round);

    /// @notice An account that was drawn to train had not committed in time, for the `times`-th time in a row.
    event Absent(uint64 indexed round, uint32 indexed id, uint8 times);

    /// @notice The roles of a round, all of them recomputable from the seed and the weights before it.
    /// @param blockNumber The block whose randomness made the seed.
    /// @param committee Ids in the order drawn or elected; positions in sets follow it.
    /// @param proposers Who proposes, in order: the miner, then its backups.
    /// @param limited Only the listed workers (and the backups) train; else everybody else does.
    /// @param expected How many can commit: Train ends early when all have.
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
    /// @param cid The digest inside the CID of its model node, where validators fetch the bytes from.
    /// @param samples As declared: nobody can check it.
    event UpdateRevealed(
        uint64 indexed round, uint32 indexed id, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt
    );

    /// @notice A validator committed to its scores.
    event ScoresCommitted(uint64 indexed round, uint32 indexed id, bytes32 commitment);

    /// @notice A validator's scores were opened.
    /// @param scores The head's score in eight bytes, then one entry for each revealed update (docs/protocol.md 6).
    event ScoresRevealed(uint64 indexed round, uint32 indexed id, bytes scores, bytes32 salt);

    /// @notice Scores became shares: bit i of `included` says that revealed update i, from 0, counts; `shares` are p_0 and one
    /// per revealed update (on ranks: per rank), four bytes each; then who was elected. `shares` is empty where none were
    /// formed or the proposer posts them; `headScore` is the committee's score of the head in WAD, the maximum of its type
    /// when no majority gave one.
    event Tallied(uint64 indexed round, uint128 included, bytes shares, uint32[] elected, uint128 headScore);

    /// @notice A model was proposed. It binds nobody before Challenge has ended.
    /// @param modelRoot What `prove` is held against.
    /// @param blockCid The digest inside the CID of the block record, which names the model's bytes.
    /// @param shares Filled only where the proposer decides them.
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
    /// @param position The parameter, from 0.
    /// @param expected What the shares make of head and updates there.
    /// @param found What the proposal holds there.
    event LieProven(
        uint64 indexed round,
        uint8 attempt,
        uint64 position,
        uint32 expected,
        uint32 found,
        address indexed finder
    );

    /// @notice An account proposed or attested a proven lie.
    /// @param slashed All that was taken: the burned part, the finder's and the escrow's.
    /// @param toEscrow What of it the task keeps.
    event Convicted(
        uint64 indexed round, uint8 attempt, uint32 indexed id, uint256 slashed, uint256 toEscrow
    );

    /// @notice An account did not do its part in time. In Tally also: it showed a root, and a majority could not get the bytes.
    event Silent(uint64 indexed round, Phase phase, uint32 indexed id, uint256 slashed);

    /// @notice A majority of the committee could not get the head: the one before it is head again.
    event HeadDropped(uint64 indexed round, bytes32 root, bytes32 blockCid);

    /// @notice A round is over and settled.
    /// @param headRoot The head after it: the proposal if Final.
    /// @param headBlock The digest inside the CID of that head's block; zero before the first.
    /// @param workersPaid What workers may claim of this round, all together; validators and miner are credited at once.
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
    /// @dev Mostly a transaction that was mined after the round it was meant for. Read `place` again.
    error WrongRound(uint64 named, uint64 current);

    /// @notice The call names another attempt than the current one.
    /// @dev A proposal, vote or proof that came too late: another proposer has the turn.
    error WrongAttempt(uint8 named, uint8 current);

    /// @notice The action does not belong to the current phase.
    error WrongPhase(uint64 round, Phase phase);

    /// @notice The phase's deadline has passed.
    /// @dev The role is silent from now on, which may cost stake when the phase is left.
    error PhaseOver(uint64 deadline);

    /// @notice The phase can still be acted in, so it cannot be left.
    /// @param deadline From then on anyone may leave the phase.
    error PhaseStillOpen(uint64 deadline);

    /// @notice Only the sponsor may do this: the account that created the task, for ever.
    error NotSponsor();

    /// @notice Only the registry may do this.
    error NotRegistry();

    /// @notice A task is set up once, by the transaction that creates it.
    error AlreadyInitialized();

    /// @notice The account has never enrolled in this task, or has left.
    error NotEnrolled();

    /// @notice The owner has not named the sender as its operator in this task.
    /// @dev The owner calls `setOperator` of the registry first.
    error NotOperator(address owner);

    /// @notice The key acts for another owner, or is a participant itself.
    /// @dev One key acts for one stake: use another key, or wait until its owner has named another operator and a draw passed.
    error OperatorInUse(address key);

    /// @notice The task has a list of who may join, and the proof does not show that this account is on it in this role.
    /// @dev Use `enrolAdmitted` with the account's proof from the sponsor's list.
    error NotAdmitted(address account);

    /// @notice As many internals have enrolled as an appointed committee may have.
    error TooManyInternals(uint256 limit);

    /// @notice The account is enrolled.
    error AlreadyEnrolled();

    /// @notice The stake allocated to the task is below its minimum.
    /// @dev Allocate more with the registry, then enrol.
    error StakeTooLow(uint256 stake, uint256 minStake);

    /// @notice Enrolment changes wait until the open draw is done.
    /// @dev Try again after the draw; nothing is lost by waiting.
    error DrawOpen(uint64 round);

    /// @notice Too few accounts are enrolled for a draw.
    /// @dev It opens by itself with the enrolment, or the change of stake, that makes enough.
    error DrawNotOpen(uint64 round);

    /// @notice The block whose header seeds the draw is not yet in the past.
    /// @param blockNumber The block to wait for: the call counts in any later one.
    error DrawTooEarly(uint64 blockNumber);

    /// @notice The bytes are not the header of this block.
    /// @dev Also: a header without randomness, as chains before EIP-4399 have.
    error BadHeader(uint64 blockNumber);

    /// @notice The account does not train in this round, has committed, or was noted in this round already.
    error NotAbsent(uint32 id);

    /// @notice The account does not train in this round.
    /// @dev It sits in the committee, is first in line to propose, was not drawn, or enrolled too late.
    error NotWorker(uint64 round);

    /// @notice The account does not sit in this round's committee, or lost its seat by a conviction.
    error NotValidator(uint64 round);

    /// @notice It is somebody else's turn to propose.
    error NotProposer();

    /// @notice A proposer's own vote does not count.
    /// @dev So a majority of the others has to attest.
    error ProposerVotes();

    /// @notice A commitment of zero is no commitment.
    error ZeroCommitment();

    /// @notice One commitment per account and phase.
    /// @dev Two processes with one key do this to each other: the second loses, and may not know the salt of the first.
    error AlreadyCommitted(uint64 round);

    /// @notice There is no commitment to reveal.
    error NotCommitted(uint64 round);

    /// @notice One reveal per commitment.
    error AlreadyRevealed(uint64 round);

    /// @notice What is revealed is not what was committed to.
    /// @dev Another payload, salt or sender, or, for scores, other roots after a reorganisation.
    error WrongReveal();

    /// @notice The declared sample count is zero or above the task's limit.
    /// @param limit `maxSamples` of the terms.
    error BadSamples(uint64 samples, uint64 limit);

    /// @notice The score bytes have a wrong length or spare bits set.
    /// @param given Bytes received.
    /// @param expected Bytes that so many updates need under this rule.
    error BadScores(uint256 given, uint256 expected);

    /// @notice A member of an elected committee scores only if it revealed its own update.
    error NoOwnUpdate(uint64 round);

    /// @notice The scores given to the tally are not the revealed ones, all of them, in committee order.
    /// @dev The hash of each vector is compared with what was revealed: nobody can leave one out.
    error WrongScores();

    /// @notice Posted shares are not of the rule's form.
    /// @dev Length, the head's share, a share for an update that does not count, or parts that are not equal.
    error BadShares();

    /// @notice The vote names another proposal than the one that stands.
    /// @dev A vote names root, block and posted shares, so that none lands on a proposal its sender has not seen.
    error OtherProposal();

    /// @notice One vote per member and attempt.
    /// @dev A vote cannot be taken back.
    error AlreadyVoted();

    /// @notice The proof names a parameter beyond the tree.
    error BadPosition(uint256 position);

    /// @notice This item of the evidence is missing, does not lead to its root, or is one too many.
    /// @param item Which one, in the order of `AggregateProof`.
    error BadProof(uint256 item);

    /// @notice The aggregate is right at this position.
    /// @param value What both sides have there.
    error NoLie(uint256 value);

    /// @notice The round has not ended yet, or ended before there was anything to pay.
    /// @dev A round that is Void before its tally leaves nothing to claim.
    error RoundNotSettled(uint64 round);

    /// @notice A round is claimed once.
    error AlreadyClaimed(uint64 round);

    /// @notice There is no credit, and none of the rounds named has pay for the caller.
    /// @dev Workers name their rounds: only those who were paid in them count.
    error NothingToClaim();

    /// @notice The escrow stays until the task has ended.
    error TaskNotEnded();

    /// @notice The task is already abandoned.
    /// @dev Or it ends anyway, its target reached.
    error AlreadyAbandoned();

    /// @notice The receiver refused the ether.
    /// @dev The whole call is undone: nothing is lost, and nobody else is held up.
    error TransferFailed(address to, uint256 amount);

    /* ENROLMENT */

    /// @notice Take part from the next draw on, with the stake that the caller has allocated to this task.
    /// @dev The first time gives the account its id. While a draw is open the change waits (`ChangeQueued`).
    /// Who was put out of the draw for its absences comes back by this call.
    function enrol() external;

    /// @notice The caller accepts to act for an owner of stake that named it (`IStakeRegistry.setOperator`), from the next draw
    /// on, and enrols the owner, if it takes no part yet. Called again it enrols an owner who was put out or left.
    /// @dev Ids, seats, weights, credits and commitments are the owner's; a commitment names the key that sends it. The owner
    /// may act too.
    function enrolFor(address owner) external;

    /// @notice `enrol` or, for another owner, `enrolFor`, in a task that has a list of who may join.
    /// @param role As what the list names the owner; a list that names the zero address as participant admits everybody.
    /// @param proof The leading 20 bytes of each sibling up to `admissionRoot`, lowest first, packed; a pair is hashed in ascending
    /// order.
    /// @dev Only the first enrolment needs it: who has an id comes back by `enrol`.
    function enrolAdmitted(address owner, Role role, bytes calldata proof) external;

    /// @notice Take no part in later draws. The stake stays locked while a round needs it.
    /// @dev A role that the account holds in the running round stays its own: leaving excuses no silence.
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
    /// Warning: who commits and does not open the commitment in Reveal loses the no-reveal part of its stake.
    /// @param digest `keccak256(abi.encode(chainid, task, taskId, round, uint8(Phase.Train), sender, payload, salt))` with
    /// `payload = keccak256(abi.encode(root, cid, samples))`.
    function commitUpdate(uint64 round, bytes32 digest) external;

    /// @notice Opens the commitment. The bytes must be in the store by now: where a majority of the committee says that it
    /// could not get them, the account loses what not revealing costs.
    /// @param root The update's Merkle root.
    /// @param cid The digest inside the CID of its node.
    /// @param samples How many samples are behind it.
    function revealUpdate(uint64 round, bytes32 root, bytes32 cid, uint64 samples, bytes32 salt) external;

    /// @notice A validator commits to its scores of the head and of every revealed update. Once.
    /// @param digest As in `commitUpdate` with `Phase.Score` and `payload = keccak256(abi.encode(rootsHash, scores))`.
    function commitScores(uint64 round, bytes32 digest) external;

    /// @notice Opens the scores; only their hash is kept, the event carries them.
    /// @dev They are bound to the ordered roots of the revealed updates, so they cannot count for others.
    function revealScores(uint64 round, bytes calldata scores, bytes32 salt) external;

    /// @notice Turns the revealed scores into inclusion, shares and, where the rule elects, the next committee.
    /// @dev An update counts when a majority of all seats vouches for it. Fewer included than `minUpdates`, a target that is
    /// reached, or a head that a majority could not get: Void. Workers whose bytes a majority could not get are slashed here.
    /// @param vectors Every revealed score vector, in committee order, nothing for those who did not reveal.
    function tally(uint64 round, bytes[] calldata vectors) external;

    /// @notice The proposer of this attempt posts the next model. Once.
    /// Warning: a root that is not what the shares make of head and updates costs the lie slash as soon as anyone shows it.
    /// @param shares p_0 and one share per revealed update where the proposer posts them (`krum`, `multi-krum`, `varsel`), else empty.
    function propose(
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        uint32[] calldata shares
    ) external;

    /// @notice A validator attests this very proposal. It answers for it with its stake.
    /// @param sharesDigest `keccak256(abi.encodePacked(uint256[] shares))`; zero where the contract decided the shares.
    /// Warning: attest only what was redone from bytes. Every attester of a proven lie loses the lie slash.
    function attest(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external;

    /// @notice A validator objects to this very proposal.
    /// @dev An objection needs no reason: without a majority of attesters the next in line proposes.
    function object(uint64 round, uint8 attempt, bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        external;

    /// @notice Seals a finding at least one block before it is shown, so that nobody can take the finder's part by copying it.
    /// A note that stands already stays as it is.
    /// @param note `keccak256(abi.encode(chainid, task, round, attempt, position, sender, salt))`.
    /// Warning: without it a copied proof cannot be told from the first, and the finder's part is burned.
    function noteFinding(bytes32 note) external;

    /// @notice Shows one wrong parameter of the proposal: proposer and attesters are slashed, the next in line proposes.
    /// @dev Anyone may. The finder's part goes to the caller only if its note stands since an earlier block; else it is
    /// burned with the rest, and the proof counts all the same.
    /// @param evidence The leaves and their paths, as `AggregateProof` says.
    /// @param salt That of the caller's note; any, when there is none.
    function prove(uint64 round, uint8 attempt, uint64 position, bytes calldata evidence, bytes32 salt)
        external;

    /// @notice Leaves a phase that is over. Every transition without data of its own is here.
    /// @dev Reverts with `PhaseStillOpen` while somebody expected may still act.
    function advance(uint64 round) external;

    /* MONEY */

    /// @notice Pulls the caller's credit and its pay as a worker of the rounds named.
    /// @dev Nothing expires. A round named twice, or claimed before, reverts; one without pay for the caller counts nothing.
    /// @return amount What was sent.
    function claim(uint64[] calldata rounds) external returns (uint256 amount);

    /// @notice The sponsor gives up: at once while nobody works, else when the round ends.
    /// @dev Work under way is finished and paid; the rest can be pulled with `refund` afterwards.
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
    /// @return Round, attempt, phase and deadline: what an action must name and keep.
    function place() external view returns (PlaceView memory);

    /// @notice An account; all zero but perhaps its credit when it never enrolled.
    /// @dev Pay as a worker is not in `credit`: it is reckoned when it is claimed.
    function account(address who) external view returns (AccountView memory);

    /// @notice For whom a key acts, or acted: from round `since` until before `until`, 2^48 - 1: until further notice; all
    /// zero when it never did.
    function operates(address key) external view returns (address owner, uint48 since, uint48 until);

    /// @notice The address behind an enrolment id.
    function accountOf(uint32 id) external view returns (address);

    /// @notice How many ever enrolled; ids run from 1 to this.
    function accountCount() external view returns (uint32);

    /// @notice How many have a weight above zero.
    function eligible() external view returns (uint32);

    /// @notice The weight of all accounts.
    function totalWeight() external view returns (uint256);

    /// @notice Whom an appointed committee is made of: all internals that ever enrolled, in order.
    function internals() external view returns (uint32[] memory);

    /// @notice This round's validators; empty before the draw.
    /// @return Ids; a position in this list is a bit in `seats`.
    function committee() external view returns (uint32[] memory);

    /// @notice Who proposes, in order: the miner and its backups; empty before the draw.
    function proposers() external view returns (uint32[] memory);

    /// @notice The drawn workers, where more were enrolled than may train.
    function workers() external view returns (uint32[] memory);

    /// @notice Whose turn it is in Propose and Challenge; else 0.
    function currentProposer() external view returns (uint32);

    /// @notice The committee that this round (or the last one) elected; empty where none stands.
    /// @dev It serves in the next draw, unless that opens later than its stake could have left.
    function elected() external view returns (uint32[] memory);

    /// @notice An account's update in this round. `digest` is its commitment, after the reveal its root.
    /// @dev `samples` is kept only where the shares depend on it.
    function update(uint32 id)
        external
        view
        returns (bool committed, bool revealed, bytes32 digest, uint64 samples);

    /// @notice The ids of the revealed updates in index order; known from Score on.
    /// @return Ids in ascending order, without the members of a training committee.
    function order() external view returns (uint32[] memory);

    /// @notice The hash of the ordered roots that scores are bound to; known from Score on.
    /// @return `keccak256` of the roots, packed in index order.
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
    /// @dev Each round may be named once; a round named twice counts twice here and reverts in `claim`.
    function creditOf(address who, uint64[] calldata rounds) external view returns (uint256);

    /// @notice What nobody has earned yet.
    /// @dev The sponsor's when the task has ended. Ether that was forced on the contract is not in it.
    function escrow() external view returns (uint256);

    /// @notice What was earned and not yet claimed.
    /// @dev With `escrow` it is all that the contract answers for.
    function owed() external view returns (uint256);

    /// @notice A round's money for workers, committee and miner, after the callers' fees.
    /// @dev The same in every round: funded money over `rounds`, less twelve callers' fees.
    function budget() external view returns (uint256 forWorkers, uint256 forCommittee, uint256 forMiner);

    /// @notice The root of the current model.
    /// @dev The model that the next round starts from; the first model before the first Final round.
    function headRoot() external view returns (bytes32);

    /// @notice The digest inside the CID of the newest final block; zero before the first.
    /// @dev Its record links to the block before it, and so to the whole history.
    function headBlock() external view returns (bytes32);

    /// @notice Root and block of the head before this one, where a majority can go back to it; zero when there is none.
    function olderHead() external view returns (bytes32 root, bytes32 blockCid);
}
