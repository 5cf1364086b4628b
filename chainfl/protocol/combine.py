"""Combining updates with shares, exactly (docs/protocol.md 2.4).

K updates and the head, D parameters each. Shares p_0 (the head's) to p_K are integers that sum to 2^31; per
parameter u' = (sum p_i * u_i + 2^30) >> 31, below 2^63 and so exact in 64 bits. Coordinate-wise rules sort
the K values of a parameter and put the shares on ranks: one formula, one proof.

An input is an array of uint32 in either byte order (`codec.vector.view_bytes` makes one of canonical bytes, a
memmap is one too), or a `Readable` that fetches slices, of which one chunk is held at a time.
"""

import itertools
import operator
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.codec._backend import blocks, has_numba, in_parallel
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, LengthError, SharesError
from chainfl.protocol import _plain_columns
from chainfl.protocol._networks import selection_network

TOTAL = 1 << 31
CHUNK = 1 << 18  # parameters read at a time: 2^20 bytes, as models are stored

_GRAIN = 1 << 14


class Readable(Protocol):
    """A model that is read in slices, such as one that lies in a blob store."""

    def __len__(self) -> int:
        """How many parameters there are."""

    def __getitem__(self, part: slice, /) -> NDArray[np.uint32]:
        """The parameters of a slice, in native or big-endian order."""


Input: TypeAlias = Vector | Readable
Rows: TypeAlias = list[NDArray[np.uint32]]
Work: TypeAlias = Callable[[int, int], None]


def combine(
    head: Input | None,
    updates: Sequence[Input | None],
    shares: Sequence[int],
    *,
    out: Vector | None = None,
    threads: int | None = None,
    chunk: int | None = None,
) -> Vector:
    """The model made by shares p_0 (head) and p_1..p_K (updates); what has no share is not read, may be None.

    Raises:
        SharesError: shares are negative, miscounted, or do not sum to 2^31.
        LengthError: inputs differ in length.
    """
    shares = check_shares(shares, len(updates))
    # What has no share is left out, so that its bytes need not be fetched.
    parts = [(each, share) for each, share in zip((head, *updates), shares, strict=True) if share]
    inputs = _present([each for each, _ in parts])
    shares_K = np.array([share for _, share in parts], np.uint32)
    u_D = _output(out, _common_length(inputs))
    kernels = _kernels()

    def work(where: slice, rows: Rows) -> Work:
        return partial(kernels.weigh, kernels.table(rows), shares_K, u_D[where])

    _each_chunk(inputs, work, threads, chunk)
    return u_D


def combine_ranks(
    head: Input | None,
    updates: Sequence[Input],
    shares: Sequence[int],
    *,
    out: Vector | None = None,
    threads: int | None = None,
    chunk: int | None = None,
) -> Vector:
    """As `combine`, with p_1..p_K on the ascending ranks of each parameter (Yin et al., 2018).

    Raises:
        SharesError: shares are negative, miscounted, or do not sum to 2^31.
        LengthError: inputs differ in length.
    """
    shares = check_shares(shares, len(updates))
    # The head takes no part in the ranking: it is a row of its own in front, where it has a share.
    heads = 1 if shares[0] else 0
    inputs = _present([*([head] * heads), *updates])
    shares_K = np.array(shares[1 - heads :], np.uint32)
    # Only ranks with a share are sorted into place; the network leaves the others as they fall.
    network = selection_network(len(updates), frozenset(k for k, share in enumerate(shares[1:]) if share))
    u_D = _output(out, _common_length(inputs))
    kernels = _kernels()

    def work(where: slice, rows: Rows) -> Work:
        return partial(kernels.weigh_ranks, kernels.table(rows), heads, network, shares_K, u_D[where])

    _each_chunk(inputs, work, threads, chunk)
    return u_D


def check_shares(shares: Sequence[int], updates: int) -> tuple[int, ...]:
    """The shares, refused unless they are p_0..p_K, non-negative, with sum 2^31."""
    if len(shares) != updates + 1:
        raise SharesError(f"{len(shares)} shares for {updates} updates: give p_0 and one each, {updates + 1}")
    whole = tuple(_whole_share(index, share) for index, share in enumerate(shares))
    if sum(whole) != TOTAL:
        raise SharesError(f"shares sum to {sum(whole)}, not to 2^31 = {TOTAL}")
    return whole


def _whole_share(index: int, share: int) -> int:
    """The share as a Python integer, for sums of numpy's would wrap around."""
    try:
        whole = operator.index(share)
    except TypeError:
        raise SharesError(f"share p_{index} is {share!r}: shares are integers") from None
    if whole < 0:
        raise SharesError(f"share p_{index} is {whole}: shares are not negative")
    return whole


def squared_distances(
    a: Input, others: Sequence[Input], *, threads: int | None = None, chunk: int | None = None
) -> list[int]:
    """The exact squared distance of `a` to each of the others, in units of the fixed-point step."""
    pairs = [(0, k) for k in range(1, len(others) + 1)]
    return _pair_distances([a, *others], pairs, threads, chunk)


def pairwise_squared_distances(
    updates: Sequence[Input], *, threads: int | None = None, chunk: int | None = None
) -> list[list[int]]:
    """The K by K exact squared distances between updates, zero on the diagonal."""
    K = len(updates)
    pairs = list(itertools.combinations(range(K), 2))
    matrix = [[0] * K for _ in range(K)]
    for (i, j), distance in zip(pairs, _pair_distances(updates, pairs, threads, chunk), strict=True):
        matrix[i][j] = matrix[j][i] = distance
    return matrix


def _pair_distances(
    inputs: Sequence[Input], pairs: list[tuple[int, int]], threads: int | None, chunk: int | None
) -> list[int]:
    if not pairs:
        return []
    kernels = _kernels()
    pairs_P2 = np.array(pairs, np.int64)
    found = list[list[int]]()

    def work(_: slice, rows: Rows) -> Work:
        return partial(kernels.squared_distances, kernels.table(rows), pairs_P2, found)

    _each_chunk(_present(inputs), work, threads, chunk)
    # Chunks give partial sums as Python integers: a sum over all parameters can pass 64 bits.
    return [sum(parts) for parts in zip(*found, strict=True)] if found else [0] * len(pairs)


def _each_chunk(
    inputs: list[Input], work: Callable[[slice, Rows], Work], threads: int | None, chunk: int | None
) -> None:
    """Do the work on the rows of the inputs: all at once where they can be read in place, else chunk by chunk."""
    d = _common_length(inputs)
    if chunk is not None and chunk < 1:
        raise InputError(f"chunk is {chunk}: give 1 or more parameters")
    chunk = chunk or (d if all(map(_is_in_place, inputs)) else CHUNK)
    for where in blocks(
        0, d, chunk
    ):  # no name holds the rows, so that a chunk is gone before the next is read
        in_parallel(work(where, _rows(inputs, where)), where.stop - where.start, _GRAIN, threads)


def _rows(inputs: list[Input], where: slice) -> Rows:
    return [_row(each[where], where) for each in inputs]


def _row(part: NDArray[np.uint32], where: slice) -> NDArray[np.uint32]:
    if part.shape != (where.stop - where.start,):
        raise LengthError(f"parameters {where.start}..{where.stop - 1} came in shape {part.shape}")
    if part.dtype.newbyteorder("=") != np.uint32:
        raise InputError(f"a vector holds uint32, not {part.dtype}")
    return np.require(part, requirements=["C", "A"])


def _is_in_place(each: Input) -> bool:
    # Big-endian counts too: kernels swap as they read.
    return isinstance(each, np.ndarray) and each.flags.c_contiguous and each.flags.aligned


def _present(inputs: Sequence[Input | None]) -> list[Input]:
    missing = [index for index, each in enumerate(inputs) if each is None]
    if missing:
        raise InputError(f"input {missing[0]} of those with a share is missing: fetch it first")
    return [each for each in inputs if each is not None]


def _common_length(inputs: list[Input]) -> int:
    d = len(inputs[0])
    if d == 0:
        raise LengthError("d is 0: a model has at least one parameter")
    for index, each in enumerate(inputs):
        if len(each) != d:
            raise LengthError(f"input {index} has {len(each)} parameters, the first one {d}")
    return d


def _output(out: Vector | None, d: int) -> Vector:
    if out is None:
        return np.empty(d, np.uint32)
    if out.shape != (d,):
        raise LengthError(f"out has shape {out.shape}: {d} parameters are to be written")
    if out.dtype != np.uint32 or not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable):
        raise InputError(f"out must be a writable, contiguous array of uint32, not {out.dtype}")
    return out


def _kernels() -> ModuleType:
    if not has_numba():
        return _plain_columns
    from chainfl.protocol import _columns

    return _columns
