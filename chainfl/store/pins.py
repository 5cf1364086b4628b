"""Pins that are written down before they are made, so that they can be undone: a restart leaks none.

A daemon may serve others as well. What was pinned when we came is not ours to unpin.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

from chainfl.blobs import within
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.errors import StoreError, VerificationError
from chainfl.execution import names_to_keep
from chainfl.ports import BlobStore
from chainfl.protocol.state import Task
from chainfl.store.wrapped import WrappedStore

_log = logging.getLogger(__name__)
_SWEEP_SECONDS = 1.0


class PinnedStore(BlobStore, Protocol):
    """A store that can check whether something is pinned."""

    def is_pinned(self, cid: Cid) -> bool:
        """Whether there is a pin of this very name, whoever made it."""
        ...


class PinBook(Protocol):
    """The list of pins of one account in one task."""

    def has_pin(self, cid: Cid) -> bool:
        """Whether a pin of this name is listed."""
        ...

    def begin_pin(self, round_: int, cid: Cid, *, is_ours: bool) -> None:
        """List a pin that is about to be made."""
        ...

    def keep_pin(self, round_: int, cid: Cid) -> None:
        """A listed pin is made, and needed in this round."""
        ...

    def old_pins(self, oldest: int, running: int) -> Iterable[Cid]:
        """Pins needed last before the oldest round that is kept, and those that were never made before the running."""
        ...

    def is_last_pin(self, cid: Cid) -> bool:
        """Whether a pin that goes is to be undone."""
        ...

    def drop_pin(self, cid: Cid) -> None:
        """Take a pin off the list."""
        ...


class RecordingStore(WrappedStore):
    """A BlobStore over another one that lists every pin with its round, and undoes old ones."""

    def __init__(
        self, store: PinnedStore, book: PinBook, round_: Callable[[], int], keep_rounds: int | None
    ) -> None:
        """`round_` returns the running round; pins stay for `keep_rounds` rounds after theirs, for ever if None."""
        self._store: PinnedStore = store
        self._book = book
        self._round = round_
        self._keep_rounds = keep_rounds

    def __repr__(self) -> str:
        return repr(self._store)

    def within(self, until: float) -> "RecordingStore":
        """The same store and list, for a caller whose time ends then."""
        limited = cast(
            PinnedStore, within(self._store, until)
        )  # a store with a limit is one of the same kind
        return RecordingStore(limited, self._book, self._round, self._keep_rounds)

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Keep these bytes and name them."""
        return self._store.put(data, codec)

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Put side by side."""
        return self._store.put_many(blobs)

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """List the pin, then make it; one that fails or takes too long stays listed, and is undone a round later."""
        # Listed before it is made: a node that is killed in between finds and undoes it.
        if not self._book.has_pin(cid):
            self._book.begin_pin(self._round(), cid, is_ours=not self._store.is_pinned(cid))
        self._store.pin(cid, with_links=with_links)
        self._book.keep_pin(self._round(), cid)

    def unpin(self, cid: Cid) -> None:
        """Remove a pin from the list; it is undone only if we made it and nothing else listed needs it."""
        if self._book.is_last_pin(cid):
            self._store.unpin(cid)
        self._book.drop_pin(cid)

    def let_go(self, task: Task) -> int:
        """Unpin what no longer can be challenged and no later round needs; answers how many pins went.

        A pin that failed may still be under way at the daemon, so it is undone a round later. A store that fails or
        hangs is left alone after a second: there is no hurry.
        """
        number = task.round.number
        oldest = 0 if self._keep_rounds is None else number - self._keep_rounds
        old = list(self._book.old_pins(oldest, number))
        if not old:
            return 0

        limited = self.within(time.monotonic() + _SWEEP_SECONDS)
        count = 0

        try:
            # The head and what a running round still needs may be old: the list of pins does not decide alone.
            needed = names_to_keep(limited, task)
            for cid in old:
                if cid not in needed:
                    limited.unpin(cid)
                    count += 1
        except (StoreError, VerificationError) as error:
            _log.debug("round %d: pins are removed later: %s", number, error)
        return count
