"""The round: what may happen when, and what follows (docs/protocol.md 5 to 9). `TrainingTask` in Python.

An action works on a draft of the state, as a transaction does on chain: `draft()` copies, and whoever drives the rules
keeps the draft only if nothing was raised. There is no clock: `Call` carries sender, time and block number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from chainfl.codec.commitments import (
    commitment,
    finder_note,
    keccak256,
    validator_payload,
    worker_payload,
)
from chainfl.codec.scores import ScoreKind, decode_scores, scores_length, vouches
from chainfl.errors import ScoresError
from chainfl.protocol import draw as drawing
from chainfl.protocol import errors, events, rewards
from chainfl.protocol import shares as sharing
from chainfl.protocol.config import MAX_WEIGHT, needed_accounts, phase_seconds, weight_of
from chainfl.protocol.events import Event
from chainfl.protocol.proof import Claim, Evidence, check_evidence, parts_of
from chainfl.types import TOTAL, Address, Digest, Id, Outcome, Phase, Rule, Slash, TaskConfig

ATTEMPTS = 3
"""A proposer and two backups."""
NO_SCORE = 2**128 - 1
"""The head's score where no majority gave one."""
NOBODY = Digest(bytes(32))
NO_ID = Id(0)


@dataclass(frozen=True, slots=True)
class Call:
    """Who acts, when."""

    sender: Address
    now: int
    block_number: int


@dataclass(frozen=True, slots=True)
class Slashed:
    """What a slash took, and where it went besides the burn."""

    amount: int
    to_escrow: int


class Stakes(Protocol):
    """What a task needs of the stake registry."""

    def stake_of(self, account: Address, task: Address) -> int:
        """Stake allocated to the task and not unbonding."""
        ...

    def slash(self, account: Address, task: Address, kind: Slash, finder: Address | None) -> Slashed:
        """Take the task's fraction of the account's stake."""
        ...


@dataclass(frozen=True, slots=True)
class Account:
    """An enrolled account."""

    id: Id
    address: Address
    wants: bool
    weight: int
    active_from: int


@dataclass(frozen=True, slots=True)
class Update:
    """A worker's commitment, and what it revealed."""

    commitment: Digest
    root: Digest | None = None
    cid: Digest | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """A validator's commitment, and what it revealed."""

    commitment: Digest
    revealed: bytes | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """What the scores decided. `shares` has p_0 first, then one per revealed update (on ranks: per rank)."""

    included: tuple[bool, ...]
    shares: tuple[int, ...]
    deviations: dict[Id, int]
    head_score: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a proposer posted."""

    proposer: Id
    model_root: Digest
    block: Digest
    shares: tuple[int, ...]

    @property
    def shares_digest(self) -> Digest:
        """Names posted shares; zero where the contract decided them."""
        if not self.shares:
            return NOBODY
        return keccak256(b"".join(share.to_bytes(32, "big") for share in self.shares))


@dataclass(frozen=True, slots=True)
class Pay:
    """How the workers of a round are paid: part i of `parts` over `whole`, of the workers' budget."""

    workers: dict[Id, int]
    whole: int


@dataclass(slots=True)
class Round:
    """One pass of the protocol over the task."""

    number: int
    attempt: int = 0
    phase: Phase = Phase.DRAW
    deadline: int = 0
    draw_block: int = 0
    extended: bool = False
    drawn: drawing.Drawn | None = None
    seed: Digest = NOBODY
    expected: int = 0
    updates: dict[Id, Update] = field(default_factory=dict)
    order: tuple[Id, ...] = ()
    scores: dict[Id, Scores] = field(default_factory=dict)
    tally: Tally | None = None
    turns: tuple[Id, ...] = ()
    proposer: Id = NO_ID
    proposal: Proposal | None = None
    votes: dict[Id, bool] = field(default_factory=dict)
    convicted: frozenset[Id] = frozenset()
    absent: frozenset[Id] = frozenset()

    @property
    def committee(self) -> tuple[Id, ...]:
        """This round's validators, in the order drawn or elected."""
        return self.drawn.committee if self.drawn else ()

    def draft(self) -> "Round":
        """A copy that can be changed without touching this one."""
        return replace(self, updates=dict(self.updates), scores=dict(self.scores), votes=dict(self.votes))


@dataclass(slots=True)
class Task:
    """One training task: its terms, its participants, its running round and its money."""

    chain_id: int
    address: Address
    task_id: int
    sponsor: Address
    config: TaskConfig
    funded: int
    escrow: int
    round: Round
    head_root: Digest
    head_block: Digest = NOBODY
    head_votes: tuple[tuple[Id, bool], ...] = ()
    voids: tuple[int, ...] = ()
    owed: int = 0
    ending: bool = False
    elected: tuple[Id, ...] | None = None
    eligible: int = 0
    total_weight: int = 0
    accounts: dict[Address, Account] = field(default_factory=dict)
    addresses: list[Address] = field(default_factory=list)
    credits: dict[Address, int] = field(default_factory=dict)
    pays: dict[int, Pay] = field(default_factory=dict)
    claimed: set[tuple[int, Id]] = field(default_factory=set)
    notes: dict[Digest, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def draft(self) -> "Task":
        """A copy that can be changed without touching this one; its list of events starts empty."""
        return replace(
            self,
            round=self.round.draft(),
            accounts=dict(self.accounts),
            addresses=list(self.addresses),
            credits=dict(self.credits),
            pays=dict(self.pays),
            claimed=set(self.claimed),
            notes=dict(self.notes),
            events=[],
        )

    def by_id(self, id_: Id) -> Account:
        """The account with this enrolment id."""
        return self.accounts[self.addresses[id_ - 1]]


def new_task(
    chain_id: int, address: Address, task_id: int, sponsor: Address, config: TaskConfig, escrow: int
) -> Task:
    """A task as its creation leaves it: waiting for enough participants to draw its first round."""
    return Task(chain_id, address, task_id, sponsor, config, escrow, escrow, Round(1), config.first_root)


# Enrolment


def enrol(task: Task, call: Call, stakes: Stakes) -> None:
    """Take part from the next draw on."""
    _expect_running(task)
    account = task.accounts.get(call.sender)
    if account is not None and account.wants:
        raise errors.AlreadyEnrolledError()
    stake = stakes.stake_of(call.sender, task.address)
    if stake < task.config.min_stake:
        raise errors.StakeTooLowError(stake, task.config.min_stake)

    if account is None:
        task.addresses.append(call.sender)
        account = Account(Id(len(task.addresses)), call.sender, True, 0, 0)
    task.accounts[call.sender] = replace(account, wants=True)
    task.events.append(events.Enrolled(account.id, call.sender))
    _apply_or_queue(task, call, call.sender, stakes)


def leave(task: Task, call: Call, stakes: Stakes) -> None:
    """Take no part in later draws. The stake stays locked while a round needs it."""
    account = _enrolled(task, call.sender)

    task.accounts[call.sender] = replace(account, wants=False)
    task.events.append(events.Left(account.id, call.sender))
    _apply_or_queue(task, call, call.sender, stakes)


def apply_change(task: Task, call: Call, stakes: Stakes, address: Address) -> None:
    """Bring an account's weight in line with its stake and wish. Anyone may, unless a draw is open."""
    if address not in task.accounts:
        raise errors.NotEnrolledError()
    if _draw_is_open(task):
        raise errors.DrawOpenError(task.round.number)

    _apply(task, call, address, stakes)


def stake_changed(task: Task, call: Call, stakes: Stakes, address: Address) -> None:
    """The registry tells that an account's stake in this task changed."""
    if address in task.accounts:
        _apply_or_queue(task, call, address, stakes)


def unbonding_seconds(task: Task) -> int:
    """How long stake stays slashable after it is deallocated: the longest round; nothing when the task has ended."""
    return 0 if task.round.phase is Phase.ENDED else task.config.longest_round()


def is_locked(task: Task, stakes: Stakes, address: Address) -> bool:
    """Whether the account's stake must stay: a round holds it (role, update, election), or the draw counts it."""
    account, round_ = task.accounts.get(address), task.round
    if account is None or round_.phase is Phase.ENDED:
        return False
    if account.weight > _due_weight(task, account, stakes):
        return True
    if account.id in (task.elected or ()):
        return True
    if round_.drawn is None:
        return False
    return account.id in (*round_.committee, *round_.drawn.proposers) or account.id in round_.updates


# Draw


def draw(task: Task, call: Call, seed: Digest | None) -> None:
    """Draw the roles of the round from its seed; without one (the block is out of reach) the draw opens again."""
    round_ = task.round
    _expect(task, Phase.DRAW)
    if round_.draw_block == 0:
        raise errors.DrawNotOpenError(round_.number)
    if call.block_number <= round_.draw_block:
        raise errors.DrawTooEarlyError(round_.draw_block)
    if seed is None:
        _open_draw(task, call)
        return

    config = task.config
    weights = [(task.accounts[a].id, task.accounts[a].weight) for a in task.addresses]
    elects = config.rule.is_elected
    roles = drawing.draw_roles(
        seed, weights, config.committee_size, config.max_updates, task.elected if elects else None, elects
    )
    round_.drawn, round_.seed, task.elected = roles, seed, None
    round_.expected = _expected_updates(task, roles)
    workers = roles.workers or ()
    task.events.append(
        events.Drawn(
            round_.number,
            round_.draw_block,
            seed,
            roles.committee,
            roles.proposers,
            roles.workers is not None,
            workers,
            round_.expected,
        )
    )
    _pay_caller(task, call)
    _enter(task, call, Phase.TRAIN)


# Train, Reveal


def commit_update(task: Task, call: Call, round_number: int, digest: Digest) -> None:
    """A worker, or a member of a training committee, commits to its update. Once."""
    account = _acting(task, call, round_number, Phase.TRAIN)
    if not trains(task, account):
        raise errors.NotWorkerError(round_number)
    if account.id in task.round.updates:
        raise errors.AlreadyCommittedError(round_number)
    if digest == NOBODY:
        raise errors.ZeroCommitmentError()

    task.round.updates[account.id] = Update(digest)
    task.events.append(events.UpdateCommitted(round_number, account.id, digest))


def reveal_update(
    task: Task, call: Call, round_number: int, root: Digest, cid: Digest, samples: int, salt: Digest
) -> None:
    """Open the commitment: root and CID of the update, and the number of samples behind it."""
    account = _acting(task, call, round_number, Phase.REVEAL)
    update = task.round.updates.get(account.id)
    if update is None:
        raise errors.NotCommittedError(round_number)
    if update.root is not None:
        raise errors.AlreadyRevealedError(round_number)
    if not 1 <= samples <= task.config.max_samples:
        raise errors.BadSamplesError(samples, task.config.max_samples)
    if update.commitment != _sealed(task, call, Phase.TRAIN, worker_payload(root, cid, samples), salt):
        raise errors.WrongRevealError()

    task.round.updates[account.id] = replace(update, root=root, cid=cid, samples=samples)
    task.events.append(events.UpdateRevealed(round_number, account.id, root, cid, samples, salt))


# Score, Tally


def commit_scores(task: Task, call: Call, round_number: int, digest: Digest) -> None:
    """A validator commits to its scores of the head and of every revealed update. Once."""
    account = _acting(task, call, round_number, Phase.SCORE)
    if account.id not in task.round.committee:
        raise errors.NotValidatorError(round_number)
    if not may_score(task, account.id):
        raise errors.NoOwnUpdateError(round_number)
    if account.id in task.round.scores:
        raise errors.AlreadyCommittedError(round_number)
    if digest == NOBODY:
        raise errors.ZeroCommitmentError()

    task.round.scores[account.id] = Scores(digest)
    task.events.append(events.ScoresCommitted(round_number, account.id, digest))


def reveal_scores(task: Task, call: Call, round_number: int, scores: bytes, salt: Digest) -> None:
    """Open the scores. They are bound to the roots they judge, in order."""
    account = _acting(task, call, round_number, Phase.TALLY)
    mine = task.round.scores.get(account.id)
    if mine is None:
        raise errors.NotCommittedError(round_number)
    if mine.revealed is not None:
        raise errors.AlreadyRevealedError(round_number)
    _decoded(task, scores)
    payload = validator_payload(ordered_roots(task), scores)
    if mine.commitment != _sealed(task, call, Phase.SCORE, payload, salt):
        raise errors.WrongRevealError()

    task.round.scores[account.id] = replace(mine, revealed=scores)
    task.events.append(events.ScoresRevealed(round_number, account.id, scores, salt))


def tally(task: Task, call: Call, stakes: Stakes, round_number: int, vectors: Sequence[bytes]) -> None:
    """Turn all revealed scores, given in committee order, into inclusion, shares and perhaps the next committee."""
    round_, config = task.round, task.config
    _expect_round(task, round_number)
    _expect(task, Phase.TALLY)
    revealed = [id_ for id_ in round_.committee if _revealed(round_, id_) is not None]
    _expect_over(task, call)
    if list(vectors) != revealed_vectors(task):
        raise errors.WrongScoresError()

    for id_ in round_.committee:
        if id_ in round_.scores and id_ not in revealed:
            _punish(task, stakes, id_, Slash.NO_REVEAL)
    _pay_caller(task, call)
    task.elected = decide(task)
    tallied = round_.tally
    assert tallied is not None
    included = tallied.included if has_quorum(task) else ()
    task.events.append(
        events.Tallied(round_number, included, tallied.shares, task.elected or (), tallied.head_score)
    )
    reached = is_target_reached(config, tallied.head_score)
    task.ending = task.ending or reached
    if reached or sum(included) < config.min_updates:
        _void(task, call)
    else:
        _next_proposer(task, call)


def has_quorum(task: Task) -> bool:
    """Whether a majority of the committee revealed its scores."""
    revealed = sum(scores.revealed is not None for scores in task.round.scores.values())
    return revealed >= sharing.majority(task.config.committee_size)


def is_target_reached(config: TaskConfig, head_score: int) -> bool:
    """Whether the committee's loss of the head is low enough to end the task."""
    return config.target > 0 and head_score <= config.target


def decide(task: Task) -> tuple[Id, ...] | None:
    """Inclusion, shares and deviations from all revealed scores; answers the committee they elect, if any.

    Without a majority of reveals nothing is judged: every revealed update counts for pay, and no shares are formed.
    """
    round_ = task.round
    shown = [(id_, _revealed(round_, id_)) for id_ in round_.committee]
    decoded = {id_: _decoded(task, scores) for id_, scores in shown if scores is not None}
    if not has_quorum(task):
        round_.tally = Tally((True,) * len(round_.order), (), dict.fromkeys(decoded, 0), NO_SCORE)
        return None
    return _form_shares(task, decoded)


def _form_shares(task: Task, decoded: dict[Id, list[int | None]]) -> tuple[Id, ...] | None:
    """What a majority decides, from scores that are numbers or None."""
    round_, config = task.round, task.config
    count = len(round_.order)
    columns = [[scores[1 + i] for scores in decoded.values()] for i in range(count)]
    included = sharing.included(
        [[score is not None for score in column] for column in columns], _roots(task), task.head_root, config
    )
    kept = [i for i in range(count) if included[i]]
    factor = 1 if config.rule.is_elected else sharing.SCORE_TO_WAD
    scored = config.rule.is_softmax or config.rule.is_elected
    statistics = [
        sharing.statistic_of([s for s in columns[i] if s is not None], config.statistic, factor)
        if scored
        else 0
        for i in kept
    ]
    shares: tuple[int, ...] = ()
    elected = None
    if len(kept) >= config.min_updates and not config.rule.is_attested:
        samples = [round_.updates[round_.order[i]].samples for i in kept]
        formed = sharing.shares_of(statistics, samples, config)
        shares = (TOTAL - sum(formed), *(formed if config.rule.is_on_ranks else _spread(formed, kept, count)))
        if config.rule.is_elected:
            elected = _elect(task, [round_.order[kept[position]] for position in sharing.rank(statistics)])
    deviations = {}
    for id_, scores in decoded.items():
        gaps = [
            None if (s := scores[1 + i]) is None else abs(s * factor - statistic) if scored else 0
            for i, statistic in zip(kept, statistics, strict=True)
        ]
        deviations[id_] = rewards.deviation(gaps, config.dev_cap) if gaps else 0
    head_score = _head_score([scores[0] for scores in decoded.values()], config)
    round_.tally = Tally(tuple(included), shares, deviations, head_score)
    return elected


def score_kind(rule: Rule) -> ScoreKind:
    """What the entries of a rule's scores are."""
    if rule.is_softmax:
        return ScoreKind.LOSS
    return ScoreKind.DISTANCE if rule.is_elected else ScoreKind.VOUCH


def _decoded(task: Task, scores: bytes) -> list[int | None]:
    """Entry 0 and the entries of all updates; None where the validator says: not available, or invalid."""
    kind, count = score_kind(task.config.rule), len(task.round.order)
    try:
        decoded = decode_scores(kind, scores, count)
    except ScoresError:
        raise errors.BadScoresError(len(scores), scores_length(kind, count)) from None
    head = decoded.head if vouches(ScoreKind.LOSS, decoded.head) else None
    return [head, *(entry if vouches(kind, entry) else None for entry in decoded.entries)]


def _spread(formed: Sequence[int], kept: Sequence[int], count: int) -> list[int]:
    """Shares per included update laid out per revealed update, zero for the others."""
    by_index = dict(zip(kept, formed, strict=True))
    return [by_index.get(i, 0) for i in range(count)]


def _elect(task: Task, ranked: Sequence[Id]) -> tuple[Id, ...] | None:
    """The middle of the ranking, of those still staked (CMFL); nobody when too few are electable."""
    size = task.config.committee_size
    electable = [id_ for id_ in ranked if task.by_id(id_).weight > 0]
    if len(electable) < size:
        return None
    start = (len(electable) - size) // 2
    return tuple(electable[start : start + size])


def _head_score(scores: Sequence[int | None], config: TaskConfig) -> int:
    """The committee's loss of the head in WAD, when a majority of the committee gave one."""
    numbers = [score for score in scores if score is not None]
    if len(numbers) < sharing.majority(config.committee_size):
        return NO_SCORE
    return sharing.statistic_of(numbers, config.statistic, sharing.SCORE_TO_WAD)


# Propose, Challenge


def propose(
    task: Task,
    call: Call,
    round_number: int,
    attempt: int,
    model_root: Digest,
    block: Digest,
    shares: Sequence[int],
) -> None:
    """The proposer of this attempt posts the next model. Once."""
    account = _acting(task, call, round_number, Phase.PROPOSE)
    round_ = task.round
    _expect_attempt(task, attempt)
    if account.id != round_.proposer:
        raise errors.NotProposerError()
    assert round_.tally is not None
    if task.config.rule.is_attested:
        sharing.check_attested(shares, round_.tally.included, task.config)
    elif shares:
        raise errors.BadSharesError()

    round_.proposal = Proposal(account.id, model_root, block, tuple(shares))
    task.events.append(events.Proposed(round_number, attempt, account.id, model_root, block, tuple(shares)))
    _enter(task, call, Phase.CHALLENGE)


def vote(
    task: Task,
    call: Call,
    round_number: int,
    attempt: int,
    model_root: Digest,
    block: Digest,
    shares_digest: Digest,
    attests: bool,
) -> None:
    """A validator attests this very proposal or objects to it."""
    account = _acting(task, call, round_number, Phase.CHALLENGE)
    round_, proposal = task.round, task.round.proposal
    _expect_attempt(task, attempt)
    if account.id not in round_.committee or account.id in round_.convicted:
        raise errors.NotValidatorError(round_number)
    if account.id == round_.proposer:
        raise errors.ProposerVotesError()
    assert proposal is not None
    if (model_root, block, shares_digest) != (proposal.model_root, proposal.block, proposal.shares_digest):
        raise errors.OtherProposalError()
    if account.id in round_.votes:
        raise errors.AlreadyVotedError()

    round_.votes[account.id] = attests
    task.events.append(events.Voted(round_number, attempt, account.id, attests))


def note_finding(task: Task, call: Call, note: Digest) -> None:
    """Seal a finding before showing it, so that nobody can copy the proof and take the finder's part."""
    if note in task.notes:
        raise errors.AlreadyNotedError()

    task.notes[note] = call.block_number
    task.events.append(events.FindingNoted(call.sender, note))


def prove(
    task: Task,
    call: Call,
    stakes: Stakes,
    round_number: int,
    attempt: int,
    position: int,
    evidence: Evidence,
    salt: Digest,
) -> None:
    """Show one wrong parameter of the proposal: proposer and attesters are slashed, the next in line proposes."""
    round_ = task.round
    _expect_round(task, round_number)
    _expect(task, Phase.CHALLENGE)
    _expect_attempt(task, attempt)
    expected, found = check_evidence(claim_of(task), position, evidence)
    if expected == found:
        raise errors.NoLieError(expected)

    note = finder_note(task.chain_id, task.address, round_number, attempt, position, call.sender, salt)
    finder = call.sender if task.notes.get(note, call.block_number) < call.block_number else None
    task.events.append(events.LieProven(round_number, attempt, position, expected, found, call.sender))
    guilty = [round_.proposer, *(id_ for id_ in round_.committee if round_.votes.get(id_, False))]
    for id_ in guilty:
        slashed = stakes.slash(task.by_id(id_).address, task.address, Slash.LIE, finder)
        task.escrow += slashed.to_escrow
        task.events.append(events.Convicted(round_number, attempt, id_, slashed.amount, slashed.to_escrow))
    round_.convicted |= set(guilty)
    for id_ in guilty:
        _apply(task, call, task.by_id(id_).address, stakes)
    _next_proposer(task, call)


# Moving on


def advance(task: Task, call: Call, stakes: Stakes, round_number: int) -> None:
    """Leave a phase that is over. Every transition without data of its own is here, and anyone may call it."""
    round_ = task.round
    _expect_round(task, round_number)
    if round_.phase is Phase.TRAIN:
        _leave_train(task, call)
    elif round_.phase is Phase.REVEAL:
        _leave_reveal(task, call, stakes)
    elif round_.phase is Phase.SCORE:
        _leave_score(task, call, stakes)
    elif round_.phase is Phase.PROPOSE:
        _leave_propose(task, call, stakes)
    elif round_.phase is Phase.CHALLENGE:
        _leave_challenge(task, call, stakes)
    else:
        raise errors.WrongPhaseError(round_.number, round_.phase)


def has_everyone_acted(task: Task) -> bool:
    """Whether nobody is left to wait for, so that the phase may end before its deadline."""
    round_ = task.round
    if round_.phase is Phase.TRAIN:
        return len(round_.updates) >= round_.expected
    if round_.phase is Phase.REVEAL:
        return all(update.root is not None for update in round_.updates.values())
    if round_.phase is Phase.SCORE:
        return all(id_ in round_.scores for id_ in round_.committee if may_score(task, id_))
    if round_.phase is Phase.TALLY:
        return all(scores.revealed is not None for scores in round_.scores.values())
    return False


def _leave_train(task: Task, call: Call) -> None:
    round_ = task.round
    _expect_over(task, call)
    workers = sum(id_ not in round_.committee for id_ in round_.updates)
    if workers >= task.config.min_updates:
        _pay_caller(task, call)
        _enter(task, call, Phase.REVEAL)
    elif not round_.extended:
        round_.extended, round_.deadline = True, call.now + task.config.train_seconds
        task.events.append(events.TrainExtended(round_.number, round_.deadline))
    else:
        _pay_caller(task, call)
        _void(task, call)


def _leave_reveal(task: Task, call: Call, stakes: Stakes) -> None:
    round_ = task.round
    _expect_over(task, call)
    hidden = sorted(id_ for id_, update in round_.updates.items() if update.root is None)
    for id_ in hidden:
        _punish(task, stakes, id_, Slash.NO_REVEAL)
    set_order(round_)
    _pay_caller(task, call)
    _enter(task, call, Phase.SCORE)


def set_order(round_: Round) -> None:
    """Give the revealed updates their index: by enrolment id, the committee's own left out."""
    shown = (id_ for id_, update in sorted(round_.updates.items()) if update.root is not None)
    round_.order = tuple(id_ for id_ in shown if id_ not in round_.committee)


def _leave_score(task: Task, call: Call, stakes: Stakes) -> None:
    round_ = task.round
    _expect_over(task, call)
    for id_ in round_.committee:
        if id_ not in round_.scores:
            _punish(task, stakes, id_, Slash.LIVENESS)
    _pay_caller(task, call)
    _enter(task, call, Phase.TALLY)


def _leave_propose(task: Task, call: Call, stakes: Stakes) -> None:
    _expect_over(task, call)
    _punish(task, stakes, task.round.proposer, Slash.LIVENESS)
    _pay_caller(task, call)
    _next_proposer(task, call)


def _leave_challenge(task: Task, call: Call, stakes: Stakes) -> None:
    # INVARIANT: Challenge always runs its full length, or a committee could close it before a watcher acts.
    _expect_over(task, call)
    round_ = task.round
    expected = voters(round_, round_.proposer)
    silent = [id_ for id_ in expected if id_ not in round_.votes]
    for id_ in silent:
        _punish(task, stakes, id_, Slash.LIVENESS)
    round_.absent |= set(silent)
    _pay_caller(task, call)
    if sum(round_.votes.values()) >= sharing.majority(len(expected)):
        assert round_.proposal is not None
        task.head_root, task.head_block = round_.proposal.model_root, round_.proposal.block
        _end_round(task, call, Outcome.FINAL)
    else:
        _next_proposer(task, call)


def _next_proposer(task: Task, call: Call) -> None:
    """Hand the turn to the next in line who was not convicted; nobody left, or nobody left to vote: Void."""
    round_ = task.round
    line = _line(round_)
    if round_.attempt < ATTEMPTS and line and voters(round_, line[0]):
        hand_over(round_)
        _enter(task, call, Phase.PROPOSE)
    else:
        _void(task, call)


def hand_over(round_: Round) -> None:
    """The next attempt: the first in line proposes, and nothing stands yet."""
    line = _line(round_)
    round_.attempt += 1
    round_.proposer, round_.proposal, round_.turns = line[0], None, (*round_.turns, line[0])
    round_.votes.clear()


def _line(round_: Round) -> list[Id]:
    """Who may still propose, in order: those who had no turn yet and were not convicted."""
    proposers = round_.drawn.proposers if round_.drawn else ()
    return [id_ for id_ in proposers if id_ not in round_.turns and id_ not in round_.convicted]


def _void(task: Task, call: Call) -> None:
    """End the round without a new model; what was elected in it falls."""
    task.elected = None
    _end_round(task, call, Outcome.VOID)


def _end_round(task: Task, call: Call, outcome: Outcome) -> None:
    """Settle, then open the next round, or end the task."""
    round_ = task.round
    paid = settle(task, outcome)
    remember(task, outcome)
    task.events.append(
        events.RoundEnded(round_.number, round_.attempt, outcome, task.head_root, task.head_block, *paid)
    )
    if begin_next(task):
        _open_if_enough(task, call)
    else:
        _end_task(task)


def remember(task: Task, outcome: Outcome) -> None:
    """What the next block tells of rounds past: who voted on the head, and which rounds since were void."""
    round_ = task.round
    if outcome is Outcome.FINAL:
        votes = round_.votes
        task.head_votes, task.voids = tuple((i, votes[i]) for i in round_.committee if i in votes), ()
    else:
        task.voids = (*task.voids, round_.number)


def begin_next(task: Task) -> bool:
    """Start the next round, unless this was the last; an elected committee serves until the next redraw."""
    number = task.round.number
    if task.ending or number == task.config.rounds:
        return False
    if number % task.config.redraw_every == 0:
        task.elected = None
    task.round = Round(number + 1)
    return True


def _end_task(task: Task) -> None:
    task.round.phase, task.elected = Phase.ENDED, None
    task.events.append(events.TaskEnded(task.round.number))


# Money


def settle(task: Task, outcome: Outcome) -> tuple[int, int, int]:
    """Credit committee and miner, note how workers are paid; answers what each group gets."""
    round_, config = task.round, task.config
    tallied = round_.tally
    if tallied is None:
        return 0, 0, 0
    budget = rewards.round_budget(task.funded, config)
    task.pays[round_.number] = pay = worker_pay(task, tallied, outcome)
    workers = sum(budget.workers * part // pay.whole for part in pay.workers.values())

    committee = 0
    for id_, amount in _committee_pay(task, tallied, budget.committee).items():
        _credit(task, task.by_id(id_).address, amount)
        committee += amount
    miner = budget.miner if outcome is Outcome.FINAL else 0
    if miner:
        _credit(task, task.by_id(round_.proposer).address, miner)
    task.escrow -= workers
    task.owed += workers
    return workers, committee, miner


def worker_pay(task: Task, tallied: Tally, outcome: Outcome) -> Pay:
    """By shares where the rule gives them to updates, else equal parts over the included; the convicted get nothing."""
    round_ = task.round
    posted = round_.proposal.shares if round_.proposal is not None and outcome is Outcome.FINAL else ()
    shares = posted or tallied.shares
    if shares and not task.config.rule.is_on_ranks:
        parts, whole = shares[1:], TOTAL - shares[0]
    else:
        parts, whole = tuple(int(counts) for counts in tallied.included), max(1, sum(tallied.included))
    paid = {
        id_: part
        for id_, part in zip(round_.order, parts, strict=True)
        if part and id_ not in round_.convicted
    }
    return Pay(paid, whole)


def _committee_pay(task: Task, tallied: Tally, amount: int) -> dict[Id, int]:
    """What each validator gets: by closeness where shares were formed, else the plain part of one seat."""
    round_, config = task.round, task.config
    if sum(tallied.included) < config.min_updates or len(tallied.deviations) < sharing.majority(
        config.committee_size
    ):
        return dict.fromkeys(tallied.deviations, amount // config.committee_size)
    paid = [id_ for id_ in tallied.deviations if id_ not in round_.convicted | round_.absent]
    parts = rewards.committee_pay([tallied.deviations[id_] for id_ in paid], amount)
    return dict(zip(paid, parts, strict=True))


def claim(task: Task, call: Call, rounds: Sequence[int]) -> int:
    """Pull what the sender earned: its credit, and its part as a worker of the rounds named."""
    account = task.accounts.get(call.sender)
    workers = rewards.round_budget(task.funded, task.config).workers
    amount = task.credits.pop(call.sender, 0)
    for number in rounds:
        if number not in task.pays:
            raise errors.RoundNotSettledError(number)
        pay = task.pays[number]
        part = pay.workers.get(account.id, 0) if account else 0
        if account is None or not part:
            continue
        if (number, account.id) in task.claimed:
            raise errors.AlreadyClaimedError(number)
        task.claimed.add((number, account.id))
        amount += workers * part // pay.whole
    if amount == 0:
        raise errors.NothingToClaimError()

    task.owed -= amount
    task.events.append(events.Claimed(call.sender, amount, tuple(rounds)))
    return amount


def abandon(task: Task, call: Call) -> None:
    """The sponsor gives up: at once while nobody works, else when the round ends."""
    if call.sender != task.sponsor:
        raise errors.NotSponsorError()
    _expect_running(task)
    if task.ending:
        raise errors.AlreadyAbandonedError()

    task.ending = True
    task.events.append(events.Abandoned(task.round.number))
    if task.round.phase is Phase.DRAW:
        _end_task(task)


def refund(task: Task, call: Call) -> int:
    """The sponsor pulls what nobody earned."""
    if call.sender != task.sponsor:
        raise errors.NotSponsorError()
    if task.round.phase is not Phase.ENDED:
        raise errors.TaskNotEndedError()
    if task.escrow == 0:
        raise errors.NothingToClaimError()

    amount, task.escrow = task.escrow, 0
    task.events.append(events.Refunded(amount))
    return amount


def _credit(task: Task, account: Address, amount: int) -> None:
    """Owe an account more, out of escrow."""
    if amount == 0:
        return
    task.escrow -= amount
    task.owed += amount
    task.credits[account] = task.credits.get(account, 0) + amount
    task.events.append(events.Credited(account, amount))


def _pay_caller(task: Task, call: Call) -> None:
    """Whoever moves the round on earns the caller's fee."""
    _credit(task, call.sender, task.config.caller_fee)


def _punish(task: Task, stakes: Stakes, id_: Id, kind: Slash) -> None:
    """Slash for silence; the weight follows when somebody applies it."""
    slashed = stakes.slash(task.by_id(id_).address, task.address, kind, None)
    task.events.append(events.Silent(task.round.number, task.round.phase, id_, slashed.amount))


# Places and times


def _expect_running(task: Task) -> None:
    if task.round.phase is Phase.ENDED:
        raise errors.WrongPhaseError(task.round.number, Phase.ENDED)


def _expect_round(task: Task, number: int) -> None:
    if number != task.round.number:
        raise errors.WrongRoundError(number, task.round.number)


def _expect(task: Task, phase: Phase) -> None:
    if task.round.phase is not phase:
        raise errors.WrongPhaseError(task.round.number, task.round.phase)


def _expect_attempt(task: Task, attempt: int) -> None:
    if attempt != task.round.attempt:
        raise errors.WrongAttemptError(attempt, task.round.attempt)


def is_over(task: Task, now: int) -> bool:
    """Whether the phase can be left: its deadline has passed, or everyone expected has acted."""
    return now >= task.round.deadline or has_everyone_acted(task)


def _expect_over(task: Task, call: Call) -> None:
    if not is_over(task, call.now):
        raise errors.PhaseStillOpenError(task.round.deadline)


def _acting(task: Task, call: Call, round_number: int, phase: Phase) -> Account:
    """The account of a participant who acts in time, in the phase it means."""
    _expect_round(task, round_number)
    _expect(task, phase)
    if call.now >= task.round.deadline:
        raise errors.PhaseOverError(task.round.deadline)
    account = task.accounts.get(call.sender)
    if account is None:
        raise errors.NotEnrolledError()
    return account


def _enrolled(task: Task, address: Address) -> Account:
    account = task.accounts.get(address)
    if account is None or not account.wants:
        raise errors.NotEnrolledError()
    return account


def _enter(task: Task, call: Call, phase: Phase) -> None:
    task.round.phase = phase
    task.round.deadline = call.now + phase_seconds(task.config, phase)
    task.events.append(events.PhaseEntered(task.round.number, task.round.attempt, phase, task.round.deadline))


# Who is who


def _draw_is_open(task: Task) -> bool:
    return task.round.phase is Phase.DRAW and task.round.draw_block != 0


def _open_draw(task: Task, call: Call) -> None:
    task.round.draw_block = call.block_number
    task.events.append(events.DrawOpened(task.round.number, call.block_number))


def _open_if_enough(task: Task, call: Call) -> None:
    if task.eligible >= needed_accounts(task.config):
        _open_draw(task, call)


def _due_weight(task: Task, account: Account, stakes: Stakes) -> int:
    stake = stakes.stake_of(account.address, task.address) if account.wants else 0
    return weight_of(stake, task.config)


def _apply_or_queue(task: Task, call: Call, address: Address, stakes: Stakes) -> None:
    if _draw_is_open(task):
        task.events.append(events.ChangeQueued(task.accounts[address].id, address))
    else:
        _apply(task, call, address, stakes)


def _apply(task: Task, call: Call, address: Address, stakes: Stakes) -> None:
    """Set the weight that stake and wish ask for. A waiting draw opens when this makes enough.

    A full tree takes what still fits instead of refusing, or a queued top-up could block a conviction.
    """
    account = task.accounts[address]
    weight = min(_due_weight(task, account, stakes), MAX_WEIGHT - (task.total_weight - account.weight))
    if weight == account.weight:
        return
    waiting = task.round.phase is Phase.DRAW
    active_from = account.active_from
    if account.weight == 0:
        active_from = task.round.number if waiting else task.round.number + 1
    task.eligible += (weight > 0) - (account.weight > 0)
    task.total_weight += weight - account.weight
    task.accounts[address] = replace(account, weight=weight, active_from=active_from)
    task.events.append(events.WeightSet(account.id, weight, active_from))
    if waiting:
        _open_if_enough(task, call)


def _expected_updates(task: Task, roles: drawing.Drawn) -> int:
    """How many can commit: the phase ends early when they all have."""
    config, members = task.config, len(roles.committee)
    if config.rule.is_elected:
        staked_members = sum(task.by_id(id_).weight > 0 for id_ in roles.committee)
        return members + min(config.max_updates, task.eligible - staked_members)
    return min(config.max_updates, task.eligible - members - 1)


def trains(task: Task, account: Account) -> bool:
    """Whether the account trains in this round: a training member, a backup, or a worker not shut out by the draw."""
    round_ = task.round
    assert round_.drawn is not None
    if account.id in round_.committee:
        return task.config.rule.is_elected
    if account.weight == 0 or account.active_from > round_.number:
        return False
    if not task.config.rule.is_elected and account.id in round_.drawn.proposers:
        return account.id != round_.drawn.proposers[0]
    return round_.drawn.workers is None or account.id in round_.drawn.workers


def may_score(task: Task, id_: Id) -> bool:
    """Whether a member may commit scores: where the committee trains too, only with an update of its own."""
    update = task.round.updates.get(id_)
    return not task.config.rule.is_elected or (update is not None and update.root is not None)


def voters(round_: Round, proposer: Id) -> list[Id]:
    """E: the committee without the proposer and the convicted."""
    return [id_ for id_ in round_.committee if id_ != proposer and id_ not in round_.convicted]


def _revealed(round_: Round, id_: Id) -> bytes | None:
    scores = round_.scores.get(id_)
    return scores.revealed if scores else None


def revealed_vectors(task: Task) -> list[bytes]:
    """All revealed scores in committee order: what a tally is called with."""
    shown = (_revealed(task.round, id_) for id_ in task.round.committee)
    return [scores for scores in shown if scores is not None]


def _roots(task: Task) -> list[Digest]:
    roots = [task.round.updates[id_].root for id_ in task.round.order]
    return [root for root in roots if root is not None]


def claim_of(task: Task) -> Claim:
    """What the standing proposal claims: its root is what the shares make of head and updates."""
    round_, config = task.round, task.config
    assert round_.proposal is not None
    assert round_.tally is not None
    shares, included = round_.proposal.shares or round_.tally.shares, round_.tally.included
    on_ranks = config.rule.is_on_ranks
    parts = parts_of(_roots(task), shares[1:], included, on_ranks)
    ranks = shares[1:] if on_ranks else None
    return Claim(
        round_.proposal.model_root, task.head_root, shares[0], parts, ranks, config.dimension, config.depth
    )


def ordered_roots(task: Task) -> list[Digest]:
    """The roots of the revealed updates in index order: what score commitments are bound to."""
    return _roots(task)


def _sealed(task: Task, call: Call, phase: Phase, payload: Digest, salt: Digest) -> Digest:
    return commitment(
        task.chain_id, task.address, task.task_id, task.round.number, phase, call.sender, payload, salt
    )
