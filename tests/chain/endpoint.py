"""An endpoint that has logs and limits: it refuses what is too much for it, as those on the net do."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chainfl.codec.commitments import keccak256
from tests.servers import serving

Json = dict[str, Any]


@dataclass(slots=True)
class Limits:
    """What the endpoint takes at once."""

    addresses: int = 10**9
    blocks: int = 10**9
    results: int = 10**9
    status: int = 200


@dataclass(slots=True)
class Asked:
    """One question: how many addresses in how many blocks, and whether it was answered."""

    addresses: int
    blocks: int
    taken: bool


class LogEndpoint(ThreadingHTTPServer):
    """Answers `eth_getLogs` from a list of logs, within its limits."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.logs: list[Json] = []
        self.limits = Limits()
        self.asked: list[Asked] = []
        self.always: list[Any] | None = None

    @property
    def url(self) -> str:
        """Where clients ask."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def refusals(self) -> int:
        """How often it refused."""
        return sum(not asked.taken for asked in self.asked)

    def answer(self, wanted: Json) -> Json:
        """What is to be said to this question."""
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        addresses = {each.lower() for each in wanted["address"]}
        found = [
            log
            for log in self.logs
            if log["address"] in addresses and first <= int(log["blockNumber"], 16) <= last
        ]
        limits = self.limits
        refusal = ""
        if len(addresses) > limits.addresses:
            refusal = "exceed max addresses or topics per search position"
        elif last - first + 1 > limits.blocks:
            refusal = f"block range greater than {limits.blocks} max"
        elif len(found) > limits.results:
            refusal = f"query returned more than {limits.results} results"
        self.asked.append(Asked(len(addresses), last - first + 1, not refusal and limits.status == 200))
        if refusal:
            return {"error": {"code": -32000, "message": refusal}}
        return {"result": found if self.always is None else self.always}


class _Answering(BaseHTTPRequestHandler):
    server: LogEndpoint
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: no waiting for an acknowledgement in between

    def do_POST(self) -> None:
        """Answer one question."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = {"jsonrpc": "2.0", "id": asked["id"], **self.server.answer(asked["params"][0])}
        data = json.dumps(body).encode()
        self.send_response(self.server.limits.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Tests do not need it."""


@contextmanager
def log_endpoint() -> Iterator[LogEndpoint]:
    """Such an endpoint, without logs or limits yet."""
    with serving(LogEndpoint()) as server:
        yield server


_ENROLLED = "0x" + keccak256(b"Enrolled(uint32,address)").hex()


def enrolled(address: str, block: int, index: int = 0, /, **changes: Any) -> Json:
    """A log as an endpoint writes it: somebody enrolled in the task at this address."""
    return {
        "address": address,
        "topics": [_ENROLLED, "0x" + "00" * 31 + "07", "0x" + "00" * 12 + "aa" * 20],
        "data": "0x",
        "blockNumber": hex(block),
        "blockHash": "0x" + block.to_bytes(32, "big").hex(),
        "transactionHash": "0x" + keccak256(f"{address} {block} {index}".encode()).hex(),
        "transactionIndex": "0x0",
        "logIndex": hex(index),
        "removed": False,
    } | changes
