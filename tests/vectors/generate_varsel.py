"""Write varsel.json: `python tests/vectors/generate_varsel.py`.

The weights are found by trying every face of the feasible set with Python's fractions: which weights are 0, which are
1, whether the budget is spent. Each face has one stationary point, and the feasible one with the least variance is the
minimiser. So the vectors say what docs/protocol.md 7.1 says and not what the library does. README.md has the layout.
"""

import itertools
import json
import random
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

S = 1 << 20
TOTAL = 1 << 31
Matrix = Sequence[Sequence[Fraction]]
Columns = dict[str, list[str]]


def files() -> dict[str, str]:
    """The content of the file."""
    return {"varsel.json": json.dumps(varsel_columns(), indent=1) + "\n"}


def varsel_columns() -> Columns:
    """Updates of a few parameters with the weights and shares that they get."""
    names = ("dimension", "updates", "internals", "included", "budget", "distances", "weights", "shares")
    columns: Columns = {name: [] for name in names}
    for vectors, internals, included, budget in _scenes():
        kept = [vector for vector, counts in zip(vectors, included, strict=True) if counts]
        inside = [flag for flag, counts in zip(internals, included, strict=True) if counts]
        weights = weights_of(kept, inside, budget)
        shares = iter(shares_of(weights, inside))
        distances = [_distance(a, b) for a in kept for b in kept]
        row = (
            str(len(vectors[0])),
            _hex([x for vector in vectors for x in vector], 4),
            _bits(internals),
            _bits(included),
            str(budget),
            _hex(distances, 16),
            _hex(weights, 4),
            _hex([0, *(next(shares) if counts else 0 for counts in included)], 4),
        )
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    return columns


def weights_of(vectors: Sequence[Sequence[int]], internals: Sequence[bool], budget: int) -> list[int]:
    """2^20 for an internal update, floor(2^20 w + 1/2) for an external one, with at most 2^20 budget in all."""
    inside = [vector for vector, is_internal in zip(vectors, internals, strict=True) if is_internal]
    outside = [vector for vector, is_internal in zip(vectors, internals, strict=True) if not is_internal]
    M = len(inside)
    mean = [Fraction(sum(column), M) for column in zip(*inside, strict=True)]
    spread = sum((x - m) ** 2 for vector in inside for x, m in zip(vector, mean, strict=True))
    apart = [[x - m for x, m in zip(vector, mean, strict=True)] for vector in outside]
    gram = [[sum(map(Fraction.__mul__, a, b), Fraction(0)) for b in apart] for a in apart]
    for j, row in enumerate(gram):
        row[j] += Fraction(1, 2 * M * M * S)

    found = [_round_half_up(w * S) for w in minimiser(Fraction(spread), gram, M, budget)]
    excess = sum(found) - budget * S
    for j in reversed([j for j, weight in enumerate(found) if weight > 0]):
        if excess > 0:
            found[j] -= 1
            excess -= 1
    external = iter(found)
    return [S if is_internal else next(external) for is_internal in internals]


def shares_of(weights: Sequence[int], internals: Sequence[bool]) -> list[int]:
    """q for an internal update, floor(q W / S) for an external one, the rest to the first internal one."""
    q = TOTAL * S // sum(weights)
    shares = [q if inside else q * weight // S for weight, inside in zip(weights, internals, strict=True)]
    shares[list(internals).index(True)] += TOTAL - sum(shares)
    return shares


def minimiser(spread: Fraction, gram: Matrix, M: int, budget: int) -> list[Fraction]:
    """The w within [0, 1] and the budget where (a + w'Gw) / (M + 1'w)^2 is least."""
    count = len(gram)

    def variance(w: Sequence[Fraction]) -> Fraction:
        slopes = [sum(map(Fraction.__mul__, row, w), Fraction(0)) for row in gram]
        return (spread + sum(map(Fraction.__mul__, w, slopes))) / (M + sum(w)) ** 2

    best = [Fraction(0)] * count
    for places in itertools.product((0, 1, None), repeat=count):
        for w in _stationary(spread, gram, M, budget, places):
            inside = all(0 <= each <= 1 for each in w) and sum(w) <= budget
            if inside and variance(w) < variance(best):
                best = w
    return best


def _stationary(
    spread: Fraction, gram: Matrix, M: int, budget: int, places: Sequence[int | None]
) -> Iterator[list[Fraction]]:
    """The stationary points of a face: where the budget plays no part, and where it is spent."""
    free = [j for j, place in enumerate(places) if place is None]
    ones = [j for j, place in enumerate(places) if place == 1]
    slopes = [sum((row[u] for u in ones), Fraction(0)) for row in gram]
    block = [[gram[i][j] for j in free] for i in free]

    # In t and y, with y = t for the ones: least t^2 (a + 1'G1) + 2 t y'G1 + y'Gy where (M + #ones) t + 1'y = 1.
    first = [spread + sum((slopes[u] for u in ones), Fraction(0)), *(slopes[j] for j in free)]
    rows = [first, *([slopes[j], *row] for j, row in zip(free, block, strict=True))]
    solved = _solve(rows, [Fraction(M + len(ones)), *([Fraction(1)] * len(free))])
    if solved is not None and solved[0]:
        yield _filled(places, [y / solved[0] for y in solved[1:]])

    # With 1'w = budget the denominator is fixed: least w'Gw, with a multiplier for the sum.
    bordered = [[*row, Fraction(-1)] for row in block] + [[*([Fraction(1)] * len(free)), Fraction(0)]]
    solved = _solve(bordered, [*(-slopes[j] for j in free), Fraction(budget - len(ones))]) if free else None
    if solved is not None:
        yield _filled(places, solved[:-1])


def _filled(places: Sequence[int | None], free: Sequence[Fraction]) -> list[Fraction]:
    values = iter(free)
    return [next(values) if place is None else Fraction(place) for place in places]


def _solve(rows: Matrix, right: Sequence[Fraction]) -> list[Fraction] | None:
    """Gauss and Jordan; None if the matrix is singular."""
    system = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for column in range(len(system)):
        at = next((i for i in range(column, len(system)) if system[i][column]), None)
        if at is None:
            return None
        system[column], system[at] = system[at], system[column]
        pivot = system[column][column]
        system[column] = [each / pivot for each in system[column]]
        for i, row in enumerate(system):
            if i != column and row[column]:
                factor = row[column]
                system[i] = [a - factor * b for a, b in zip(row, system[column], strict=True)]
    return [row[-1] for row in system]


Scene = tuple[list[list[int]], list[bool], list[bool], int]


def _scenes() -> Iterator[Scene]:
    """Cases by hand first, then random ones: near and far, copies, one line, the whole range, some not included."""
    zero, one = 1 << 31, (1 << 31) + 1
    yield [[zero], [zero + 4], [zero + 3]], [True, True, False], [True] * 3, 1
    yield [[zero], [zero + 4], [zero + 10]], [True, True, False], [True] * 3, 1  # useful in part
    yield [[zero], [zero], [one]], [True, True, False], [True] * 3, 1  # no spread
    yield [[zero], [one], [zero]], [True, False, False], [True] * 3, 2  # one internal update
    yield (
        [[zero], [one + 2], [zero + 9], [zero - 6]],
        [True, True, False, False],
        [True] * 4,
        2,
    )  # they cancel
    yield [[0], [2**32 - 1], [2**31]], [True, True, False], [True] * 3, 0  # no budget
    yield [[zero], [one], [2**32 - 1], [2**32 - 1]], [True, True, False, False], [True] * 4, 2  # useless
    yield [[zero, 0], [one, 9], [zero, 4]], [True, True, False], [True] * 3, 99  # more budget than updates
    six = [[zero - 50, zero], [zero + 50, zero], *([zero, zero + 3] for _ in range(6))]
    yield (
        six,
        [True] * 2 + [False] * 6,
        [True] * 8,
        1,
    )  # six copies share the budget, and rounding would exceed it
    yield six[1:3] + six[:1], [True, False, True], [True] * 3, 1  # internals need not come first
    yield [[zero], [zero], [zero + 2**20 + 2]], [True, False, True], [True, True, True], 1

    rng = random.Random("varsel")
    for case in range(60):
        external = case % 6
        count = rng.choice((2, 2, 3, 5)) + external
        d = rng.choice((1, 2, 3, 8))
        reach = rng.choice((1, 3, 50, 10**4, 10**6, 2**31 - 1))
        vectors = [[zero + rng.randint(-reach, reach) for _ in range(d)] for _ in range(count)]
        if case % 5 == 4:
            vectors[-1] = list(vectors[rng.randrange(count)])
        internals = [k < count - external for k in range(count)]
        rng.shuffle(internals)
        included = [is_internal or rng.random() < 0.9 for is_internal in internals]
        yield vectors, internals, included, rng.choice((0, 1, 1, 2, 3, 10))


def _distance(a: Sequence[int], b: Sequence[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def _round_half_up(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def _hex(numbers: Sequence[int], size: int) -> str:
    return "0x" + b"".join(number.to_bytes(size, "big") for number in numbers).hex()


def _bits(flags: Sequence[bool]) -> str:
    return str(sum(1 << i for i, flag in enumerate(flags) if flag))


def main() -> int:
    """Write the file beside this script."""
    for name, content in files().items():
        (Path(__file__).parent / name).write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
