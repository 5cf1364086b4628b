"""Endpoints that do not tell the truth: in this process, or as a proxy on loopback in front of a real one."""

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from web3 import Web3
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

Lie = Callable[[str, Any, Any], Any]
"""What an endpoint makes of a method, its parameters and the true answer."""


class Lying(JSONBaseProvider):
    """A real endpoint whose answers are changed on the way; it notes what it was asked."""

    def __init__(self, real: Web3, lie: Lie) -> None:
        """Answer as the real one does, but for the lie."""
        super().__init__()
        self._real, self._lie = real, lie
        self.asked: list[tuple[str, Any]] = []

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Ask the real one and pass on what the lie makes of it."""
        self.asked.append((method, params))
        answer = self._real.provider.make_request(method, params)
        if "result" in answer:
            answer["result"] = self._lie(method, params, answer["result"])
        return answer


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a real endpoint, and answers with what `lie` makes of the true answers."""

    daemon_threads = True

    def __init__(self, truth: str, lie: Lie) -> None:
        """Listen on a free port."""
        self.truth, self.lie, self.asked, self.sent = truth, lie, 0, list[bytes]()
        super().__init__(("127.0.0.1", 0), _Passing)

    @property
    def url(self) -> str:
        """Where it listens; with a key in it that nobody is to see."""
        return f"http://127.0.0.1:{self.server_port}/v3/{KEY}"

    def respond(self, handler: "_Passing", asked: Any, answer: dict[str, Any]) -> None:
        """Send an answer as it should be sent."""
        del asked
        body = json.dumps(answer).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are nobody's concern."""


KEY = "4f3c2a1bdeadbeef"


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        self.server.asked += 1
        if asked["method"] == "eth_sendRawTransaction":
            self.server.sent.append(bytes.fromhex(asked["params"][0][2:]))
        onward = urllib.request.Request(self.server.truth, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(onward, timeout=20) as reply:
            answer = json.load(reply)
        told = self.server.lie(asked["method"], asked["params"], answer.get("result"))
        if "result" in answer or told is not None:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": told}
        self.server.respond(self, asked, answer)

    def log_message(self, *_: object) -> None:
        """Tests do not need it."""


@contextmanager
def running(proxy: Proxy) -> Iterator[Proxy]:
    """Serve in a thread until the end of the block."""
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join(10)


def truth(_method: str, _params: Any, answer: Any) -> Any:
    """No lie at all."""
    return answer
