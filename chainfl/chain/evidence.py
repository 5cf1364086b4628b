"""Evidence off an endpoint: headers, receipts and account proofs in the bytes that a chain hashes.

An endpoint answers in JSON; what is built from it is kept only if it hashes to what the chain says, so a field that we
do not know of, or an endpoint that lies, is found here and not by an auditor later.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from web3 import Web3
from web3.types import RPCEndpoint, RPCResponse

from chainfl.chain.rpc import HttpRpc, has_answered, outside, printable
from chainfl.chain.send import checksum
from chainfl.codec import rlp, trie
from chainfl.codec.commitments import keccak256
from chainfl.codec.text import from_hex, hex_of
from chainfl.errors import LedgerError
from chainfl.types import Address, Digest

_BATCH = 64
_SPAN = 50_000
_TASK_CREATED = keccak256(b"TaskCreated(uint64,address,address,uint256)")
_UNKNOWN_FORM = (
    "the endpoint's answers do not hash to what the headers name, and it has no debug_getRaw…: use another"
)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A block by number and hash."""

    number: int
    hash: Digest


def place_of(w3: Web3, block: int | None) -> Place:
    """A block of the chain, the newest where none is named."""
    answer = _ask(w3, "eth_getBlockByNumber", ["latest" if block is None else hex(block), False])
    with outside("reading a block"):
        return Place(int(answer["number"], 16), from_hex(answer["hash"]))


def creation_block(w3: Web3, factory: Address, task: Address, first: int, last: int) -> int:
    """The block in which the factory made the task.

    Raises:
        LedgerError: not between these blocks.
    """
    span = _SPAN
    topics = [hex_of(_TASK_CREATED), None, hex_of(bytes(12) + task)]
    while first <= last:
        until = min(first + span - 1, last)
        wanted = {
            "address": checksum(factory),
            "topics": topics,
            "fromBlock": hex(first),
            "toBlock": hex(until),
        }

        # A span that is too long for the endpoint is asked for in smaller parts.
        try:
            found = _ask(w3, "eth_getLogs", [wanted])
        except LedgerError:
            if span == 1:
                raise
            span = max(1, span // 4)
            continue

        if found:
            with outside("reading the task's creation"):
                return int(found[0]["blockNumber"], 16)
        first = until + 1
    raise LedgerError(
        "the factory's event of the task's creation was not found: give an earlier --from-block"
    )


def read_code(w3: Web3, address: Address, block: int) -> bytes:
    """The code at an address."""
    answer = _ask(w3, "eth_getCode", [checksum(address), hex(block)])
    with outside("reading a contract's code"):
        return from_hex(answer)


def prove_account(w3: Web3, address: Address, code: bytes, block: int) -> bytes:
    """An account's code and the proof that it has it: `[address, [nodes], code]`."""
    answer = _ask(w3, "eth_getProof", [checksum(address), [], hex(block)])
    with outside("reading an account's proof"):
        return rlp.encode([address, [from_hex(node) for node in answer["accountProof"]], code])


def headers(w3: Web3, first: int, last: int) -> Iterator[bytes]:
    """The headers of these blocks, each as it is hashed.

    Raises:
        LedgerError: a header does not hash to its hash, or was not found.
    """
    calls = [("eth_getBlockByNumber", [hex(number), False]) for number in range(first, last + 1)]
    for number, answer in enumerate(_ask_many(w3, calls), first):
        yield _as_hashed(w3, number, answer)


def read_header(w3: Web3, number: int) -> bytes | None:
    """One block's header as it is hashed; None where the chain has no such block (yet).

    Raises:
        LedgerError: the header does not hash to its hash, or the endpoint fails.
    """
    with outside(f"asking for block {number}"):
        answer = w3.provider.make_request(RPCEndpoint("eth_getBlockByNumber"), [hex(number), False])
    if "error" not in answer and answer.get("result") is None:
        return None
    return _as_hashed(w3, number, _result(answer, "eth_getBlockByNumber"))


def _as_hashed(w3: Web3, number: int, block: Json) -> bytes:
    with outside(f"header of block {number}"):
        data = encode_header(block)
        hash_ = from_hex(block["hash"])
        if keccak256(data) != hash_:
            data = from_hex(_ask_raw(w3, "debug_getRawHeader", number) or "")
    if keccak256(data) != hash_:
        raise LedgerError(f"header of block {number}: {_UNKNOWN_FORM}")
    return data


def receipts(w3: Web3, blocks: Iterable[tuple[int, Digest]]) -> Iterator[bytes]:
    """All receipts of each of these blocks, a list of byte strings, for blocks named by number and receipts root.

    Raises:
        LedgerError: they do not hash to the root, or were not found.
    """
    wanted = list(blocks)
    calls = [("eth_getBlockReceipts", [hex(number)]) for number, _ in wanted]
    for (number, root), answer in zip(wanted, _ask_many(w3, calls), strict=True):
        with outside(f"receipts of block {number}"):
            found = [encode_receipt(receipt) for receipt in answer]
            if trie.ordered_root(found) != root:
                found = [from_hex(raw) for raw in _ask_raw(w3, "debug_getRawReceipts", number) or ()]
        if trie.ordered_root(found) != root:
            raise LedgerError(f"receipts of block {number}: {_UNKNOWN_FORM}")
        yield rlp.encode(found)


def encode_header(block: Json) -> bytes:
    """A header as it is hashed, from an endpoint's JSON; forks have appended fields, in this order.

    Raises:
        LedgerError: a field is no hexadecimal text.
    """
    with _reading("a header"):
        return rlp.encode([read(block[name]) for name, read in _HEADER if block.get(name) is not None])


def encode_receipt(receipt: Json) -> bytes:
    """A receipt as its block hashes it, from an endpoint's JSON.

    Raises:
        LedgerError: a field is missing or no hexadecimal text.
    """
    with _reading("a receipt"):
        outcome = _number(receipt["status"]) if "status" in receipt else from_hex(receipt["root"])
        logs: rlp.Value = [
            [
                from_hex(log["address"]),
                [from_hex(topic) for topic in log["topics"]],
                from_hex(log["data"]),
            ]
            for log in receipt["logs"]
        ]
        body = rlp.encode(
            [outcome, _number(receipt["cumulativeGasUsed"]), from_hex(receipt["logsBloom"]), logs]
        )
        return rlp.encode_int(int(receipt.get("type") or "0x0", 16)) + body


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """An endpoint may answer with any JSON: whatever does not fit within is its failure, not ours."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise LedgerError(f"{what}: the endpoint's answer cannot be read: {error!r:.200}") from error


def _ask(w3: Web3, method: str, params: Sequence[object]) -> Any:
    with outside(f"asking for {method}"):
        return _result(w3.provider.make_request(RPCEndpoint(method), params), method)


def _ask_raw(w3: Web3, method: str, number: int) -> Any:
    """The bytes themselves, for chains whose JSON we cannot encode; None where the endpoint does not offer them."""
    with suppress(LedgerError):
        return _ask(w3, method, [hex(number)])
    return None


def _ask_many(w3: Web3, calls: Sequence[tuple[str, Sequence[object]]]) -> Iterator[Any]:
    """Answers in order; several calls travel together where the connection allows it."""
    provider = w3.provider
    at = 0
    size = _BATCH

    while at < len(calls):
        batch = [(RPCEndpoint(method), params) for method, params in calls[at : at + size]]
        if not isinstance(provider, HttpRpc):
            yield from (_ask(w3, method, params) for method, params in batch)
        else:
            try:
                with outside(f"asking for {len(batch)} answers to {batch[0][0]}"):
                    answers = provider.make_batch_request(batch)
            except LedgerError as error:
                if size == 1 or not has_answered(error):
                    raise
                size //= 4  # together they may be too much for one answer
                continue
            yield from (_result(answer, str(batch[0][0])) for answer in answers)
        at += len(batch)


def _result(answer: RPCResponse, method: str) -> Any:
    if not isinstance(answer, Mapping):
        raise LedgerError(f"{method}: the endpoint answered with something else than an object")
    if "error" in answer or answer.get("result") is None:
        error = answer.get("error")
        why = cast(Mapping[str, object], error).get("message") if isinstance(error, Mapping) else error
        raise LedgerError(f"{method}: {printable(why) if why else 'the endpoint has no such block'}")
    return answer["result"]


def _number(text: str) -> bytes:
    return rlp.encode_int(int(text, 16))


_HEADER: tuple[tuple[str, Callable[[str], bytes]], ...] = (
    ("parentHash", from_hex),
    ("sha3Uncles", from_hex),
    ("miner", from_hex),
    ("stateRoot", from_hex),
    ("transactionsRoot", from_hex),
    ("receiptsRoot", from_hex),
    ("logsBloom", from_hex),
    ("difficulty", _number),
    ("number", _number),
    ("gasLimit", _number),
    ("gasUsed", _number),
    ("timestamp", _number),
    ("extraData", from_hex),
    ("mixHash", from_hex),
    ("nonce", from_hex),
    ("baseFeePerGas", _number),
    ("withdrawalsRoot", from_hex),
    ("blobGasUsed", _number),
    ("excessBlobGas", _number),
    ("parentBeaconBlockRoot", from_hex),
    ("requestsHash", from_hex),
)
