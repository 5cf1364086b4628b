"""VaRSeL as the paper plays it: norms first, the updates of sampled clients only (Selfish FL; docs/simulator.md).

Shapes: M internal clients, N external ones, D parameters. `a` is the internal clients' spread sum_i |x_i - x|^2 around
their mean x; d_j = x_j - x is an external client's difference from it. The exact weights of the sampled clients are the
protocol's (`chainfl.protocol.varsel`); only what comes before them is floating point.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import Vector
from chainfl.errors import InputError
from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.varsel import WHOLE, varsel_shares, varsel_weights

Doubles: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a round chose: approximate weights from norms, the sampled clients, and their exact weights times 2^20."""

    approximate: Doubles
    sampled: tuple[int, ...]
    exact: tuple[int, ...]


def choose(
    internal_M: Sequence[Vector], external_N: Sequence[Vector], budget: int, rng: np.random.Generator
) -> Choice:
    """A whole round's choice: norms, approximate weights, independent sampling by them, exact weights.

    Raises:
        InputError: fewer than two internal clients, whose spread everything is measured by.
    """
    if len(internal_M) < 2:
        raise InputError(
            f"VaRSeL needs at least 2 internal clients to see their spread, not {len(internal_M)}"
        )

    # What the clients answer before anyone sends an update: how far they are from the internal mean.
    mean_D = np.mean(internal_M, axis=0, dtype=np.float64)
    spread = float(sum(np.square(each - mean_D).sum() for each in internal_M))
    norms_N = np.array([np.square(each - mean_D).sum() for each in external_N])
    approximate_N = approximate_weights(spread, len(internal_M), norms_N, budget)
    sampled = tuple(int(j) for j in np.flatnonzero(rng.random(len(norms_N)) < approximate_N))

    # Of the sampled ones the updates are known.
    known = [*internal_M, *(external_N[j] for j in sampled)]
    internals = [k < len(internal_M) for k in range(len(known))]
    weights = varsel_weights(pairwise_squared_distances(known), internals, budget)
    return Choice(approximate_N, sampled, tuple(weights[len(internal_M) :]))


def step_shares(internal: int, choice: Choice, external: int) -> list[int]:
    """The shares of the M internal and N external updates in the next model, as on chain."""
    internals = [k < internal for k in range(internal + len(choice.sampled))]
    shares = varsel_shares([*([WHOLE] * internal), *choice.exact], internals)
    of_sampled = dict(zip(choice.sampled, shares[internal:], strict=True))
    return [*shares[:internal], *(of_sampled.get(j, 0) for j in range(external))]


def approximate_objective(spread: float, internal: int, norms_N: Doubles, w_N: Doubles) -> float:
    """The bound that norms alone allow: [a + 1'w * sum_j w_j |d_j|^2] / (M + 1'w)^2."""
    total = float(w_N.sum())
    return (spread + total * float(w_N @ norms_N)) / (internal + total) ** 2


def approximate_weights(spread: float, internal: int, norms_N: Doubles, budget: float) -> Doubles:
    """Minimise the bound over w in [0, 1]^N with 1'w <= budget.

    For a given sum the smallest norms are filled first; between two whole numbers of clients the objective is a
    quadratic over a square, whose only stationary point is known in closed form.
    """
    order = np.argsort(norms_N, kind="stable")
    most = min(float(budget), float(len(norms_N)))
    best_sum = 0.0
    best = spread / internal**2
    filled = 0.0  # the cost of all clients before this one

    for k, norm in enumerate(norms_N[order]):
        low = float(k)
        high = min(k + 1.0, most)
        if low >= most:
            break
        for total in _stationary(spread, internal, filled - k * norm, norm, low, high):
            value = (spread + total * (filled + (total - k) * norm)) / (internal + total) ** 2
            if value < best:
                best_sum = total
                best = value
        filled += norm

    weights_N = np.zeros(len(norms_N))
    weights_N[order] = np.clip(best_sum - np.arange(len(norms_N)), 0, 1)
    return weights_N


def _stationary(
    spread: float, internal: int, linear: float, square: float, low: float, high: float
) -> tuple[float, ...]:
    """Where (a + b s + c s^2) / (M + s)^2 can be least within [low, high]: its stationary point and the upper end."""
    slope = 2 * square * internal - linear
    inside = (2 * spread - linear * internal) / slope if slope else high
    return (inside, high) if low < inside < high else (high,)
