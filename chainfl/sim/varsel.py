"""VaRSeL: a stakeholder with M internal clients takes what helps of N external ones (Selfish FL; docs/simulator.md).

Shapes: M internal clients, N external ones, S sampled of these, D parameters. `a` is the internal clients' spread
sum_i |x_i - x|^2 around their mean x; d_j = x_j - x is an external client's difference from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.errors import InputError

Doubles: TypeAlias = NDArray[np.float64]

_STEPS: Final = 100
_GAP: Final = 1e-14
"""How far from the minimum to stop, as a part of it."""
_STEP_LENGTH: Final = 0.995


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a round chose: approximate weights from norms, the sampled clients, and their exact weights."""

    approximate: Doubles
    sampled: tuple[int, ...]
    exact: Doubles


def choose(
    internal_MD: NDArray[np.float32],
    external_ND: NDArray[np.float32],
    budget: float,
    rng: np.random.Generator,
) -> Choice:
    """A whole round's choice: norms, approximate weights, independent sampling by them, exact weights.

    Raises:
        InputError: fewer than two internal clients, whose spread everything is measured by.
    """
    if len(internal_MD) < 2:
        raise InputError(
            f"VaRSeL needs at least 2 internal clients to see their spread, not {len(internal_MD)}"
        )
    mean_D = internal_MD.mean(axis=0, dtype=np.float64)
    spread = float(np.square(internal_MD - mean_D).sum())
    norms_N = np.array([np.square(each - mean_D).sum() for each in external_ND])
    approximate_N = approximate_weights(spread, len(internal_MD), norms_N, budget)
    sampled = tuple(int(j) for j in np.flatnonzero(rng.random(len(norms_N)) < approximate_N))
    differences_SD = np.array([external_ND[j] - mean_D for j in sampled]).reshape(len(sampled), len(mean_D))
    gram_SS = differences_SD @ differences_SD.T
    return Choice(approximate_N, sampled, exact_weights(spread, len(internal_MD), gram_SS, budget))


def approximate_objective(spread: float, internal: int, norms_N: Doubles, w_N: Doubles) -> float:
    """The bound that norms alone allow: [a + 1'w * sum_j w_j |d_j|^2] / (M + 1'w)^2."""
    total = float(w_N.sum())
    return (spread + total * float(w_N @ norms_N)) / (internal + total) ** 2


def exact_objective(spread: float, internal: int, gram_SS: Doubles, w_S: Doubles) -> float:
    """[a + |sum_j w_j d_j|^2] / (M + 1'w)^2."""
    return (spread + float(w_S @ gram_SS @ w_S)) / (internal + float(w_S.sum())) ** 2


def approximate_weights(spread: float, internal: int, norms_N: Doubles, budget: float) -> Doubles:
    """Minimise the bound over w in [0, 1]^N with 1'w <= budget.

    For a given sum the smallest norms are filled first; between two whole numbers of clients the objective is a
    quadratic over a square, whose only stationary point is known in closed form.
    """
    order = np.argsort(norms_N, kind="stable")
    most = min(float(budget), float(len(norms_N)))
    best_sum, best = 0.0, spread / internal**2
    filled = 0.0  # the cost of all clients before this one
    for k, norm in enumerate(norms_N[order]):
        low, high = float(k), min(k + 1.0, most)
        if low >= most:
            break
        for total in _stationary(spread, internal, filled - k * norm, norm, low, high):
            value = (spread + total * (filled + (total - k) * norm)) / (internal + total) ** 2
            if value < best:
                best_sum, best = total, value
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


def exact_weights(spread: float, internal: int, gram_SS: Doubles, budget: float) -> Doubles:
    """Minimise the exact objective over w in [0, 1]^S with 1'w <= budget.

    By t = 1 / (M + 1'w) and y = t * w it is a convex quadratic program: minimise a t^2 + y'Gy with M t + 1'y = 1,
    0 <= y <= t and 1'y <= budget * t. An interior-point method (Mehrotra's) solves it.
    """
    count = len(gram_SS)
    if count == 0 or spread <= 0 or budget <= 0:
        return np.zeros(count)
    size = max(spread, float(gram_SS.diagonal().max()))
    hessian = np.zeros((count + 1, count + 1))
    hessian[0, 0], hessian[1:, 1:] = 2 * spread / size, 2 * gram_SS / size
    ones, unit = np.ones((count, 1)), np.eye(count)
    bounds = np.vstack(
        [
            np.hstack([0 * ones, unit]),
            np.hstack([ones, -unit]),
            np.hstack([[[float(budget)]], -ones.T]),
        ]
    )
    start_w = np.full(count, 0.5 * min(1.0, budget / count))
    t = 1 / (internal + start_w.sum())
    z = _solve(
        hessian, np.concatenate([[internal], np.ones(count)]), bounds, np.concatenate([[t], t * start_w])
    )
    w_S: Doubles = np.clip(z[1:] / z[0], 0, 1)
    total = float(w_S.sum())
    return w_S * (budget / total) if total > budget else w_S


def _solve(hessian: Doubles, row: Doubles, bounds: Doubles, z: Doubles) -> Doubles:
    """Minimise z'Hz/2 with row'z = 1 and bounds z >= 0, from a point strictly inside."""
    slack, price, level = bounds @ z, np.ones(len(bounds)), 0.0
    for _ in range(_STEPS):
        gap = float(slack @ price) / len(slack)
        if gap < _GAP * float(z @ hessian @ z):
            break
        toward = _direction(hessian, row, bounds, z, slack, price, level, slack * price)
        length = _longest(slack, toward[1], price, toward[2])
        after = float((slack + length * toward[1]) @ (price + length * toward[2])) / len(slack)
        centre = (after / gap) ** 3 * gap
        correction = slack * price + toward[1] * toward[2] - centre
        step_z, step_slack, step_price, step_level = _direction(
            hessian, row, bounds, z, slack, price, level, correction
        )
        length = _STEP_LENGTH * _longest(slack, step_slack, price, step_price)
        z, slack = z + length * step_z, slack + length * step_slack
        price, level = price + length * step_price, level + length * step_level
    return z


def _direction(
    hessian: Doubles,
    row: Doubles,
    bounds: Doubles,
    z: Doubles,
    slack: Doubles,
    price: Doubles,
    level: float,
    products: Doubles,
) -> tuple[Doubles, Doubles, Doubles, float]:
    """Newton's step towards the conditions of a minimum, with slack * price brought to what is asked for."""
    dual = hessian @ z - level * row - bounds.T @ price
    apart = bounds @ z - slack
    # Prices in units of their own and slacks stand side by side: none is divided by what goes to zero beside it.
    size, most = len(z), len(slack)
    system = np.zeros((size + 1 + most, size + 1 + most))
    system[:size, :size], system[:size, size], system[:size, size + 1 :] = hessian, -row, -bounds.T * price
    system[size, :size] = row
    system[size + 1 :, :size], system[size + 1 :, size + 1 :] = bounds, np.diag(slack)
    right = np.concatenate([-dual, [1 - row @ z], -products / price - apart])
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        solved = np.linalg.lstsq(system, right, rcond=None)[0]
    step_z = solved[:size]
    return step_z, bounds @ step_z + apart, price * solved[size + 1 :], float(solved[size])


def _longest(slack: Doubles, step_slack: Doubles, price: Doubles, step_price: Doubles) -> float:
    """How far one can go before a slack or a price becomes negative, at most one whole step."""
    values, steps = np.concatenate([slack, price]), np.concatenate([step_slack, step_price])
    falling = steps < 0
    return min(1.0, float((-values[falling] / steps[falling]).min())) if falling.any() else 1.0


def step_shares(internal: int, sampled: Sequence[int], weights_S: Doubles, external: int) -> list[float]:
    """The parts of the M internal and N external updates in the next model: 1 each, w_j each, over their sum."""
    total = internal + float(weights_S.sum())
    parts = dict(zip(sampled, weights_S, strict=True))
    return [*([1 / total] * internal), *(float(parts.get(j, 0.0)) / total for j in range(external))]
