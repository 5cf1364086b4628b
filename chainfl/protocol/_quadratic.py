"""The minimiser of VaRSeL's variance, proven to its twentieth bit, in integers alone (docs/protocol.md 7.1).

N external updates. Over 0 <= w <= 1 with 1'w <= budget, (A + w'Hw) / (M + 1'w)^2 is to be least, where A >= 1 and H is
symmetric with H - I positive semidefinite. By t = 1 / (M + 1'w) and y = t w that is a strictly convex quadratic
program, so there is one minimiser, and it does not depend on how it is found.

Numbers are Python integers: a value x is held as about x * 2^P. `_search` finds a point, `_error` proves how far the
minimiser can be from it, and the point counts only if every weight rounds the same all over that distance; else P
grows. That ends, for no weight is half-way between two multiples of 2^-20: by Cramer's rule it is an integer over a
determinant, and as H is I modulo 2^20, that is M plus the number of weights at 1, or the number of those between,
modulo 2^20.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import isqrt
from operator import mul
from typing import Final, TypeAlias

from chainfl.errors import InputError

Row: TypeAlias = Sequence[int]
Matrix: TypeAlias = Sequence[Row]

WEIGHT_BITS: Final = 20

_FIRST_BITS: Final = 128
"""Bits of P beyond those of the largest number; doubled until the weights are proven."""
_CLOSE_BITS: Final = 32
"""A weight this many bits of P outside its bounds is on them: more than rounding errors come to."""
_PATIENCE: Final = 10
"""Exchanges of whole groups without progress before updates are exchanged one by one."""


class Place(Enum):
    """Where an update's weight is: at 0, at 1, or between."""

    ZERO = 0
    BETWEEN = 1
    ONE = 2


@dataclass(frozen=True, slots=True)
class Program:
    """What is minimised: (A + w'Hw) / (M + 1'w)^2 with 1'w <= budget."""

    spread: int
    gram: Matrix
    internals: int
    budget: int

    @property
    def size(self) -> int:
        """Bits of the largest number."""
        return max(self.spread, *(abs(each) for row in self.gram for each in row)).bit_length()


def rounded_minimiser(spread: int, gram_NN: Matrix, internals: int, budget: int) -> list[int]:
    """floor(2^20 w + 1/2) for the w that minimises (spread + w'(gram + 2^-20 I)w) / (internals + 1'w)^2.

    Raises:
        InputError: the matrix is not positive semidefinite, so it is no Gram matrix.
    """
    if not gram_NN or spread == 0 or budget == 0:
        return [0] * len(gram_NN)

    scaled = [
        [(each << WEIGHT_BITS) + (j == k) for k, each in enumerate(row)] for j, row in enumerate(gram_NN)
    ]
    program = Program(spread << WEIGHT_BITS, scaled, internals, budget)
    extra = _FIRST_BITS
    while True:
        bits = program.size + extra
        point_N = _search(program, bits)
        rounded = None if point_N is None else _proven(program, point_N, bits)
        if rounded is not None:
            return rounded
        extra *= 2


def _proven(program: Program, point_N: Row, bits: int) -> list[int] | None:
    """The rounded weights, if they are the same everywhere where the minimiser can be."""
    error = _error(program, point_N, bits)
    low_N = [_round(max(0, weight - error), bits) for weight in point_N]
    high_N = [_round(min(1 << bits, weight + error), bits) for weight in point_N]
    return low_N if low_N == high_N else None


def _round(weight: int, bits: int) -> int:
    """The nearest multiple of 2^-20, as an integer."""
    shift = bits - WEIGHT_BITS
    return (weight + (1 << shift - 1)) >> shift


def _error(program: Program, point_N: Row, bits: int) -> int:
    """A bound on the distance from a feasible point to the minimiser, by the duality gap of Frank and Wolfe.

    z = (t, y) has the objective f = (A t^2 + y'Hy) / 2, whose Hessian is at least I. So |z - z*|^2 is at most
    f'(z) (z - z*), and that is at most its largest value over the corners, which are k whole updates each.
    """
    one = 1 << bits
    slopes_N = [sum(map(mul, row, point_N)) for row in program.gram]
    value = program.spread * one * one + sum(map(mul, point_N, slopes_N))
    total = program.internals * one + sum(point_N)

    # The best corner with k updates holds those with the least slopes.
    gap = 0
    corner = program.spread * one
    most = min(program.budget, len(point_N))
    for k, slope in enumerate([0, *sorted(slopes_N)[:most]]):
        corner += slope
        whole = program.internals + k
        gap = max(gap, -((total * corner - value * whole) // (total * whole)))

    # w = y / t moves by at most twice as far as z does, over the least t, which is 1 over this.
    most_total = program.internals + most
    return 2 * most_total * (isqrt(gap * one * one // total) + 1)


def _search(program: Program, bits: int) -> list[int] | None:
    """A feasible point near the minimiser, times 2^bits; None if more bits are needed to find one.

    A face says which weights are 0, which are 1 and which between. Its own minimiser is the program's if nothing is
    wrong with it. So all that is wrong is exchanged, which takes a few steps; where that goes in circles, `_descend`.
    """
    places = [Place.BETWEEN] * len(program.gram)
    fewest = len(places) + 1
    patience = _PATIENCE
    while patience > 0:
        face = _Face.of(program, places, bits)
        level = face.level()
        weights_N = face.weights(level)
        wrong = face.wrong(weights_N, level)
        if not wrong:
            return _feasible(program, weights_N, bits)

        patience = _PATIENCE if len(wrong) < fewest else patience - 1
        fewest = min(fewest, len(wrong))
        places = [wrong.get(j, place) for j, place in enumerate(places)]

    return _descend(program, _feasible(program, weights_N, bits), bits)


def _descend(program: Program, point_N: list[int], bits: int) -> list[int] | None:
    """The same from a feasible point by the primal active-set method: the objective falls with every step.

    From the point towards its face's minimiser. Whatever hits a bound on the way stays there; on arrival the one
    update whose slope is most wrong leaves its bound.
    """
    one = 1 << bits
    places = [_place_of(weight, one) for weight in point_N]
    for _ in range(100 * len(places)):
        face = _Face.of(program, places, bits)
        level = face.level()
        target_N = face.weights(level)
        hit = _first_hit(point_N, target_N, face.between, one)
        if hit is None:
            point_N = _feasible(program, target_N, bits)
            wrong = face.wrong(target_N, level)
            if not wrong:
                return point_N
            places[_worst(program, wrong, target_N, level)] = Place.BETWEEN
            continue

        # Along the line the sum stays within the budget, for it does so at both ends.
        blocked, part = hit
        point_N = [at + (part * (to - at) >> bits) for at, to in zip(point_N, target_N, strict=True)]
        point_N = [min(max(weight, 0), one) for weight in point_N]
        places[blocked] = Place.ONE if target_N[blocked] > one else Place.ZERO
        point_N[blocked] = one if places[blocked] is Place.ONE else 0

    return None


def _feasible(program: Program, weights_N: Row, bits: int) -> list[int]:
    """The weights brought within their bounds and the budget."""
    point_N = [min(max(weight, 0), 1 << bits) for weight in weights_N]
    excess = max(0, sum(point_N) - (program.budget << bits))
    for j, weight in enumerate(point_N):
        taken = min(excess, weight)
        point_N[j] -= taken
        excess -= taken
    return point_N


def _worst(program: Program, wrong: Iterable[int], weights_N: Row, level: int) -> int:
    """The update whose slope is farthest from the level."""
    return max(wrong, key=lambda j: abs(sum(map(mul, program.gram[j], weights_N)) - level))


def _place_of(weight: int, one: int) -> Place:
    return Place.ZERO if weight == 0 else Place.ONE if weight == one else Place.BETWEEN


def _first_hit(point_N: Row, target_N: Row, between: Sequence[int], one: int) -> tuple[int, int] | None:
    """The first weight to reach a bound on the way to the target, and after which part of the way."""
    close = 1 << _CLOSE_BITS
    hits = []
    for j in between:
        way = target_N[j] - point_N[j]
        if target_N[j] < -close:
            hits.append((point_N[j] * one // -way, j))
        elif target_N[j] > one + close:
            hits.append(((one - point_N[j]) * one // way, j))
    if not hits:
        return None
    part, blocked = min(hits)
    return blocked, part


@dataclass(frozen=True, slots=True)
class _Face:
    """A partition: with F the updates between and U those at 1, the weights of F are c * rise - fall."""

    program: Program
    places: Sequence[Place]
    bits: int
    between: Sequence[int]
    whole: Sequence[int]
    factors: "_Factors"
    rise: Row
    fall: Row
    whole_slopes: Row

    @classmethod
    def of(cls, program: Program, places: Sequence[Place], bits: int) -> "_Face":
        """Solve H_FF rise = 1 and H_FF fall = H_FU 1."""
        between = [j for j, place in enumerate(places) if place is Place.BETWEEN]
        whole = [j for j, place in enumerate(places) if place is Place.ONE]
        slopes_N = [sum(row[u] for u in whole) for row in program.gram]
        factors = _Factors.of([[program.gram[i][j] for j in between] for i in between], bits)
        rise_F = factors.solve([1] * len(between))
        fall_F = factors.solve([slopes_N[j] for j in between])
        return cls(program, places, bits, between, whole, factors, rise_F, fall_F, slopes_N)

    def level(self) -> int:
        """The level c at which the face's weights meet the conditions on their sum, with the budget or without it."""
        program = self.program
        fallen = sum(self.fall)

        # Without the budget: c (M + 1'w) = A + w'Hw, which is linear in c once the squares have cancelled.
        apart = sum(self.whole_slopes[u] for u in self.whole) << self.bits
        apart -= sum(fall * self.whole_slopes[j] for j, fall in zip(self.between, self.fall, strict=True))
        below = ((program.internals + len(self.whole)) << self.bits) - fallen
        free = (((program.spread << self.bits) + apart) << self.bits) // below if below > 0 else None
        if not self.between:
            assert free is not None
            return self._corner_level(free)

        # With it: 1'w = budget. Either level is made exact by one step of Newton's, for w is exact at any level.
        risen = sum(self.rise)
        rest = ((program.budget - len(self.whole)) << self.bits) + fallen
        spent = (rest << self.bits) // risen
        if free is None or spent < free:
            return spent + (self._unspent(spent) << self.bits) // risen
        return free - self._imbalance(free) // below

    def _corner_level(self, free: int) -> int:
        """The level with nothing between: where the budget is spent, any that suits those at 1 and is not above."""
        slopes = [self.whole_slopes[u] << self.bits for u in self.whole]
        if len(slopes) < self.program.budget:
            return free
        return (
            min(free, max(slopes)) if len(slopes) == self.program.budget else min(slopes) - (1 << self.bits)
        )

    def _unspent(self, level: int) -> int:
        """What the weights at this level leave of the budget."""
        return (self.program.budget << self.bits) - sum(self.weights(level))

    def _imbalance(self, level: int) -> int:
        """c (M + 1'w) - A - w'Hw at this level, times 4^bits."""
        weights_N = self.weights(level)
        total = (self.program.internals << self.bits) + sum(weights_N)
        slopes_N = [sum(map(mul, row, weights_N)) for row in self.program.gram]
        value: int = (self.program.spread << 2 * self.bits) + sum(map(mul, weights_N, slopes_N))
        return level * total - value

    def weights(self, level: int) -> list[int]:
        """All weights at this level."""
        right_F = [level - (self.whole_slopes[j] << self.bits) for j in self.between]
        near_F = [(level * rise >> self.bits) - fall for rise, fall in zip(self.rise, self.fall, strict=True)]
        weights_N = [int(place is Place.ONE) << self.bits for place in self.places]
        for j, weight in zip(self.between, self.factors.refined(near_F, right_F), strict=True):
            weights_N[j] = weight
        return weights_N

    def wrong(self, weights_N: Row, level: int) -> dict[int, Place]:
        """The updates that have to leave their place, with their next one, given the weights at this level."""
        one = 1 << self.bits
        close = 1 << _CLOSE_BITS
        steep = close << self.program.size
        wrong = {}
        for j, place in enumerate(self.places):
            if place is Place.BETWEEN:
                if weights_N[j] < -close:
                    wrong[j] = Place.ZERO
                elif weights_N[j] > one + close:
                    wrong[j] = Place.ONE
                continue

            slope = sum(map(mul, self.program.gram[j], weights_N)) - level
            if (slope if place is Place.ONE else -slope) > steep:
                wrong[j] = Place.BETWEEN
        return wrong


@dataclass(frozen=True, slots=True)
class _Factors:
    """H = L D L' in numbers times 2^bits: the rows of L and of its transpose without the ones, and D."""

    matrix: Matrix
    bits: int
    lower: Matrix
    upper: Matrix
    pivots: Row

    @classmethod
    def of(cls, matrix: Matrix, bits: int) -> "_Factors":
        """Factorise a symmetric matrix whose eigenvalues are 1 at least."""
        lower: list[list[int]] = []
        pivots: list[int] = []
        for i, row in enumerate(matrix):
            scaled: list[int] = []
            ratios: list[int] = []
            for j in range(i):
                entry = (row[j] << bits) - (sum(map(mul, scaled, lower[j])) >> bits)
                scaled.append(entry)
                ratios.append((entry << bits) // pivots[j])
            pivot = (row[i] << bits) - (sum(map(mul, scaled, ratios)) >> bits)
            if 2 * pivot < 1 << bits:
                raise InputError(
                    f"external update {i + 1}: its distances to the others are not those of any vectors"
                )
            lower.append(ratios)
            pivots.append(pivot)

        upper = [[row[i] for row in lower[i + 1 :]] for i in range(len(lower))]
        return cls(matrix, bits, lower, upper, pivots)

    def solve(self, right: Row) -> list[int]:
        """x * 2^bits with H x = right."""
        scaled = [each << self.bits for each in right]
        return self.refined(self._substituted(scaled), scaled)

    def refined(self, found: Row, right: Row) -> list[int]:
        """A better x * 2^bits with H x * 2^bits = right: one step with the exact residual."""
        missing = [each - sum(map(mul, row, found)) for row, each in zip(self.matrix, right, strict=True)]
        return [x + more for x, more in zip(found, self._substituted(missing), strict=True)]

    def _substituted(self, right: Row) -> list[int]:
        """Forward, through D, and back."""
        found: list[int] = []
        for row, each in zip(self.lower, right, strict=True):
            found.append(each - (sum(map(mul, row, found)) >> self.bits))
        for i in range(len(found) - 1, -1, -1):
            later = sum(map(mul, self.upper[i], found[i + 1 :])) >> self.bits
            found[i] = (found[i] << self.bits) // self.pivots[i] - later
        return found
