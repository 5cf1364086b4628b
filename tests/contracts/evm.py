"""A contract in an EVM of its own: no chain, no RPC, some ten thousand calls a second."""

from collections.abc import Mapping
from typing import Any

import pyrevm
from eth_abi.abi import decode, encode

from chainfl.artifacts import Artifact
from chainfl.codec.commitments import keccak256

CALLER = "0x" + "11" * 20
SPEC = "PRAGUE"


class Deployed:
    """An artifact, deployed; `call` takes and gives Python values and keeps what the call changed."""

    def __init__(self, artifact: Artifact) -> None:
        """Deploy into a new EVM."""
        self._functions = {entry["name"]: entry for entry in artifact.abi if entry["type"] == "function"}
        self._evm = pyrevm.EVM(spec_id=SPEC)
        self._evm.set_balance(CALLER, 10**24)
        self._address = self._evm.deploy(CALLER, bytes.fromhex(artifact.bytecode[2:]))

    def call(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """What the function answers."""
        function = self._functions[name]
        types = [_type(entry) for entry in function["inputs"]]
        selector = keccak256(f"{name}({','.join(types)})".encode())[:4]
        answer = self._evm.message_call(CALLER, self._address, calldata=selector + encode(types, arguments))
        return tuple(decode([_type(entry) for entry in function["outputs"]], answer))

    def one(self, name: str, *arguments: Any) -> Any:
        """The only value that the function answers."""
        (value,) = self.call(name, *arguments)
        return value


def _type(entry: Mapping[str, Any]) -> str:
    kind: str = entry["type"]
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(_type(part) for part in entry['components'])}){kind.removeprefix('tuple')}"
