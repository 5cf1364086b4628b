"""Canonical dag-cbor, the strict subset that records use: one value, one encoding.

Shortest heads, definite lengths, map keys sorted by length then bytes, CIDs as tag 42, no floats. Whatever
else comes in is refused with the position of the offending byte, so two different byte strings never mean the
same record. docs/adr/0002-dag-cbor.md says why this is our own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from chainfl.codec.cid import Cid
from chainfl.errors import CidError, RecordError

MAX_BYTES = 1 << 20  # IPFS nodes exchange blocks of up to 1 MiB without being asked twice
MAX_DEPTH = 16
MAX_VALUES = 1 << 16
"""In one record, those within lists and maps included: 2^20 bytes could hold as many, and take seconds to read."""

Value = None | bool | int | bytes | str | Cid | Sequence["Value"] | Mapping[str, "Value"]

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG, _SIMPLE = range(8)
_LINK_TAG = 42
_SIMPLE_VALUES = {20: False, 21: True, 22: None}
_ARGUMENT_BYTES = {24: 1, 25: 2, 26: 4, 27: 8}


def encode(value: Value) -> bytes:
    """The one encoding of this value.

    Raises:
        RecordError: the value has no place in a record (a float, an integer beyond 64 bits).
    """
    parts: list[bytes] = []
    _write(parts, value, "", 0)
    data = b"".join(parts)
    if len(parts) > MAX_VALUES and _count(value) > MAX_VALUES:
        raise RecordError(f"record of {_count(value)} values; at most {MAX_VALUES} are read")
    if len(data) > MAX_BYTES:
        raise RecordError(f"record of {len(data)} bytes; at most {MAX_BYTES} fit in one block")
    return data


def decode(data: bytes) -> Value:
    """Read one value that fills the bytes and is encoded the one right way.

    Raises:
        RecordError: the bytes are anything else; names the position.
    """
    if len(data) > MAX_BYTES:
        raise RecordError(f"record of {len(data)} bytes; at most {MAX_BYTES} are read")
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        reader.refuse(f"{len(data) - reader.at} bytes after the end of the record")
    return value


def links(value: Value) -> Iterator[Cid]:
    """Every CID in a value, in the order of its encoding."""
    if isinstance(value, Cid):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value, key=_key_order):
            yield from links(value[key])
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, str)):
        for item in value:
            yield from links(item)


def _count(value: Value) -> int:
    """How many values a value is made of, with itself."""
    if isinstance(value, Mapping):
        return 1 + sum(map(_count, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, (bytes, str)):
        return 1 + sum(map(_count, value))
    return 1


def _key_order(key: str) -> tuple[int, bytes]:
    data = key.encode()
    return len(data), data


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes((major << 5 | argument,))
    for code, size in _ARGUMENT_BYTES.items():
        if argument < 1 << 8 * size:
            return bytes((major << 5 | code,)) + argument.to_bytes(size, "big")
    raise OverflowError(argument)


def _write(parts: list[bytes], value: Value, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RecordError(f"{path or 'record'}: nested more than {MAX_DEPTH} deep")

    if value is None:
        parts.append(b"\xf6")
    # Before `int`, of which `bool` is a kind.
    elif isinstance(value, bool):
        parts.append(b"\xf5" if value else b"\xf4")
    elif isinstance(value, int):
        major, argument = (_UNSIGNED, value) if value >= 0 else (_NEGATIVE, -1 - value)
        if argument >> 64:
            raise RecordError(f"{path or 'record'}: {value} does not fit 64 bits")
        parts.append(_head(major, argument))
    elif isinstance(value, bytes):
        parts += (_head(_BYTES, len(value)), value)
    elif isinstance(value, str):
        _write_text(parts, value, path)
    elif isinstance(value, Cid):
        # dag-cbor: tag 42, and a zero byte in front of the CID's own.
        data = b"\x00" + bytes(value)
        parts += (_head(_TAG, _LINK_TAG), _head(_BYTES, len(data)), data)
    elif isinstance(value, Mapping):
        _write_map(parts, value, path, depth)
    elif isinstance(value, (list, tuple)):
        parts.append(_head(_LIST, len(value)))
        for index, item in enumerate(value):
            _write(parts, item, f"{path}/{index}", depth + 1)
    else:
        raise RecordError(f"{path or 'record'}: a {type(value).__name__} has no place in a record")


def _write_text(parts: list[bytes], value: str, path: str) -> None:
    data = _utf8(value, path)
    parts += (_head(_TEXT, len(data)), data)


def _write_map(parts: list[bytes], value: Mapping[str, Value], path: str, depth: int) -> None:
    # All keys first: sorting needs their bytes.
    for key in value:
        _utf8(key, path)
    parts.append(_head(_MAP, len(value)))
    for key in sorted(value, key=_key_order):
        _write_text(parts, key, path)
        _write(parts, value[key], f"{path}/{key}", depth + 1)


def _utf8(value: str, path: str) -> bytes:
    try:
        return value.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise RecordError(f"{path or 'record'}: {value!r:.80} is not valid Unicode text") from error


class _Reader:
    """A place in the bytes, and the checks on what stands there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.values = 0

    def refuse(self, why: str) -> NoReturn:
        """Give up, naming the byte."""
        raise RecordError(f"byte {self.at}: {why}; not canonical dag-cbor")

    def value(self, depth: int) -> Value:
        """The value that starts here."""
        if depth > MAX_DEPTH:
            self.refuse(f"nested more than {MAX_DEPTH} deep")
        # A few bytes can announce many values: their number is bounded, not only the bytes.
        self.values += 1
        if self.values > MAX_VALUES:
            self.refuse(f"more than {MAX_VALUES} values")

        major, argument = self.head()
        if major == _UNSIGNED:
            return argument
        if major == _NEGATIVE:
            return -1 - argument
        if major == _BYTES:
            return self.take(argument)
        if major == _TEXT:
            return self.text(argument)
        if major == _LIST:
            self.expect_room(argument)
            return [self.value(depth + 1) for _ in range(argument)]
        if major == _MAP:
            return self.map(argument, depth)
        if major == _TAG:
            return self.link(argument)
        return _SIMPLE_VALUES[argument]

    def head(self) -> tuple[int, int]:
        """Major type and argument of the head that starts here, in its shortest form."""
        if self.at >= len(self.data):
            self.refuse("the record ends early")
        major = self.data[self.at] >> 5
        code = self.data[self.at] & 31
        if major == _SIMPLE and code not in _SIMPLE_VALUES:
            self.refuse("a float, undefined or unknown simple value")

        if code < 24:
            self.at += 1
            return major, code
        if code not in _ARGUMENT_BYTES:
            self.refuse("an indefinite length or a reserved head")

        size = _ARGUMENT_BYTES[code]
        argument = int.from_bytes(self.data[self.at + 1 : self.at + 1 + size], "big")
        if len(self.data) - self.at - 1 < size:
            self.refuse("the record ends early")

        # Two encodings of one number would give one record two names.
        if argument < (24 if size == 1 else 1 << 4 * size):
            self.refuse(f"{argument} is not in its shortest form")
        self.at += 1 + size
        return major, argument

    def expect_room(self, count: int) -> None:
        """Refuse a length that the bytes left cannot hold, before anything of that size is made."""
        if count > len(self.data) - self.at:
            self.refuse(f"{count} more bytes or items announced than the record has")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self.expect_room(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self, size: int) -> str:
        """The next bytes as UTF-8."""
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            self.refuse("text is not valid UTF-8")

    def map(self, count: int, depth: int) -> dict[str, Value]:
        """A map whose keys are text, sorted by length then bytes."""
        self.expect_room(count)
        entries: dict[str, Value] = {}
        last = (-1, b"")
        for _ in range(count):
            major, size = self.head()
            if major != _TEXT:
                self.refuse("a map key is not text")
            key = self.text(size)
            order = _key_order(key)
            if order <= last:
                self.refuse(f"map key {key!r:.80} is repeated or out of order")
            last = order
            entries[key] = self.value(depth + 1)
        return entries

    def link(self, tag: int) -> Cid:
        """A CID behind tag 42."""
        if tag != _LINK_TAG:
            self.refuse(f"tag {tag}; only links (tag 42) are used")
        major, size = self.head()
        data = self.take(size) if major == _BYTES else b""
        if data[:1] != b"\x00":
            self.refuse("a link is not a byte string that starts with 0x00")
        try:
            return Cid.from_bytes(data[1:])
        except CidError as error:
            self.refuse(f"a link is wrong: {error}")
