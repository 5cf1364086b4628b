"""RLP against the Ethereum package, and what is refused."""

import pytest
import rlp as reference  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import rlp
from chainfl.errors import RlpError

VALUES = st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=6), max_leaves=20)


def plain(value: rlp.Value) -> object:
    return value if isinstance(value, bytes) else [plain(item) for item in value]


@given(VALUES)
def test_encoding_is_ethereums_and_decodes_again(value: rlp.Value) -> None:
    data = rlp.encode(value)

    assert data == reference.encode(value)
    assert plain(rlp.decode(data)) == plain(value)


@given(st.binary(max_size=40))
def test_what_is_decoded_has_one_encoding_and_all_else_is_refused(data: bytes) -> None:
    try:
        value = rlp.decode(data)
    except RlpError:
        with pytest.raises(reference.DecodingError):
            reference.decode(data)
    else:
        assert rlp.encode(value) == data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends early"),
        (b"\x81\x05", "shortest form"),
        (b"\xb8\x01\x99", "shortest form"),
        (b"\xb9\x00\x40" + bytes(64), "shortest form"),
        (b"\x83ab", "3 bytes announced, 2 are there"),
        (b"\xbf" + b"\xff" * 8, "announced"),
        (b"\xb8", "ends early"),
        (b"\x80\x80", "1 bytes after the end"),
        (b"\xc2\x83a", "announced"),
        (b"\xc1" * 40 + b"\xc0", "announced|nested"),
    ],
)
def test_malformed_bytes_are_refused_with_their_position(data: bytes, why: str) -> None:
    with pytest.raises(RlpError, match=rf"byte \d+: .*({why})"):
        rlp.decode(data)


def test_deep_nesting_is_refused() -> None:
    value: rlp.Value = []
    for _ in range(rlp.MAX_DEPTH + 1):
        value = [value]

    with pytest.raises(RlpError, match="nested"):
        rlp.decode(rlp.encode(value))


@given(st.integers(0, 2**256 - 1))
def test_numbers_come_back(number: int) -> None:
    assert rlp.decode_int(rlp.encode_int(number)) == number


@pytest.mark.parametrize("value", [b"\x00", b"\x00\x01", b"\x01" * 33])
def test_numbers_in_another_form_are_refused(value: bytes) -> None:
    with pytest.raises(RlpError, match="leading zeros or more than 32"):
        rlp.decode_int(value)


def test_lists_and_strings_are_not_taken_for_each_other() -> None:
    with pytest.raises(RlpError, match="list"):
        rlp.as_bytes([])
    with pytest.raises(RlpError, match="list"):
        rlp.as_list(b"")


@given(st.lists(VALUES, max_size=8), st.integers(1, 50))
def test_a_stream_is_cut_into_its_values_however_it_is_chunked(values: list[rlp.Value], size: int) -> None:
    encoded = [rlp.encode(value) for value in values]
    stream = b"".join(encoded)

    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]

    assert list(rlp.items(chunks, 1 << 16)) == encoded


def test_a_stream_that_ends_within_a_value_is_refused() -> None:
    with pytest.raises(RlpError, match="byte 1: the stream ends within a value"):
        list(rlp.items([b"\x01\x83a", b"b"], 100))


def test_a_value_that_announces_too_much_is_refused_before_it_is_held() -> None:
    with pytest.raises(RlpError, match="at most 100 are read"):
        list(rlp.items([b"\xbf" + b"\xff" * 8, b"x"], 100))


@given(st.lists(st.binary(max_size=70), max_size=6))
def test_a_list_of_strings_is_read_without_looking_into_them(values: list[bytes]) -> None:
    assert rlp.decode_strings(rlp.encode(values), 6) == values


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "a list of byte strings is expected"),
        (b"\x83abc", "a list of byte strings is expected"),
        (b"\xc1a\x00", "a list of byte strings is expected"),
        (b"\xc2a\xc0", "byte 2: only byte strings"),
        (b"\xc4abcd", "byte 4: .*at most 3"),
        (b"\xf8", "ends early"),
        (b"\xc2\x81a", "shortest form"),
    ],
)
def test_other_lists_are_refused_before_much_is_built(data: bytes, why: str) -> None:
    with pytest.raises(RlpError, match=why):
        rlp.decode_strings(data, 3)
