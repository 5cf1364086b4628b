"""What one client may hold, who a client is, and that others are served while one takes all it can."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from chainfl.api import index, schemas
from chainfl.api.clients import Share, client_name, read_networks
from chainfl.api.jobs import JobPool
from chainfl.api.settings import load_settings
from chainfl.errors import BusyError, InputError, LimitError
from chainfl.limits import Limits, step_bytes
from tests.api.scene import Scene, client_of, history, play_plain, scene
from tests.browser.server import serving, serving_app
from tests.processes import await_that

HOSTILE, HONEST = "127.0.0.2", "127.0.0.3"


@pytest.fixture(scope="module")
def young() -> Scene:
    made = scene()
    play_plain(made.net)
    return made


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(url: str, source: str, stack: ExitStack) -> socket.socket:
    place = urlsplit(url)
    made = socket.create_connection((place.hostname, place.port), timeout=20, source_address=(source, 0))
    return stack.enter_context(made)


def ask(url: str, path: str, source: str, stack: ExitStack, headers: str = "") -> tuple[int, socket.socket]:
    """Ask on a connection of one's own that stays open; its status."""
    made = connected(url, source, stack)
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n{headers}\r\n".encode())
    return int(made.recv(12).split()[1]), made


def get_as(source: str, url: str, path: str) -> httpx.Response:
    """What a client at this address is answered."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=20) as other:
        return other.get(url + path)


def read_until(client: socket.socket, end: bytes) -> bytes:
    """All that comes up to this."""
    found = b""
    while end not in found:
        more = client.recv(4_000)
        assert more, found
        found += more
    return found


def workshop_of(app: FastAPI) -> JobPool:
    found = app.state.services.auditor.pool
    assert isinstance(found, JobPool)
    return found


# Streams, jobs, requests, connections


def test_one_client_cannot_take_all_streams(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving(young, tmp_path, live_clients=6, streams_per_client=4) as url:
        taken = [ask(url, "/live", HOSTILE, sockets)[0] for _ in range(4)]
        refused = get_as(HOSTILE, url, "live")
        other, _ = ask(url, "/live", HONEST, sockets)

        assert (taken, refused.status_code, other) == ([200] * 4, 429, 200)
        assert (refused.headers["retry-after"], refused.headers["content-type"]) == (
            "5",
            "application/problem+json",
        )
        problem = schemas.Problem.model_validate(refused.json())
        assert (problem.status, problem.type) == (429, "urn:chainfl:limit")
        assert "4 live streams" in problem.detail


def test_a_stream_that_ends_makes_room(young: Scene, tmp_path: Path) -> None:
    with serving(young, tmp_path, streams_per_client=1) as url:
        for _ in range(3):
            assert httpx.get(f"{url}live?seconds=0", timeout=20).status_code == 200


def test_one_client_cannot_fill_the_workshop(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving_app(young, tmp_path, audit_threads=1, audit_queue=5, jobs_per_client=3) as (url, app):
        release = threading.Event()
        held = workshop_of(app).do("held", lambda: release.wait(30), "somebody")

        asked = [connected(url, HOSTILE, sockets) for _ in range(5)]
        for leaf, each in enumerate(asked[:3]):
            each.sendall(f"GET /blocks/1/1/proof/{leaf} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        await_that(lambda: workshop_of(app).under_way == 4, 20, "three proofs to wait")
        for each in asked[3:]:
            each.sendall(b"GET /blocks/1/1/proof/3 HTTP/1.1\r\nHost: here\r\n\r\n")
        refused = [read_until(each, b"}") for each in asked[3:]]
        waiting = get_as(HONEST, url, "blocks/1/1/audit?wait=0")
        release.set()
        done = get_as(HONEST, url, "blocks/1/1/audit?wait=30")

        assert [answer.split()[1] for answer in refused] == [b"429", b"429"]
        assert b"3 audits or proofs" in refused[0]
        assert waiting.status_code == 202
        assert done.json()["verdict"] == "ok"
        assert held.result(10)
        assert [each.recv(12).split()[1] for each in asked[:3]] == [b"200"] * 3


def test_going_away_makes_no_room_for_more_work(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving_app(young, tmp_path, audit_threads=1, audit_queue=9, jobs_per_client=2) as (url, app):
        release = threading.Event()
        workshop_of(app).do("held", lambda: release.wait(30), "somebody")
        for leaf in range(2):
            with ExitStack() as gone:
                assert ask(url, f"/blocks/1/{leaf + 1}/audit?wait=0", HOSTILE, gone)[0] in (202, 404)
        ask(url, "/blocks/1/1/audit?wait=0", HOSTILE, sockets)
        statuses = [ask_briefly(url, f"/blocks/1/1/proof/{leaf}") for leaf in range(3)]
        release.set()

        assert statuses[-1] == 429


def test_a_request_that_is_given_up_cancels_nothing_and_makes_no_room(young: Scene, tmp_path: Path) -> None:
    with client_of(young, tmp_path, audit_threads=1, request_seconds=1, jobs_per_client=1) as client:
        release = threading.Event()
        shop = client.app.state.services.auditor.pool  # type: ignore[attr-defined]
        client.get("/blocks/1/1/proof/2")  # the first proof of a process loads what all need
        await_that(lambda: shop.under_way == 0, 20, "the first proof")
        shop.do("held", lambda: release.wait(30), "somebody")

        given_up = client.get("/blocks/1/1/proof/0").status_code
        still = shop.under_way
        more = client.get("/blocks/1/1/proof/1").status_code
        release.set()
        await_that(lambda: shop.under_way == 0, 20, "the work to be done")

        assert (given_up, still, more) == (503, 2, 429)
        assert client.get("/blocks/1/1/proof/0").status_code == 200


def ask_briefly(url: str, path: str) -> int:
    """Ask, and go away soon where no answer comes: 0."""
    with ExitStack() as stack:
        made = connected(url, HOSTILE, stack)
        made.settimeout(1)
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        try:
            return int(made.recv(12).split()[1])
        except TimeoutError:
            return 0


def test_asking_for_the_same_work_is_not_more_work(young: Scene, tmp_path: Path) -> None:
    with client_of(young, tmp_path, audit_threads=1, jobs_per_client=1) as client:
        release = threading.Event()
        services = client.app.state.services  # type: ignore[attr-defined]
        services.auditor.pool.do("held", lambda: release.wait(30), "somebody")

        answers = [client.get("/blocks/1/1/audit?wait=0").status_code for _ in range(3)]
        more = client.get("/blocks/1/1/proof/0").status_code
        release.set()

        assert answers == [202] * 3
        assert more == 429


def test_one_client_cannot_take_all_requests(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving_app(young, tmp_path, audit_threads=1, requests_per_client=3, jobs_per_client=9) as (
        url,
        app,
    ):
        release = threading.Event()
        workshop_of(app).do("held", lambda: release.wait(30), "somebody")
        waiting = [connected(url, HOSTILE, sockets) for _ in range(3)]
        for each in waiting:
            each.sendall(b"GET /blocks/1/1/audit?wait=30 HTTP/1.1\r\nHost: here\r\n\r\n")
        await_that(lambda: ask_briefly(url, "/health") == 429, 20, "three requests to be under way")
        other = get_as(HONEST, url, "health").status_code
        release.set()

        assert other == 200
        assert [each.recv(12).split()[1] for each in waiting] == [b"200"] * 3
        await_that(lambda: ask_briefly(url, "/health") == 200, 20, "room again")


def test_one_client_cannot_take_all_connections(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving(young, tmp_path, connections=30, connections_per_client=10) as url:
        idle = [connected(url, HOSTILE, sockets) for _ in range(60)]
        refused = [read_until(each, b"}") for each in idle[10:]]
        other = get_as(HONEST, url, "tasks").status_code

        assert {answer.split(b"\r\n")[0] for answer in refused} == {b"HTTP/1.1 429 Too Many Requests"}
        assert json.loads(refused[0].partition(b"\r\n\r\n")[2])["detail"].startswith(
            "you have 10 connections"
        )
        assert b"Retry-After: 5" in refused[0]
        assert other == 200
        for each in idle[:10]:
            each.close()
        await_that(lambda: ask_briefly(url, "/health") == 200, 20, "room again")


# Who a client is

PROXIES = read_networks("10.0.0.0/8, 192.0.2.7, fd00::/8")


@pytest.mark.parametrize(
    ("peer", "forwarded", "name"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "6.6.6.6, 198.51.100.1, 192.0.2.7, 10.9.9.9", "198.51.100.1"),
        ("10.1.2.3", "198.51.100.1:4711", "198.51.100.1"),
        ("10.1.2.3", "[2001:db8::1]:443", "2001:db8::/64"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "unknown", "10.1.2.3"),
        ("10.1.2.3", "\xff\x00, ,", "10.1.2.3"),
        ("10.1.2.3", "198.51.100.1, nonsense", "10.1.2.3"),
        ("10.1.2.3", "10.4.4.4, 10.5.5.5", "10.4.4.4"),
        ("::ffff:10.1.2.3", "::ffff:198.51.100.1", "198.51.100.1"),
        ("fd00::1", "2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9", "", "2001:db8:1:2::/64"),
        (None, "198.51.100.1", "local"),
        ("testclient", "198.51.100.1", "testclient"),
    ],
)
def test_a_client_is_who_connects_unless_a_trusted_proxy_does(
    peer: str | None, forwarded: str, name: str
) -> None:
    headers = [forwarded.encode("latin-1")] if forwarded else []

    assert client_name(peer, headers, PROXIES) == name


def test_nobodys_word_counts_by_default(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving(young, tmp_path, streams_per_client=2) as url:
        statuses = [
            ask(url, "/live", HOSTILE, sockets, f"X-Forwarded-For: 198.51.100.{at}\r\n")[0] for at in range(3)
        ]

        assert statuses == [200, 200, 429]


def test_clients_behind_a_trusted_proxy_are_told_apart(
    young: Scene, tmp_path: Path, sockets: ExitStack
) -> None:
    with serving(young, tmp_path, streams_per_client=1, trusted_proxies=f"{HOSTILE}/32") as url:
        statuses = [
            ask(url, "/live", HOSTILE, sockets, f"X-Forwarded-For: 6.6.6.{at}, 198.51.100.{at // 2}\r\n")[0]
            for at in range(4)
        ]

        assert statuses == [200, 429, 200, 429]


def test_a_proxy_may_have_any_number_of_connections(young: Scene, tmp_path: Path, sockets: ExitStack) -> None:
    with serving(young, tmp_path, connections_per_client=2, trusted_proxies=HOSTILE) as url:
        assert [ask(url, "/health", HOSTILE, sockets)[0] for _ in range(5)] == [200] * 5


@pytest.mark.parametrize("text", ["nowhere", "10.0.0.0/33", "10.0.0.1/8", "1.2.3.4;5.6.7.8"])
def test_a_proxy_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="trusted_proxies"):
        load_settings({"trusted_proxies": text})


def test_a_share_forgets_clients_that_hold_nothing() -> None:
    share = Share(1, "things")
    for number in range(1_000):
        with share.held(f"client {number}"), pytest.raises(LimitError, match="you have 1 things"):
            share.take(f"client {number}")

    assert share.clients == 0


def test_work_that_fails_gives_its_place_back() -> None:
    shop = JobPool(1, 1, per_client=1)

    def fail() -> None:
        raise InputError("no")

    for _ in range(3):
        with pytest.raises(InputError):
            shop.do("a", fail, "me").result(10)
    shop.close()


# Large models


class Counting:
    """A store that counts what is asked of it."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, _: str) -> object:
        self.asked += 1
        raise AssertionError("nothing was to be asked for")


def test_a_task_with_a_huge_model_is_listed_and_its_audit_refused_before_a_byte_is_fetched(
    young: Scene, tmp_path: Path
) -> None:
    dimension = young.net.task.config.dimension
    with client_of(young, tmp_path, max_parameters=dimension - 1) as client:
        auditor = client.app.state.services.auditor  # type: ignore[attr-defined]
        auditor._store = store = Counting()

        listed = client.get("/tasks").json()["items"]
        answers = [client.get(f"/blocks/1/1/{what}") for what in ("audit", "proof/0")]

        assert [row["terms"]["dimension"] for row in listed] == [dimension]
        assert client.get("/blocks/1/1").status_code == 200
        for answer in answers:
            assert answer.status_code == 422
            assert answer.json()["type"] == "urn:chainfl:limit"
            assert f"{dimension} parameters" in answer.json()["detail"]
            assert "--max-parameters" in answer.json()["detail"]
        assert store.asked == 0


def test_an_audit_of_more_bytes_than_fit_is_refused_and_a_proof_is_not(young: Scene, tmp_path: Path) -> None:
    with client_of(young, tmp_path) as client:
        auditor = client.app.state.services.auditor  # type: ignore[attr-defined]
        auditor._limits = Limits(memory=step_bytes(young.net.task.config.dimension, 1))
        refused = client.get("/blocks/1/1/audit")

        assert refused.status_code == 422
        assert "--max-memory-mib" in refused.json()["detail"]
        assert client.get("/blocks/1/1/proof/0").status_code == 200


def test_a_model_as_large_as_allowed_is_audited(young: Scene, tmp_path: Path) -> None:
    dimension = young.net.task.config.dimension
    with client_of(young, tmp_path, max_parameters=dimension) as client:
        assert client.get("/blocks/1/1/audit?wait=30").json()["verdict"] == "ok"


class Breaking:
    """A store that fails as no store should."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def get(self, *_: object) -> bytes:
        raise self.error

    def get_many(self, *_: object) -> object:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyError(1), 422), (RecursionError("deep"), 422), (AssertionError(), 422), (MemoryError(), 503)],
    ids=repr,
)
def test_whatever_breaks_an_audit_is_a_problem_and_no_defect(
    young: Scene, tmp_path: Path, error: Exception, status: int
) -> None:
    with client_of(young, tmp_path) as client:
        client.app.state.services.auditor._store = Breaking(error)  # type: ignore[attr-defined]

        answers = [client.get(f"/blocks/1/1/{what}") for what in ("audit?wait=30", "proof/0")]

        assert [answer.status_code for answer in answers] == [status, status]
        assert all("\n" not in answer.json()["detail"] for answer in answers)
        assert client.get("/health").status_code == 200


def test_a_workshop_that_is_closed_is_busy() -> None:
    shop = JobPool(1, 1)
    shop.close()

    with pytest.raises(BusyError, match="shutting down"):
        shop.do("a", lambda: None)


# Large answers


def test_a_page_that_gets_too_long_ends_early_and_nothing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(history(), tmp_path) as client:
        whole = client.get("/tasks/1/events?limit=500").json()["items"]
        monkeypatch.setattr(index, "MAX_CHUNK", 3_000)
        found: list[object] = []
        after, pages = "", 0
        while True:
            page = client.get(f"/tasks/1/events?limit=500{after}").json()
            assert page["items"]
            assert len(json.dumps(page["items"])) < 8_000
            found += page["items"]
            pages += 1
            if page["next"] is None:
                break
            after = f"&after={page['next']}"

    assert found == whole
    assert pages > 10
