"""A proxy in front of a real endpoint that corrupts answers by a seeded plan, in every way that we could think of."""

import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.integration.lying import Proxy, truth

JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 2**300, 1.5, "", "0x", "0xzz", "-0x1", "0x-1", "0x" + "f" * 200, "\x1b[31mred\n", "x" * 100_000,
    [], {}, [[]], {"a": 1}, ["0x1"] * 1000, "0x" + "ab" * 31, "0x1",
)  # fmt: skip
"""Values that do not belong where they are put."""


def deep(levels: int) -> bytes:
    """JSON within JSON within JSON."""
    return b"[" * levels + b"]" * levels


class Corrupt(Proxy):
    """One answer in so many is corrupted; `seen` counts how."""

    def __init__(self, real: str, seed: int, one_in: int) -> None:
        """Begin honestly: `one_in` counts from when `is_on` is set."""
        super().__init__(real, truth)
        self.rng, self.one_in, self.seen, self.is_on = random.Random(seed), one_in, Counter[str](), False
        self._lock = threading.Lock()

    def respond(self, handler: Any, asked: Any, answer: dict[str, Any]) -> None:
        """Answer rightly, mostly."""
        with self._lock:
            is_corrupt = self.is_on and self.rng.randrange(self.one_in) == 0
            how = self.rng.choice(list(WAYS)) if is_corrupt else ""
            rng = random.Random(self.rng.random())
        if not how:
            super().respond(handler, asked, answer)
            return
        self.seen[how] += 1
        WAYS[how](self, handler, answer, rng)

    def say(self, handler: Any, answer: Any) -> None:
        """Some JSON, well sent."""
        super().respond(handler, None, answer)


def send_raw(handler: Any, body: bytes, status: int = 200, length: int | None = None, **headers: str) -> None:
    """A response with any body, of any length told."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = True


def _result(
    change: Callable[[Any, random.Random], Any],
) -> Callable[[Corrupt, Any, Any, random.Random], None]:
    """A way that changes the value of a result."""

    def way(proxy: Corrupt, handler: Any, answer: dict[str, Any], rng: random.Random) -> None:
        proxy.say(handler, {**answer, "result": change(answer.get("result"), rng)})

    return way


def _somewhere(value: Any, rng: random.Random) -> Any:
    """Put junk somewhere inside a value."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        return {**value, key: _somewhere(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], _somewhere(value[place], rng), *value[place + 1 :]]
    return rng.choice(JUNK)


def _flip(value: Any, rng: random.Random) -> Any:
    """Change one digit somewhere: a lie that looks right."""
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        return {**value, key: _flip(value[key], rng)}
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        return [*value[:place], _flip(value[place], rng), *value[place + 1 :]]
    if isinstance(value, str) and len(value) > 2 and value.startswith("0x"):
        place = rng.randrange(2, len(value))
        return value[:place] + rng.choice("0123456789abcdef") + value[place + 1 :]
    return value


def _without(value: Any, rng: random.Random) -> Any:
    """Leave out a field, or an element."""
    if isinstance(value, dict) and value:
        gone = rng.choice(sorted(value))
        return {key: each for key, each in value.items() if key != gone}
    if isinstance(value, list) and value:
        gone_at = rng.randrange(len(value))
        if isinstance(value[gone_at], dict) and rng.random() < 0.5:
            return [*value[:gone_at], _without(value[gone_at], rng), *value[gone_at + 1 :]]
        return [*value[:gone_at], *value[gone_at + 1 :]]
    return None


def _disorder(value: Any, rng: random.Random) -> Any:
    """A list backwards, twice, or with one element of another place."""
    if not isinstance(value, list) or not value:
        return [value]
    return rng.choice((value[::-1], value * 2, [*value, rng.choice(value)]))


def _trickle(_: Corrupt, handler: Any, answer: dict[str, Any], __: random.Random) -> None:
    """One byte at a time until nobody listens any more."""
    body = json.dumps(answer).encode() + b" " * 10_000
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    never = threading.Event()
    for place in range(len(body)):
        handler.wfile.write(body[place : place + 1])
        handler.wfile.flush()
        never.wait(0.05)


def _endless(_: Corrupt, handler: Any, __: dict[str, Any], ___: random.Random) -> None:
    """A body that never ends, in chunks."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    chunk = b'"' + b"x" * 65_535
    while True:
        handler.wfile.write(b"10000\r\n" + chunk + b"\r\n")


def _hang_up(_: Corrupt, handler: Any, __: dict[str, Any], ___: random.Random) -> None:
    handler.close_connection = True


WAYS: dict[str, Callable[[Corrupt, Any, dict[str, Any], random.Random], None]] = {
    "null": _result(lambda _, __: None),
    "junk": _result(lambda _, rng: rng.choice(JUNK)),
    "junk inside": _result(_somewhere),
    "a digit": _result(_flip),
    "left out": _result(_without),
    "disorder": _result(_disorder),
    "another id": lambda proxy, handler, answer, _: proxy.say(handler, {**answer, "id": 10**9}),
    "an error": lambda proxy, handler, answer, _: proxy.say(
        handler, {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": -32000, "message": "x" * 10_000}}
    ),
    "a strange error": lambda proxy, handler, answer, rng: proxy.say(
        handler, {"jsonrpc": "2.0", "id": answer["id"], "error": rng.choice(JUNK[1:])}
    ),
    "a refusal": lambda proxy, handler, answer, rng: proxy.say(
        handler,
        {"jsonrpc": "2.0", "id": answer["id"]}
        | {"error": {"code": 3, "message": "execution reverted", "data": rng.choice(JUNK)}},
    ),
    "a list": lambda proxy, handler, answer, _: proxy.say(handler, [answer]),
    "html": lambda _, handler, __, ___: send_raw(handler, b"<html><h1>502 Bad Gateway</h1></html>"),
    "no json": lambda _, handler, __, rng: send_raw(handler, rng.randbytes(100)),
    "nothing": lambda _, handler, __, ___: send_raw(handler, b""),
    "cut off": lambda _, handler, answer, ___: send_raw(
        handler, json.dumps(answer).encode()[:-5], length=10_000
    ),
    "deep": lambda _, handler, __, ___: send_raw(handler, deep(100_000)),
    "many": lambda _, handler, __, ___: send_raw(handler, b"[" + b"0," * 3_000_000 + b"0]"),
    "long number": lambda _, handler, __, ___: send_raw(handler, b'{"id":1,"result":' + b"9" * 50_000 + b"}"),
    "too long": lambda _, handler, __, ___: send_raw(handler, b"{", length=10**12),
    "packed": lambda _, handler, __, ___: send_raw(handler, b"\x1f\x8b" + bytes(50), Content_Encoding="gzip"),
    "redirected": lambda _, handler, __, ___: send_raw(handler, b"", 307, Location="http://127.0.0.1:1/"),
    "status 500": lambda _, handler, __, ___: send_raw(handler, b"", 500),
    "status 429": lambda _, handler, __, ___: send_raw(handler, b"", 429),
    "trickle": _trickle,
    "endless": _endless,
    "hang up": _hang_up,
}
