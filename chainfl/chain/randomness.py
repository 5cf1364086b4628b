"""Whether a chain's `mixHash` can seed draws: its headers hash to their block hashes, and the value moves.

The contract takes a round's seed from the `mixHash` of a header that a caller shows and that must hash to the block's
hash. A chain whose headers are built in another way could never draw; one whose value stands still, or is chosen by
whoever makes the block, would let the committee be known in advance.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from web3 import Web3
from web3.types import RPCEndpoint

from chainfl.chain.evidence import encode_header
from chainfl.chain.rpc import outside
from chainfl.codec.commitments import keccak256
from chainfl.codec.text import from_hex, hex_of
from chainfl.errors import InputError, LedgerError

HEADERS = 4
"""Headers that are read at least: three steps of the value from block to block."""

_ZERO = bytes(32)


def check_randomness(w3: Web3, headers: int = HEADERS, *, allow_young: bool = False) -> None:
    """Check the newest headers of a chain; `allow_young` accepts one that has too few of them yet.

    Raises:
        InputError: draws on this chain would not be random, or it has too few blocks to decide.
        LedgerError: its headers do not hash to their block hashes, or the endpoint fails.
    """
    newest = _number(_block(w3, "latest"), "latest")

    # The first block is nobody's: its mixHash is whatever the chain was configured with, so it is left out.
    first = max(1, newest - max(headers, HEADERS) + 1)
    found = [_block(w3, hex(number)) for number in range(first, newest + 1)]
    _check_headers(found, first)
    _check_values(found, first)

    if len(found) < HEADERS and not allow_young:
        raise InputError(
            f"the chain has {len(found)} of the {HEADERS} blocks (after its first) that show whether its mixHash "
            "moves: wait for more (anvil makes them when asked: anvil_mine), then run this again"
        )


def _check_headers(blocks: Sequence[Mapping[str, Any]], first: int) -> None:
    """Every header hashes to its block's hash, and follows the one before it."""
    parent = None
    for number, block in enumerate(blocks, first):
        try:
            hash_ = from_hex(block["hash"])
            before = from_hex(block["parentHash"])
            header = encode_header(block)
        except (KeyError, TypeError, ValueError, AttributeError, LedgerError) as error:
            raise LedgerError(
                f"header of block {number}: the endpoint's answer is malformed ({type(error).__name__}: {error}): "
                "ask another endpoint"
            ) from None

        if keccak256(header) != hash_:
            raise LedgerError(
                f"header of block {number}: its fields hash to {hex_of(keccak256(header))}, the block's hash is "
                f"{hex_of(hash_)}: its headers are not Ethereum's, or they are false; tasks cannot draw here"
            )
        if _number(block, str(number)) != number or parent not in (None, before):
            raise LedgerError(
                f"header of block {number} does not follow the one before it: the chain was reorganised while it "
                "was read, or several endpoints answer in turn; try again"
            )
        parent = hash_


def _check_values(blocks: Sequence[Mapping[str, Any]], first: int) -> None:
    """The value is nobody's choice: a beacon made it, it is not zero, and it moves with every block."""
    previous = None
    for number, block in enumerate(blocks, first):
        # A field that is not there was not hashed either: the chain has no such value.
        value = from_hex(block.get("mixHash") or "0x") or _ZERO

        if int(block.get("difficulty") or "0x0", 16) != 0:
            raise InputError(
                f"block {number} has a difficulty: its mixHash is chosen by its producer, not by a beacon (RANDAO); "
                "deploy on a chain with proof of stake"
            )
        if value == _ZERO:
            raise InputError(
                f"block {number} has a mixHash of zero: this chain has no randomness to draw with; deploy on another"
            )
        if value == previous:
            raise InputError(
                f"blocks {number - 1} and {number} have the same mixHash: it does not move with every block, so draws "
                "could be known in advance; deploy on another chain"
            )
        previous = value


def _block(w3: Web3, which: str) -> Mapping[str, Any]:
    with outside(f"reading block {which}"):
        # Whatever the types say: what an endpoint sends may be any JSON at all.
        answer: object = w3.provider.make_request(RPCEndpoint("eth_getBlockByNumber"), [which, False])

    found = answer.get("result") if isinstance(answer, Mapping) else None
    if not isinstance(found, Mapping):
        raise LedgerError(f"reading block {which}: the endpoint answered {str(answer)[:200]!r}: ask another")
    return found


def _number(block: Mapping[str, Any], which: str) -> int:
    try:
        return int(block["number"], 16)
    except (KeyError, TypeError, ValueError):
        raise LedgerError(
            f"block {which}: the endpoint's answer has no block number: ask another endpoint"
        ) from None
