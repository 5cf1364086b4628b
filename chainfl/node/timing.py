"""Where a node's time goes: seconds by cause, taken at the ports, so that roles need not measure."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from chainfl.roles.participant import Participant

T = TypeVar("T")

TRAINING, SCORING, CHAIN, STORE, JOURNAL, OWN = "training", "scoring", "chain", "store", "journal", "own work"
_CAUSES: Final[Mapping[str, Mapping[str, str]]] = {
    "trainer": {"train": TRAINING, "score": SCORING},
    "store": dict.fromkeys(("put", "put_many", "get", "get_many", "has", "pin", "unpin"), STORE),
    "journal": dict.fromkeys(("update", "keep_update", "scores", "keep_scores", "forget_before"), JOURNAL),
    "ledger": dict.fromkeys(
        (
            *("task", "now", "draw", "advance", "tally", "commit_update", "reveal_update", "commit_scores"),
            *("reveal_scores", "propose", "vote", "note_finding", "prove"),
        ),
        CHAIN,
    ),
}


@dataclass(slots=True)
class Clock:
    """Adds up seconds by cause until they are taken; calls side by side count once."""

    now: Callable[[], float] = time.perf_counter
    spent: dict[str, float] = field(default_factory=dict)
    _running: dict[str, tuple[int, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def on(self, cause: str) -> Iterator[None]:
        """Time inside the block counts for this cause."""
        with self._lock:
            calls, started = self._running.get(cause) or (0, self.now())
            self._running[cause] = calls + 1, started
        try:
            yield
        finally:
            self._end(cause)

    def _end(self, cause: str) -> None:
        with self._lock:
            calls, started = self._running.pop(cause)
            if calls > 1:
                self._running[cause] = calls - 1, started
            else:
                self.spent[cause] = self.spent.get(cause, 0.0) + self.now() - started

    def take(self, whole: float) -> dict[str, float]:
        """The seconds by cause since the last taking; what no port had (encoding, trees, combining) is own work."""
        with self._lock:
            spent, self.spent = self.spent, {}
        return spent | {OWN: max(0.0, whole - sum(spent.values()))}


class _Timed:
    """Stands in front of a port and times its calls; answers that come one by one are timed one by one."""

    def __init__(self, inner: object, clock: Clock, causes: Mapping[str, str]) -> None:
        self._inner = inner
        self._clock = clock
        self._causes = causes

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "within":  # the same store with a limit is timed as well
            return lambda until: _Timed(found(until), self._clock, self._causes)
        cause = self._causes.get(name)
        return found if cause is None else self._timed(found, cause)

    def _timed(self, call: Callable[..., Any], cause: str) -> Callable[..., Any]:
        def timed(*values: Any, **named: Any) -> Any:
            with self._clock.on(cause):
                answer = call(*values, **named)
            return self._each(answer, cause) if isinstance(answer, Iterator) else answer

        return timed

    def _each(self, answers: Iterator[Any], cause: str) -> Iterator[Any]:
        done = object()
        while True:
            with self._clock.on(cause):
                answer = next(answers, done)
            if answer is done:
                return
            yield answer


def timed(me: Participant, clock: Clock) -> Participant:
    """The same participant, its ports timed."""

    def port(name: str, inner: T) -> T:
        return cast(T, _Timed(inner, clock, _CAUSES[name]))

    return Participant(
        port("ledger", me.ledger),
        port("store", me.store),
        port("trainer", me.trainer),
        port("journal", me.journal),
        me.pace,
    )
