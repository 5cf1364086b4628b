"""What an endpoint answers, checked before anything is built on it: blocks, logs, receipts, numbers.

Each value has the form that Ethereum's JSON-RPC gives it, belongs to what was asked for, and is in order; anything else
is a LedgerError that names the endpoint and the field.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

from hexbytes import HexBytes
from web3 import Web3
from web3.types import RPCEndpoint, TxReceipt

from chainfl.chain.rpc import BadAnswerError, name_of, outside, printable
from chainfl.errors import LedgerError
from chainfl.types import Address, Digest

Which = int | Literal["latest", "pending"]
_MOST_TOPICS = 4


@dataclass(frozen=True, slots=True)
class Block:
    """What is needed of an EVM block."""

    number: int
    hash: Digest
    parent: Digest
    time: int
    base_fee: int


@dataclass(frozen=True, slots=True)
class Log:
    """What a contract told, and where it stands."""

    topics: tuple[bytes, ...]
    data: bytes
    block_number: int
    block_hash: Digest
    transaction: Digest
    index: int


def ask(w3: Web3, method: str, params: Sequence[object], what: str = "") -> Any:
    """The raw result of a call, None included; `what` it is for stands before what went wrong."""
    what = what or f"asking for {method}"
    with outside(what):
        answer = cast(Mapping[str, Any], w3.provider.make_request(RPCEndpoint(method), list(params)))
    error = answer.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, Mapping) else error
        raise LedgerError(f"{what}: {name_of(w3)} says: {printable(message)}")
    return answer.get("result")


def read_number(w3: Web3, method: str, params: Sequence[object] = (), bits: int = 64) -> int:
    """A number that was asked for."""
    with _read(w3, f"asking for {method}"):
        return quantity(ask(w3, method, params), bits)


def read_block(w3: Web3, which: Which) -> Block | None:
    """A block, None where the endpoint does not have it."""
    what = f"reading block {which}" if isinstance(which, int) else "reading the chain's head"
    answer = ask(w3, "eth_getBlockByNumber", [hex(which) if isinstance(which, int) else which, False], what)
    if answer is None:
        return None
    with _read(w3, what):
        number = quantity(answer["number"])
        if isinstance(which, int) and number != which:
            raise BadAnswerError(f"answers with block {number} in place of {which}")
        fee = answer.get("baseFeePerGas")
        return Block(
            number,
            octets(answer["hash"], 32),
            octets(answer["parentHash"], 32),
            quantity(answer["timestamp"]),
            quantity(fee, 256) if fee is not None else 0,
        )


def read_head(w3: Web3) -> Block:
    """The newest block."""
    block = read_block(w3, "latest")
    if block is None:
        raise LedgerError(f"reading the chain's head: {name_of(w3)} has no newest block")
    return block


def read_logs(w3: Web3, emitter: Address, first: int, last: int) -> list[Log]:
    """What a contract told in these blocks, in the order of the chain."""
    wanted = {"address": "0x" + emitter.hex(), "fromBlock": hex(first), "toBlock": hex(last)}
    what = f"reading events of blocks {first} to {last}"
    answer = ask(w3, "eth_getLogs", [wanted], what)
    with _read(w3, what):
        if not isinstance(answer, list):
            raise BadAnswerError("answers with something that is no list of logs")
        logs = [_log(each, emitter) for each in answer]
        _expect_order(logs, first, last)
    return logs


def _log(answer: Mapping[str, Any], emitter: Address) -> Log:
    if octets(answer["address"], 20) != emitter:
        raise BadAnswerError(f"answers with a log of {printable(answer['address'])}, which was not asked for")
    if answer.get("removed", False) is not False:
        raise BadAnswerError("answers with a log that was removed from the chain")
    topics = answer["topics"]
    if not isinstance(topics, list) or len(topics) > _MOST_TOPICS:
        raise BadAnswerError("answers with a log of too many topics")
    return Log(
        tuple(octets(topic, 32) for topic in topics),
        octets(answer["data"]),
        quantity(answer["blockNumber"]),
        octets(answer["blockHash"], 32),
        octets(answer["transactionHash"], 32),
        quantity(answer["logIndex"]),
    )


def _expect_order(logs: Sequence[Log], first: int, last: int) -> None:
    """Within the blocks asked for, one after the other, one hash to a block."""
    before: Log | None = None
    for log in logs:
        if not first <= log.block_number <= last:
            raise BadAnswerError(f"answers with a log of block {log.block_number}, outside {first} to {last}")
        if before is not None:
            if (before.block_number, before.index) >= (log.block_number, log.index):
                raise BadAnswerError(f"answers with logs of block {log.block_number} twice or out of order")
            if before.block_number == log.block_number and before.block_hash != log.block_hash:
                raise BadAnswerError(f"answers with two hashes of block {log.block_number}")
        before = log


def read_receipt(w3: Web3, transaction: bytes) -> TxReceipt | None:
    """The receipt of this very transaction, None where it is not mined."""
    answer = ask(w3, "eth_getTransactionReceipt", ["0x" + transaction.hex()], "waiting for a receipt")
    if answer is None:
        return None
    with _read(w3, "waiting for a receipt"):
        if octets(answer["transactionHash"], 32) != transaction:
            raise BadAnswerError("answers with the receipt of another transaction")
        status, made = quantity(answer["status"]), answer.get("contractAddress")
        if status > 1:
            raise BadAnswerError(f"answers with a receipt of status {status}")
        logs = [
            {
                "address": Web3.to_checksum_address(octets(log["address"], 20)),
                "topics": [HexBytes(octets(topic, 32)) for topic in log["topics"]],
                "data": HexBytes(octets(log["data"])),
            }
            for log in answer["logs"]
        ]
        receipt = {
            "transactionHash": HexBytes(transaction),
            "blockNumber": quantity(answer["blockNumber"]),
            "blockHash": HexBytes(octets(answer["blockHash"], 32)),
            "status": status,
            "gasUsed": quantity(answer["gasUsed"]),
            "contractAddress": Web3.to_checksum_address(octets(made, 20)) if made is not None else None,
            "logs": logs,
        }
    return cast(TxReceipt, receipt)


def stands(w3: Web3, receipt: TxReceipt) -> bool:
    """Whether the block that a receipt names is there and holds the transaction."""
    what = f"reading block {receipt['blockNumber']}"
    answer = ask(w3, "eth_getBlockByNumber", [hex(receipt["blockNumber"]), False], what)
    if answer is None:
        return False
    with _read(w3, what):
        if octets(answer["hash"], 32) != receipt["blockHash"]:
            return False
        return "0x" + bytes(receipt["transactionHash"]).hex() in answer["transactions"]


@contextmanager
def _read(w3: Web3, what: str) -> Iterator[None]:
    """What breaks on an answer is the answer's fault."""
    try:
        yield
    except LedgerError:
        raise
    except Exception as error:  # an answer can be anything, and so can what breaks on it
        why = (
            str(error) if isinstance(error, BadAnswerError) else f"answers nonsense ({type(error).__name__})"
        )
        raise LedgerError(f"{what}: {name_of(w3)} {why}") from error


def quantity(value: object, bits: int = 64) -> int:
    """A number as JSON-RPC writes it: `0x` and hex digits."""
    if not isinstance(value, str) or not value.startswith("0x") or not 3 <= len(value) <= 2 + bits // 4:
        raise BadAnswerError(f"answers {printable(value)[:80]!r} where a number belongs")
    digits = value[2:]
    if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise BadAnswerError(f"answers {printable(value)[:80]!r} where a number belongs")
    return int(digits, 16)


def octets(value: object, size: int | None = None) -> bytes:
    """Bytes as JSON-RPC writes them: `0x` and two hex digits each; so many where a size is given."""
    try:
        if not isinstance(value, str) or not value.startswith("0x"):
            raise ValueError
        found = bytes.fromhex(value[2:])
    except ValueError:
        raise BadAnswerError(f"answers {printable(value)[:80]!r} where bytes belong") from None
    if (size is not None and len(found) != size) or 2 * len(found) + 2 != len(value):
        raise BadAnswerError(f"answers {printable(value)[:80]!r} where {size} bytes belong")
    return found
