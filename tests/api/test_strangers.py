"""Whatever a stranger sends to the real server: an answer that says what is wrong, never a defect, never a hang."""

import gzip
import socket
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx
import pytest

from chainfl.api import schemas
from tests.api.scene import Scene
from tests.browser.server import serving

OK, BAD, NONE, METHOD, RANGE = 200, 400, 404, 405, 416


@pytest.fixture(scope="module")
def url(made: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(made, tmp_path_factory.mktemp("strangers"), header_seconds=2, poll_seconds=3600) as found:
        yield found


def send(url: str, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send these very bytes; the answer's status, headers and body."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as client:
        client.sendall(data)
        answer = b""
        while more := client.recv(65_536):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def ask(
    url: str, path: str, *, method: str = "GET", host: str = "here", extra: str = ""
) -> tuple[int, dict[str, str], bytes]:
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n"
    return send(url, head.encode("latin-1"))


ADDRESS = "0x" + "0" * 40

PATHS: list[tuple[str, int]] = [
    # numbers that are none, or are absurd
    ("/blocks/1/0", BAD),
    ("/blocks/1/-1", BAD),
    ("/blocks/1/1.5", BAD),
    ("/blocks/1/1e3", BAD),
    ("/blocks/1/0x1", BAD),
    ("/blocks/1/" + "9" * 500, BAD),
    ("/blocks/1/2147483648", NONE),
    ("/blocks/1/2147483649", BAD),
    ("/blocks/999999999/1", NONE),
    ("/blocks/9999999999/1", BAD),
    ("/blocks/1/3/proof/-1", BAD),
    ("/blocks/1/3/proof/4294967296", BAD),
    ("/blocks/1/3/proof/4294967297", BAD),
    ("/blocks/1/3/proof/1?attempt=99999999999999999999", BAD),
    ("/blocks/1/0/model.safetensors", BAD),
    ("/blocks/1/2147483648/model.safetensors", NONE),
    ("/blocks/1/2147483648/model.safetensors.intoto.json", NONE),
    ("/blocks/1/3/audit?wait=nan", BAD),
    ("/blocks/1/3/audit?wait=inf", BAD),
    ("/blocks/1/3/audit?wait=-1", BAD),
    ("/blocks/1/3/audit?wait=", BAD),
    ("/tasks?after=4611686018427387904", OK),
    ("/tasks?after=4611686018427387905", BAD),
    ("/tasks?after=-1", BAD),
    ("/tasks?limit=501", BAD),
    ("/live?seconds=nan", BAD),
    ("/live?seconds=1e400", BAD),
    # digits that are not ASCII, NULs, line ends, bytes that are no text
    ("/tasks/%EF%BC%91", BAD),
    ("/blocks/%D9%A1/1", BAD),
    ("/tasks/%00", BAD),
    ("/tasks/1%00", BAD),
    ("/tasks/1%0a", BAD),
    (f"/tasks/{ADDRESS}%0a", BAD),
    (f"/tasks?sponsor={ADDRESS}%0a", BAD),
    ("/tasks?rule=%00", OK),
    ("/tasks?rule=%ff%fe", OK),
    ("/tasks?%00=1", OK),
    ("/tasks/1/events?round=1%00", BAD),
    ("/tasks/%F0%9F%92%A9", BAD),
    # other shapes of parameters
    ("/tasks?limit=1&limit=2&limit=x", BAD),
    ("/tasks?limit=x&limit=2", OK),
    ("/tasks?order[]=oldest", OK),
    ("/tasks?order=OLDEST", BAD),
    ("/tasks?;;;;&&&&====", OK),
    ("/tasks?rule='%20OR%201=1--", OK),
    # paths
    ("/tasks/", NONE),
    ("//tasks", NONE),
    ("/tasks//1", NONE),
    ("/tasks/../health", NONE),
    ("/docs", NONE),
    ("/static/", NONE),
    ("/static/%00", NONE),
    ("/static/app.js%00", NONE),
    ("/static/%ff", NONE),
    ("/static/..%2fapp.py", NONE),
    ("/static/%2e%2e/app.py", NONE),
    ("/static//etc/passwd", NONE),
    ("/static/" + "a" * 300, NONE),
    ("/static/" + "a/" * 400, NONE),
    ("/static/app.js/x", NONE),
    ("/tasks/" + "1" * 1_100, 414),
    ("/tasks?rule=" + "x" * 2_100, 414),
    ("/tasks?rule=" + "x" * 33, BAD),
]


@pytest.mark.parametrize(("path", "status"), PATHS, ids=[path[:60] for path, _ in PATHS])
def test_a_path_or_query_from_a_stranger_is_answered(url: str, path: str, status: int) -> None:
    found, headers, body = ask(url, path)

    assert found == status
    if status >= HTTPStatus.BAD_REQUEST:
        assert headers["content-type"] == "application/problem+json"
        problem = schemas.Problem.model_validate_json(body)
        assert problem.detail
        assert "\n" not in problem.detail


@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "FOO", "get", "G" * 40]
)
@pytest.mark.parametrize("path", ["/tasks", "/", "/live?seconds=0", "/health", "/blocks/1/1/audit"])
def test_other_methods_are_refused(url: str, method: str, path: str) -> None:
    assert ask(url, path, method=method)[0] == METHOD


HOSTS = ["[", "]", "[::1", "a:b:c", "", "%00", "\xff", "x y", "evil.example/..", "x:99999999", "x@y"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/tasks", "/tasks/", "/nowhere", "/static", "/tasks/zero"])
def test_whatever_host_is_claimed_decides_nothing(url: str, host: str, path: str) -> None:
    found, headers, _ = ask(url, path, host=host)

    assert found == {"/tasks": OK, "/tasks/zero": BAD}.get(path, NONE)
    assert "location" not in headers


RANGES: list[tuple[str, set[int]]] = [
    ("bytes=0-0", {206}),
    ("bytes=-1", {206}),
    ("bytes=9999999-", {RANGE}),
    ("bytes=5-1", {BAD, RANGE}),
    ("bytes=a-b", {BAD, RANGE}),
    ("x", {BAD, OK}),
    ("bytes=0-" + "9" * 40, {206}),
    ("bytes=" + ",".join(f"{at}-{at}" for at in range(0, 4_000, 2)), {OK, 206, BAD, RANGE}),
    ("bytes=" + "0-," * 4_000, {206, OK, BAD, RANGE}),
]


@pytest.mark.parametrize(("wanted", "statuses"), RANGES, ids=[wanted[:30] for wanted, _ in RANGES])
def test_ranges_of_a_file_are_served_or_refused_and_small(url: str, wanted: str, statuses: set[int]) -> None:
    found, _, body = ask(url, "/static/app.js", extra=f"Range: {wanted}\r\n")

    assert found in statuses
    assert len(body) < 10**6
    assert ask(url, "/tasks", extra=f"Range: {wanted}\r\n")[0] == OK


HEADERS: list[tuple[str, int]] = [
    ("If-None-Match: " + '"' * 5_000 + "\r\n", OK),
    ("If-None-Match: *\r\n", 304),
    ("If-Modified-Since: Thu, 99 Jan 9999999 00:00:00 GMT\r\n", OK),
    ("Accept: \xff\r\n", OK),
    ("Cookie: " + "a=b;" * 1_000 + "\r\n", OK),
    ("X-Forwarded-For: \xff,,,\r\n", OK),
    ("traceparent: 00-xx\r\n", OK),
    ("Upgrade: websocket\r\nSec-WebSocket-Key: x\r\n", OK),
    ("Upgrade: h2c\r\nHTTP2-Settings: x\r\n", OK),
    ("Expect: x\r\n", OK),
    ("Content-Length: 0\r\n", OK),
    ("Content-Length: -1\r\n", BAD),
    ("Content-Length: 99999999999999999999999\r\n", BAD),
    ("Content-Length: 5\r\nContent-Length: 6\r\n", BAD),
    ("Transfer-Encoding: x\r\n", BAD),
    ("Transfer-Encoding: gzip, chunked\r\n", BAD),
    ("Host: another\r\n", BAD),
    ("Range : bytes=0-1\r\n", BAD),
]


@pytest.mark.parametrize(("extra", "status"), HEADERS, ids=[extra[:40] for extra, _ in HEADERS])
def test_headers_from_a_stranger_are_ignored_or_refused(url: str, extra: str, status: int) -> None:
    assert ask(url, "/tasks", extra=extra)[0] == status


@pytest.mark.parametrize(
    "body",
    [gzip.compress(bytes(10**7)), b"[" * 100_000, b'{"a":' * 10_000, b"\x00" * 10],
    ids=["a gzip bomb", "deep lists", "deep objects", "NULs"],
)
@pytest.mark.parametrize("encoding", ["", "Content-Encoding: gzip\r\n"])
def test_a_body_is_refused_unread(url: str, body: bytes, encoding: str) -> None:
    place = urlsplit(url)
    head = f"GET /tasks HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n{encoding}"
    with socket.create_connection((place.hostname, place.port), timeout=20) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())

        assert client.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    "data",
    [
        b"GET  /tasks\r\n\r\n",
        b"GET /tasks HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(100),
        b"GET /\xff\xfe HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\r\n" * 50 + b"x\r\n\r\n",
    ],
    ids=range(6),
)
def test_what_is_no_http_is_refused(url: str, data: bytes) -> None:
    assert send(url, data)[0] == BAD


def test_a_client_that_says_nothing_is_let_go(url: str) -> None:
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as client:
        assert client.recv(1) == b""


def test_the_server_is_well_after_all_that(url: str) -> None:
    told = httpx.get(f"{url}health", timeout=20).json()

    assert told["status"] == "ok"
