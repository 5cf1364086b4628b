"""Write vector.json, merkle.json and combine.json: `python tests/vectors/generate.py`.

Everything is computed here with Python integers, fractions and hashlib alone, from fixed seeds, so that the vectors
say what the specification says and not what the library does. README.md describes the layout.
"""

import hashlib
import json
import random
import struct
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

BIAS = 1 << 31
TOTAL = 1 << 31
Columns = dict[str, list[str]]


def files() -> dict[str, str]:
    """The content of each file."""
    makers: dict[str, Callable[[], Columns]] = {
        "vector.json": vector_columns,
        "merkle.json": merkle_columns,
        "combine.json": combine_columns,
    }
    return {name: json.dumps(make(), indent=1) + "\n" for name, make in makers.items()}


def vector_columns() -> Columns:
    """Values, some at the edges, with their fixed-point integers."""
    rng = random.Random("vector")
    rows = [(0.0, 20), (-0.0, 20), (1.0, 0), (-1.0, 31), (1 / 3, 26), (-1e-300, 20)]
    rows += [((2 * k + 1) / 2, 0) for k in range(-3, 3)]  # ties go to the even neighbour
    rows += [(-(2.0**31) / 2**s, s) for s in (0, 20, 26, 31)] + [
        ((2.0**31 - 1) / 2**s, s) for s in (0, 20, 26, 31)
    ]
    rows += [(rng.uniform(-1, 1) * 2.0 ** (31 - s), s) for s in (0, 7, 20, 20, 20, 26, 26, 31)]
    u = [round(Fraction(x) * 2**s) + BIAS for x, s in rows]
    return {
        "float64": ["0x" + struct.pack(">d", x).hex() for x, _ in rows],
        "s": [str(s) for _, s in rows],
        "w": [str(each - BIAS) for each in u],
        "u": [str(each) for each in u],
        "bytes": [_hex32([each]) for each in u],
    }


def merkle_columns() -> Columns:
    """Trees of many sizes and, for each, proofs at the edges, padding leaves included."""
    rng = random.Random("merkle")
    columns: Columns = {
        name: [] for name in ("d", "depth", "parameters", "root", "index", "leaf", "siblings")
    }
    for d in (1, 63, 64, 65, 128, 129, 200, 257, 600):
        u = [rng.choice((0, BIAS, 2**32 - 1, rng.randrange(2**32))) for _ in range(d)]
        depth = (-(-d // 64) - 1).bit_length()
        levels = _levels(_padded_leaves(u, depth))
        for index in sorted({0, (1 << depth) // 2, (d - 1) // 64, (1 << depth) - 1}):
            siblings = b"".join(levels[level][index >> level ^ 1] for level in range(depth))
            row = (str(d), str(depth), _hex32(u), _hex(levels[-1][0]), str(index))
            _append(columns, (*row, _hex(_padded_leaves(u, depth)[index]), _hex(siblings)))
    return columns


def combine_columns() -> Columns:
    """One parameter of the head and of K updates, with shares on updates and on ranks, and what they make."""
    rng = random.Random("combine")
    columns: Columns = {name: [] for name in ("by", "shares", "values", "result")}
    for case in range(60):
        K = (1, 2, 3, 5, 20, 128)[case % 6]
        shares = _random_shares(rng, K, head=case % 4 == 0)
        values = [
            rng.choice((0, 2**32 - 1, BIAS, rng.randrange(2**32), BIAS + rng.randrange(-9, 9)))
            for _ in range(K + 1)
        ]
        for by, ordered in (("update", values), ("rank", [values[0], *sorted(values[1:])])):
            total = sum(p * u for p, u in zip(shares, ordered, strict=True))
            _append(columns, (by, _hex32(shares), _hex32(values), str((total + (1 << 30)) >> 31)))
    return columns


def _random_shares(rng: random.Random, K: int, head: bool) -> list[int]:
    cuts = sorted(rng.choice((0, TOTAL, rng.randrange(TOTAL + 1))) for _ in range(K if head else K - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, TOTAL], strict=True)]
    return parts if head else [0, *parts]


def _padded_leaves(u: list[int], depth: int) -> list[bytes]:
    padded = u + [BIAS] * ((64 << depth) - len(u))
    return [struct.pack(">64I", *padded[at : at + 64]) for at in range(0, len(padded), 64)]


def _levels(leaves: list[bytes]) -> list[list[bytes]]:
    levels = [[hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append(
            [hashlib.sha256(b"\x01" + below[i] + below[i + 1]).digest() for i in range(0, len(below), 2)]
        )
    return levels


def _append(columns: Columns, row: Iterable[str]) -> None:
    for column, cell in zip(columns.values(), row, strict=True):
        column.append(cell)


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _hex32(words: list[int]) -> str:
    return _hex(struct.pack(f">{len(words)}I", *words))


def main() -> int:
    """Write the files beside this script."""
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
