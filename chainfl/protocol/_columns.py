"""Kernels over the columns of K rows, compiled by numba: weighing, ranking, distances.

Rows are read where they lie, through a table of addresses, in either byte order; nothing but one block of
columns is copied. Loops run from 0 over a slice, with the columns innermost, so that LLVM vectorises them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from chainfl.codec._backend import compiled
from chainfl.codec._words import swap_bytes
from chainfl.protocol._networks import BOTH, HIGH, LOW, Comparator

_HALF = np.uint64(1 << 30)
_SHIFT = np.uint64(31)
_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_WEIGH_BLOCK = 4096
_RANK_BYTES = 24 * 1024  # rows of one block stay in the first cache
_DISTANCE_BLOCK = 512
_NEAR = np.uint32(1 << 26)  # rows this near the first differ by less than 2^27: 512 squares fit in 63 bits


@dataclass(frozen=True, slots=True)
class Table:
    """Where rows of equal length lie; holds them, so that they stay there."""

    rows: tuple[NDArray[np.uint32], ...]
    addresses: NDArray[np.uint64]
    foreign: NDArray[np.bool_]


def table(rows: Sequence[NDArray[np.uint32]]) -> Table:
    """The table of contiguous rows in either byte order."""
    addresses = np.array([row.__array_interface__["data"][0] for row in rows], np.uint64)
    return Table(tuple(rows), addresses, np.array([row.dtype != np.uint32 for row in rows], np.bool_))


def weigh(rows: Table, shares: NDArray[np.uint32], out: NDArray[np.uint32], start: int, stop: int) -> None:
    """Write (sum of share * row + 2^30) >> 31 to columns start..stop of `out`."""
    fours = np.arange(-(-len(shares) // 4) * 4) % len(shares)  # short of a multiple of four, rows come twice
    shares_4 = np.where(np.arange(len(fours)) < len(shares), shares[fours], np.uint32(0))
    _weigh(rows.addresses[fours], rows.foreign[fours], shares_4, start, stop, out)


def weigh_ranks(
    rows: Table,
    heads: int,
    network: Sequence[Comparator],
    shares: NDArray[np.uint32],
    out: NDArray[np.uint32],
    start: int,
    stop: int,
) -> None:
    """As `weigh`, with the rows after the first `heads` (0 or 1) in ascending order in each column."""
    comparators = np.array(network, np.int64).reshape(-1, 3)
    _weigh_ranks(rows.addresses, rows.foreign, heads, comparators, shares, start, stop, out)


def squared_distances(
    rows: Table, pairs: NDArray[np.int64], found: list[list[int]], start: int, stop: int
) -> None:
    """Append the exact squared distance of each pair of rows over columns start..stop to `found`."""
    low, high = np.zeros((2, len(pairs)), np.uint64)
    _squared_distances(rows.addresses, rows.foreign, pairs, start, stop, low, high)
    found.append([int(a) + (int(b) << 32) for a, b in zip(low, high, strict=True)])


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
    """The address as a pointer to 32-bit words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.inttoptr(args[0], ir.PointerType(ir.IntType(32)))

    return types.CPointer(types.uint32)(types.uint64), codegen  # type: ignore[no-untyped-call]


@numba.njit
def _row(address: Any, at: int, size: int) -> Any:
    return carray(_pointer(address + np.uint64(4 * at)), size)  # type: ignore[call-arg]


@numba.njit
def _load(address: Any, is_foreign: Any, at: int, into: Any) -> None:
    row = _row(address, at, into.size)
    if is_foreign:
        for i in range(into.size):
            into[i] = swap_bytes(row[i])
    else:
        for i in range(into.size):
            into[i] = row[i]


@numba.njit
def _add(total: Any, row: Any, share: Any) -> None:
    for i in range(total.size):
        total[i] += np.uint64(share) * np.uint64(row[i])


@numba.njit
def _add_four(total: Any, a: Any, b: Any, c: Any, d: Any, shares: Any) -> None:
    """Four rows at once, for the totals then travel once instead of four times."""
    p, q, r, s = np.uint64(shares[0]), np.uint64(shares[1]), np.uint64(shares[2]), np.uint64(shares[3])
    for i in range(total.size):
        total[i] += p * np.uint64(a[i]) + q * np.uint64(b[i]) + r * np.uint64(c[i]) + s * np.uint64(d[i])


@numba.njit
def _round(total: Any, out: Any) -> None:
    for i in range(total.size):
        out[i] = np.uint32((total[i] + _HALF) >> _SHIFT)


@numba.njit
def _native(address: Any, is_foreign: Any, at: int, spare: Any) -> Any:
    """The row where it lies or, in the other byte order, its copy in `spare`."""
    if is_foreign:
        _load(address, True, at, spare)
        return spare
    return _row(address, at, spare.size)


@compiled("void(uint64[::1], boolean[::1], uint32[::1], int64, int64, uint32[::1])")
def _weigh(addresses, foreign, shares, start, stop, out):  # type: ignore[no-untyped-def]
    totals = np.empty(_WEIGH_BLOCK, np.uint64)
    spare = np.empty((4, _WEIGH_BLOCK), np.uint32)
    for at in range(start, stop, _WEIGH_BLOCK):
        size = min(_WEIGH_BLOCK, stop - at)
        total = totals[:size]
        total[:] = 0
        for k in range(0, addresses.size, 4):
            a = _native(addresses[k], foreign[k], at, spare[0, :size])
            b = _native(addresses[k + 1], foreign[k + 1], at, spare[1, :size])
            c = _native(addresses[k + 2], foreign[k + 2], at, spare[2, :size])
            d = _native(addresses[k + 3], foreign[k + 3], at, spare[3, :size])
            _add_four(total, a, b, c, d, shares[k : k + 4])
        _round(total, out[at : at + size])


@compiled("void(uint64[::1], boolean[::1], int64, int64[:, ::1], uint32[::1], int64, int64, uint32[::1])")
def _weigh_ranks(addresses, foreign, heads, network, shares, start, stop, out):  # type: ignore[no-untyped-def]
    count = addresses.size
    width = max(32, _RANK_BYTES // (4 * count) // 32 * 32)
    rows = np.empty((count, width), np.uint32)
    totals = np.empty(width, np.uint64)

    # A block of columns stays in the cache while all comparators of the network pass over it.
    for at in range(start, stop, width):
        size = min(width, stop - at)
        for k in range(count):
            _load(addresses[k], foreign[k], at, rows[k, :size])

        for c in range(len(network)):
            low, high = rows[heads + network[c, 0], :size], rows[heads + network[c, 1], :size]
            if network[c, 2] == BOTH:
                for i in range(size):
                    a, b = low[i], high[i]
                    low[i], high[i] = min(a, b), max(a, b)
            elif network[c, 2] == LOW:
                for i in range(size):
                    low[i] = min(low[i], high[i])
            elif network[c, 2] == HIGH:
                for i in range(size):
                    high[i] = max(low[i], high[i])

        total = totals[:size]
        total[:] = 0
        for k in range(count):
            if shares[k]:
                _add(total, rows[k, :size], shares[k])
        _round(total, out[at : at + size])


@numba.njit
def _is_near(rows: Any, size: int) -> Any:
    """Whether every row differs from the first by less than _NEAR in every column."""
    far = np.uint32(0)
    first = rows[0, :size]
    for k in range(1, len(rows)):
        row = rows[k, :size]
        for i in range(size):
            far = np.uint32(far | np.uint32(max(first[i], row[i]) - min(first[i], row[i])))
    return far < _NEAR


@numba.njit
def _near_square(a: Any, b: Any) -> Any:
    """The squared distance of rows that are near; it fits in one word of 64 bits."""
    total = np.int64(0)
    for i in range(a.size):
        difference = np.int64(np.int32(np.uint32(a[i] - b[i])))
        total += difference * difference
    return np.uint64(total)


@numba.njit
def _far_square(a: Any, b: Any) -> Any:
    """The squared distance of any rows, as the sums of the squares' low and high halves."""
    low, high = np.uint64(0), np.uint64(0)
    for i in range(a.size):
        difference = np.uint64(np.uint32(max(a[i], b[i]) - min(a[i], b[i])))
        square = difference * difference
        low += square & _LOW_WORD
        high += square >> _WORD
    return low, high


@compiled("void(uint64[::1], boolean[::1], int64[:, ::1], int64, int64, uint64[::1], uint64[::1])")
def _squared_distances(addresses, foreign, pairs, start, stop, low, high):  # type: ignore[no-untyped-def]
    rows = np.empty((addresses.size, _DISTANCE_BLOCK), np.uint32)
    for at in range(start, stop, _DISTANCE_BLOCK):
        size = min(_DISTANCE_BLOCK, stop - at)
        for k in range(addresses.size):
            _load(addresses[k], foreign[k], at, rows[k, :size])

        is_near = _is_near(rows, size)
        for p in range(len(pairs)):
            a, b = rows[pairs[p, 0], :size], rows[pairs[p, 1], :size]
            if is_near:
                square = _near_square(a, b)
                low[p] += square & _LOW_WORD
                high[p] += square >> _WORD
            else:
                more_low, more_high = _far_square(a, b)
                low[p] += more_low
                high[p] += more_high
