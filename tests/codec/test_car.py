"""CARv1 files: what is written is read, and nothing else is."""

import tracemalloc
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import car, cbor
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import BundleError

BLOCKS = [
    (b"one", Codec.RAW),
    (cbor.encode({"two": 2}), Codec.DAG_CBOR),
    (b"", Codec.RAW),
    (b"x" * 300, Codec.RAW),
]
NAMED = [(Cid.of(data, codec), data) for data, codec in BLOCKS]
FILE = car.header(NAMED[1][0]) + b"".join(car.section(cid, data) for cid, data in NAMED)


def read(data: bytes) -> tuple[Cid, list[tuple[Cid, bytes]]]:
    file = BytesIO(data)
    return car.read_header(file), [(section.cid, read) for section, read in car.sections(file)]


def test_a_file_holds_its_root_and_its_blocks_in_order() -> None:
    assert read(FILE) == (NAMED[1][0], NAMED)


def test_a_section_says_where_its_bytes_are() -> None:
    file = BytesIO(FILE)
    car.read_header(file)

    for section, data in car.sections(file):
        assert FILE[section.at : section.at + section.size] == data


def test_the_header_is_that_of_the_specification() -> None:
    # varint 0x3a, {"roots": [tag 42 (0x00 + CID)], "version": 1}: 59 bytes in all with a CIDv1 of SHA-256.
    header = car.header(NAMED[0][0])

    assert header[:11].hex() == "3aa265726f6f747381d82a"
    assert header[-9:].hex() == "6776657273696f6e01"
    assert len(header) == 59


@given(st.integers(0, 2**28 - 1))
def test_lengths_have_seven_bits_a_byte(value: int) -> None:
    data = car.varint(value)

    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data)) == value
    assert [byte >= 0x80 for byte in data] == [True] * (len(data) - 1) + [False]


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_found(bit: int) -> None:
    for at in range(len(FILE)):
        changed = bytearray(FILE)
        changed[at] ^= 1 << bit

        try:
            root, _ = read(bytes(changed))
        except BundleError:
            continue
        # Only another name of the root is a well-formed header; whoever opens the file looks for the root itself.
        assert root != NAMED[1][0]
        assert at < len(car.header(root))


def test_a_file_cut_off_anywhere_but_between_blocks_is_refused() -> None:
    ends = {len(car.header(NAMED[1][0]))}
    for cid, data in NAMED:
        ends.add(max(ends) + len(car.section(cid, data)))

    for length in sorted(set(range(len(FILE))) - ends):
        with pytest.raises(BundleError, match=r"cut off|no CARv1"):
            read(FILE[:length])


@pytest.mark.parametrize(
    ("junk", "why"),
    [
        (b"\x00", "0 bytes announced"),
        (b"\x05hello", "5 bytes announced"),
        (b"\xff\xff\xff\x7f" + bytes(100), "announced"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "length of more than"),
        (b"\xa4\x80\x00" + bytes(40), "shortest form"),
        (b"\x24" + bytes(36), "CID"),
        (b"\x80", "cut off"),
    ],
)
def test_what_stands_after_the_blocks_is_named(junk: bytes, why: str) -> None:
    with pytest.raises(BundleError, match=f"block 4.*{why}"):
        read(FILE + junk)


def test_an_absurd_length_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        for junk in (car.varint(2**28 - 1), car.varint(car.MAX_BLOCK_BYTES + 37)):
            for data in (junk, FILE + junk):
                with pytest.raises(BundleError):
                    read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 19


@pytest.mark.parametrize(
    "header",
    [
        cbor.encode({"roots": [], "version": 1}),
        cbor.encode({"roots": [NAMED[0][0], NAMED[1][0]], "version": 1}),
        cbor.encode({"roots": [NAMED[0][0]], "version": 2}),
        cbor.encode({"roots": [NAMED[0][0]]}),
        cbor.encode([1, 2]),
        b"\xff",
        b"",
    ],
)
def test_another_header_is_refused(header: bytes) -> None:
    with pytest.raises(BundleError, match="header"):
        read(car.varint(len(header)) + header)
