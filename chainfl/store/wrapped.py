"""What stores share that stand before another one: reading is the other one's."""

from collections.abc import Iterable, Iterator

from chainfl.codec.cid import Cid
from chainfl.ports import BlobStore


class WrappedStore:
    """Passes reads on; what is written and pinned is each wrapper's own affair."""

    _store: BlobStore

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name."""
        return self._store.get(cid, max_bytes)

    def get_many(self, cids: Iterable[Cid], max_bytes: int) -> Iterator[bytes]:
        """Get side by side."""
        return self._store.get_many(cids, max_bytes)

    def has(self, cid: Cid) -> bool:
        """Whether the bytes are here now."""
        return self._store.has(cid)
