"""Inputs near to those that are known, by small changes; the same seed gives the same inputs on every machine."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeVar

from tests.fuzz.target import Form

NUMBERS: Final = tuple(
    number.to_bytes(size, "big")
    for size in (1, 2, 4, 8, 32)
    for number in sorted(
        {
            edge + step
            for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64, 255, 256)
            for edge in (1 << bits,)
            for step in (-1, 0, 1)
            if 0 <= edge + step < 1 << 8 * size
        }
    )
)
"""Numbers at the edges of their width, big-endian."""

JSON_WORDS: Final = (
    *(b"null", b"true", b"false", b'""', b"[]", b"{}", b"0", b"-0", b"-1", b"1", b"0.5", b"1e999", b"-1e999"),
    *(b"NaN", b"Infinity", b"-Infinity", b"1e-999", b"0x10", b"01", b'"0x"', b'"0x0"', b'"0xzz"', b'"-1"'),
    *(str((1 << bits) + step).encode() for bits in (31, 32, 53, 63, 64, 128, 256) for step in (-1, 0)),
    *(
        b"9" * 5000,
        b'"' + b"9" * 5000 + b'"',
        b'"\\ud800"',
        b'"\\u0000"',
        '"٣"'.encode(),
        b'"\xff"',
        b'"1_0"',
    ),
    *(
        b'"0x' + b"f" * 4000 + b'"',
        b"[" * 2000,
        b'{"a":' * 500,
        b"[[[]]]",
        b'{"":{}}',
        b'{"a":1,"a":2}',
        b'"0x' + b"ff" * 40 + b'"',
    ),
)
"""JSON that readers trip over."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{}]')
_MAX_POOL: Final = 2048

T = TypeVar("T")
Change = Callable[[bytearray], None]


class Mutator:
    """Makes inputs out of a pool of known ones, which grows by those that turn out to do something new."""

    def __init__(
        self, pool: Sequence[bytes], form: Form, words: Sequence[bytes], max_bytes: int, seed: int
    ) -> None:
        """Start from these inputs; an empty pool starts from nothing."""
        self._pool = list(pool) or [b""]
        self._known = len(self._pool)
        self._words = [*words, *(JSON_WORDS if form is Form.JSON else NUMBERS)]
        self._max_bytes = max_bytes
        self._random = Random(seed)
        self._changes: list[Change] = [
            self._flip_bit,
            self._set_byte,
            self._insert_bytes,
            self._delete,
            self._copy,
            self._repeat,
            self._cut,
            self._splice,
            self._insert_word,
            self._overwrite_word,
        ]
        if form is Form.JSON:
            self._changes += [self._replace_token] * 6 + [self._delete_token] * 2

    def keep(self, data: bytes) -> None:
        """Take an input into the pool; when it is full, one that was found before has to go."""
        if len(self._pool) < _MAX_POOL:
            self._pool.append(data)
        else:
            self._pool[self._random.randrange(self._known, _MAX_POOL)] = data

    def next(self) -> bytes:
        """Another input."""
        data = bytearray(self._some(self._pool))
        for _ in range(1 + int(self._random.expovariate(1.0))):
            self._some(self._changes)(data)
        return bytes(data[: self._max_bytes])

    def _some(self, values: Sequence[T]) -> T:
        return values[int(self._random.random() * len(values))]

    def _place(self, data: bytearray) -> int:
        return int(self._random.random() * (len(data) + 1))

    def _span(self, data: bytearray) -> slice:
        """A part of the input: mostly short, at times long."""
        start = self._place(data)
        longest = 8 if self._random.random() < 0.7 else len(data)
        return slice(start, start + 1 + int(self._random.random() * longest))

    def _flip_bit(self, data: bytearray) -> None:
        if data:
            data[int(self._random.random() * len(data))] ^= 1 << int(self._random.random() * 8)

    def _set_byte(self, data: bytearray) -> None:
        if data:
            data[int(self._random.random() * len(data))] = int(self._random.random() * 256)

    def _insert_bytes(self, data: bytearray) -> None:
        at = self._place(data)
        data[at:at] = self._random.randbytes(1 + int(self._random.random() * 8))

    def _delete(self, data: bytearray) -> None:
        del data[self._span(data)]

    def _copy(self, data: bytearray) -> None:
        at = self._place(data)
        data[at:at] = data[self._span(data)]

    def _repeat(self, data: bytearray) -> None:
        """Say a part many times: what is nested gets deep, what is listed gets long."""
        span = self._span(data)
        part = data[span]
        most = self._max_bytes // max(1, len(part))
        data[span] = part * (1 + int(self._random.random() * min(most, 1 << int(self._random.random() * 12))))

    def _cut(self, data: bytearray) -> None:
        del data[self._place(data) :]

    def _splice(self, data: bytearray) -> None:
        """Put a part of another input here."""
        other = bytearray(self._some(self._pool))
        data[self._span(data)] = other[self._span(other)]

    def _insert_word(self, data: bytearray) -> None:
        at = self._place(data)
        data[at:at] = self._some(self._words)

    def _overwrite_word(self, data: bytearray) -> None:
        at = self._place(data)
        word = self._some(self._words)
        data[at : at + len(word)] = word

    def _replace_token(self, data: bytearray) -> None:
        """Put another word, or a token of another input, in the place of a JSON token."""
        token = _TOKEN.search(data, self._place(data))
        if token is None:
            return
        if self._random.random() < 0.7:
            word = self._some(self._words)
        else:
            other = self._some(self._pool)
            found = _TOKEN.search(other, int(self._random.random() * (len(other) + 1)))
            word = found[0] if found else b"0"
        data[token.start() : token.end()] = word

    def _delete_token(self, data: bytearray) -> None:
        token = _TOKEN.search(data, self._place(data))
        if token is not None:
            del data[token.start() : token.end()]
