"""The IPFS client and a daemon elsewhere: over HTTPS, with credentials, through a proxy. All of it on loopback."""

import select
import socket
import ssl
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from chainfl.codec.cid import Codec
from chainfl.errors import InputError, StoreError, StoreTimeoutError
from chainfl.store import IpfsSettings, IpfsStore, open_store
from chainfl.store.ipfs import Endpoint
from tests.store.test_ipfs import (
    HELLO,
    PATIENT,
    QUICK,
    Answer,
    Daemon,
    Handler,
    endless,
    hang,
    in_turn,
    say,
    trickle,
    trickle_at_the_end,
    trickle_head,
)

CERTIFICATE = Path(__file__).parent / "loopback.pem"
"""A key and a certificate that it signed itself, for 127.0.0.1, localhost and daemon.example."""
ELSEWHERE = "daemon.example"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing of the machine's own proxies; the certificate is trusted."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    return monkeypatch


@contextmanager
def serving(server: Daemon) -> Iterator[int]:
    """The port of a server that runs."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def secure_daemon(answer: Answer, settings: IpfsSettings = PATIENT) -> Iterator[tuple[IpfsStore, Daemon]]:
    """A store and the server behind it, TLS between them."""
    server = Daemon(answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server) as port:
        store = open_store(f"https://127.0.0.1:{port}", settings)
        assert isinstance(store, IpfsStore)
        yield store, server
        store.close()


class Proxy(Daemon):
    """A proxy for everything: what it is sent for any host goes to one server on loopback."""

    def __init__(self, answer: Answer, target: int, delay: float = 0) -> None:
        super().__init__(answer)
        self.target = target
        self.delay = delay
        self.heads: list[tuple[str, str, str]] = []
        self.RequestHandlerClass = ProxyHandler


class ProxyHandler(Handler):
    """Tunnels with CONNECT, and answers by itself what comes unencrypted."""

    def do_CONNECT(self) -> None:  # noqa: N802
        assert isinstance(self.server, Proxy)
        self._note()
        if self.server.answer is not tunnel:
            self.server.answer(self)
            return
        self.server.stopping.wait(self.server.delay)
        with socket.create_connection(("127.0.0.1", self.server.target)) as target:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            pump(self.connection, target, self.server.stopping)
        self.close_connection = True

    def do_POST(self) -> None:  # noqa: N802
        self._note()
        super().do_POST()

    def _note(self) -> None:
        assert isinstance(self.server, Proxy)
        credentials = self.headers.get("Proxy-Authorization") or ""
        self.server.heads.append((self.command, self.path, credentials))


def tunnel(_: BaseHTTPRequestHandler) -> None:
    """What a proxy answers when it does its work."""
    raise AssertionError("a tunnel is no answer")


def pump(one: socket.socket, two: socket.socket, stopping: threading.Event) -> None:
    """Carry bytes both ways until a side hangs up."""
    while not stopping.is_set():
        for ready in select.select([one, two], [], [], 0.05)[0]:
            data = ready.recv(1 << 16)
            if not data:
                return
            (two if ready is one else one).sendall(data)


def headers_of(seen: list[str], name: str) -> Answer:
    """Note a header of the request, then answer."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get(name) or "")
        say(b"hello")(handler)

    return answer


def test_a_daemon_behind_tls_is_asked_and_its_connection_kept() -> None:
    with secure_daemon(say(b"hello")) as (store, server):
        assert store.get(HELLO, 5) == store.get(HELLO, 5) == b"hello"

    assert len(server.asked) == 2
    assert server.connections == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("SSL_CERT_FILE")

    with (
        secure_daemon(say(b"hello")) as (store, server),
        pytest.raises(StoreError, match=r"cannot be reached: .*certificate verify failed"),
    ):
        store.get(HELLO, 5)

    assert server.asked == []


@pytest.mark.parametrize("answer", [hang, trickle, trickle_at_the_end, trickle_head])
def test_the_limit_holds_under_tls_too(answer: Answer) -> None:
    with secure_daemon(answer, QUICK) as (store, _):
        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError, match="did not answer block/get in 1 s"):
            store.get(HELLO, 1000)
        assert time.monotonic() - begun < 5


@contextmanager
def sluggish(*, tls: bool, takes: int, answers: bool = False) -> Iterator[int]:
    """A server that accepts, may answer a first request, then takes so many bytes a millisecond for ever."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    stopping, held = threading.Event(), list[socket.socket]()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            held.append(context.wrap_socket(plain, server_side=True) if tls else plain)
            if answers:
                held[0].recv(1 << 16)
                held[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            while not stopping.wait(0.001):
                if takes and not held[0].recv(takes):
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        stopping.set()
        thread.join()
        for each in held:
            each.close()


@pytest.mark.parametrize("takes", [0, 1 << 13])
@pytest.mark.parametrize("tls", [False, True])
def test_a_daemon_that_hardly_reads_what_it_is_sent_is_given_up_in_time(tls: bool, takes: int) -> None:
    with sluggish(tls=tls, takes=takes) as port:
        store = IpfsStore(Endpoint("127.0.0.1", port, tls), QUICK)
        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError, match="did not answer block/put in 1 s"):
            store.put(bytes(1 << 25), Codec.RAW)
        assert time.monotonic() - begun < 5


@pytest.mark.parametrize("tls", [False, True])
def test_a_kept_connection_forgets_the_longer_limit_of_an_earlier_call(tls: bool) -> None:
    with sluggish(tls=tls, takes=0, answers=True) as port:
        store = IpfsStore(Endpoint("127.0.0.1", port, tls), PATIENT)
        assert store.get(HELLO, 5) == b"hello"

        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError, match="did not answer block/put"):
            store.within(begun + 1).put(bytes(1 << 25), Codec.RAW)
        assert time.monotonic() - begun < 5


def test_a_daemon_that_never_finishes_the_handshake_is_given_up_in_time() -> None:
    with sluggish(tls=False, takes=0) as port:
        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError, match="did not answer block/get in 1 s"):
            IpfsStore(Endpoint("127.0.0.1", port, tls=True), QUICK).get(HELLO, 5)
        assert time.monotonic() - begun < 5


def test_a_handshake_has_only_the_time_that_the_tunnel_left(environment: pytest.MonkeyPatch) -> None:
    limits = replace(QUICK, fetch_seconds=2)
    with sluggish(tls=False, takes=0) as silent, serving(Proxy(tunnel, silent, delay=1.8)) as port:
        environment.setenv("https_proxy", f"http://127.0.0.1:{port}")
        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError, match="did not answer block/get in 2 s"):
            open_store(f"https://{ELSEWHERE}:5001", limits).get(HELLO, 5)
        assert time.monotonic() - begun < 3.5


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_the_addresses_of_a_name_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    with unanswered("127.0.0.1", 0) as port, unanswered("127.0.0.2", port):

        def two_addresses(host: str, *values: Any, **named: Any) -> object:
            if host != ELSEWHERE:
                return real(host, *values, **named)
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("127.0.0.1", "127.0.0.2")
            ]

        monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
        begun = time.monotonic()
        with pytest.raises(StoreTimeoutError, match="did not answer block/get in 1 s"):
            IpfsStore(Endpoint(ELSEWHERE, port), QUICK).get(HELLO, 5)

    assert 1 <= time.monotonic() - begun < 2


@contextmanager
def unanswered(address: str, port: int) -> Iterator[int]:
    """A port whose queue is full: whoever connects waits."""
    with socket.socket() as listener:
        listener.bind((address, port))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for each in waiting:
            each.close()


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("bearer:a.token", "Bearer a.token"),
        ("basic:user:pass:word\nmore", "Basic " + b64encode(b"user:pass:word").decode()),
    ],
)
def test_credentials_come_from_a_file_and_reach_the_daemon(
    line: str, header: str, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "auth").write_text(line)
    environment.setenv("CHAINFL_IPFS_AUTH_FILE", str(tmp_path / "auth"))
    seen: list[str] = []

    with secure_daemon(headers_of(seen, "Authorization")) as (store, _):
        assert store.get(HELLO, 5) == b"hello"

    assert seen == [header]
    assert "token" not in repr(store)


@pytest.mark.parametrize(
    "line", ["", "bearer:", "token", "basic:user", "bearer:two words", "bearer:\x00", "x:y"]
)
def test_a_file_with_anything_else_is_refused_without_repeating_it(
    line: str, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "auth").write_text(line)
    environment.setenv("CHAINFL_IPFS_AUTH_FILE", str(tmp_path / "auth"))

    with pytest.raises(InputError, match=r"must hold bearer:TOKEN or basic:USER:PASSWORD$") as caught:
        open_store("https://daemon.example")

    assert str(caught.value) == (
        f"CHAINFL_IPFS_AUTH_FILE: {tmp_path / 'auth'} must hold bearer:TOKEN or basic:USER:PASSWORD"
    )


def test_a_file_that_is_not_there_is_one_clear_error(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("CHAINFL_IPFS_AUTH_FILE", str(tmp_path / "auth"))

    with pytest.raises(InputError, match="auth cannot be read: No such file"):
        open_store("https://daemon.example")


def test_credentials_are_not_sent_where_others_can_read_them() -> None:
    with pytest.raises(InputError, match="only sent over https, or to this machine") as caught:
        Endpoint(ELSEWHERE, 5001, authorization="Bearer secret")

    assert "secret" not in str(caught.value)
    for host in ("127.0.0.1", "::1", "localhost"):
        assert "secret" not in repr(Endpoint(host, 5001, authorization="Bearer secret"))


@pytest.mark.parametrize("status", [401, 403])
def test_a_daemon_that_wants_credentials_is_not_one_without_the_blob(status: int) -> None:
    calls: list[Callable[[IpfsStore], object]] = [
        lambda store: store.get(HELLO, 5),
        lambda store: store.has(HELLO),
        lambda store: store.pin(HELLO),
    ]
    with secure_daemon(say(b"no", status)) as (store, server):
        for call in calls:
            with pytest.raises(StoreError) as caught:
                call(store)
            assert type(caught.value) is StoreError
            assert "refuses these credentials; see CHAINFL_IPFS_AUTH_FILE" in str(caught.value)

    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_server_in_front_of_a_daemon_that_is_away_is_asked_again(status: int) -> None:
    away = say(b"<html>away</html>", status)
    with secure_daemon(in_turn(away, say(b"hello"), away)) as (store, _):
        assert store.get(HELLO, 5) == b"hello"
        with pytest.raises(StoreError, match=rf"cannot be reached: <html>away</html> \(HTTP {status}\)"):
            store.get(HELLO, 5)


def test_a_plain_daemon_elsewhere_is_asked_through_the_proxy(environment: pytest.MonkeyPatch) -> None:
    proxy = Proxy(say(b"hello"), 0)
    with serving(proxy) as port:
        environment.setenv("http_proxy", f"http://user:secret@127.0.0.1:{port}")

        assert open_store(f"http://{ELSEWHERE}:5001").get(HELLO, 5) == b"hello"

    ((command, url, credentials),) = proxy.heads
    assert command == "POST"
    assert url.startswith(f"http://{ELSEWHERE}:5001/api/v0/block/get?")
    assert credentials == "Basic " + b64encode(b"user:secret").decode()


def test_a_daemon_behind_tls_is_asked_through_a_tunnel_that_sees_nothing(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "auth").write_text("bearer:token")
    environment.setenv("CHAINFL_IPFS_AUTH_FILE", str(tmp_path / "auth"))
    seen: list[str] = []
    with secure_daemon(headers_of(seen, "Authorization")) as (_, server):
        proxy = Proxy(tunnel, server.server_address[1])
        with serving(proxy) as port:
            environment.setenv("https_proxy", f"http://127.0.0.1:{port}")
            store = open_store(f"https://{ELSEWHERE}:5001")

            assert store.get(HELLO, 5) == b"hello"
            assert isinstance(store, IpfsStore)
            store.close()

    assert seen == ["Bearer token"]
    assert proxy.heads == [("CONNECT", f"{ELSEWHERE}:5001", "")]


@pytest.mark.parametrize("answer", [hang, trickle_head, endless])
def test_a_proxy_that_hangs_or_trickles_is_given_up_in_time(
    answer: Answer, environment: pytest.MonkeyPatch
) -> None:
    with serving(Proxy(answer, 0)) as port:
        environment.setenv("https_proxy", f"http://127.0.0.1:{port}")
        begun = time.monotonic()
        with pytest.raises(StoreError):
            open_store(f"https://{ELSEWHERE}:5001", QUICK).get(HELLO, 5)
        assert time.monotonic() - begun < 5


def test_a_proxy_that_is_away_is_named_without_its_password(environment: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environment.setenv("https_proxy", f"http://user:secret@127.0.0.1:{port}")

    with pytest.raises(StoreError, match=f"through the proxy 127.0.0.1:{port}: .*refused") as caught:
        open_store(f"https://{ELSEWHERE}:5001", QUICK).get(HELLO, 5)

    assert "secret" not in str(caught.value)


def test_no_proxy_leads_to_this_machine_or_past_an_exception(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("http_proxy", "http://127.0.0.1:9")
    environment.setenv("no_proxy", ELSEWHERE)

    for host in ("127.0.0.1", "::1", "localhost", ELSEWHERE):
        assert Endpoint(host, 5001).proxy == ""
    assert urlsplit(Endpoint("other.example", 5001).proxy).port == 9


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://"])
def test_a_proxy_that_cannot_be_bounded_is_refused_by_name(
    proxy: str, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("https_proxy", proxy)

    with pytest.raises(InputError, match=f"https://{ELSEWHERE}:5001: the proxy on the way must be"):
        open_store(f"https://{ELSEWHERE}:5001")
