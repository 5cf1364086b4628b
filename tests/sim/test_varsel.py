"""VaRSeL's approximate weights against small cases by hand, scipy and brute force, and the choice made with them."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from chainfl.codec.vector import encode
from chainfl.errors import InputError
from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.varsel import WHOLE, varsel_shares, varsel_weights
from chainfl.sim.varsel import (
    Doubles,
    approximate_objective,
    approximate_weights,
    choose,
    step_shares,
)
from chainfl.types import TOTAL


def drawn(seed: int, clients: int, size: int = 6) -> Doubles:
    """Differences of external clients from the internal mean, near and far."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(clients, size)) * 10 ** rng.uniform(-1, 1, (clients, 1))


def by_scipy(objective: Callable[[Doubles], float], clients: int, budget: float, seed: int) -> float:
    """The least value that a general solver finds from several starts."""
    rng = np.random.default_rng(seed)
    limits = {"type": "ineq", "fun": lambda w: budget - w.sum()}
    best = objective(np.zeros(clients))
    for _ in range(3):
        start = rng.random(clients) * min(1.0, budget / clients)
        found = minimize(
            objective,
            start,
            bounds=[(0, 1)] * clients,
            constraints=limits,
            method="SLSQP",
            options={"ftol": 1e-16, "maxiter": 500},
        )
        w = np.clip(found.x, 0, 1)
        best = min(best, objective(w * min(1.0, budget / w.sum()) if w.sum() > budget else w))
    return best


@given(
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.integers(2, 5),
    st.floats(1e-3, 1e3),
    st.sampled_from([0.5, 1.0, 2.5, 4.0, 20.0]),
)
def test_approximate_weights_are_the_best_over_all_sums_filled_greedily(
    seed: int, clients: int, internal: int, spread: float, budget: float
) -> None:
    norms = np.square(drawn(seed, clients)).sum(axis=1)

    w = approximate_weights(spread, internal, norms, budget)

    assert ((w >= 0) & (w <= 1)).all()
    assert w.sum() <= budget * (1 + 1e-12)
    ours = approximate_objective(spread, internal, norms, w)
    order = np.argsort(norms, kind="stable")
    for total in np.linspace(0, min(budget, clients), 401):
        other = np.zeros(clients)
        other[order] = np.clip(total - np.arange(clients), 0, 1)
        assert ours <= approximate_objective(spread, internal, norms, other) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_approximate_weights_are_no_worse_than_brute_force_over_all_weights(seed: int) -> None:
    norms, spread, internal, budget = np.square(drawn(seed, 3)).sum(axis=1), 2.0, 2, 2.2

    ours = approximate_objective(
        spread, internal, norms, approximate_weights(spread, internal, norms, budget)
    )

    ticks = np.linspace(0, 1, 41)
    grid = np.stack(np.meshgrid(ticks, ticks, ticks), axis=-1).reshape(-1, 3)
    least = min(approximate_objective(spread, internal, norms, w) for w in grid if w.sum() <= budget)
    found = by_scipy(lambda w: approximate_objective(spread, internal, norms, w), 3, budget, seed)
    assert ours <= min(least, found) * (1 + 1e-9)


def test_one_external_client_by_hand() -> None:
    """a = 4, M = 2, |d|^2 = 1: (4 + w^2)/(2 + w)^2 has its least value at w = 2, so all of it is taken."""
    assert approximate_weights(4.0, 2, np.array([1.0]), 5.0)[0] == 1


def test_a_far_client_is_taken_in_part_by_hand() -> None:
    """(1 + 4 w^2)/(2 + w)^2: the derivative is zero where 8 w (2 + w) = 2 (1 + 4 w^2), so at w = 1/8."""
    assert approximate_weights(1.0, 2, np.array([4.0]), 1.0)[0] == pytest.approx(1 / 8, abs=1e-12)


def test_without_spread_nothing_external_is_taken() -> None:
    assert approximate_weights(0.0, 2, np.ones(3), 2.0).tolist() == [0, 0, 0]


def test_a_choice_samples_near_clients_and_never_far_ones() -> None:
    rng = np.random.default_rng(1)
    internal = rng.normal(size=(4, 50))
    near = internal.mean(0) + 0.1 * rng.normal(size=(5, 50))
    far = 100 + rng.normal(size=(5, 50))
    inside = [encode(each, 20) for each in internal]

    chosen = choose(inside, [encode(each, 20) for each in [*near, *far]], 5, np.random.default_rng(0))

    assert chosen.sampled == (0, 1, 2, 3, 4)
    assert chosen.exact == (WHOLE,) * 5
    assert step_shares(4, chosen, 10) == [TOTAL - 8 * (TOTAL // 9), *[TOTAL // 9] * 8, *[0] * 5]
    with pytest.raises(InputError, match="at least 2 internal clients"):
        choose(inside[:1], inside, 5, rng)


def test_the_exact_weights_of_a_choice_are_those_of_the_chain() -> None:
    rng = np.random.default_rng(2)
    inside = [encode(each, 20) for each in rng.normal(size=(3, 30))]
    outside = [encode(each, 20) for each in rng.normal(size=(8, 30)) * 0.5]

    chosen = choose(inside, outside, 4, np.random.default_rng(3))

    known = [*inside, *(outside[j] for j in chosen.sampled)]
    internals = [k < 3 for k in range(len(known))]
    weights = varsel_weights(pairwise_squared_distances(known), internals, 4)
    assert 0 < len(chosen.sampled) < 8
    assert list(chosen.exact) == weights[3:]
    shares = varsel_shares(weights, internals)
    assert [share for share in step_shares(3, chosen, 8) if share] == [share for share in shares if share]
