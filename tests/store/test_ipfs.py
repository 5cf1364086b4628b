"""The IPFS client against a hostile or failing daemon: a real HTTP server on loopback plays it."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec.cid import Cid, Codec
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    StoreError,
    StoreFullError,
    StoreTimeoutError,
    WrongBytesError,
)
from chainfl.store.ipfs import Endpoint, IpfsSettings, IpfsStore

HELLO = Cid.of(b"hello", Codec.RAW)
PATIENT = IpfsSettings(
    call_seconds=30, fetch_seconds=30, pin_seconds=30, look_seconds=10, tries=3, first_pause=0.02
)
# For daemons that hang: everything else must not depend on how busy the machine is.
QUICK = replace(PATIENT, call_seconds=1, fetch_seconds=1, pin_seconds=1, look_seconds=0.1)

Answer = Callable[[BaseHTTPRequestHandler], None]


class Daemon(ThreadingHTTPServer):
    """A loopback server that records what it is asked and answers as the test says."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.answer = answer
        self.stopping = threading.Event()
        self.connections = 0
        self.hung_up = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connections that are made."""
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Daemon
    body: bytes

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((parts.path.removeprefix("/api/v0/"), query, self.body))
        self.server.answer(self)

    def finish(self) -> None:
        super().finish()
        self.server.hung_up.set()

    def log_message(self, *_: object) -> None:
        pass


def say(data: bytes, status: int = 200) -> Answer:
    """Answer with these bytes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def refuse(message: str, status: int = 500) -> Answer:
    """Answer with an error as daemons write it."""
    return say(json.dumps({"Message": message, "Code": 0, "Type": "error"}).encode(), status)


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Never answer."""
    assert isinstance(handler.server, Daemon)
    handler.server.stopping.wait(10)


def trickle(handler: BaseHTTPRequestHandler) -> None:
    """One byte every 50 ms, of a body announced as small enough."""
    assert isinstance(handler.server, Daemon)
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.server.stopping.wait(0.05):
        handler.wfile.write(b"x")


def trickle_at_the_end(handler: BaseHTTPRequestHandler) -> None:
    """One byte every 50 ms, of a body that ends when the daemon hangs up, which it never does."""
    assert isinstance(handler.server, Daemon)
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.server.stopping.wait(0.05):
        handler.wfile.write(b"x")


def trickle_head(handler: BaseHTTPRequestHandler) -> None:
    """Headers without end."""
    assert isinstance(handler.server, Daemon)
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.stopping.wait(0.05):
        handler.wfile.write(b"X")


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body without announced length that never stops."""
    assert isinstance(handler.server, Daemon)
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.server.stopping.is_set():
        handler.wfile.write(bytes(1 << 16))


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Close without a word."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def cut_short(handler: BaseHTTPRequestHandler) -> None:
    """Announce more than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Length", "5")
    handler.end_headers()
    handler.wfile.write(b"hel")
    hang_up(handler)


@contextmanager
def daemon(answer: Answer, settings: IpfsSettings = PATIENT) -> Iterator[tuple[IpfsStore, Daemon]]:
    """A store and the server behind it."""
    server = Daemon(answer)
    with served(server, settings) as store:
        yield store, server


@contextmanager
def served(server: Daemon, settings: IpfsSettings) -> Iterator[IpfsStore]:
    """A store whose daemon is this server, which ends with it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    store = IpfsStore(Endpoint("127.0.0.1", server.server_address[1]), settings)
    try:
        yield store
    finally:
        server.stopping.set()
        store.close()
        server.shutdown()
        server.server_close()
        thread.join()


def in_turn(*answers: Answer) -> Answer:
    """A different answer each time, the last for ever."""
    rest = list(answers)
    return lambda handler: (rest.pop(0) if len(rest) > 1 else rest[0])(handler)


def test_a_block_is_put_with_parameters_that_every_daemon_understands() -> None:
    with daemon(say(json.dumps({"Key": str(HELLO), "Size": 5}).encode())) as (store, server):
        assert store.put(b"hello", Codec.RAW) == HELLO

    command, query, body = server.asked[0]
    assert command == "block/put"
    assert query == {"format": "raw", "mhtype": "sha2-256"}
    assert b"\r\n\r\nhello\r\n--" in body
    assert b"Content-Type: application/octet-stream" in body


def test_a_get_tells_the_daemon_its_time_limit() -> None:
    with daemon(say(b"hello")) as (store, server):
        assert store.get(HELLO, 5) == b"hello"

    assert server.asked == [("block/get", {"arg": str(HELLO), "timeout": "30000ms"}, b"")]


@pytest.mark.parametrize("name", ["bafkqaaa", None, str(Cid.of(b"other", Codec.RAW))])
def test_a_daemon_that_gives_a_block_another_name_is_caught(name: str | None) -> None:
    with (
        daemon(say(json.dumps({"Key": name}).encode())) as (store, _),
        pytest.raises(WrongBytesError, match=str(HELLO)),
    ):
        store.put(b"hello", Codec.RAW)


@given(st.binary(max_size=20).filter(lambda data: data != b"hello"))
def test_wrong_bytes_for_a_cid_are_never_returned(data: bytes) -> None:
    with daemon(say(data)) as (store, _), pytest.raises(WrongBytesError, match="hash to another name"):
        store.get(HELLO, 100)


@pytest.mark.parametrize("answer", [say(bytes(101)), endless], ids=["announced", "endless"])
def test_an_oversized_blob_is_refused_without_reading_it_all(answer: Answer) -> None:
    with daemon(answer) as (store, _), pytest.raises(BlobTooLargeError, match="100 bytes allowed"):
        store.get(HELLO, 100)


@pytest.mark.parametrize("answer", [hang, trickle, trickle_at_the_end, trickle_head])
def test_a_daemon_that_hangs_or_trickles_is_given_up_in_time(answer: Answer) -> None:
    with daemon(answer, QUICK) as (store, server):
        with pytest.raises(StoreTimeoutError, match="did not answer block/get in 1 s"):
            store.get(HELLO, 1000)
        with pytest.raises(StoreTimeoutError, match="did not answer pin/add"):
            store.pin(HELLO)

    assert len(server.asked) == 2


@pytest.mark.parametrize("answer", [hang, trickle, trickle_at_the_end])
def test_no_call_outlasts_the_time_that_its_caller_has(answer: Answer) -> None:
    patient = IpfsSettings(call_seconds=60, fetch_seconds=60, pin_seconds=60, look_seconds=0.1)
    with daemon(answer, patient) as (store, server):
        hurried = store.within(time.monotonic() + 1)
        with pytest.raises(StoreTimeoutError):
            hurried.get(HELLO, 1000)
        with pytest.raises(StoreTimeoutError, match="no time was left for block/get"):
            hurried.get(HELLO, 1000)

    ((_, query, _),) = server.asked
    assert 400 <= int(query["timeout"].removesuffix("ms")) <= 900


def test_a_limit_is_never_moved_out_and_its_store_shares_the_connections() -> None:
    with daemon(say(b"hello")) as (store, server):
        soon = time.monotonic() + 60
        assert store.within(soon).within(soon + 60)._until == soon
        assert store.within(soon).get(HELLO, 5) == store.get(HELLO, 5) == b"hello"

    assert len(server.asked) == 2
    assert server.connections == 1


def test_a_missing_blob_is_not_found() -> None:
    with daemon(refuse("Failed to get block: request timed out")) as (store, _):
        with pytest.raises(BlobNotFoundError, match="request timed out"):
            store.get(HELLO, 5)
        with pytest.raises(BlobNotFoundError, match="could not be pinned"):
            store.pin(HELLO)
        assert not store.has(HELLO)


def test_a_daemon_without_room_is_one_clear_error() -> None:
    with daemon(refuse("write /data: no space left on device")) as (store, _), pytest.raises(StoreFullError):
        store.put(b"hello", Codec.RAW)


@pytest.mark.parametrize("answer", [hang_up, cut_short], ids=["hang up", "cut short"])
def test_a_call_that_never_arrived_is_tried_again(answer: Answer) -> None:
    key = say(json.dumps({"Key": str(HELLO)}).encode())
    with daemon(in_turn(answer, answer, key)) as (store, server):
        assert store.put(b"hello", Codec.RAW) == HELLO

    assert len(server.asked) == 3


def test_a_daemon_that_always_hangs_up_is_given_up_after_the_tries_allowed() -> None:
    with daemon(hang_up) as (store, server), pytest.raises(StoreError, match="cannot be reached"):
        store.get(HELLO, 5)

    assert len(server.asked) == PATIENT.tries


def test_an_answer_that_is_cut_short_never_counts() -> None:
    with daemon(cut_short) as (store, server), pytest.raises(StoreError, match="cannot be reached"):
        store.get(HELLO, 5)

    assert len(server.asked) == PATIENT.tries


def test_nobody_there_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(
        StoreError, match=f"http://127.0.0.1:{port} cannot be reached: .*; is the daemon running?"
    ):
        IpfsStore(Endpoint("127.0.0.1", port), PATIENT).get(HELLO, 5)


def test_a_host_that_cannot_be_a_name_is_one_clear_error() -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        IpfsStore(Endpoint("a..b", 5001), PATIENT).get(HELLO, 5)


def test_connections_of_a_forgotten_store_are_closed() -> None:
    with daemon(say(b"hello")) as (_, server):
        store = IpfsStore(Endpoint("127.0.0.1", server.server_address[1]))
        store.get(HELLO, 5)
        assert not server.hung_up.is_set()

        del store

        assert server.hung_up.wait(5)


@pytest.mark.parametrize("data", [b"not json", b"[]", b"[" * 100_000, b'"' + bytes(1 << 17) + b'"', b"\xff"])
def test_an_answer_that_is_no_json_object_is_one_clear_error(data: bytes) -> None:
    with (
        daemon(say(data)) as (store, _),
        pytest.raises(StoreError, match="answered block/put with something else"),
    ):
        store.put(b"hello", Codec.RAW)


@pytest.mark.parametrize("status", [301, 400, 404, 405, 500])
def test_any_other_status_is_one_clear_line(status: int) -> None:
    with daemon(say(b"<html>\n no\n</html>", status)) as (store, _), pytest.raises(StoreError) as caught:
        store.put(b"hello", Codec.RAW)

    assert str(caught.value) == f"<html> no </html> (HTTP {status})"


def test_unpinning_what_is_not_pinned_changes_nothing_and_other_errors_show() -> None:
    with daemon(in_turn(refuse("X is not pinned"), refuse("disk on fire"))) as (store, _):
        store.unpin(HELLO)
        with pytest.raises(StoreError, match="disk on fire"):
            store.unpin(HELLO)


def test_a_pin_says_whether_links_are_followed_and_a_wider_one_is_enough() -> None:
    wider = refuse(f"{HELLO} already pinned recursively")
    with daemon(in_turn(say(b"{}"), say(b"{}"), wider, wider)) as (store, server):
        store.pin(HELLO)
        store.pin(HELLO, with_links=False)
        store.pin(HELLO, with_links=False)
        with pytest.raises(BlobNotFoundError):
            store.pin(HELLO)

    assert [query["recursive"] for _, query, _ in server.asked] == ["true", "false", "false", "true"]


def test_a_connection_used_under_a_short_limit_serves_a_longer_one_afterwards() -> None:
    def slow(handler: BaseHTTPRequestHandler) -> None:
        assert isinstance(handler.server, Daemon)
        handler.server.stopping.wait(0.5)
        say(b"hello")(handler)

    limits = IpfsSettings(look_seconds=0.1, fetch_seconds=5)
    with daemon(in_turn(say(b"{}"), slow), limits) as (store, _):
        assert store.has(HELLO)
        assert store.get(HELLO, 5) == b"hello"


def test_many_run_side_by_side_and_come_in_order() -> None:
    together = threading.Barrier(4, timeout=5)
    blobs = {str(Cid.of(bytes([n]), Codec.RAW)): bytes([n]) for n in range(8)}

    def answer(handler: BaseHTTPRequestHandler) -> None:
        together.wait()
        say(blobs[parse_qs(urlsplit(handler.path).query)["arg"][0]])(handler)

    with daemon(answer, IpfsSettings(side_by_side=4)) as (store, _):
        assert list(store.get_many(map(Cid.parse, blobs), 1)) == list(blobs.values())
