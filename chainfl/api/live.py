"""Who listens to live rounds: changes go from the following thread to every open stream."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from chainfl.api.clients import Share
from chainfl.errors import BusyError

_WAITING = 64
"""Changes that may wait for one listener; a slower one has to read everything again."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is new: a task's rounds from `first_round` on."""

    revision: int
    task: str
    task_id: int
    first_round: int
    round: int
    phase: str

    def message(self) -> str:
        """As a server-sent event."""
        return f"id: {self.revision}\nevent: change\ndata: {json.dumps(asdict(self))}\n\n"


class Hub:
    """Open streams of one event loop."""

    def __init__(self, limit: int, per_client: int | None = None) -> None:
        """Without listeners."""
        self._limit = limit
        self._share = Share(limit if per_client is None else per_client, "live streams open")
        self._listeners: set[asyncio.Queue[Change | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve the listeners of this loop."""
        self._loop = loop

    def publish(self, change: Change) -> None:
        """Pass a change to all listeners; called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, change)

    def close(self) -> None:
        """End all streams."""
        for queue in self._listeners:
            _offer(queue, None)

    @contextmanager
    def listen(self, client: str = "") -> Iterator["asyncio.Queue[Change | None]"]:
        """A queue of changes; None in it means that the listener missed some and has to read everything again.

        Raises:
            LimitError: this client listens often enough already; BusyError: too many do.
        """
        with self._share.held(client):
            if len(self._listeners) >= self._limit:
                raise BusyError(
                    f"{self._limit} live streams are open, which is all there may be; poll instead"
                )
            queue: asyncio.Queue[Change | None] = asyncio.Queue(_WAITING)
            self._listeners.add(queue)
            try:
                yield queue
            finally:
                self._listeners.discard(queue)

    def _deliver(self, change: Change) -> None:
        for queue in self._listeners:
            _offer(queue, change)


def _offer(queue: "asyncio.Queue[Change | None]", change: Change | None) -> None:
    """Put a change, or None in place of everything where the listener is too slow."""
    if change is not None and not queue.full():
        queue.put_nowait(change)
        return
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)
