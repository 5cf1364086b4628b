"""Logs of many contracts off one endpoint: asked for in pieces that it takes, and believed only where they fit.

Endpoints refuse what they find too much, by blocks, by addresses or by results, each in words of its own. So nothing
is read out of the refusal: the larger question is halved until it is taken, and what was taken is remembered.
"""

import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import requests
from web3 import Web3
from web3.types import RPCEndpoint

from chainfl.chain.abi import as_address, decode_log
from chainfl.chain.rpc import has_answered, outside
from chainfl.errors import InputError, LedgerError
from chainfl.protocol.events import Event
from chainfl.types import Address

SPAN = 2_000
"""Blocks asked for at once."""
CHUNK = 500
"""Addresses asked for at once; geth takes 1,000."""
GROW_AFTER = 16
"""Answers in a row after which more is asked for again: a limit may have been a moment's."""
_NOT_OF_SIZE = (401, 403, 429, 500, 502, 503, 504)
"""HTTP answers that asking for less does not change."""

Each = TypeVar("Each")


@dataclass(frozen=True, slots=True)
class Log:
    """A log with its emitter and place. Without an event it is not one of ours, or `trouble` says what is wrong."""

    emitter: Address
    event: Event | None
    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int
    trouble: str = ""


class LogReader:
    """Asks one endpoint for logs, and learns how much it takes at once."""

    def __init__(self, w3: Web3, asking: threading.Lock) -> None:
        """Nothing is asked yet; the lock is held while something is."""
        self._w3, self._asking = w3, asking
        self._span, self._chunk = SPAN, CHUNK
        self._taken = 0

    @property
    def size(self) -> tuple[int, int]:
        """How many blocks, and how many addresses, are asked for at once now."""
        return self._span, self._chunk

    def last_of(self, first: int, newest: int) -> int:
        """The last block of the span that would be asked for from this one on."""
        return min(first + self._span - 1, newest)

    def read(self, first: int, last: int, emitters: Sequence[Address]) -> list[Log]:
        """Everything that these contracts logged in these blocks, in the ledger's order.

        Raises:
            LedgerError: the endpoint fails, refuses even one block of one contract, or answers nonsense.
        """
        found = list[Log]()
        while first <= last:
            until, logs = self._read_span(first, last, emitters)
            found += logs
            first = until + 1
        return sorted(found, key=lambda log: (log.block_number, log.log_index))

    def _read_span(self, first: int, last: int, emitters: Sequence[Address]) -> tuple[int, list[Log]]:
        """The logs of as many blocks as are taken at once, and the last of these blocks."""
        until = self.last_of(first, last)
        found = list[Log]()
        done = 0
        while done < len(emitters):
            chunk = emitters[done : done + self._chunk]
            try:
                found += self._ask(first, until, chunk)
            except LedgerError as error:
                self._shrink(first, until, chunk, error)
                # What was answered stays answered, as far as it is still asked for.
                until = self.last_of(first, until)
                found = [log for log in found if log.block_number <= until]
                continue
            done += len(chunk)
        self._grow()
        return until, found

    def _ask(self, first: int, last: int, emitters: Sequence[Address]) -> list[Log]:
        what = f"reading events of blocks {first} to {last}"
        wanted = {
            "address": ["0x" + emitter.hex() for emitter in emitters],
            "fromBlock": hex(first),
            "toBlock": hex(last),
        }
        # Straight to the provider: web3's own check of a filter takes a millisecond of computing for each address.
        with self._asking, outside(what):
            answer = _result(self._w3.provider.make_request(RPCEndpoint("eth_getLogs"), [wanted]))

        asked = frozenset(emitters)
        found = [_read_log(each, what) for each in answer]
        for log in found:
            if log.emitter not in asked or not first <= log.block_number <= last:
                raise LedgerError(
                    f"{what}: the endpoint answered with a log of 0x{log.emitter.hex()} in block {log.block_number}, "
                    "which was not asked for: use another endpoint"
                )
        return found

    def _shrink(self, first: int, last: int, chunk: Sequence[Address], error: LedgerError) -> None:
        """Ask for less from now on: for fewer contracts where one of them is taken, else for fewer blocks.

        Raises:
            LedgerError: the refusal itself, where asking for less is impossible or of no use now.
        """
        self._taken = 0
        blocks = last - first + 1
        if not _is_too_much(error):
            # Too slow is waited out, but next time with a smaller question.
            if isinstance(error.__cause__, TimeoutError | requests.Timeout):
                self._span = max(1, blocks // 2)
            raise error

        if len(chunk) > 1 and (blocks == 1 or self._takes(first, last, chunk[:1])):
            self._chunk = len(chunk) // 2
        elif blocks > 1:
            self._span = blocks // 2
        else:
            raise error

    def _takes(self, first: int, last: int, emitters: Sequence[Address]) -> bool:
        try:
            self._ask(first, last, emitters)
        except LedgerError as error:
            if not _is_too_much(error):
                raise
            return False
        return True

    def _grow(self) -> None:
        self._taken += 1
        if self._taken >= GROW_AFTER:
            self._taken = 0
            self._span, self._chunk = min(2 * self._span, SPAN), min(2 * self._chunk, CHUNK)


def chunks(whole: Sequence[Each], size: int) -> Iterator[Sequence[Each]]:
    """Pieces of at most this size, in order."""
    return (whole[at : at + size] for at in range(0, len(whole), size))


def _is_too_much(error: LedgerError) -> bool:
    """Whether the endpoint refused a question that it might take when it is smaller."""
    cause = error.__cause__
    if isinstance(cause, requests.HTTPError) and cause.response is not None:
        return cause.response.status_code not in _NOT_OF_SIZE
    return cause is not None and has_answered(error)


def _result(answer: object) -> list[Any]:
    """The list in an answer.

    Raises:
        ValueError: the endpoint refused, or answered something else.
    """
    if not isinstance(answer, Mapping):
        raise ValueError("the endpoint's answer is no JSON-RPC")
    found = answer.get("result")
    if not isinstance(found, list):
        error = answer.get("error")
        raise ValueError(
            str(error.get("message")) if isinstance(error, Mapping) else f"{found!r:.100} is no list"
        )
    return found


def _read_log(log: Any, what: str) -> Log:
    """A log as it came; one that cannot be decoded says so.

    Raises:
        LedgerError: it does not say where it stands.
    """
    try:
        emitter = as_address(log["address"])
        number = int(log["blockNumber"], 16)
        index = int(log["logIndex"], 16)
        hash_ = _word(log["blockHash"])
        transaction = _word(log["transactionHash"])
        if min(number, index) < 0 or max(number, index) >= 2**63:
            raise ValueError("a block or an index that cannot be")
    except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
        raise LedgerError(
            f"{what}: the endpoint answered with a log without a place ({one_line(error)}): use another endpoint"
        ) from None
    if log.get("removed"):
        raise LedgerError(f"{what}: the chain was reorganised while it was read")

    event, trouble = _decode(log)
    if trouble:
        trouble = f"event {index} of block {number} cannot be decoded: {trouble}"
    return Log(emitter, event, number, hash_, transaction, index, trouble)


def _decode(log: Mapping[str, Any]) -> tuple[Event | None, str]:
    try:
        return decode_log([_bytes(topic) for topic in log["topics"]], _bytes(log["data"])), ""
    except Exception as error:  # whatever a decoder makes of bytes that are no event
        return None, one_line(error)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _word(text: str) -> bytes:
    found = _bytes(text)
    if len(found) != 32:
        raise ValueError(f"{len(found)} bytes are no hash")
    return found


def traced(error: BaseException) -> str:
    """Where it went wrong, for a log: what an endpoint sent may hold characters that no log can be written with."""
    return "".join(traceback.format_exception(error)).encode(errors="backslashreplace").decode()


def one_line(error: BaseException, most: int = 300) -> str:
    """What went wrong, in one line that can be shown: an error of ours in its own words, another with its name."""
    text = " ".join(str(error).split()).encode(errors="replace").decode()
    shown = text if type(error).__module__.startswith("chainfl") else f"{type(error).__name__}: {text}"
    return shown if len(shown) <= most else shown[: most - 1] + "…"
