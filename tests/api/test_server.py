"""The real server: what is slow, huge or too much does not take it down, and changes reach those who listen."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from chainfl.api.jobs import JobPool
from chainfl.api.live import Change, Hub
from chainfl.api.readonly_store import ReadingStore
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import BusyError, ProtocolError
from tests.api.scene import Scene, client_of, play_plain, scene
from tests.browser.server import serving


@pytest.fixture(scope="module")
def young() -> Scene:
    made = scene()
    play_plain(made.net)
    return made


def test_a_finished_round_reaches_those_who_listen(tmp_path: Path) -> None:
    made = scene()
    with serving(made, tmp_path) as url, httpx.stream("GET", f"{url}live", timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event")) == "event: hello"

        play_plain(made.net)

        wanted = (line for line in lines if line.startswith("data") and '"round": 2' in line)
        assert made.task in next(wanted)


def test_slow_clients_are_given_up_and_others_are_served(young: Scene, tmp_path: Path) -> None:
    with serving(young, tmp_path, header_seconds=0.3, connections=20) as url:
        place = urlsplit(url)
        slow = [socket.create_connection((place.hostname, place.port), timeout=20) for _ in range(15)]
        for each in slow:
            each.sendall(b"GET /tasks HTTP/1.1\r\nHost: a\r\nX-Slow: ")

        assert httpx.get(f"{url}health", timeout=20).status_code == 200
        assert [each.recv(1) for each in slow] == [b""] * 15
        for each in slow:
            each.close()


def test_headers_without_end_are_refused(young: Scene, tmp_path: Path) -> None:
    with serving(young, tmp_path) as url:
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port), timeout=20) as endless:
            endless.sendall(b"GET /tasks HTTP/1.1\r\nX-Endless: " + b"x" * 20_000)
            answer = endless.recv(12)

        assert answer == b"HTTP/1.1 400"
        assert httpx.get(f"{url}health", timeout=20).status_code == 200


TEN_MEGABYTES = 10_000_000


@pytest.mark.parametrize("length", [f"Content-Length: {TEN_MEGABYTES}", "Transfer-Encoding: chunked"])
def test_a_huge_body_is_refused_before_it_is_read(young: Scene, tmp_path: Path, length: str) -> None:
    with serving(young, tmp_path, header_seconds=0.5) as url, _connected(url) as client:
        client.sendall(f"GET /tasks HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n".encode())
        answer = client.recv(12)

        assert answer == b"HTTP/1.1 413"
        assert _send_until_refused(client, b"400\r\n" + b"x" * 0x400 + b"\r\n")
        assert httpx.get(f"{url}health", timeout=20).status_code == 200


def test_clients_that_ask_and_never_read_are_given_up(young: Scene, tmp_path: Path) -> None:
    with serving(young, tmp_path, header_seconds=0.5, connections=20) as url:
        deaf = [_connected(url, receive=4096) for _ in range(10)]
        for each in deaf:
            assert _send_until_refused(each, b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")

        assert httpx.get(f"{url}health", timeout=20).status_code == 200


@pytest.mark.parametrize(("query", "status"), [("a&" * 1000, 200), ("limit=1&" * 1000, 414)])
def test_a_thousand_parameters_are_ignored_or_refused(
    young: Scene, tmp_path: Path, query: str, status: int
) -> None:
    with client_of(young, tmp_path) as client:
        assert client.get(f"/tasks?{query}").status_code == status


def test_an_endless_path_is_refused(young: Scene, tmp_path: Path) -> None:
    with client_of(young, tmp_path) as client:
        assert client.get("/tasks/" + "1" * 2000).status_code == 414


def _connected(url: str, receive: int | None = None) -> socket.socket:
    """A connection whose waiting is bounded; with `receive`, one that has little room for answers."""
    made = socket.socket()
    if receive is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    made.settimeout(20)
    place = urlsplit(url)
    made.connect((place.hostname, place.port))
    return made


def _send_until_refused(client: socket.socket, data: bytes) -> bool:
    """Send for ever, reading nothing: true once the server has ended the connection; a time-out fails the test."""
    until = time.monotonic() + 20
    try:
        while time.monotonic() < until:
            client.sendall(data)
    except ConnectionError:
        client.close()
        return True
    return False


def test_only_so_many_streams_are_open_at_once(young: Scene, tmp_path: Path) -> None:
    with serving(young, tmp_path, live_clients=1) as url:
        with httpx.stream("GET", f"{url}live", timeout=20) as one:
            lines = one.iter_lines()
            assert next(lines).startswith("id")
            other = httpx.get(f"{url}live?seconds=0", timeout=20)

        assert other.status_code == 503
        assert "retry-after" in other.headers


def test_a_request_that_takes_too_long_is_ended(young: Scene, tmp_path: Path) -> None:
    with client_of(young, tmp_path, request_seconds=0.2) as client:
        release, entered = threading.Event(), threading.Event()
        services = client.app.state.services  # type: ignore[attr-defined]
        busy = services.auditor.pool.do("held", _hold(entered, release))
        other = services.auditor.pool.do("held too", _hold(threading.Event(), release))
        entered.wait(10)

        answer = client.get("/blocks/1/1/proof/0")
        release.set()

        assert answer.status_code == 503
        assert "took longer" in answer.json()["detail"]
        assert busy.result(10) is None
        assert other.result(10) is None


def test_an_audit_that_takes_its_time_is_answered_with_running(young: Scene, tmp_path: Path) -> None:
    with client_of(young, tmp_path, audit_threads=1) as client:
        release = threading.Event()
        client.app.state.services.auditor.pool.do("held", _hold(threading.Event(), release))  # type: ignore[attr-defined]

        waiting = client.get("/blocks/1/1/audit?wait=0")
        release.set()
        done = client.get("/blocks/1/1/audit?wait=30")

        assert (waiting.status_code, waiting.json()["state"], waiting.json()["verdict"]) == (
            202,
            "running",
            None,
        )
        assert "retry-after" in waiting.headers
        assert done.json()["verdict"] == "ok"


def test_the_workshop_does_the_same_work_once_and_refuses_too_much() -> None:
    shop, release = JobPool(1, 1), threading.Event()

    first: Future[None] = shop.do("a", _hold(threading.Event(), release))
    same = shop.do("a", _hold(threading.Event(), release))
    shop.do("b", _hold(threading.Event(), release))

    assert first is same
    with pytest.raises(BusyError, match="try again"):
        shop.do("c", _hold(threading.Event(), release))
    release.set()
    first.result(10)
    shop.close()


def _hold(entered: threading.Event, release: threading.Event) -> Callable[[], None]:
    def work() -> None:
        entered.set()
        release.wait(30)

    return work


async def _told(hub: Hub, changes: int) -> list[Change | None]:
    hub.attach(asyncio.get_running_loop())
    with hub.listen() as queue:
        for number in range(changes):
            hub.publish(Change(number, "0x", 1, 1, 1, "train"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return [queue.get_nowait() for _ in range(queue.qsize())]


def test_a_listener_that_is_too_slow_is_told_to_read_anew() -> None:
    few = asyncio.run(_told(Hub(1), 3))
    many = asyncio.run(_told(Hub(1), 100))

    assert [change.revision for change in few if change] == [0, 1, 2]
    assert None in many
    assert len(many) < 64


def test_a_reading_store_gives_and_never_takes(young: Scene) -> None:
    store = ReadingStore(young.net.store)
    cid = Cid.dag_cbor(young.net.task.config.first_model)

    assert store.has(cid)
    assert store.get(cid, 10**6) == young.net.store.get(cid, 10**6)
    with pytest.raises(ProtocolError, match="only reads"):
        store.put(b"bytes", Codec.RAW)
