"""The list of who may join as people write it, and as a sponsor publishes it."""

from pathlib import Path

import pytest

from chainfl.blobs import get_admission_list, put_admission_list
from chainfl.codec.admission import ANYONE, ENTRIES_PER_CHUNK, decode_entries, encode_entries, parse_list
from chainfl.errors import InputError, RecordError
from chainfl.protocol.admission import list_root
from chainfl.sim.memory import MemoryStore
from chainfl.types import Address, Role
from chainfl.workflows.sponsor import read_list

ADA = "0x" + "0a" * 20
BOB = "0x" + "0b" * 20


def test_a_list_is_read_line_by_line_whatever_its_order() -> None:
    text = f"# ours\n\n{BOB} internal  # Bob\n{ADA}\nanyone\n"

    assert parse_list(text, "list.txt") == [
        (ANYONE, Role.PARTICIPANT),
        (Address(b"\x0a" * 20), Role.PARTICIPANT),
        (Address(b"\x0b" * 20), Role.INTERNAL),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the list is empty"),
        ("# nobody\n", "the list is empty"),
        (f"{ADA} boss", "line 1: 'boss' is no role"),
        (f"{ADA} internal now", "line 1: 'internal now' is no role"),
        ("0x12", "line 1: '0x12' is no account"),
        ("ada participant", "line 1: 'ada' is no account"),
        (f"{ADA}\n\n{ADA} internal", f"line 3: {ADA} is on the list already"),
        ("anyone internal", "line 1: anyone can be a participant only"),
        ("0x" + "00" * 20, "is no account"),
    ],
)
def test_a_line_that_is_no_entry_is_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_list(text, "list.txt")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "list.bin"
    binary.write_bytes(b"\xff\xfe\x00")

    for path in (binary, tmp_path / "nowhere.txt"):
        with pytest.raises(InputError, match=path.name):
            read_list(path)


def test_a_published_list_comes_back_and_one_with_another_root_is_refused() -> None:
    store = MemoryStore()
    entries = [(Address(number.to_bytes(20, "big")), Role.INTERNAL) for number in range(1, 300)]

    cid = put_admission_list(store, entries)

    assert get_admission_list(store, cid, list_root(entries)) == entries
    with pytest.raises(RecordError, match="not the one whose root the task names"):
        get_admission_list(store, cid, list_root(entries[1:]))


def test_a_long_list_has_several_chunks() -> None:
    entries = [(Address(n.to_bytes(20, "big")), Role.PARTICIPANT) for n in range(1, ENTRIES_PER_CHUNK + 3)]

    chunks = list(encode_entries(entries))

    assert len(chunks) == 2
    assert decode_entries(chunks) == entries


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x01" * 20, "no whole entries"),
        (b"\x01" * 20 + b"\x03", "unknown role 3"),
        ((b"\x01" * 20 + b"\x01") * 2, "repeated or out of order"),
        (b"\x02" * 20 + b"\x01" + b"\x01" * 20 + b"\x01", "repeated or out of order"),
    ],
)
def test_bytes_that_are_no_list_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        decode_entries([data])
