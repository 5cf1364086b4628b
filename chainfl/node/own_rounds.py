"""What each round was for one participant: its share, its pay, and how its update and the head were scored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from chainfl.audit.history import PlayedRound, RoundCutter
from chainfl.chain.reader import TaskReader
from chainfl.codec.scores import ONE
from chainfl.codec.text import ether
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import Credited
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.settlement import worker_pay
from chainfl.protocol.state import NO_SCORE, Task
from chainfl.protocol.tally import decoded_scores, losses_of
from chainfl.protocol.views import revealed_by, update_parts
from chainfl.types import WAD, Address, Id


@dataclass(frozen=True, slots=True)
class OwnRound:
    """A settled round as one account sees it. Scores are losses (or missed accuracy): less is better.

    `head_score` is the committee's of the head that was trained from, `own_score` the median of what its members
    posted for the own update, `given_score` what the account itself posted for the head. None: there was none.
    `pay` is in wei. `training` holds the metrics of the last training.
    """

    round: int
    outcome: str
    roles: tuple[str, ...]
    share: float
    pay: int
    head_score: float | None
    own_score: float | None
    given_score: float | None
    training: Mapping[str, float] = field(default_factory=dict)

    def as_plain(self) -> dict[str, object]:
        """The facts as JSON holds them."""
        return asdict(self)

    def __str__(self) -> str:
        """The round in one line."""
        parts = [f"{self.outcome} as {', '.join(self.roles) or 'onlooker'}"]
        parts += [f"{name} {value:.4g}" for name, value in self.training.items()]
        parts += [
            f"{name} {value:.4g}"
            for name, value in (("head's score", self.head_score), ("own score", self.own_score))
            if value is not None
        ]
        return ", ".join([*parts, f"share {self.share:.2%}", f"pay {ether(self.pay, 6)}"])


class RoundFollower:
    """Follows a task's events and reports each round once, as soon as it is settled."""

    def __init__(self, reader: TaskReader) -> None:
        """Rounds that were settled before are left out."""
        self._reader = reader
        self._reported = 0
        self._begin()
        for played in self._cut():
            self._reported = played.number

    def settled(self) -> list[PlayedRound]:
        """The rounds that were settled since the last call."""
        fresh = [played for played in self._cut() if played.number > self._reported]
        self._reported = max([self._reported, *(played.number for played in fresh)])
        return fresh

    def _begin(self) -> None:
        self._cutter = RoundCutter(self._reader.created)
        self._taken = list[LoggedEvent]()

    def _cut(self) -> list[PlayedRound]:
        """What the new events settle; after a reorg everything is cut again."""
        log = self._reader.log
        seen = len(self._taken)
        # The last event that was taken is still where it was, or a reorg has replaced some.
        if seen and (len(log) < seen or log[seen - 1] != self._taken[-1]):
            self._begin()
        fresh = log[len(self._taken) :]
        self._taken.extend(fresh)
        return [played for logged in fresh if (played := self._cutter.add(logged)) is not None]


def own_round(played: PlayedRound, me: Address, training: Mapping[str, float] | None = None) -> OwnRound:
    """What a settled round was for this account."""
    task = played.standing()
    account = task.accounts.get(me)
    number = account.id if account is not None else Id(0)
    trained = number in task.round.updates
    tallied = task.round.tally
    head = tallied.head_score if tallied is not None else NO_SCORE

    return OwnRound(
        played.number,
        played.outcome.name.lower(),
        _roles(task, number),
        update_parts(task, played.outcome).get(number, 0.0),
        _earned(played, task, number, me),
        None if head == NO_SCORE else head / WAD,
        losses_of(task).get(number),
        _given_score(task, number),
        dict(training or {}) if trained else {},
    )


def _roles(task: Task, number: Id) -> tuple[str, ...]:
    round_ = task.round
    held = {
        "worker": number in round_.updates,
        "validator": number in round_.committee,
        "miner": number in round_.turns,
    }
    return tuple(name for name, is_held in held.items() if is_held)


def _earned(played: PlayedRound, task: Task, number: Id, me: Address) -> int:
    """The part as a worker, which waits to be claimed, and what was credited for everything else."""
    credited = sum(
        logged.event.amount
        for logged in played.events
        if isinstance(logged.event, Credited) and logged.event.account == me
    )
    if task.round.tally is None:
        return credited
    pay = worker_pay(task, task.round.tally, played.outcome)
    # The part is rounded down as `claim` does it, so that the sum is what arrives.
    budget = round_budget(task.funded, task.config).workers
    return credited + budget * pay.workers.get(number, 0) // pay.whole


def _given_score(task: Task, number: Id) -> float | None:
    posted = _posted(task, number)
    return posted[0] / ONE if posted and posted[0] is not None else None


def _posted(task: Task, id_: Id) -> Sequence[int | None]:
    """What a member revealed: the head's score, then one of each update; empty where it revealed nothing."""
    shown = revealed_by(task.round, id_)
    return decoded_scores(task, shown) if shown is not None else ()
