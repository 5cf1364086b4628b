"""One task as it grows: events come in, rounds are cut off, rows for the index come out."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

from chainfl.api import schemas
from chainfl.api.convert import cid_of, phase_name, place
from chainfl.api.names import round_hits, term_hits, transaction_hit
from chainfl.api.parts import part_rows
from chainfl.api.past import Past
from chainfl.api.rounds import block_document, summary_of
from chainfl.api.source import PlacedEvent, TaskLog
from chainfl.api.stakes import Stakes
from chainfl.api.transactions import transactions
from chainfl.audit.history import PlayedRound, RoundCutter
from chainfl.codec.cid import Cid
from chainfl.codec.text import from_hex, hex_of
from chainfl.errors import VerificationError
from chainfl.protocol import events
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task
from chainfl.protocol.term_table import TERMS, Term, Unit
from chainfl.types import WAD, Address, Id, Outcome, Phase

ROWS_PER_ROUND = 1_000_000
"""Rows that belong to a round are numbered from round times this."""


@dataclass(frozen=True, slots=True)
class Row:
    """A document of the index and what it can be found by."""

    kind: str
    number: int
    document: str
    round: int | None = None
    account: str | None = None
    name: str | None = None


@dataclass(slots=True)
class _Totals:
    """What accounts earned, lost and did in rounds that are over."""

    earned: Counter[str] = field(default_factory=Counter)
    slashed: Counter[str] = field(default_factory=Counter)
    rounds: Counter[str] = field(default_factory=Counter)
    paid: int = 0
    lies: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    head_loss: float | None = None

    def add(self, block: schemas.Block) -> None:
        """Take one round into account."""
        for row in block.rewards:
            self.earned[row.account] += int(row.amount)
        for slash in block.slashes:
            self.slashed[slash.account.account] += int(slash.amount)
        self.rounds.update(part.account.account for part in part_rows(block))
        self.paid += int(block.paid)
        self.lies += block.lies
        self.outcomes[block.outcome] += 1
        self.head_loss = block.head_loss if block.head_loss is not None else self.head_loss

    def copy(self) -> "_Totals":
        """A copy to add the open round to."""
        counters = (Counter(self.earned), Counter(self.slashed), Counter(self.rounds))
        return _Totals(*counters, self.paid, self.lies, Counter(self.outcomes), self.head_loss)


class TaskLine:
    """A task's events and rounds so far. Only ever extended: after a reorg a new line is drawn."""

    def __init__(self, log: TaskLog) -> None:
        """Start at the task's creation, without any event."""
        self.created = log.created
        self.created_block = log.created_block
        self.events: list[PlacedEvent] = []
        self.past = Past(log.created)
        self._cutter = RoundCutter(log.created, fold)
        self._totals = _Totals()
        self._stakes = Stakes(log.created.address)
        self._claimed = Counter[str]()
        self._gas = 0
        self._last_end: bytes | None = None
        self._participants: dict[Id, str] = {}

    @property
    def now(self) -> Task:
        """The task as it stands."""
        return self._cutter.now

    def round(self, number: int) -> PlayedRound | None:
        """A round by its number."""
        if 1 <= number <= len(self.past):
            log = tuple(self.events[self.past.slice_of(number - 1)])
            ended = log[-1].event
            assert isinstance(ended, events.RoundEnded)
            return PlayedRound(number, self.past.before(number - 1, self.events), log, ended)
        running = self._cutter.running
        return running if running is not None and running.number == number else None

    def is_continued_by(self, log: TaskLog) -> bool:
        """Whether all events of this line are still there, in their blocks."""
        # Compared with the hashes of their blocks: after a reorg the same event may stand in another one.
        count = len(self.events)
        return self.created_block == log.created_block and list(log.events[:count]) == self.events

    def extend(self, fresh: Sequence[PlacedEvent]) -> list[Row]:
        """Take new events into account; answers every row that is new or has changed."""
        # Rows of events first: they are numbered from how many there were before.
        rows = list(self._event_rows(fresh))
        for logged in fresh:
            rows += self._add(logged)

        # The open round counts too, but only until more is known of it.
        totals = self._totals.copy()
        running = self._cutter.running
        if running is not None:
            block = block_document(running, self.now, self._last_end)
            totals.add(block)
            rows += round_rows(block)

        rows += self._participant_rows(totals)
        return [*rows, *task_rows(self._task(totals))]

    def _add(self, logged: PlacedEvent) -> Iterator[Row]:
        """Take one event into account; answers the rows of the round that it ends."""
        self._check_possible(logged)
        # A round is described as it stood before its end settled it: folding the end puts the next round in its place.
        is_end = isinstance(logged.event, events.RoundEnded)
        standing = self.now.draft() if is_end else self.now
        played = self._cutter.add(logged)
        self.events.append(logged)
        if played is None:
            return iter(())

        self.past.add(len(self.events), self.now)
        block = block_document(played, standing, self._last_end)
        self._last_end = logged.transaction
        self._totals.add(block)
        return round_rows(block)

    def _check_possible(self, logged: PlacedEvent) -> None:
        """Refuse an event that no chain can bring at this place: one before it is missing, repeated or moved.

        Raises:
            VerificationError: says what is impossible about it.
        """
        event = logged.event
        where = f"event {logged.log_index} of block {logged.block_number} ({type(event).__name__})"
        if self.events:
            last = self.events[-1]
            if (logged.block_number, logged.log_index) <= (last.block_number, last.log_index):
                raise VerificationError(f"{where} does not come after the one before it")
        if not isinstance(event, events.RoundEnded):
            return

        # Named by its place in the log: that is what has to be read again.
        round_ = self.now.round
        if event.round != round_.number:
            raise VerificationError(
                f"{where} ends round {event.round}, but round {round_.number} is under way"
            )
        if event.outcome is Outcome.FINAL and (round_.tally is None or round_.proposal is None):
            raise VerificationError(f"{where} makes a model head that was never tallied or proposed")

    def _event_rows(self, fresh: Sequence[PlacedEvent]) -> Iterator[Row]:
        """A row for each event, for each change of a stake, and for each transaction."""
        numbers = dict[bytes, int]()
        for number, logged in enumerate(fresh, len(self.events)):
            numbers.setdefault(logged.transaction, number)
            row = event_row(self.created.address, number, logged)
            yield Row("event", number, row.model_dump_json(), row.round, row.account, row.event)
            change = self._stakes.change(logged)
            if change is not None:
                yield Row("stake", number, change.model_dump_json(), None, change.account, change.change)
            if isinstance(logged.event, events.Claimed):
                self._claimed[hex_of(logged.event.account)] += logged.event.amount

        # A transaction has the number of its first event.
        for one in transactions(self.created.address, fresh):
            self._gas += one.gas
            number = numbers[from_hex(one.place.transaction)]
            yield Row("gas", number, one.model_dump_json(), one.round, None, one.action)
            yield hit_row(number, one.place.transaction, transaction_hit(one, self.created.task_id))

    def _participant_rows(self, totals: _Totals) -> Iterator[Row]:
        """Only participants whose document has changed."""
        for account in self.now.accounts.values():
            name = hex_of(account.address)
            document = schemas.Participant(
                task=hex_of(self.created.address),
                task_id=self.created.task_id,
                id=account.id,
                account=name,
                enrolled=account.is_enrolled,
                role=_role_name(self.now, account.address),
                weight=account.weight,
                active_from=account.active_from,
                bonded=str(self._stakes.bonded[account.address]),
                unbonding=str(self._stakes.unbonding[account.address]),
                earned=str(totals.earned[name]),
                claimed=str(self._claimed[name]),
                slashed=str(totals.slashed[name]),
                rounds=totals.rounds[name],
            ).model_dump_json()

            if self._participants.get(account.id) != document:
                self._participants[account.id] = document
                yield Row("participant", account.id, document, None, name)

    def _task(self, totals: _Totals) -> schemas.Task:
        task = self.now

        return schemas.Task(
            task=hex_of(task.address),
            task_id=task.task_id,
            chain_id=task.chain_id,
            sponsor=hex_of(task.sponsor),
            phase=phase_name(task.round.phase),
            round=task.round.number,
            rounds=task.config.rounds,
            rounds_final=totals.outcomes["final"],
            rounds_void=totals.outcomes["void"],
            lies=totals.lies,
            attempt=task.round.attempt,
            deadline=0 if task.round.phase in (Phase.DRAW, Phase.ENDED) else task.round.deadline,
            funded=str(task.funded),
            escrow=str(task.escrow),
            owed=str(task.owed),
            paid=str(totals.paid),
            slashed=str(sum(totals.slashed.values())),
            gas=self._gas,
            participants=len(task.accounts),
            eligible=task.eligible,
            head_root=hex_of(task.head_root),
            head_block=cid_of(task.head_block),
            head_loss=totals.head_loss,
            created_block=self.created_block,
            terms=terms_of(task),
        )


def task_rows(task: schemas.Task) -> Iterator[Row]:
    """The rows that a task gives as a whole."""
    yield Row("task", task.task_id, task.model_dump_json(), None, task.sponsor, task.terms.rule)
    for at, (name, hit) in enumerate(term_hits(task).items()):
        yield hit_row(at, name, hit)


def hit_row(number: int, name: str, hit: schemas.Hit) -> Row:
    """A row that a search for this hash finds."""
    return Row(hit.what, number, hit.model_dump_json(), hit.round, None, name)


def round_rows(block: schemas.Block) -> Iterator[Row]:
    """The rows that a round gives."""
    number = block.round
    first = number * ROWS_PER_ROUND

    # The whole round under its number; what lists show of it has rows of its own, so that a page needs no round in
    # full.
    yield Row("block", number, block.model_dump_json(), number, None, block.outcome)
    yield Row("round", number, summary_of(block).model_dump_json(), number, None, block.outcome)
    for at, reward in enumerate(block.rewards, first):
        yield Row("reward", at, reward.model_dump_json(), number, reward.account, reward.kind)
    for at, slash in enumerate(block.slashes, first):
        yield Row("slash", at, slash.model_dump_json(), number, slash.account.account, slash.kind)
    for at, part in enumerate(part_rows(block), first):
        yield Row("part", at, part.model_dump_json(), number, part.account.account, part.outcome)
    for at, (name, hit) in enumerate(round_hits(block).items(), first):
        yield hit_row(at, name, hit)


def event_row(task: Address, number: int, logged: PlacedEvent) -> schemas.EventRow:
    """An event as the index keeps it."""
    event = logged.event
    values = {each.name: _plain(getattr(event, each.name)) for each in fields(event)}
    round_ = getattr(event, "round", None)
    account = getattr(event, "account", None)

    return schemas.EventRow(
        task=hex_of(task),
        number=number,
        event=type(event).__name__,
        round=round_,
        account=None if account is None else hex_of(account),
        values=values,
        block_hash=hex_of(logged.block_hash),
        log_index=logged.log_index,
        gas=logged.gas,
        place=place(logged),
    )


def _plain(value: object) -> object:
    """A value of an event in JSON: bytes as hex, integers beyond 2^53 as text, enums by name."""
    if isinstance(value, bytes):
        return hex_of(value)
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return str(value)
    return value


def _role_name(task: Task, account: Address) -> str | None:
    """As what the list of who may join admitted the account."""
    role = task.roles.get(account)
    return role.name.lower() if role is not None else None


def terms_of(task: Task) -> schemas.Terms:
    """A task's frozen terms: those with a field of their own as the table of terms has them, the others in groups."""
    # Seconds, parts and slashes are read together, so each is one field of its own.
    c = task.config
    phases = ("train", "reveal", "score", "tally", "propose", "challenge")
    parts = {"workers": c.workers_part, "committee": c.committee_part}
    parts["miner"] = WAD - sum(parts.values())
    slashes = {"lie": c.lie_slash, "liveness": c.liveness_slash, "no_reveal": c.no_reveal_slash}

    own = [term for term in TERMS if term.name in schemas.Terms.model_fields]
    plain = {term.name: _plain_term(term, getattr(c, term.name)) for term in own}
    groups = {
        "seconds": {name: getattr(c, f"{name}_seconds") for name in phases},
        "parts": {name: part / WAD for name, part in parts.items()},
        "slashes": {name: part / WAD for name, part in slashes.items()},
        "manifest": str(Cid.dag_cbor(c.manifest)),
        "first_model": str(Cid.dag_cbor(c.first_model)),
    }
    return schemas.Terms.model_validate(plain | groups)


def _plain_term(term: Term, value: Any) -> object:
    """A term as JSON holds it; fractions and money as text, for JSON numbers round."""
    if term.unit is Unit.DIGEST:
        return hex_of(value)
    if term.unit is Unit.NAME:
        return value.name.lower().replace("_", "-")
    return str(value) if term.unit in (Unit.WAD, Unit.WEI) else value


def fingerprint(played: PlayedRound) -> str:
    """Names exactly the events of a round and the state it began with: an audit of others says nothing about these."""
    # Block hash and index name an event for good; its values are sealed too, for an endpoint may lie about them.
    seal = hashlib.sha256(played.before.head_root + played.number.to_bytes(8, "big"))
    for logged in played.events:
        assert isinstance(logged, PlacedEvent)
        seal.update(logged.block_hash + logged.log_index.to_bytes(8, "big"))
        seal.update(repr(logged.event).encode())
    return hex_of(seal.digest())
