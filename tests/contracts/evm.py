"""A contract in an EVM of its own: no chain, no RPC, some ten thousand calls a second."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyrevm
from eth_abi.abi import decode, encode

from chainfl.artifacts import Artifact
from chainfl.codec.commitments import keccak256

CALLER = "0x" + "11" * 20
SPEC = "PRAGUE"
_NUMBERS: Final = re.compile(r"bool|uint\d+(\[\])?")


@dataclass(frozen=True, slots=True)
class _Function:
    """How a function is called. Numbers and arrays of them are most of the work, and have a short way of their own."""

    selector: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def call_data(self, arguments: Sequence[Any]) -> bytes:
        if not all(map(_NUMBERS.fullmatch, self.inputs)):
            return self.selector + encode(self.inputs, arguments)
        heads, tail = list[int](), list[int]()
        for kind, value in zip(self.inputs, arguments, strict=True):
            if kind.endswith("[]"):
                heads.append(32 * (len(self.inputs) + len(tail)))
                tail += [len(value), *value]
            else:
                heads.append(value)
        return self.selector + b"".join(word.to_bytes(32, "big") for word in (*heads, *tail))

    def result(self, answer: bytes) -> tuple[Any, ...]:
        if not all(map(_NUMBERS.fullmatch, self.outputs)):
            return tuple(decode(self.outputs, answer))
        words = [int.from_bytes(answer[at : at + 32], "big") for at in range(0, len(answer), 32)]
        values = list[Any]()
        for kind, word in zip(self.outputs, words, strict=False):
            at = word // 32
            values.append(tuple(words[at + 1 : at + 1 + words[at]]) if kind.endswith("[]") else word)
        return tuple(values)


class Deployed:
    """An artifact, deployed; `call` takes and gives Python values and keeps what the call changed."""

    def __init__(self, artifact: Artifact) -> None:
        """Deploy into a new EVM."""
        entries = (entry for entry in artifact.abi if entry["type"] == "function")
        self._functions = {entry["name"]: _function(entry) for entry in entries}
        self._evm = pyrevm.EVM(spec_id=SPEC)
        self._evm.set_balance(CALLER, 10**24)
        self._address = self._evm.deploy(CALLER, bytes.fromhex(artifact.bytecode[2:]))

    def call(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """What the function answers."""
        function = self._functions[name]
        answer = self._evm.message_call(CALLER, self._address, calldata=function.call_data(arguments))
        return function.result(bytes(answer))

    def one(self, name: str, *arguments: Any) -> Any:
        """The only value that the function answers."""
        (value,) = self.call(name, *arguments)
        return value


def _function(entry: Mapping[str, Any]) -> _Function:
    inputs, outputs = (tuple(_type(each) for each in entry[side]) for side in ("inputs", "outputs"))
    return _Function(keccak256(f"{entry['name']}({','.join(inputs)})".encode())[:4], inputs, outputs)


def _type(entry: Mapping[str, Any]) -> str:
    kind: str = entry["type"]
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(_type(part) for part in entry['components'])}){kind.removeprefix('tuple')}"
