"""The list of who may join a task: a text that people write, and the record and bytes that a sponsor publishes.

In the text a line names an account and its role: `0x… participant`, `0x… internal`, or `anyone` for everybody as
participant; a line without a role has the usual one, and `#` begins a comment. Published entries are
21 bytes, ascending: the account and its role.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from chainfl.codec.cid import Cid, Codec
from chainfl.codec.records import Record
from chainfl.codec.shapes import ROOT, Shapes, exactly, integer, link, many
from chainfl.errors import InputError, RecordError
from chainfl.types import Address, Role

Entry = tuple[Address, Role]

KIND: Final = "chainfl/admission/1"
ANYONE: Final = Address(bytes(20))
"""Named as participant, it stands for everybody."""
MAX_ACCOUNTS: Final = 1 << 20
ENTRY_BYTES: Final = 21
ENTRIES_PER_CHUNK: Final = (1 << 20) // ENTRY_BYTES

_ROLES: Final = {"participant": Role.PARTICIPANT, "internal": Role.INTERNAL}


@dataclass(frozen=True, slots=True)
class AdmissionList(Record):
    """Names the bytes of a list, and the root that is a term of the task."""

    root: bytes
    accounts: int
    chunks: tuple[Cid, ...]
    kind: str = KIND

    SHAPE: ClassVar[Shapes] = {
        "kind": exactly(KIND),
        "root": ROOT,
        "accounts": integer(1, MAX_ACCOUNTS),
        "chunks": many(link(Codec.RAW), 1, -(-MAX_ACCOUNTS // ENTRIES_PER_CHUNK)),
    }


def parse_list(text: str, where: str, usual: Role = Role.PARTICIPANT) -> list[Entry]:
    """The entries of a list that a person wrote, ascending; `usual` is the role of a line that names none.

    Raises:
        InputError: a line is no entry, or names an account again; says which line of `where`.
    """
    entries: dict[Address, Role] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        account, role = _parse_line(words, f"{where}, line {number}", usual)
        if account in entries:
            raise InputError(f"{where}, line {number}: {words[0]} is on the list already")
        entries[account] = role

    if not entries:
        raise InputError(f"{where}: the list is empty; write one account a line, such as: 0x… participant")
    if len(entries) > MAX_ACCOUNTS:
        raise InputError(f"{where}: {len(entries)} accounts; a list may have {MAX_ACCOUNTS}")
    return sorted(entries.items())


def _parse_line(words: Sequence[str], where: str, usual: Role) -> Entry:
    role = _ROLES.get(words[1]) if len(words) > 1 else usual
    if role is None or len(words) > 2:
        raise InputError(
            f"{where}: {' '.join(words[1:])!r} is no role: write participant or internal after the account"
        )
    if words[0] == "anyone":
        if len(words) > 1 and role is not Role.PARTICIPANT:
            raise InputError(f"{where}: anyone can be a participant only; name each internal account")
        return ANYONE, Role.PARTICIPANT
    return _parse_account(words[0], where), role


def _parse_account(text: str, where: str) -> Address:
    try:
        account = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        account = b""
    if len(account) != len(ANYONE) or not text.startswith("0x") or account == ANYONE:
        raise InputError(f"{where}: {text!r} is no account: give 0x and 40 hexadecimal digits, or anyone")
    return Address(account)


def encode_entries(entries: Iterable[Entry]) -> Iterator[bytes]:
    """The published bytes, chunk by chunk."""
    packed = [account + bytes([role]) for account, role in sorted(entries)]
    for first in range(0, len(packed), ENTRIES_PER_CHUNK):
        yield b"".join(packed[first : first + ENTRIES_PER_CHUNK])


def decode_entries(chunks: Iterable[bytes]) -> list[Entry]:
    """The entries behind published bytes.

    Raises:
        RecordError: an entry is cut off, has no role, or is repeated or out of order.
    """
    entries: list[Entry] = []
    for chunk in chunks:
        if len(chunk) % ENTRY_BYTES:
            raise RecordError(f"admission list: {len(chunk)} bytes are no whole entries of {ENTRY_BYTES}")
        for at in range(0, len(chunk), ENTRY_BYTES):
            account = Address(chunk[at : at + ENTRY_BYTES - 1])
            role = chunk[at + ENTRY_BYTES - 1]
            if role not in _ROLES.values():
                raise RecordError(f"admission list: 0x{account.hex()} has the unknown role {role}")
            if entries and entries[-1][0] >= account:
                raise RecordError(f"admission list: 0x{account.hex()} is repeated or out of order")
            entries.append((account, Role(role)))
    return entries
