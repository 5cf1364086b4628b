"""Blobs as files in a directory: the embedded store, for one machine and any number of processes.

A block is written to a temporary file, synced and renamed into place, so a reader sees all of it or nothing,
and a writer that is killed leaves at most a temporary file, which a later opening clears away. The same bytes have
the same name as in `ipfs block put`.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from chainfl.codec import cbor
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    CidError,
    RecordError,
    StoreError,
    StoreFullError,
    WrongBytesError,
)
from chainfl.store._window import in_order

STALE_SECONDS = 3600
SIDE_BY_SIDE = 4

_ALONE = b"alone"
"""What the note of a pin says that does not reach what its blob links to."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DirectoryStore:
    """A BlobStore in a directory that is created when it is not there."""

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory)
        self._blocks, self._pins, self._temporary = (self._root / name for name in ("blocks", "pins", "tmp"))
        with _mapped(f"opening store {self._root}"):
            for folder in (self._blocks, self._pins, self._temporary):
                folder.mkdir(parents=True, exist_ok=True)
            _clear_stale(self._temporary)

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self._root)!r})"

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Keep these bytes and name them; a damaged block of that name is made whole."""
        cid = Cid.of(data, codec)
        path = self._path(cid)
        with _mapped(f"writing {cid} to {self._root}"):
            if _holds(path, cid, len(data)):
                # Put now, as far as `collect` is concerned.
                path.touch()
            else:
                self._write(path, data)
        return cid

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Put side by side; names come in the order given."""
        return in_order(lambda blob: self.put(*blob), blobs, SIDE_BY_SIDE)

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name, checked.

        Raises:
            BlobNotFoundError, BlobTooLargeError, WrongBytesError: not here, too many, or damaged on the disk.
        """
        with _mapped(f"reading {cid} from {self._root}"):
            try:
                # One byte more than allowed tells a file that is too large, whatever its size.
                with self._path(cid).open("rb") as file:
                    data = file.read(max_bytes + 1)
            except FileNotFoundError:
                raise BlobNotFoundError(f"{cid} is not in {self._root}") from None
        if len(data) > max_bytes:
            raise BlobTooLargeError(f"{cid} is larger than the {max_bytes} bytes allowed")

        # Disks fail silently; a name that is checked at every read makes that a clear error.
        if not cid.matches(data):
            raise WrongBytesError(f"{cid} in {self._root} is damaged: its bytes hash to another name")
        return data

    def get_many(self, cids: Iterable[Cid], max_bytes: int) -> Iterator[bytes]:
        """Get one after the other: a file read takes less time than handing it to a thread."""
        return (self.get(cid, max_bytes) for cid in cids)

    def has(self, cid: Cid) -> bool:
        """Whether there is a block of this name."""
        with _mapped(f"looking for {cid} in {self._root}"):
            return self._path(cid).exists()

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Check that this, and all it links to unless told otherwise, is here, and note it as kept.

        Raises:
            BlobNotFoundError: names the first part that is not here.
        """
        if self._has_pin(cid, with_links=with_links):
            return

        # What is below another pin was walked when that was made.
        if with_links:
            self._walk(cid, {each for each in self.pins() if self._has_pin(each)})
        elif not self.has(cid):
            raise BlobNotFoundError(f"{cid} is not in {self._root}")
        with _mapped(f"pinning {cid} in {self._root}"):
            self._write(self._pins / str(cid), b"" if with_links else _ALONE)

    def unpin(self, cid: Cid) -> None:
        """Forget the note."""
        with _mapped(f"unpinning {cid} in {self._root}"):
            (self._pins / str(cid)).unlink(missing_ok=True)

    def is_pinned(self, cid: Cid) -> bool:
        """Whether there is a pin of this very name, whoever made it."""
        return self._has_pin(cid, with_links=False)

    def pins(self) -> list[Cid]:
        """What is pinned, sorted."""
        with _mapped(f"listing pins of {self._root}"):
            return sorted(_named(self._pins.iterdir()))

    def collect(self, before: float) -> int:
        """Remove what no pin reaches and was not stored since `before` (seconds, as `time.time()`).

        Leave writers time to pin what they put: an hour is plenty. Says how many bytes were freed.
        """
        kept: set[Cid] = set()
        for cid in self.pins():
            if self._has_pin(cid):
                self._walk(cid, kept)
            else:
                kept.add(cid)

        freed = 0
        with _mapped(f"collecting in {self._root}"):
            for path in self._blocks.glob("*/*"):
                # Another process may collect at the same time.
                with suppress(FileNotFoundError):
                    found = path.stat()
                    if found.st_mtime < before and kept.isdisjoint(_named([path])):
                        path.unlink()
                        freed += found.st_size
        return freed

    def _has_pin(self, cid: Cid, *, with_links: bool = True) -> bool:
        """Whether it is pinned, and all it links to with it where that is asked."""
        with _mapped(f"looking for pins in {self._root}"):
            try:
                note = (self._pins / str(cid)).read_bytes()
            except FileNotFoundError:
                return False
        return not with_links or note != _ALONE

    def _walk(self, start: Cid, seen: set[Cid]) -> None:
        """Add all that is linked to `seen`; with the pins in it, a history costs one block a round."""
        open_ = [start]
        while open_:
            cid = open_.pop()
            if cid in seen:
                continue
            seen.add(cid)
            if not self.has(cid):
                raise BlobNotFoundError(f"{cid}, which {start} needs, is not in {self._root}")
            if cid.codec is Codec.DAG_CBOR:
                open_.extend(_links(self.get(cid, cbor.MAX_BYTES), cid))

    def _path(self, cid: Cid) -> Path:
        name = str(cid)
        return self._blocks / name[-3:-1] / name

    def _write(self, path: Path, data: Octets) -> None:
        path.parent.mkdir(exist_ok=True)

        # Written beside, synced, then renamed: a reader sees all bytes of a name or none, also after a power cut.
        with NamedTemporaryFile(dir=self._temporary, delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
                Path(file.name).rename(path)
            except BaseException:
                with suppress(OSError):
                    Path(file.name).unlink()
                raise
        _sync_folder(path.parent)


def _links(data: bytes, cid: Cid) -> Iterable[Cid]:
    try:
        return cbor.links(cbor.decode(data))
    except RecordError as error:
        raise RecordError(f"{cid}: {error}") from error


def _named(paths: Iterable[Path]) -> Iterator[Cid]:
    """The names among these files; other files there are left alone."""
    for path in paths:
        with suppress(CidError):
            yield Cid.parse(path.name)


def _holds(path: Path, cid: Cid, size: int) -> bool:
    try:
        return path.stat().st_size == size and cid.matches(path.read_bytes())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear_stale(folder: Path) -> None:
    """Remove what writers left behind that died long ago; a living one needs seconds."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - STALE_SECONDS:
                path.unlink()


@contextmanager
def _mapped(doing: str) -> Iterator[None]:
    """Let no OSError out: a full disk and everything else that the system refuses become one line."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFullError(f"{doing}: no room left ({error.strerror}); nothing was written") from error
        raise StoreError(f"{doing}: {error.strerror or error}") from error
