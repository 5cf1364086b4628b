"""The rounds of a task, cut out of its events: what an audit redoes one by one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chainfl.ports import LoggedEvent
from chainfl.protocol.events import DrawOpened, RoundEnded
from chainfl.protocol.fold import take
from chainfl.protocol.state import Task
from chainfl.types import Outcome


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """One round: the task as it stood when it began, and all that happened until it was settled (or until now)."""

    number: int
    before: Task
    events: tuple[LoggedEvent, ...]
    ended: RoundEnded | None

    def standing(self) -> Task:
        """The task just before the round was settled: everything the round decided, nothing yet paid."""
        task = self.before.draft()
        for logged in self.events:
            if isinstance(logged.event, RoundEnded):
                break
            take(task, logged.event, logged.block_number)
        return task

    @property
    def outcome(self) -> Outcome:
        """Final, Void, or still open."""
        return self.ended.outcome if self.ended is not None else Outcome.OPEN


def rounds(created: Task, log: Iterable[LoggedEvent]) -> Iterator[PlayedRound]:
    """Cut a task's events into rounds, oldest first; the last one may be open."""
    task, before, held = created.draft(), created.draft(), list[LoggedEvent]()
    for logged in log:
        take(task, logged.event, logged.block_number)
        held.append(logged)
        if isinstance(logged.event, RoundEnded):
            yield PlayedRound(logged.event.round, before, tuple(held), logged.event)
            before, held = task.draft(), []
    if any(isinstance(logged.event, DrawOpened) for logged in held):
        yield PlayedRound(before.round.number, before, tuple(held), None)
