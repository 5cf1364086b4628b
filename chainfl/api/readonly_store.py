"""A store that only gives: audits run on it, so that no request can change what is kept."""

from collections.abc import Iterable, Iterator

from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.errors import ProtocolError
from chainfl.ports import BlobStore
from chainfl.store.wrapped import WrappedStore


class ReadingStore(WrappedStore):
    """Passes reads on. Pins are left out (an audit reads once, and keeps nothing); everything else is refused."""

    def __init__(self, store: BlobStore) -> None:
        """Read from this store."""
        self._store = store

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Never."""
        raise ProtocolError(f"the audit API only reads: {codec.name} of {len(data)} bytes was not stored")

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Never."""
        return (self.put(data, codec) for data, codec in blobs)

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Nothing is kept."""

    def unpin(self, cid: Cid) -> None:
        """Nothing was kept."""
