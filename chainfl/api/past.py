"""A task as it stood when each of its rounds began, without keeping a state for each."""

from collections.abc import Sequence

from chainfl.api.source import PlacedEvent
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task

KEPT_STATES = 16
"""States kept of the past: each grows with the rounds before it, so one per round would grow with their square."""


class Past:
    """The task as it stood when each round began: a few states kept, evenly spread, the others folded from them."""

    def __init__(self, created: Task) -> None:
        """Round 1 begins with the task as it was created."""
        self._states = {0: created.draft()}
        self._starts = [0]
        self._spacing = 1

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def states(self) -> int:
        """How many states are kept."""
        return len(self._states)

    def add(self, start: int, state: Task) -> None:
        """A round ended: the next one begins at event `start` with this state."""
        index = len(self._starts)
        self._starts.append(start)

        if index % self._spacing == 0:
            self._states[index] = state.draft()
        # Too many: only every second one stays, and from now on only every second one is kept.
        if len(self._states) > KEPT_STATES:
            self._spacing *= 2
            self._states = {at: kept for at, kept in self._states.items() if at % self._spacing == 0}

    def slice_of(self, index: int) -> slice:
        """The events of a finished round, counted from 0."""
        return slice(self._starts[index], self._starts[index + 1])

    def before(self, index: int, log: Sequence[PlacedEvent]) -> Task:
        """The state that a round began with, folded from the nearest one before it."""
        nearest = index - index % self._spacing
        task = self._states[nearest].draft()
        for logged in log[self._starts[nearest] : self._starts[index]]:
            fold(task, logged.event, logged.block_number)
        task.events = []
        return task
