"""An endpoint between a client and a real one, which passes everything on and may alter what comes back."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers import serving

Json = dict[str, Any]
Alter = Callable[[Json, Json], Json]
"""A request and the real answer to it; the answer that is given instead."""


class Relay(ThreadingHTTPServer):
    """Passes requests on to `target`. What `alter` makes of an answer is what the client gets."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = target
        self.alter: Alter = lambda _, answer: answer
        self.asked: list[Json] = []

    @property
    def url(self) -> str:
        """Where clients ask."""
        return f"http://127.0.0.1:{self.server_port}"

    def count(self, method: str) -> int:
        """How often a method was asked for."""
        return sum(request["method"] == method for request in self.asked)


class _Passing(BaseHTTPRequestHandler):
    """One request on its way."""

    server: Relay
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: no waiting for an acknowledgement in between

    def do_POST(self) -> None:
        """Ask the real endpoint and answer what is made of it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = urllib.request.Request(self.server.target, body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            given = json.loads(answer.read())
        data = json.dumps(self._altered(json.loads(body), given)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _altered(self, request: Any, answer: Any) -> Any:
        if isinstance(request, list):
            return [self._altered(*pair) for pair in zip(request, answer, strict=True)]
        self.server.asked.append(request)
        return self.server.alter(request, answer)

    def log_message(self, *_: object) -> None:
        """Tests do not need it."""


@contextmanager
def relay(target: str) -> Iterator[Relay]:
    """Such an endpoint, honest until `alter` is set."""
    with serving(Relay(target)) as server:
        yield server
