"""A store that fails, in a way of the test's choice, whenever it is asked for one blob."""

from chainfl.codec.cid import Cid
from chainfl.errors import StoreError
from chainfl.sim.memory import MemoryStore


class Flaky(MemoryStore):
    """Shares all blobs with another store; fails until it is mended."""

    def __init__(self, store: MemoryStore, missing: Cid, failure: StoreError) -> None:
        super().__init__()
        self._blobs = store._blobs
        self._missing, self._failure = missing, failure

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """Fail, or answer."""
        if cid == self._missing:
            raise self._failure
        return super().get(cid, max_bytes)

    def mend(self) -> None:
        """From now on it has everything."""
        self._missing = Cid.dag_cbor(bytes(32))
