"""What an endpoint answers, checked before anything is built on it: blocks, receipts, numbers.

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

from chainfl.chain.rpc import BadAnswerError, RefusedError, name_of, outside, printable
from chainfl.codec.text import hex_of
from chainfl.errors import LedgerError
from chainfl.types import Digest

Which = int | Literal["latest", "pending"]


@dataclass(frozen=True, slots=True)
class Block:
    """What is needed of an EVM block."""

    number: int
    hash: Digest
    parent: Digest
    time: int
    base_fee: int


def ask(w3: Web3, method: str, params: Sequence[object], what: str = "") -> Any:
    """The raw result of a call, None included; `what` it is for stands before what went wrong."""
    what = what or f"asking for {method}"
    with outside(what):
        # Straight to the provider: web3's own checks and formatters take a millisecond for each address of a filter.
        answer: object = w3.provider.make_request(RPCEndpoint(method), list(params))
        if not isinstance(answer, Mapping):
            raise BadAnswerError("answers with something that is no JSON-RPC answer")
    error = answer.get("error")
    if error is not None:
        message = printable(error.get("message") if isinstance(error, Mapping) else error)
        raise LedgerError(f"{what}: {name_of(w3)} says: {message}") from RefusedError(message)
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

        # Chains from before EIP-1559 have no base fee.
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


def read_receipt(w3: Web3, transaction: bytes, what: str = "waiting for a receipt") -> TxReceipt | None:
    """The receipt of this very transaction, None where it is not mined."""
    answer = ask(w3, "eth_getTransactionReceipt", [hex_of(transaction)], what)
    if answer is None:
        return None
    with _read(w3, what):
        if octets(answer["transactionHash"], 32) != transaction:
            raise BadAnswerError("answers with the receipt of another transaction")

        status = quantity(answer["status"])
        made = answer.get("contractAddress")
        if status > 1:
            raise BadAnswerError(f"answers with a receipt of status {status}")

        logs = [
            {
                "address": Web3.to_checksum_address(octets(log["address"], 20)),
                "topics": [HexBytes(octets(topic, 32)) for topic in log["topics"]],
                "data": HexBytes(octets(log["data"])),
                "logIndex": quantity(log["logIndex"]),
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
        return hex_of(receipt["transactionHash"]) in answer["transactions"]


@contextmanager
def _read(w3: Web3, what: str) -> Iterator[None]:
    """What breaks on an answer is the answer's fault."""
    try:
        yield
    except LedgerError:
        raise
    except Exception as error:  # an answer can be anything, and so can what breaks on it
        why = (
            str(error)
            if isinstance(error, BadAnswerError)
            else f"answers with malformed data ({type(error).__name__})"
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
