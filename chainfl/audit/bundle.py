"""The file of an offline audit: one CARv1 with a chain's evidence and the blobs of the rounds (docs/auditing.md).

The root lists pages, the pages list every block that follows, in order: the name of each block is read before the
block itself, so nothing can be added, dropped, repeated or moved. Evidence is a stream of RLP items in raw blocks of
2^20 bytes; blobs are the store's own blocks.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, ClassVar, TypeVar

from chainfl.codec import car, rlp
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.codec.records import Entry, Record
from chainfl.codec.shapes import ADDRESS, NODE, ROOT, UINT64, Shapes, exactly, many, nullable
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    BundleError,
    InputError,
    RecordError,
    RlpError,
    StoreError,
    StoreFullError,
    WrongBytesError,
)
from chainfl.types import Address, Digest

AnyRecord = TypeVar("AnyRecord", bound=Record)

EVIDENCE = ("headers", "accounts", "receipts")
LISTS = (*EVIDENCE, "blobs", "missing")
PAGE_ITEMS = 1 << 14
MAX_PAGES = 1 << 6
"""So a bundle lists at most 2^20 of each, and its table of contents fits in memory."""


def _any_link(value: object, path: str) -> Cid:
    if not isinstance(value, Cid):
        raise RecordError(f"{path}: expected a CID")
    return value


@dataclass(frozen=True, slots=True)
class Page(Record):
    """Part of a list of blocks."""

    items: tuple[Cid, ...]
    kind: str = "chainfl/bundle-page/1"

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly("chainfl/bundle-page/1"),
        "items": many(_any_link, 1, PAGE_ITEMS),
    }


@dataclass(frozen=True, slots=True)
class Subject(Entry):
    """What a bundle is about: a task, its contracts, the block that is trusted, a round (None: all)."""

    chain: int
    task: Address
    factory: Address
    registry: Address
    created: int
    block: int
    hash: Digest
    round: int | None

    SHAPE: ClassVar[Shapes] = {
        "chain": UINT64,
        "task": ADDRESS,
        "factory": ADDRESS,
        "registry": ADDRESS,
        "created": UINT64,
        "block": UINT64,
        "hash": ROOT,
        "round": nullable(UINT64),
    }


@dataclass(frozen=True, slots=True)
class BundleNode(Record):
    """The root of a bundle: what it is about, and the pages that list its blocks."""

    subject: Subject
    headers: tuple[Cid, ...]
    accounts: tuple[Cid, ...]
    receipts: tuple[Cid, ...]
    blobs: tuple[Cid, ...]
    missing: tuple[Cid, ...]
    kind: str = "chainfl/bundle/1"

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly("chainfl/bundle/1"),
        "subject": Subject.read,
        "headers": many(NODE, 1, MAX_PAGES),
        "accounts": many(NODE, 1, MAX_PAGES),
        "receipts": many(NODE, 1, MAX_PAGES),
        "blobs": many(NODE, 0, MAX_PAGES),
        "missing": many(NODE, 0, MAX_PAGES),
    }

    @property
    def pages(self) -> dict[str, tuple[Cid, ...]]:
        """The pages of each list, in the file's order."""
        return {name: getattr(self, name) for name in LISTS}


# Writing


class BundleWriter:
    """Writes blocks as they come to an unnamed file, and the whole under its name when all is known."""

    def __init__(self, out: Path, body: BinaryIO) -> None:
        """`begin_bundle` makes one."""
        self._out = out
        self._body = body
        self._listed: dict[str, list[Cid]] = {name: [] for name in LISTS}
        self._blobs: set[Cid] = set()

    def keep(self, name: str, items: Iterable[bytes]) -> Iterator[bytes]:
        """Pass evidence on to its checker, and write it down on the way."""
        held = bytearray()
        for item in items:
            held += item
            while len(held) >= car.MAX_BLOCK_BYTES:
                self._add(name, bytes(held[: car.MAX_BLOCK_BYTES]), Codec.RAW)
                del held[: car.MAX_BLOCK_BYTES]
            yield item
        if held:
            self._add(name, bytes(held), Codec.RAW)

    def has(self, cid: Cid) -> bool:
        """Whether this blob was written or noted as missing."""
        return cid in self._blobs

    def add_blob(self, cid: Cid, data: bytes | None) -> None:
        """Write a blob, or note that it was not found; once each."""
        if cid in self._blobs:
            return
        self._blobs.add(cid)
        if data is None:
            self._list("missing", cid)
        else:
            self._add("blobs", data, cid.codec)

    def counts(self) -> dict[str, int]:
        """How many blocks each list has."""
        return {name: len(cids) for name, cids in self._listed.items()}

    def finish(self, subject: Subject, check: Callable[[Path], None]) -> int:
        """Put root and pages before the blocks, have the whole checked, and give it its name; answers its size.

        Raises:
            StoreError: the file cannot be written; nothing is left under its name then.
        """
        pages = {
            name: [Page(tuple(cids[at : at + PAGE_ITEMS])) for at in range(0, len(cids), PAGE_ITEMS)]
            for name, cids in self._listed.items()
        }

        links = {name: tuple(page.cid for page in listed) for name, listed in pages.items()}
        headers, accounts, receipts, blobs, missing = (links[name] for name in LISTS)
        node = BundleNode(subject, headers, accounts, receipts, blobs, missing)

        # Written beside its name and moved there when it has passed: a bundle that exists is a whole one.
        draft = self._out.with_name(self._out.name + ".part")
        try:
            with draft.open("wb") as file:
                file.write(car.header(node.cid))
                for record in (node, *(page for name in LISTS for page in pages[name])):
                    file.write(car.section(record.cid, record.encode()))
                self._body.seek(0)
                shutil.copyfileobj(self._body, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            check(draft)
            draft.replace(self._out)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return size

    def _add(self, name: str, data: Octets, codec: Codec) -> None:
        cid = Cid.of(data, codec)
        self._list(name, cid)
        self._body.write(car.section(cid, data))

    def _list(self, name: str, cid: Cid) -> None:
        if len(self._listed[name]) == PAGE_ITEMS * MAX_PAGES:
            raise InputError(
                f"the bundle would have more than 2^20 blocks of {name}: export one --round at a time"
            )
        self._listed[name].append(cid)


@contextmanager
def begin_bundle(out: Path) -> Iterator[BundleWriter]:
    """A bundle to be written under this name, which it gets only when it is whole and right.

    Raises:
        StoreError: the folder cannot be written to.
    """
    try:
        with TemporaryFile(dir=out.parent) as body:
            yield BundleWriter(out, body)
    except OSError as error:
        kind = StoreFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
        raise kind(f"writing {out}: {error.strerror or error}") from error


# Reading


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose blocks are all there, in order, and hash to their names. What they prove is another matter."""

    node: BundleNode
    file: BinaryIO
    blocks: dict[str, list[car.Section]]
    missing: frozenset[Cid]

    @property
    def subject(self) -> Subject:
        """What it claims to be about."""
        return self.node.subject

    def items(self, name: str, max_bytes: int) -> Iterator[bytes]:
        """The RLP items of a list of evidence."""
        try:
            yield from rlp.items((_read_at(self.file, block) for block in self.blocks[name]), max_bytes)
        except RlpError as error:
            raise BundleError(f"{name}: {error}") from error

    def store(self) -> "BundleStore":
        """Its blobs."""
        return BundleStore(self.file, {block.cid: block for block in self.blocks["blobs"]}, self.missing)


class BundleStore:
    """The blobs of a bundle as a BlobStore to read from."""

    def __init__(self, file: BinaryIO, blobs: dict[Cid, car.Section], missing: frozenset[Cid]) -> None:
        """`Bundle.store` makes one."""
        self._file = file
        self._blobs = blobs
        self._missing = missing

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name, checked again as they are read."""
        block = self._blobs.get(cid)
        if block is None:
            why = (
                "was not found when the bundle was written"
                if cid in self._missing
                else "is not in the bundle"
            )
            raise BlobNotFoundError(f"{cid} {why}")
        if block.size > max_bytes:
            raise BlobTooLargeError(f"{cid} is larger than the {max_bytes} bytes allowed")
        return _read_at(self._file, block)

    def get_many(self, cids: Iterable[Cid], max_bytes: int) -> Iterator[bytes]:
        """One after the other."""
        return (self.get(cid, max_bytes) for cid in cids)

    def has(self, cid: Cid) -> bool:
        """Whether the bundle holds it."""
        return cid in self._blobs

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """A file keeps what it has."""

    def unpin(self, cid: Cid) -> None:
        """A file keeps what it has."""

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Refused: a bundle is only read."""
        raise StoreError(f"a bundle is only read: {Cid.of(data, codec)} cannot be put into it")

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Refused: a bundle is only read."""
        return (self.put(data, codec) for data, codec in blobs)


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """A bundle, every block of it checked against its name and its place.

    Raises:
        InputError: there is no such file.
        BundleError: names the block that is wrong, cut off, repeated, moved or not listed.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"bundle {path}: {error.strerror or error}") from None
    with file:
        try:
            bundle = _read_bundle(file)
        except OSError as error:
            raise InputError(f"bundle {path}: {error.strerror or error}") from None
        yield bundle


def _read_bundle(file: BinaryIO) -> Bundle:
    root = car.read_header(file)
    found = car.sections(file)
    _, data = _expect(found, root, "root")
    node = _decode(BundleNode, data, "root")
    listed = {name: _read_pages(found, name, pages) for name, pages in node.pages.items()}
    blocks = {name: _read_blocks(found, name, listed[name]) for name in LISTS if name != "missing"}

    with _in("after the last block that is listed"):
        extra = next(found, None)
    if extra is not None:
        raise BundleError(f"{extra[0].cid}: the file goes on with it after the last block that is listed")

    # A blob is either here or missing: both at once would let a reader choose.
    missing = frozenset(listed["missing"])
    both = missing.intersection(listed["blobs"])
    if both:
        raise BundleError(f"blob {min(both)}: listed as missing, yet it is there")
    return Bundle(node, file, blocks, missing)


def _read_pages(found: "_Found", name: str, pages: Sequence[Cid]) -> list[Cid]:
    """What the pages of a list name; all but the last are full, and nothing is named twice."""
    cids: list[Cid] = []
    for place, cid in enumerate(pages):
        what = f"page {place} of {name}"
        _, data = _expect(found, cid, what)
        cids += _decode(Page, data, what).items
        if place + 1 < len(pages) and len(cids) != PAGE_ITEMS * (place + 1):
            raise BundleError(f"{what}: it is not full, yet not the last")

    # One encoding for one bundle: a page that is not full, or a name listed twice, would give a second.
    repeated = len(cids) - len(set(cids))
    if repeated:
        raise BundleError(f"{name}: {repeated} of the blocks are listed twice")
    return cids


def _read_blocks(found: "_Found", name: str, cids: Sequence[Cid]) -> list[car.Section]:
    blocks = []
    for place, cid in enumerate(cids):
        what = f"block {place} of {name}"
        block, _ = _expect(found, cid, what)
        if name in EVIDENCE and place + 1 < len(cids) and block.size != car.MAX_BLOCK_BYTES:
            raise BundleError(f"{what}: it is not full, yet not the last")
        blocks.append(block)
    return blocks


_Found = Iterator[tuple[car.Section, bytes]]


def _expect(found: _Found, cid: Cid, what: str) -> tuple[car.Section, bytes]:
    """The next block of the file, which has to be this one."""
    with _in(f"{what} ({cid})"):
        read = next(found, None)
        if read is None:
            raise BundleError("the file ends before it: it was cut off")
        if read[0].cid != cid:
            raise BundleError(f"another block stands in its place: {read[0].cid}")
    return read


def _decode(kind: type[AnyRecord], data: bytes, what: str) -> AnyRecord:
    try:
        return kind.decode(data)
    except RecordError as error:
        raise BundleError(f"{what}: {error}") from error


def _read_at(file: BinaryIO, block: car.Section) -> bytes:
    """The bytes of a block, whatever others read at the same time."""
    data = os.pread(file.fileno(), block.size, block.at)
    if not block.cid.matches(data):
        raise WrongBytesError(f"{block.cid}: the bundle was changed while it was read")
    return data


@contextmanager
def _in(what: str) -> Iterator[None]:
    try:
        yield
    except BundleError as error:
        raise BundleError(f"{what}: {error}") from error
