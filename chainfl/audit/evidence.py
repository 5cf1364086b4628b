"""What a block's hash proves: the headers before it, the receipts they name, the accounts of its state.

Every value here is checked against one hash that the auditor trusts. Headers are linked by their parents' hashes; all
receipts of a block hash to its header, so no event can be added, changed or left out; an account's proof leads to the
state root.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from chainfl.codec import rlp, trie
from chainfl.codec.commitments import keccak256
from chainfl.codec.header import mix_hash
from chainfl.codec.text import hex_of
from chainfl.errors import BundleError, LedgerError, ProofError, RlpError
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import Event, TaskCreated
from chainfl.types import Address, Digest

MAX_HEADER_BYTES = 1 << 16
MAX_RECEIPTS_BYTES = 1 << 26
MAX_RECEIPTS = 1 << 16
MAX_ACCOUNT_BYTES = 1 << 18

DecodeLog = Callable[[Sequence[bytes], bytes], Event | None]
"""The event behind a log's topics and data; None for one that is not ours."""


@dataclass(frozen=True, slots=True)
class Header:
    """The parts of an EVM block's header that an audit uses."""

    number: int
    hash: Digest
    parent: Digest
    state_root: Digest
    receipts_root: Digest
    bloom: bytes
    mix_hash: Digest


@dataclass(frozen=True, slots=True)
class ProvenChain:
    """Headers from a task's creation to the block that is trusted, and those of them that may hold its events."""

    first: int
    mix_hashes: bytes
    state_root: Digest
    with_events: tuple[Header, ...]

    def mix_hash(self, number: int) -> Digest | None:
        """A block's randomness, None where it lies outside."""
        at = 32 * (number - self.first)
        return self.mix_hashes[at : at + 32] or None if at >= 0 else None


@dataclass(frozen=True, slots=True)
class ProvenAccount:
    """A contract and its code."""

    address: Address
    code: bytes


@dataclass(frozen=True, slots=True)
class Log:
    """An event of a contract in a transaction."""

    emitter: Address
    topics: tuple[bytes, ...]
    data: bytes


def follow_headers(
    encoded: Iterable[bytes], task: Address, first: int, last: int, trusted: Digest
) -> ProvenChain:
    """Read headers, oldest first, and check that each is the parent of the next and the last one is the trusted one.

    Raises:
        BundleError: names the header that breaks the chain.
    """
    mix_hashes = bytearray()
    with_events = list[Header]()
    number = first
    before = None

    for data in encoded:
        with _naming(f"header of block {number}"):
            before = _next_header(data, number, before)
        mix_hashes += before.mix_hash

        # A bloom filter has no false negatives: a header that is passed over holds no event of the task.
        if number == first or may_hold(before.bloom, task):
            with_events.append(before)
        number += 1

    if before is None or number != last + 1:
        raise BundleError(f"headers end at block {number - 1}, expected {last}")
    if before.hash != trusted:
        raise BundleError(
            f"header of block {last}: its hash is {hex_of(before.hash)}, expected {hex_of(trusted)}"
        )
    return ProvenChain(first, bytes(mix_hashes), before.state_root, tuple(with_events))


def read_header(data: bytes) -> Header:
    """A header from its RLP. Fields that later forks append do not matter here."""
    fields = rlp.decode_list(data)
    if len(fields) < 15:
        raise RlpError(f"a header has {len(fields)} fields, at least 15 are expected")
    parent, state_root, receipts_root, bloom = (rlp.as_bytes(fields[place]) for place in (0, 3, 5, 6))
    if [len(parent), len(state_root), len(receipts_root), len(bloom)] != [32, 32, 32, 256]:
        raise RlpError("a hash is not 32 bytes long, or the bloom not 256")
    number = rlp.decode_int(fields[8])
    return Header(number, keccak256(data), parent, state_root, receipts_root, bloom, mix_hash(data))


def may_hold(bloom: bytes, address: Address) -> bool:
    """Whether a block with this bloom may hold a log of this contract; if not, it certainly holds none."""
    digest = keccak256(address)
    bits = (int.from_bytes(digest[at : at + 2], "big") % 2048 for at in (0, 2, 4))
    return all(bloom[255 - bit // 8] >> bit % 8 & 1 for bit in bits)


def read_accounts(encoded: Iterable[bytes], state_root: Digest) -> dict[Address, bytes]:
    """The code of every contract that the bundle proves, by address; each is `[address, [proof nodes], code]`.

    Raises:
        BundleError: names the account whose proof or code is wrong.
    """
    codes: dict[Address, bytes] = {}
    for place, data in enumerate(encoded):
        with _naming(f"account {place}"):
            address, proof, code = rlp.decode_list(data)
            account = Address(rlp.as_bytes(address))
        with _naming(f"account {hex_of(account)}"):
            nodes = [rlp.as_bytes(node) for node in rlp.as_list(proof)]

            # The fourth field of an account is the hash of its code.
            state = rlp.decode_list(trie.look_up(state_root, keccak256(account), nodes))
            if keccak256(rlp.as_bytes(code)) != state[3]:
                raise BundleError("its code does not hash to the code hash in the chain's state")
            if account in codes:
                raise BundleError("it is there twice")
        codes[account] = rlp.as_bytes(code)
    return codes


def read_logs(header: Header, encoded: bytes) -> Iterator[Log]:
    """All logs of a block, from all its receipts: a list of byte strings, each a receipt as the block hashes it.

    Raises:
        BundleError: the receipts are not those that the header names.
    """
    with _naming(f"receipts of block {header.number}"):
        receipts = rlp.decode_strings(encoded, MAX_RECEIPTS)
        found = trie.ordered_root(receipts)
        if found != header.receipts_root:
            raise BundleError(
                f"their root is {hex_of(found)}, the header says {hex_of(header.receipts_root)}"
            )
        logs = [log for receipt in receipts for log in _logs_of(receipt)]
    yield from logs


def read_history(
    chain: ProvenChain, encoded: Iterable[bytes], task: Address, factory: Address, decode_log: DecodeLog
) -> tuple[TaskCreated, list[LoggedEvent]]:
    """All events of a task and the factory's of its creation, from the receipts of every block that may hold one.

    Raises:
        BundleError: receipts are wrong, missing or not needed, or the task was not created in the first block.
    """
    created = None
    log = list[LoggedEvent]()
    receipts = iter(encoded)

    # A bloom has false positives and no false negatives: a block without our events may be listed, none with them can
    # be missing.
    for header in chain.with_events:
        data = next(receipts, None)
        if data is None:
            raise BundleError(f"receipts of block {header.number}: they are missing")

        for entry in read_logs(header, data):
            if entry.emitter not in (task, factory):
                continue
            with _naming(f"receipts of block {header.number}"):
                event = decode_log(entry.topics, entry.data)
            if entry.emitter == task and event is not None:
                log.append(LoggedEvent(event, header.number))
            elif isinstance(event, TaskCreated) and event.task == task and header.number == chain.first:
                created = event

    if next(receipts, None) is not None:
        raise BundleError("receipts: there are more than the headers ask for")
    if created is None:
        raise BundleError(
            f"factory {hex_of(factory)} did not create task {hex_of(task)} in block {chain.first}"
        )
    return created, log


def _next_header(data: bytes, number: int, before: Header | None) -> Header:
    header = read_header(data)
    if header.number != number:
        raise BundleError(f"it says that its number is {header.number}")
    if before is not None and header.parent != before.hash:
        raise BundleError(
            f"its parent is {hex_of(header.parent)}, the header before it hashes to {hex_of(before.hash)}"
        )
    return header


def _logs_of(receipt: bytes) -> Iterator[Log]:
    """The logs of one receipt: status, gas, bloom, logs; a type stands before all but the oldest kind (EIP-2718)."""
    fields = rlp.decode_list(receipt if receipt[:1] >= b"\xc0" else receipt[1:])
    if len(fields) < 4:
        raise RlpError(f"a receipt has {len(fields)} fields, at least 4 are expected")
    for log in map(rlp.as_list, rlp.as_list(fields[3])):
        emitter, topics, data = log
        yield Log(
            Address(rlp.as_bytes(emitter)),
            tuple(rlp.as_bytes(topic) for topic in rlp.as_list(topics)),
            rlp.as_bytes(data),
        )


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Whatever is wrong within gets the name of the place where it is."""
    try:
        yield
    except (BundleError, RlpError, ProofError, LedgerError, ValueError, IndexError) as error:
        raise BundleError(f"{what}: {error}") from error
