"""The rounds of a task, cut out of its events: what an audit redoes one by one."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from chainfl.ports import LoggedEvent
from chainfl.protocol.events import Drawn, DrawOpened, Event, RoundEnded
from chainfl.protocol.fold import take
from chainfl.protocol.state import Task
from chainfl.types import Outcome

Fold = Callable[[Task, Event, int], None]
"""Takes an event into account: `fold` refuses what the rules could not have emitted, `take` does not check."""


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """One round: the task as it stood when it began, and all that happened until it was settled (or until now)."""

    number: int
    before: Task
    events: tuple[LoggedEvent, ...]
    ended: RoundEnded | None
    _standing: list[Task] = field(default_factory=list, init=False, repr=False, compare=False)

    def standing(self) -> Task:
        """The task just before the round was settled: everything the round decided, nothing yet paid.

        Folded once; a value to read, never to change.
        """
        if not self._standing:
            self._standing.append(self._folded_until(RoundEnded))
        return self._standing[0]

    def before_draw(self) -> Task:
        """The task just before the roles were drawn: the stakes and the election that the draw went by."""
        return self._folded_until(Drawn)

    def _folded_until(self, kind: type[Event]) -> Task:
        task = self.before.draft()
        for logged in self.events:
            if isinstance(logged.event, kind):
                break
            take(task, logged.event, logged.block_number)
        return task

    @property
    def outcome(self) -> Outcome:
        """Final, Void, or still open."""
        return self.ended.outcome if self.ended is not None else Outcome.OPEN


class RoundCutter:
    """Cuts a task's events into rounds as they come."""

    def __init__(self, created: Task, fold: Fold = take) -> None:
        """Start at the task's creation, without any event."""
        self.now = created.draft()
        self._fold = fold
        self._before = created.draft()
        self._held: list[LoggedEvent] = []

    @property
    def running(self) -> PlayedRound | None:
        """The open round, once its draw has opened."""
        if any(isinstance(logged.event, DrawOpened) for logged in self._held):
            return PlayedRound(self._before.round.number, self._before, tuple(self._held), None)
        return None

    def add(self, logged: LoggedEvent) -> PlayedRound | None:
        """Take one event into account; answers the round that it ends, if it ends one."""
        self._fold(self.now, logged.event, logged.block_number)
        self.now.events = []
        self._held.append(logged)
        if not isinstance(logged.event, RoundEnded):
            return None

        played = PlayedRound(logged.event.round, self._before, tuple(self._held), logged.event)
        self._before = self.now.draft()
        self._held = []
        return played


def rounds(created: Task, log: Iterable[LoggedEvent]) -> Iterator[PlayedRound]:
    """Cut a task's events into rounds, oldest first; the last one may be open."""
    cutter = RoundCutter(created)
    for logged in log:
        played = cutter.add(logged)
        if played is not None:
            yield played
    running = cutter.running
    if running is not None:
        yield running
