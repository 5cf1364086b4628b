"""RLP, Ethereum's encoding of byte strings and lists: one value, one encoding, anything else is refused.

Headers, receipts and tries are hashed in this form (Ethereum yellow paper, appendix B).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from chainfl.errors import RlpError

MAX_DEPTH = 16

Value = bytes | Sequence["Value"]

_SHORT = 55
_STRING, _LIST = 0x80, 0xC0


def encode(value: Value) -> bytes:
    """The one encoding of this value."""
    if isinstance(value, bytes):
        if len(value) == 1 and value[0] < _STRING:
            return value
        return _head(_STRING, len(value)) + value
    payload = b"".join(map(encode, value))
    return _head(_LIST, len(payload)) + payload


def encode_int(value: int) -> bytes:
    """A number as RLP holds it: big-endian, no leading zeros, 0 is empty. The bytes still have to be encoded."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def decode_int(value: Value) -> int:
    """The number behind such bytes.

    Raises:
        RlpError: it is a list, has leading zeros or more than 32 bytes.
    """
    data = as_bytes(value)
    if data[:1] == b"\x00" or len(data) > 32:
        raise RlpError("a number has leading zeros or more than 32 bytes")
    return int.from_bytes(data, "big")


def decode(data: bytes) -> Value:
    """Read one value that fills the bytes.

    Raises:
        RlpError: the bytes are anything else; names the position.
    """
    value, end = _value(data, 0, len(data), 0)
    if end != len(data):
        _refuse(end, f"{len(data) - end} bytes after the end of the value")
    return value


def decode_list(data: bytes) -> Sequence[Value]:
    """Read a list that fills the bytes."""
    return as_list(decode(data))


def decode_strings(data: bytes, most: int) -> list[bytes]:
    """Read a list of byte strings that fills the bytes, without looking into them; at most so many.

    Raises:
        RlpError: the bytes are anything else; nothing is built from more than `most` of them.
    """
    start, stop = _extent(data, 0, len(data), _LIST) if data[:1] >= bytes((_LIST,)) else (0, 0)
    if not data or stop != len(data):
        _refuse(stop, "a list of byte strings is expected")

    found: list[bytes] = []
    while start < stop:
        if data[start] >= _LIST or len(found) == most:
            _refuse(start, f"only byte strings, and at most {most} of them, are expected")
        value, start = _value(data, start, stop, 1)
        found.append(as_bytes(value))
    return found


def as_bytes(value: Value) -> bytes:
    """A value that has to be a byte string."""
    if not isinstance(value, bytes):
        raise RlpError("a list stands where a byte string belongs")
    return value


def as_list(value: Value) -> Sequence[Value]:
    """A value that has to be a list."""
    if isinstance(value, bytes):
        raise RlpError("a byte string stands where a list belongs")
    return value


def items(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """Cut a stream of encoded values, however it is chunked, into the values; each is still encoded.

    Raises:
        RlpError: the stream ends within a value, or a value is longer than `max_bytes`.
    """
    held, offset = b"", 0

    for chunk in chunks:
        held += chunk
        at = 0
        while at < len(held):
            # The bound is checked on the announced length, before that much is waited for.
            needed = _announced(held, at)
            if needed > max_bytes:
                _refuse(offset + at, f"a value of {needed} bytes; at most {max_bytes} are read")
            if at + needed > len(held):
                break
            yield held[at : at + needed]
            at += needed

        held, offset = held[at:], offset + at
    if held:
        _refuse(offset, "the stream ends within a value")


def _announced(data: bytes, at: int) -> int:
    """How long the value at a place is in all; when even its head is cut off, a little more than there is."""
    first = data[at]
    if first < _STRING:
        return 1
    base = _LIST if first >= _LIST else _STRING
    if first <= base + _SHORT:
        return 1 + first - base
    size = first - base - _SHORT
    if at + 1 + size > len(data):
        return len(data) - at + 1
    return 1 + size + int.from_bytes(data[at + 1 : at + 1 + size], "big")


def _head(base: int, size: int) -> bytes:
    if size <= _SHORT:
        return bytes((base + size,))
    length = encode_int(size)
    return bytes((base + _SHORT + len(length),)) + length


def _value(data: bytes, at: int, end: int, depth: int) -> tuple[Value, int]:
    if at >= end:
        _refuse(at, "the value ends early")
    if depth > MAX_DEPTH:
        _refuse(at, f"nested more than {MAX_DEPTH} deep")

    first = data[at]
    if first < _STRING:
        return data[at : at + 1], at + 1

    base = _LIST if first >= _LIST else _STRING
    start, stop = _extent(data, at, end, base)
    if base == _STRING:
        # One value has one encoding here: what hashes alike is alike.
        if stop - start == 1 and data[start] < _STRING:
            _refuse(at, "a single byte is not in its shortest form")
        return data[start:stop], stop

    found: list[Value] = []
    while start < stop:
        value, start = _value(data, start, stop, depth + 1)
        found.append(value)
    return found, stop


def _extent(data: bytes, at: int, end: int, base: int) -> tuple[int, int]:
    """Where the payload of the value at a place starts and stops."""
    size = data[at] - base
    start = at + 1
    if size > _SHORT:
        start += size - _SHORT
        length = data[at + 1 : min(start, end)]
        size = int.from_bytes(length, "big")
        if start > end:
            _refuse(at, "the value ends early")
        if length[0] == 0 or size <= _SHORT:
            _refuse(at, "a length is not in its shortest form")
    if size > end - start:
        _refuse(at, f"{size} bytes announced, {max(0, end - start)} are there")
    return start, start + size


def _refuse(at: int, why: str) -> NoReturn:
    raise RlpError(f"byte {at}: {why}; not canonical RLP")
