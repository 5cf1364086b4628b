from typing import Any

import dag_cbor
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats import CID

from chainfl.codec import cbor
from chainfl.codec.cbor import MAX_BYTES, MAX_DEPTH, Value
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import RecordError

cids = st.builds(Cid, st.sampled_from(Codec), st.binary(min_size=32, max_size=32))
integers = st.integers(-(1 << 64), (1 << 64) - 1)
scalars = st.none() | st.booleans() | integers | st.binary() | st.text() | cids
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
)

HOSTILE = {
    "an integer in a longer form": b"\x18\x01",
    "an integer of 8 bytes that fits 4": b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff",
    "a length in a longer form": b"\x58\x01a",
    "repeated keys": b"\xa2\x61a\x01\x61a\x02",
    "keys not in byte order": b"\xa2\x61b\x01\x61a\x02",
    "keys not in length order": b"\xa2\x62aa\x01\x61b\x02",
    "a key that is not text": b"\xa1\x01\x01",
    "a negative integer in a longer form": b"\x38\x01",
    "a text's length in a longer form": b"\x78\x01a",
    "a list's length in a longer form": b"\x98\x01\x01",
    "a map's length in a longer form": b"\xb8\x01\x61a\x01",
    "a key's length in a longer form": b"\xa1\x78\x01a\x01",
    "a float of 32 bits": b"\xfa\x3f\x80\x00\x00",
    "not a number": b"\xfb\x7f\xf8" + bytes(6),
    "a link with a byte after its digest": b"\xd8\x2a\x58\x26\x00" + bytes(Cid.raw(bytes(32))) + b"\x00",
    "a link with its bytes in itself": b"\xd8\x2a\x4a\x00\x01\x55\x00\x05hello",
    "a link's length in a longer form": b"\xd8\x2a\x59\x00\x25\x00" + bytes(Cid.raw(bytes(32))),
    "more values than are read": b"\x9a\x00\x01\x00\x00" + b"\xf6" * (1 << 16),
    "trailing bytes": b"\x01\x01",
    "an endless list": b"\x9f\x01\xff",
    "endless bytes": b"\x5f\x41a\xff",
    "a half float": b"\xf9\x3c\x00",
    "a float": b"\xfb\x3f\xf0" + bytes(6),
    "undefined": b"\xf7",
    "a simple value": b"\xe0",
    "false in a longer form": b"\xf8\x14",
    "another tag": b"\xc1\x01",
    "a link without its leading zero": b"\xd8\x2a\x58\x24" + bytes(Cid.raw(bytes(32))),
    "a link that is not bytes": b"\xd8\x2a\x01",
    "a link with a CIDv0": b"\xd8\x2a\x58\x23\x00\x12\x20" + bytes(32),
    "a tag in a longer form": b"\xd9\x00\x2a\x58\x25\x00" + bytes(Cid.raw(bytes(32))),
    "text that is not UTF-8": b"\x61\xff",
    "more bytes than there are": b"\x5b" + b"\xff" * 8,
    "more items than there are": b"\x9b\x00\x00\x00\xff" + b"\xff" * 4,
    "more keys than there are": b"\xbb\x00\x00\x00\xff" + b"\xff" * 4,
    "a truncated string": b"\x42a",
    "a truncated head": b"\x19\x01",
    "nothing": b"",
    "a depth bomb": b"\x81" * 100_000 + b"\x01",
    "one level too many": b"\x81" * (MAX_DEPTH + 1) + b"\x01",
    "too many bytes": b"\x5a\x00\x10\x00\x00" + bytes(1 << 20),
}


def as_library(value: Value) -> Any:
    """The same value for the dag-cbor package."""
    if isinstance(value, Cid):
        return CID("base32", 1, "raw" if value.codec is Codec.RAW else "dag-cbor", ("sha2-256", value.digest))
    if isinstance(value, dict):
        return {key: as_library(item) for key, item in value.items()}
    return [as_library(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_a_value_comes_back_and_has_the_bytes_of_the_dag_cbor_package(value: Value) -> None:
    data = cbor.encode(value)

    assert cbor.decode(data) == value
    assert data == dag_cbor.encode(as_library(value))


@pytest.mark.parametrize(
    "data",
    [
        bytes(Cid.raw(bytes(32))),
        bytes.fromhex("01858d7d6600edd387d1791c3f65b968b9977d37415919ea839054156a52519b"),
        bytes.fromhex("0153edc8710e5fead8c7180267647c41b5e75cc0"),
    ],
)
def test_bytes_that_could_be_a_link_stay_bytes(data: bytes) -> None:
    encoded = cbor.encode(data)

    assert encoded[0] >> 5 == 2
    assert cbor.decode(encoded) == data
    assert list(cbor.links(cbor.decode(encoded))) == []


@given(st.binary(max_size=60))
def test_bytes_that_are_read_are_the_one_encoding_of_what_was_read(data: bytes) -> None:
    try:
        value = cbor.decode(data)
    except RecordError:
        return

    assert cbor.encode(value) == data


@given(values, st.data())
def test_a_changed_byte_is_refused_or_means_another_value(value: Value, draw: st.DataObject) -> None:
    data = bytearray(cbor.encode(value))
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))

    try:
        other = cbor.decode(bytes(data))
    except RecordError:
        return

    assert cbor.encode(other) != cbor.encode(value)


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_canonical_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        cbor.decode(data)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (1.5, "a float has no place"),
        ({"a": [0, 1 << 64]}, "/a/1: 18446744073709551616 does not fit 64 bits"),
        (-(1 << 64) - 1, "does not fit 64 bits"),
        ({"a": {1, 2}}, "/a: a set has no place"),
        ({1: 2}, "1 is not valid Unicode text"),
        ("\ud800", "not valid Unicode text"),
        ({"\ud800": 1}, "not valid Unicode text"),
        (bytes(MAX_BYTES), "fit in one block"),
    ],
)
def test_a_value_with_no_place_in_a_record_is_refused_by_path(value: Value, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        cbor.encode(value)


def test_a_value_nested_too_deep_is_not_written() -> None:
    value: Value = 1
    for _ in range(MAX_DEPTH + 1):
        value = [value]

    with pytest.raises(RecordError, match="nested"):
        cbor.encode(value)


def test_links_are_listed_in_the_order_of_the_bytes() -> None:
    first, second, third = (Cid.raw(bytes([n]) * 32) for n in range(3))

    assert list(cbor.links({"bb": third, "a": [first, {"x": second}], "c": 1})) == [first, second, third]


def test_a_record_of_more_values_than_any_has_is_neither_written_nor_read() -> None:
    most = [0] * (cbor.MAX_VALUES - 1)

    assert cbor.decode(cbor.encode(most)) == most
    with pytest.raises(RecordError, match="65537 values"):
        cbor.encode([*most, 0])
    with pytest.raises(RecordError, match="more than 65536 values"):
        cbor.decode(b"\x9a" + (0xFFFF0).to_bytes(4, "big") + b"\x80" * 0xFFFF0)
