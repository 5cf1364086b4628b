"""Rules on each parameter by itself, and the making of vectors from weights. All in exact integers.

J inputs, K updates, D parameters.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import Vector, from_signed, to_signed
from chainfl.errors import InputError
from chainfl.protocol.combine import combine, combine_ranks
from chainfl.protocol.shares import equal
from chainfl.sim.robust.geometry import Mixes, Weights, added
from chainfl.sim.robust.linear import bulyan_choice
from chainfl.sim.robust.pre import Values
from chainfl.types import TOTAL

_CHUNK: Final = 1 << 16
_BITS: Final = 31


def median(mixes: Mixes, values: Values) -> Vector:
    """The median of each parameter (Yin et al., ICML 2018), on the ranks that the contract proves."""
    del values
    vectors = made(mixes)
    count = len(vectors)
    return _on_ranks(mixes, vectors, range((count - 1) // 2, count // 2 + 1))


def trimmed_mean(mixes: Mixes, values: Values) -> Vector:
    """The mean of each parameter without its b lowest and b highest (Yin et al., ICML 2018)."""
    vectors = made(mixes)
    b = int(values["b"])
    return _on_ranks(mixes, vectors, range(b, len(vectors) - b))


def _on_ranks(mixes: Mixes, vectors: Sequence[Vector], kept: range) -> Vector:
    """The kept ranks of each parameter share alike."""
    shares = equal([rank in kept for rank in range(len(vectors))], TOTAL)
    return combine_ranks(mixes.updates.head, vectors, (0, *shares))


def bulyan(mixes: Mixes, values: Values) -> Vector:
    """Krum chooses θ = J - 2f; each parameter is the mean of the θ - 2f nearest its median (El Mhamdi et al., 2018)."""
    f = int(values["f"])
    chosen = bulyan_choice(mixes, f)
    vectors = [each for j, each in enumerate(made(mixes)) if j in chosen]
    kept = len(vectors) - 2 * f

    parts = []
    for start in range(0, len(vectors[0]), _CHUNK):
        part_TD = np.stack([to_signed(each[start : start + _CHUNK]) for each in vectors]).astype(np.int64)
        parts.append(near_the_median(part_TD, kept))
    return from_signed(np.concatenate(parts))


def near_the_median(values_TD: NDArray[np.int64], kept: int) -> NDArray[np.int64]:
    """Each column's mean, rounded down, of the values nearest its median; of two as near the lower one counts."""
    ordered_TD = np.sort(values_TD, axis=0)
    count = len(ordered_TD)
    doubled_D = ordered_TD[(count - 1) // 2] + ordered_TD[count // 2]

    gaps_TD = np.abs(2 * ordered_TD - doubled_D)
    nearest = np.argsort(gaps_TD, axis=0, kind="stable")[:kept]
    found: NDArray[np.int64] = np.take_along_axis(ordered_TD, nearest, axis=0).sum(axis=0) // kept
    return found


def made(mixes: Mixes) -> list[Vector]:
    """The mixes as vectors: the updates themselves where nothing was mixed."""
    updates = mixes.updates
    if np.array_equal(mixes.weights, np.eye(len(updates))):
        return list(updates.vectors)
    return [weighed(updates.head, updates.vectors, row_K)[1] for row_K in mixes.weights]


def weighed(head: Vector, vectors: Sequence[Vector], weights_K: Weights) -> tuple[tuple[int, ...], Vector]:
    """The head plus the weighted steps, as shares (units of 2^-31, the head's first) and the vector they make."""
    shares = shares_of(weights_K)
    if shares[0] >= 0:
        return shares, combine(head, vectors, shares)
    return shares, beyond(head, vectors, shares)


def shares_of(weights_K: Weights) -> tuple[int, ...]:
    """Weights as whole shares, rounded down; what is left of 2^31 is the head's.

    Weights of sum 1 leave the head nothing but rounding, which then goes to the largest share instead.
    """
    if not np.isfinite(weights_K).all() or (weights_K < 0).any():
        raise InputError("a robust rule gave weights that are negative or no numbers")
    shares = [int(weight * TOTAL) for weight in weights_K.tolist()]
    rest = TOTAL - sum(shares)

    if abs(added(weights_K) - 1.0) < 1e-9:
        shares[max(range(len(shares)), key=lambda k: (shares[k], -k))] += rest
        rest = 0
    return (rest, *shares)


def beyond(head: Vector, vectors: Sequence[Vector], shares: Sequence[int]) -> Vector:
    """As `combine`, where the updates weigh more than 1 together and the head's share is negative (FLTrust).

    Exact: each product is made of a high and a low half, and the sum is rounded down once.
    """
    high_D = np.zeros(len(head), np.int64)
    low_D = np.zeros(len(head), np.int64)
    for each, share in zip((head, *vectors), shares, strict=True):
        signed_D = to_signed(each).astype(np.int64)
        high_D += (signed_D >> 16) * share
        low_D += (signed_D & 0xFFFF) * share

    # high·2^16 + low, divided by 2^31: the whole part of high first, so that nothing overflows.
    rest_D = ((high_D & 0x7FFF) << 16) + low_D
    return from_signed((high_D >> (_BITS - 16)) + (rest_D >> _BITS))
