"""Write vector, merkle, combine, losses and scores .json: `python tests/vectors/generate.py`.

Everything is computed here with Python integers, fractions and hashlib alone, from fixed seeds, so that the vectors
say what the specification says and not what the library does. README.md describes the layout.
"""

import hashlib
import json
import math
import random
import struct
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

BIAS = 1 << 31
LOSS, DISTANCE, BIT = 0, 1, 2
MEDIAN, MEAN = 0, 1
NONE = {LOSS: 2**64 - 1, DISTANCE: 2**128 - 1, BIT: 0}
NO_SCORE = 2**128 - 1
TOTAL = 1 << 31
Columns = dict[str, list[str]]


def files() -> dict[str, str]:
    """The content of each file."""
    makers: dict[str, Callable[[], Columns]] = {
        "vector.json": vector_columns,
        "merkle.json": merkle_columns,
        "combine.json": combine_columns,
        "losses.json": losses_columns,
        "scores.json": scores_columns,
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


def losses_columns() -> Columns:
    """Losses and accuracies as a validator measures them, and the entries that it posts."""
    rng = random.Random("losses")
    worst = 2.0**64 / 1e12
    values = [0.0, -0.0, 0.5e-12, 1.5e-12, 2.5e-12, 1.0, 2.302585092994046, 1 / 3, 1e-320]
    values += [worst / 2, worst * (1 - 2**-52), worst, 1e300, -1e-12, -5.0]
    values += [float("inf"), float("-inf"), float("nan")]
    values += [rng.uniform(0, 10.0**power) for power in range(-13, 8)]
    columns: Columns = {name: [] for name in ("float64", "loss", "correct", "samples", "accuracy")}
    for value in values:
        samples = rng.choice((1, 3, 7, 300, 10_000))
        correct = rng.choice((0, samples, rng.randint(0, samples)))
        scaled = value * 1e12  # rounded to float64, as it stands in the specification
        fits = math.isfinite(scaled) and 0 <= round(Fraction(scaled)) < 2**64 - 2
        loss = round(Fraction(scaled)) if fits else 2**64 - 2
        missed = 10**12 - correct * 10**12 // samples
        _append(columns, (_hex(struct.pack(">d", value)), str(loss), str(correct), str(samples), str(missed)))
    return columns


def scores_columns() -> Columns:
    """What members of a committee revealed, and what it decides: inclusion, statistics, the head's, deviations."""
    rng = random.Random("scores")
    names = ("kind", "statistic", "committee", "updates", "reveals", "included", "statistics", "head")
    columns: Columns = {name: [] for name in (*names, "dev_cap", "deviations", "withheld", "head_withheld")}
    for case in range(48):
        kind, statistic, C = case % 3, case // 3 % 2, (3, 5, 7, 9)[case // 6 % 4]
        R, revealed = rng.choice((0, 1, 2, 8, 9, 20)), rng.randint(C // 2 + 1, C)
        heads = [rng.choice((2**64 - 1, 2**64 - 2, 10**12, rng.randrange(10**13))) for _ in range(revealed)]
        rows = [[_random_score(rng, kind) for _ in range(R)] for _ in range(revealed)]
        cap, factor = rng.choice((0, 10**15, 10**18, 2**128 - 1)), 1 if kind == DISTANCE else 10**6
        numbers = [[row[i] for row in rows if row[i] != NONE[kind]] for i in range(R)]
        kept = [i for i in range(R) if len(numbers[i]) > C // 2]
        found = [
            0 if kind == BIT or i not in kept else _statistic(numbers[i], statistic, factor, C)
            for i in range(R)
        ]
        withheld = [i for i in range(R) if revealed - len(numbers[i]) > C // 2]
        told = [head for head in heads if head != 2**64 - 1]
        head_score = _statistic(told, statistic, 10**6, C) if len(told) > C // 2 else NO_SCORE
        deviations = [_deviation(row, found, kept, kind, cap) for row in rows]
        reveals = b"".join(_score_bytes(head, row, kind) for head, row in zip(heads, rows, strict=True))
        decided = (
            str(sum(1 << i for i in kept)),
            _hex256(found),
            str(head_score),
            str(cap),
            _hex256(deviations),
            str(sum(1 << i for i in withheld)),
            str(int(revealed - len(told) > C // 2)),
        )
        _append(columns, (*map(str, (kind, statistic, C, R)), _hex(reveals), *decided))
    return columns


def _random_score(rng: random.Random, kind: int) -> int:
    if kind == BIT:
        return int(rng.random() < 0.8)
    return rng.choice((NONE[kind], NONE[kind] - 1, 0, *(rng.randrange(10**13) for _ in range(9))))


def _score_bytes(head: int, row: list[int], kind: int) -> bytes:
    if kind == BIT:
        bits = sum(bit << i for i, bit in enumerate(row))
        return head.to_bytes(8, "big") + bits.to_bytes(-(-len(row) // 8), "little")
    return head.to_bytes(8, "big") + b"".join(x.to_bytes(8 if kind == LOSS else 16, "big") for x in row)


def _statistic(numbers: list[int], statistic: int, factor: int, C: int) -> int:
    """The mean of the numbers, or the median over all C seats, one without a number counting as infinite."""
    if statistic == MEAN:
        return sum(numbers) * factor // len(numbers)
    return sorted(numbers)[C // 2] * factor


def _deviation(row: list[int], found: list[int], kept: list[int], kind: int, cap: int) -> int:
    factor = {LOSS: 10**6, DISTANCE: 1, BIT: 0}[kind]
    gaps = [cap if row[i] == NONE[kind] else min(cap, abs(row[i] * factor - found[i])) for i in kept]
    return sum(gaps) // len(gaps) if gaps else 0


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


def _hex256(words: list[int]) -> str:
    return _hex(b"".join(word.to_bytes(32, "big") for word in words))


def main() -> int:
    """Write the files beside this script."""
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
