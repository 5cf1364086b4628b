"""A chain of the gas bench's own, and models of which one leaf is known."""

import hashlib
import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chainfl import tools
from chainfl.chain.abi import functions
from chainfl.codec.merkle import fold
from chainfl.codec.text import hex_of
from chainfl.errors import OutsideError
from chainfl.types import Address, Digest

DEPTH = 16
MINING_SECONDS = 30
TRANSACTION_GAS = 16_777_216


@dataclass(frozen=True, slots=True)
class Known:
    """A model of which one leaf is known: enough to prove what stands in it."""

    leaf: bytes
    siblings: tuple[Digest, ...]

    @property
    def root(self) -> Digest:
        """The root that leaf and path lead to."""
        return fold(0, self.leaf, self.siblings)

    @property
    def item(self) -> bytes:
        """The model's part of a proof."""
        return self.leaf + b"".join(self.siblings)


def known(name: str, depth: int = DEPTH) -> Known:
    """A model that is a function of its name."""
    leaf = b"".join(hashlib.sha256(f"{name}/{i}".encode()).digest() for i in range(8))
    return Known(leaf, tuple(hashlib.sha256(f"{name}/path/{i}".encode()).digest() for i in range(depth)))


@dataclass(slots=True)
class Node:
    """An anvil that lets anybody send."""

    connection: http.client.HTTPConnection

    def rpc(self, method: str, *parameters: object) -> Any:
        """One JSON-RPC call."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
        self.connection.request("POST", "/", body, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())
        if "error" in answer:
            raise OutsideError(f"anvil: {method}: {answer['error'].get('message', answer['error'])}")
        return answer["result"]

    def send(self, sender: Address, to: Address | None, data: bytes, value: int = 0) -> dict[str, Any]:
        """One transaction; answers its receipt."""
        fields = {
            "from": hex_of(sender),
            "data": hex_of(data),
            "value": hex(value),
            "gas": hex(TRANSACTION_GAS),
        }
        if to is not None:
            fields["to"] = hex_of(to)

        digest = self.rpc("eth_sendTransaction", fields)
        end = time.monotonic() + MINING_SECONDS
        while (receipt := self.rpc("eth_getTransactionReceipt", digest)) is None:
            if time.monotonic() > end:
                raise OutsideError("anvil: a transaction is not mined; is the machine overloaded?")

        if receipt["status"] != "0x1":
            raise OutsideError(f"anvil: a transaction of {hex_of(sender)} was refused: {data[:4].hex()}")
        found: dict[str, Any] = receipt
        return found

    def batch(self, requests: Sequence[tuple[str, object, object]]) -> None:
        """Many JSON-RPC calls in one request; all have to succeed."""
        calls = [
            {
                "jsonrpc": "2.0",
                "id": i,
                "method": method,
                "params": [first] if second is None else [first, second],
            }
            for i, (method, first, second) in enumerate(requests)
        ]
        self.connection.request("POST", "/", json.dumps(calls), {"Content-Type": "application/json"})
        for answer in json.loads(self.connection.getresponse().read()):
            if "error" in answer:
                raise OutsideError(f"anvil: {answer['error'].get('message', answer['error'])}")

    def read(self, contract: str, at: Address, name: str, *values: object) -> Any:
        """A view's answer."""
        function = functions(contract)[name]
        call = {"to": hex_of(at), "data": hex_of(function.call_data(*values))}
        answer = function.result(bytes.fromhex(self.rpc("eth_call", call, "latest")[2:]))
        return answer[0] if len(answer) == 1 else answer


@contextmanager
def anvil() -> Iterator[Node]:
    """A fresh chain on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(tools.require("anvil")), "--port", str(port), "--silent", "--hardfork", "prague"]

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=MINING_SECONDS)
    try:
        node = Node(connection)
        _wait(node)
        node.rpc("anvil_autoImpersonateAccount", True)
        yield node
    finally:
        connection.close()
        process.terminate()
        process.wait(timeout=MINING_SECONDS)


def _wait(node: Node) -> None:
    end = time.monotonic() + MINING_SECONDS
    while True:
        try:
            node.rpc("eth_chainId")
            return
        except OSError as error:
            node.connection.close()
            if time.monotonic() > end:
                raise OutsideError(f"anvil does not answer: {error}") from None
            time.sleep(0.05)
