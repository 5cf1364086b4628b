"""Shapes of single values in a record: what a decoded value must be.

Each shape takes a decoded value and its path, and returns what the record's dataclass holds.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from chainfl.codec.cbor import Value
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import RecordError

ADDRESS_BYTES = 20
ROOT_BYTES = 32
UINT64_MAX = (1 << 64) - 1

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(:[a-z0-9._-]+=[a-z0-9._-]+(,[a-z0-9._-]+=[a-z0-9._-]+)*)?")
_MAX_NAME = 256

Shape = Callable[[Value, str], Any]
Shapes = Mapping[str, Shape]


def integer(low: int, high: int) -> Shape:
    """An integer from `low` to `high`, both allowed."""

    def read(value: Value, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise RecordError(f"{path}: expected an integer, found {kind_of(value)}")
        if not low <= value <= high:
            raise RecordError(f"{path}: {value} is not within {low} … {high}")
        return value

    return read


def octets(least: int, most: int | None = None) -> Shape:
    """A byte string of exactly `least` bytes, or of `least` to `most`."""
    highest = least if most is None else most
    allowed = f"{least}" if most is None else f"{least} to {most}"

    def read(value: Value, path: str) -> bytes:
        if not isinstance(value, bytes):
            raise RecordError(f"{path}: expected {allowed} bytes, found {kind_of(value)}")
        if not least <= len(value) <= highest:
            raise RecordError(f"{path}: expected {allowed} bytes, found {len(value)}")
        return value

    return read


def boolean(value: Value, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise RecordError(f"{path}: expected true or false, found {kind_of(value)}")
    return value


def text(value: Value, path: str) -> str:
    """Free text: 1 to 256 characters."""
    if not isinstance(value, str):
        raise RecordError(f"{path}: expected text, found {kind_of(value)}")
    if not 1 <= len(value) <= _MAX_NAME:
        raise RecordError(f"{path}: expected 1 to {_MAX_NAME} characters, found {len(value)}")
    return value


def name(value: Value, path: str) -> str:
    """A name with parameters, as in `mnist-cnn` or `fedrob:b=2,alpha=0.88`."""
    word = text(value, path)
    if not _NAME.fullmatch(word):
        raise RecordError(f"{path}: {word!r} is not a name like mnist-cnn or fedrob:b=2,alpha=0.88")
    return word


def exactly(word: str) -> Shape:
    """This one text."""

    def read(value: Value, path: str) -> str:
        if value != word:
            raise RecordError(f"{path}: expected {word!r}, found {value!r:.80}")
        return word

    return read


def link(codec: Codec) -> Shape:
    """A CID of raw bytes, or of a record."""

    def read(value: Value, path: str) -> Cid:
        if not isinstance(value, Cid):
            raise RecordError(f"{path}: expected a CID, found {kind_of(value)}")
        if value.codec is not codec:
            raise RecordError(f"{path}: expected a CID of codec {codec:#x}, found {value.codec:#x}")
        return value

    return read


def nullable(shape: Shape) -> Shape:
    """The shape, or null."""
    return lambda value, path: None if value is None else shape(value, path)


def many(shape: Shape, least: int = 0, most: int | None = None) -> Shape:
    """A list of `least` to `most` values of one shape."""
    allowed = f"at least {least}" if most is None else f"{least} to {most}"

    def read(value: Value, path: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise RecordError(f"{path}: expected a list, found {kind_of(value)}")
        if len(value) < least or (most is not None and len(value) > most):
            raise RecordError(f"{path}: expected {allowed} entries, found {len(value)}")
        return tuple(shape(item, f"{path}/{index}") for index, item in enumerate(value))

    return read


ADDRESS = octets(ADDRESS_BYTES)
ROOT = octets(ROOT_BYTES)
UINT64 = integer(0, UINT64_MAX)
NODE = link(Codec.DAG_CBOR)


def kind_of(value: Value) -> str:
    """What a value is, in words for an error."""
    words = {
        type(None): "null",
        bool: "a boolean",
        int: "an integer",
        bytes: "bytes",
        str: "text",
        Cid: "a CID",
        dict: "a map",
        list: "a list",
    }
    return words.get(type(value), f"a {type(value).__name__}")
