"""The kernels over columns in plain numpy, for machines without numba; slower, same results."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.codec._backend import blocks
from chainfl.protocol._networks import Comparator

Table: TypeAlias = Sequence[NDArray[np.uint32]]

_BLOCK = 1 << 13
_HALF = np.uint64(1 << 30)
_SHIFT = np.uint64(31)


def table(rows: Table) -> Table:
    """The rows themselves."""
    return rows


def weigh(rows: Table, shares: NDArray[np.uint32], out: NDArray[np.uint32], start: int, stop: int) -> None:
    """Write (sum of share * row + 2^30) >> 31 to columns start..stop of `out`."""
    for where in blocks(start, stop, _BLOCK):
        out[where] = _weighed([row[where] for row in rows], shares)


def weigh_ranks(
    rows: Table,
    heads: int,
    network: Sequence[Comparator],  # noqa: ARG001 - numpy sorts by itself
    shares: NDArray[np.uint32],
    out: NDArray[np.uint32],
    start: int,
    stop: int,
) -> None:
    """As `weigh`, with the rows after the first `heads` (0 or 1) in ascending order in each column."""
    for where in blocks(start, stop, _BLOCK):
        ordered = np.sort([row[where] for row in rows[heads:]], axis=0)
        out[where] = _weighed([*(row[where] for row in rows[:heads]), *ordered], shares)


def squared_distances(
    rows: Table, pairs: NDArray[np.int64], found: list[list[int]], start: int, stop: int
) -> None:
    """Append the exact squared distance of each pair of rows over columns start..stop to `found`."""
    parts = list(blocks(start, stop, _BLOCK))
    found.append([sum(_square(rows[i][at], rows[j][at]) for at in parts) for i, j in pairs])


def _weighed(rows: Table, shares: NDArray[np.uint32]) -> NDArray[np.uint64]:
    total = np.full(len(rows[0]), _HALF)
    for row, share in zip(rows, shares, strict=True):
        if share:
            total += row.astype(np.uint64) * np.uint64(share)
    return total >> _SHIFT


def _square(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> int:
    squares = (np.maximum(a, b) - np.minimum(a, b)).astype(np.uint64) ** 2
    return int(np.sum(squares & np.uint64(0xFFFFFFFF))) + (int(np.sum(squares >> np.uint64(32))) << 32)
