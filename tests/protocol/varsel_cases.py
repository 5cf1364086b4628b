"""Random questions to VaRSeL's weights, and one digest of the answers: `python -m tests.protocol.varsel_cases 300`.

Run with other CPU features switched off, without numba, or with `--plain` (distances in Python integers), it has to
print the same digest.
"""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.varsel import varsel_shares, varsel_weights


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Updates of d parameters each, which of them are internal, and the budget."""

    updates: NDArray[np.uint32]
    internals: list[bool]
    budget: int


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Near and far, copies, few dimensions, the whole range."""
    rng = np.random.Generator(np.random.Philox(seed))
    for _ in range(count):
        internal = int(rng.integers(1, 6))
        updates = internal + int(rng.integers(0, 15))
        d = int(rng.choice([1, 2, 5, 40, 300]))
        reach = int(rng.choice([1, 4, 1000, 2**20, 2**27, 2**31 - 1]))

        # Every update has a length of its own, and some are copies of others.
        signed = rng.integers(-reach, reach + 1, (updates, d)) >> rng.integers(0, 8, (updates, 1))
        copies = rng.random(updates) < 0.15
        signed[copies] = signed[rng.integers(0, updates, int(copies.sum()))]

        internals = rng.permutation(updates) < internal
        budget = int(rng.choice([0, 1, 2, 4, 10, 100]))
        yield Case((signed + 2**31).astype(np.uint32), internals.tolist(), budget)


def plain_distances(updates: NDArray[np.uint32]) -> list[list[int]]:
    """Squared distances by Python's integers alone."""
    rows: list[list[int]] = updates.tolist()
    return [[_distance(a, b) for b in rows] for a in rows]


def _distance(a: Sequence[int], b: Sequence[int]) -> int:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def digest(count: int, is_plain: bool) -> str:
    """A digest of all weights and shares."""
    answers = hashlib.sha256()
    for case in cases(count):
        distances = (
            plain_distances(case.updates) if is_plain else pairwise_squared_distances(list(case.updates))
        )
        weights = varsel_weights(distances, case.internals, case.budget)
        answers.update(repr((weights, varsel_shares(weights, case.internals))).encode())
    return answers.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest(int(sys.argv[1]), "--plain" in sys.argv) + "\n")
