"""Targets: what comes over a connection. The audit API is asked, an IPFS daemon answers."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, MutableMapping
from functools import cache
from typing import Any, Final

from fastapi import FastAPI

from chainfl.api.app import create_app
from chainfl.api.settings import ApiSettings
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import InputError, StoreError, VerificationError
from chainfl.store.address import open_store
from chainfl.store.ipfs import Endpoint, IpfsSettings, IpfsStore
from tests.api.scene import history
from tests.fuzz.files import scratch_folder
from tests.fuzz.target import Target

BLOCK: Final = b"a block of bytes"
NAME: Final = Cid.of(BLOCK, Codec.RAW)
Message = dict[str, Any]


# The audit API


def ask_api(data: bytes) -> tuple[int, str]:
    """A request as a server hands it on: path and query, then headers, a line each. No request is a defect."""
    status, route = _served().ask(data)
    assert status < 500 or status == 503, f"the API answered {status}"
    return status, route


class Served:
    """The audit API over a history in memory, asked without a server: this is where the queries are parsed."""

    def __init__(self, app: FastAPI) -> None:
        """Start it, and let it read the history."""
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._life = app.router.lifespan_context(app)
        self._do(self._life.__aenter__())

    def ask(self, request: bytes) -> tuple[int, str]:
        """The status of the answer, and the route that gave it."""
        scope = scope_of(request)
        status: int = self._do(self._ask(scope))
        return status, getattr(scope.get("route"), "path", "")

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    async def _ask(self, scope: Message) -> int:
        statuses: list[int] = []
        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])
        started = asyncio.Event()

        async def receive() -> Message:
            """The request; once the answer begins the client is gone, or a stream would go on for an hour."""
            for message in asked:
                return message
            await started.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                started.set()

        await self._app(scope, receive, send)
        return statuses[0]


def scope_of(request: bytes) -> Message:
    """A request as ASGI has it. Servers hand on any bytes in queries and headers; paths they decode."""
    line, *headers = request.split(b"\n")
    path, _, query = line.partition(b"?")
    named = (header.partition(b":") for header in headers[:20])
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/" + path.decode("utf-8", "replace").lstrip("/"),
        "raw_path": b"/" + path.lstrip(b"/"),
        "root_path": "",
        "query_string": query,
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in named],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


@cache
def _served() -> Served:
    made = history()
    settings = {"index": scratch_folder() / "index.sqlite", "poll_seconds": 3600}
    return Served(create_app(made.source, made.net.store, ApiSettings.model_validate(settings)))


# An IPFS daemon


def read_daemon(data: bytes) -> None:
    """A daemon's whole answer, status line and all; the first byte says to which question."""
    question = _QUESTIONS[(data[0] if data else 0) % len(_QUESTIONS)]
    daemon = _daemon()
    daemon.answer = data[1:]
    store = IpfsStore(Endpoint("127.0.0.1", daemon.port), _SETTINGS)
    try:
        question(store)
    finally:
        store.close()


class Daemon:
    """Answers everything on a port of this machine with the same bytes, and hangs up."""

    def __init__(self) -> None:
        """Listen, from a thread of its own."""
        self.answer = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                try:
                    connection.recv(1 << 16)
                    connection.sendall(self.answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass
                except OSError:
                    pass


_SETTINGS: Final = IpfsSettings(
    call_seconds=1.0, fetch_seconds=1.0, pin_seconds=1.0, look_seconds=1.0, tries=1, side_by_side=1
)
_QUESTIONS: Final[tuple[Callable[[IpfsStore], object], ...]] = (
    lambda store: store.get(NAME, 1 << 16),
    lambda store: store.put(BLOCK, Codec.RAW),
    lambda store: store.has(NAME),
    lambda store: store.pin(NAME),
    lambda store: store.unpin(NAME),
    lambda store: store.pins(),
)


@cache
def _daemon() -> Daemon:
    return Daemon()


def read_store_address(data: bytes) -> None:
    """Where a store is, as a setting says it."""
    text = data.decode("utf-8", "surrogateescape")
    if not text.startswith("dir:"):  # which would make a folder of that name
        open_store(text)


REST_WORDS: Final = (
    *(
        b"?",
        b"&",
        b"=",
        b"%",
        b"%00",
        b"%ff",
        b"%2e%2e/",
        b"\n",
        b"\nif-none-match: ",
        b"\ncontent-length: 1",
    ),
    *(b"after=", b"limit=", b"order=newest", b"round=", b"account=0x", b"name=", b"wait=nan", b"wait=1e999"),
    *(
        b"9" * 25,
        b"9" * 5000,
        b"-1",
        b"+1",
        b"1_0",
        b"1.0",
        b" 1",
        "٣".encode(),
        b"inf",
        b"seconds=0",
        b"attempt=",
    ),
    *(
        b"/tasks",
        b"/blocks",
        b"/proof/",
        b"/audit",
        b"/participants",
        b"/static/",
        b"/live?seconds=0",
        b"/index",
    ),
)
HTTP_WORDS: Final = (
    *(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 500 E\r\n",
        b"HTTP/0.9\r\n",
        b"\r\n\r\n",
        b"Content-Length: ",
        b"\r\n",
    ),
    *(b"Transfer-Encoding: chunked\r\n", b"ffffffffffff\r\n", b"0\r\n\r\n", b"99999999999999999999", b"-1"),
    *(
        b'{"Key":',
        b'{"Keys":{',
        b'"Message":',
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 204 N\r\n\r\n",
        b"[" * 3000,
    ),
)

TARGETS: Final = (
    Target("rest", ask_api, (), 800, 30_000, words=REST_WORDS, max_bytes=6000),
    Target("ipfs", read_daemon, (StoreError, VerificationError), 1_000, 20_000, words=HTTP_WORDS),
    Target("store-address", read_store_address, (InputError,), 15_000, 200_000, max_bytes=512),
)
