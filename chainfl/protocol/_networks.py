"""Sorting networks: the same comparisons whatever the values, so that columns are sorted side by side."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

LOW, HIGH, BOTH = 1, 2, 3

Comparator: TypeAlias = tuple[int, int, int]


@lru_cache(maxsize=64)
def selection_network(count: int, kept: frozenset[int]) -> tuple[Comparator, ...]:
    """Comparators (i, j, what) that leave the right values in the `kept` ranks, anything in the others.

    A comparator puts the lower of rows i and j in row i (LOW), the higher in row j (HIGH), or does BOTH.
    """
    needed, network = set(kept), list[Comparator]()
    for low, high in reversed(list(_merge_exchange(count))):
        what = (LOW if low in needed else 0) | (HIGH if high in needed else 0)
        if what:
            network.append((low, high, what))
            needed |= {low, high}
    return tuple(reversed(network))


def _merge_exchange(count: int) -> Iterator[tuple[int, int]]:
    """Batcher's merge exchange for any number of rows (Knuth, TAOCP 3, 5.2.2, algorithm M)."""
    top = 1 << max(count - 1, 1).bit_length() - 1
    span = top
    while span and count > 1:
        reach, offset, distance = top, 0, span
        while True:
            yield from ((i, i + distance) for i in range(count - distance) if i & span == offset)
            if reach == span:
                break
            distance, reach, offset = reach - span, reach // 2, span
        span //= 2
