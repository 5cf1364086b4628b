"""Between the contracts' ABI and our types: calls, events and errors, by the names that both sides share.

`revealUpdate` is `reveal_update`, event `UpdateRevealed` is that class, error `WrongPhase` is `WrongPhaseError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from typing import Any, get_type_hints

from eth_abi.abi import decode as abi_decode
from eth_abi.abi import encode as abi_encode
from eth_abi.exceptions import DecodingError

from chainfl.artifacts import load
from chainfl.codec.commitments import keccak256
from chainfl.codec.text import hex_of, parse_hex
from chainfl.errors import LedgerError, ProtocolError
from chainfl.protocol import errors, events
from chainfl.types import Address

CONTRACTS = ("TrainingTask", "TaskFactory", "StakeRegistry")

Abi = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Function:
    """A contract function: how to call it and read its answer."""

    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def call_data(self, *values: object) -> bytes:
        """The bytes of a call."""
        return self.selector + abi_encode(self.inputs, values)

    def result(self, data: bytes) -> tuple[Any, ...]:
        """The values of an answer.

        Raises:
            LedgerError: the bytes are not such values.
        """
        return _decoded(self.outputs, data, "an answer")


def _decoded(kinds: Sequence[str], data: bytes, what: str) -> tuple[Any, ...]:
    try:
        return tuple(abi_decode(kinds, data))
    except (
        DecodingError,
        ValueError,
        OverflowError,
    ) as error:  # text that is not UTF-8, an offset beyond memory
        raise LedgerError(f"{what} of the chain cannot be read: {error}") from error


def as_address(text: str) -> Address:
    """An address from the form that an ABI decoder gives, or a person.

    Raises:
        InputError: it is something else.
    """
    return Address(parse_hex(text, 20, "an address"))


def type_name(item: Mapping[str, Any]) -> str:
    """A parameter's canonical type; structs are tuples."""
    kind: str = item["type"]
    if not kind.startswith("tuple"):
        return kind
    return "(" + ",".join(type_name(part) for part in item["components"]) + ")" + kind.removeprefix("tuple")


def _signature(item: Mapping[str, Any]) -> str:
    return f"{item['name']}({','.join(type_name(part) for part in item['inputs'])})"


@cache
def functions(contract: str) -> Mapping[str, Function]:
    """All functions of a contract by name (none is overloaded)."""
    return {
        item["name"]: Function(
            keccak256(_signature(item).encode())[:4],
            tuple(type_name(part) for part in item["inputs"]),
            tuple(type_name(part) for part in item["outputs"]),
        )
        for item in load(contract).abi
        if item["type"] == "function"
    }


@dataclass(frozen=True, slots=True)
class _EventForm:
    """How an event's fields are spread over topics and data: (place in the event, ABI type) of each."""

    kind: type[events.Event]
    indexed: tuple[tuple[int, str], ...]
    plain: tuple[tuple[int, str], ...]


@cache
def _event_forms() -> Mapping[bytes, _EventForm]:
    forms = {}
    for contract in CONTRACTS:
        for item in load(contract).abi:
            if item["type"] != "event":
                continue

            kind = getattr(events, item["name"], None)
            if kind is None:
                continue

            inputs = list(enumerate(item["inputs"]))
            forms[keccak256(_signature(item).encode())] = _EventForm(
                kind,
                tuple((place, type_name(part)) for place, part in inputs if part["indexed"]),
                tuple((place, type_name(part)) for place, part in inputs if not part["indexed"]),
            )
    return forms


def decode_log(topics: Sequence[bytes], data: bytes) -> events.Event | None:
    """The event behind a log; None for one that is not ours.

    Raises:
        LedgerError: it has the name of one of ours, and is none: no contract of this release emitted it.
    """
    form = _event_forms().get(bytes(topics[0])) if topics else None
    if form is None:
        return None
    what = f"a log {form.kind.__name__}"
    if len(topics) != 1 + len(form.indexed):
        raise LedgerError(f"{what} of the chain has {len(topics)} topics, not {1 + len(form.indexed)}")

    # Indexed fields come as topics, the others as data; the event has them in the order of the contract.
    values: dict[int, Any] = {}
    for (place, kind), topic in zip(form.indexed, topics[1:], strict=True):
        (values[place],) = _decoded([kind], bytes(topic), what)
    plain = _decoded([kind for _, kind in form.plain], data, what)
    values |= {place: value for (place, _), value in zip(form.plain, plain, strict=True)}

    try:
        return _build(form.kind, [values[place] for place in range(len(values))])
    except ValueError as error:  # a phase, an outcome that there is not
        raise LedgerError(f"{what} of the chain cannot be read: {error}") from error


@cache
def _hints(kind: Any) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[field.name] for field in fields(kind))


def _build(kind: Any, values: Sequence[Any]) -> events.Event:
    built: events.Event = kind(*map(_ours, _hints(kind), values))
    return built


def _ours(hint: Any, value: Any) -> Any:
    if hint is Address:
        return as_address(value)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return hint(value)
    if isinstance(value, bytes) and hint == tuple[int, ...]:
        # Shares, packed four bytes each.
        return tuple(int.from_bytes(value[at : at + 4], "big") for at in range(0, len(value), 4))
    return tuple(value) if isinstance(value, (list, tuple)) else value


@cache
def _error_forms() -> Mapping[bytes, tuple[type[errors.RuleError], tuple[str, ...]]]:
    ours = {kind.solidity_name(): kind for kind in errors.RuleError.__subclasses__()}
    return {
        keccak256(_signature(item).encode())[:4]: (
            ours[item["name"]],
            tuple(type_name(part) for part in item["inputs"]),
        )
        for contract in CONTRACTS
        for item in load(contract).abi
        if item["type"] == "error" and item["name"] in ours
    }


def decode_revert(data: bytes) -> ProtocolError:
    """The refusal behind a revert, in our words."""
    known = _error_forms().get(data[:4])
    if known is None:
        return ProtocolError(f"the contract refused: {hex_of(data) if data else 'no reason given'}")
    kind, inputs = known
    try:
        return kind(*_decoded(inputs, data[4:], "a refusal"))
    except LedgerError:
        return ProtocolError(f"the contract refused with a malformed {kind.solidity_name()}: {hex_of(data)}")
