"""Endpoints that refuse, or never answer: one line each, at once, and nothing of the address in it."""

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3

from chainfl.chain.log import LogReader
from chainfl.chain.rpc import check_chain, open_rpc
from chainfl.errors import LedgerError
from chainfl.types import Address

KEY = "4f3c2a1b"


class Provider(ThreadingHTTPServer):
    """An endpoint that answers every request with this status and body, and counts them."""

    def __init__(self, status: int, answer: Any = None) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.status, self.answer, self.asked = status, answer, 0
        self.authorized: str | None = None


class Answer(BaseHTTPRequestHandler):
    """One request to the provider."""

    server: Provider

    def do_POST(self) -> None:
        """Answer as the provider was told to."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        self.server.authorized = self.headers["Authorization"]
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **(self.server.answer or {})}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests do not need it."""


@contextmanager
def provider(status: int, answer: Any = None) -> Iterator[tuple[Provider, Web3]]:
    """Such an endpoint, and a connection to it whose address has a key in it."""
    server = Provider(status, answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server, open_rpc(f"http://127.0.0.1:{server.server_port}/v3/{KEY}", timeout=5)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (429, "Too Many Requests")])
def test_a_refusal_is_told_without_the_address_and_its_key(status: int, reason: str) -> None:
    with provider(status) as (server, w3), pytest.raises(LedgerError) as refused:
        check_chain(w3, None)

    named = f"the endpoint 127.0.0.1:{server.server_port} answered {status} {reason}"
    assert str(refused.value) == f"asking for the chain id: {named}"
    assert KEY not in str(refused.value)


def test_fewer_blocks_are_asked_for_until_an_endpoint_agrees_or_one_is_too_many() -> None:
    too_many = {"error": {"code": -32005, "message": "query returned more than 10000 results"}}
    with provider(200, too_many) as (server, w3), pytest.raises(LedgerError, match=r"blocks 0 to 0: .*10000"):
        LogReader(w3).read(0, 5_000, [Address(bytes(20))])

    assert server.asked == 11  # 2,000 halved until 1


def test_an_endpoint_that_never_answers_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        w3 = open_rpc(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.5)
        with pytest.raises(LedgerError, match="did not answer in time"):
            LogReader(w3).read(0, 5_000, [Address(bytes(20))])
        silent.setblocking(False)
        waiting = silent.accept()[0]
        waiting.close()
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.usefixtures("no_proxies")
def test_the_environment_says_which_proxy_an_endpoint_is_reached_by(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody, provider(200, {"result": "0x7a69"}) as (server, _):
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
        by_proxy = open_rpc(url, timeout=5)
        assert [by_proxy.eth.chain_id for _ in range(2)] == [31337, 31337]

        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(LedgerError, match="does not answer"):
            check_chain(open_rpc(url, timeout=5), None)


@pytest.mark.usefixtures("no_proxies")
def test_a_password_for_the_endpoint_is_read_from_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    with provider(200, {"result": "0x7a69"}) as (server, w3):
        assert w3.eth.chain_id == 31337

    assert server.authorized == "Basic " + b64encode(b"somebody:secret").decode()
