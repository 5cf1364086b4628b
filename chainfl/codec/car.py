"""CARv1, IPFS's file of blocks: a header that names one root, then length, CID and bytes of each block.

Only the strict form that we write is read: one root, our kinds of CID, shortest lengths, blocks of up to 2^20 bytes.
(IPLD specification "CARv1".)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from chainfl.codec import cbor
from chainfl.codec.cid import CID_BYTES, Cid, Octets
from chainfl.errors import BundleError, CidError, RecordError

MAX_BLOCK_BYTES = cbor.MAX_BYTES
_MAX_HEADER_BYTES = 128
_MAX_VARINT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Section:
    """Where a block of the file starts, and what it says that it is; its bytes are yet to be read."""

    at: int
    cid: Cid
    size: int


def header(root: Cid) -> bytes:
    """The first bytes of a file with this root."""
    body = cbor.encode({"roots": [root], "version": 1})
    return varint(len(body)) + body


def section(cid: Cid, data: Octets) -> bytes:
    """A block as the file holds it."""
    return b"".join((varint(CID_BYTES + len(data)), bytes(cid), data))


def varint(value: int) -> bytes:
    """An unsigned number, seven bits a byte, lowest first."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def read_header(file: BinaryIO) -> Cid:
    """The root that the file names.

    Raises:
        BundleError: the file starts in another way than our files do.
    """
    size = _read_varint(file, "the header")
    if not size or size > _MAX_HEADER_BYTES:
        raise BundleError(f"the header has {size or 0} bytes: this is no CARv1 file of chainfl")
    data = _read(file, size, "the header")

    try:
        value = cbor.decode(data)
    except RecordError as error:
        raise BundleError(f"the header cannot be read: {error}") from error

    roots = value.get("roots") if isinstance(value, dict) else None
    if not isinstance(roots, list) or len(roots) != 1 or not isinstance(roots[0], Cid):
        raise BundleError("the header does not name exactly one root")
    root = roots[0]

    # One header has one encoding: whatever else says the same is refused.
    if varint(size) + data != header(root):
        raise BundleError("the header is not that of a CARv1 file")
    return root


def sections(file: BinaryIO) -> Iterator[tuple[Section, bytes]]:
    """All blocks, in order, with their bytes; each is checked against its CID.

    Raises:
        BundleError: names the block by its place from 0 and its CID: cut off, too long, or not what its CID names.
    """
    place = 0
    at = file.tell()
    while (size := _read_varint(file, f"block {place}")) is not None:
        if not CID_BYTES <= size <= CID_BYTES + MAX_BLOCK_BYTES:
            raise BundleError(
                f"block {place} at byte {at}: {size} bytes announced, {CID_BYTES} to 2^20 are allowed"
            )
        try:
            cid = Cid.from_bytes(_read(file, CID_BYTES, f"block {place}"))
        except CidError as error:
            raise BundleError(f"block {place} at byte {at}: {error}") from error

        start = file.tell()
        data = _read(file, size - CID_BYTES, f"block {place} ({cid})")
        if not cid.matches(data):
            raise BundleError(
                f"block {place} at byte {at}: its {len(data)} bytes do not hash to its name {cid}"
            )

        yield Section(start, cid, len(data)), data
        place, at = place + 1, file.tell()


def _read_varint(file: BinaryIO, what: str) -> int | None:
    """A length in its shortest form; None at the end of the file."""
    value, raw = 0, b""
    for place in range(_MAX_VARINT_BYTES):
        byte = file.read(1)
        if not byte:
            if place:
                raise BundleError(f"{what}: the file ends within a length: it was cut off")
            return None
        raw += byte
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:
            if raw != varint(value):
                raise BundleError(f"{what}: a length is not in its shortest form")
            return value
    raise BundleError(f"{what}: a length of more than {_MAX_VARINT_BYTES} bytes")


def _read(file: BinaryIO, size: int, what: str) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise BundleError(f"{what}: the file ends {size - len(data)} bytes early: it was cut off")
    return data
