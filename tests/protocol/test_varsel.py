"""VaRSeL's weights and shares: published vectors, brute force, a general solver, hard cases, the same everywhere."""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from chainfl.errors import InputError
from chainfl.protocol import _quadratic
from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.errors import BadSharesError
from chainfl.protocol.varsel import WHOLE, check_varsel_shares, varsel_shares, varsel_weights
from chainfl.types import TOTAL
from tests.protocol.varsel_cases import Case, cases, plain_distances
from tests.vectors import generate_varsel

VECTORS = Path(__file__).parents[1] / "vectors"
ROOT = Path(__file__).parents[2]
ZERO = 1 << 31
Row = dict[str, str]


def rows() -> list[Row]:
    columns = json.loads((VECTORS / "varsel.json").read_text())
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def numbers(text: str, size: int) -> list[int]:
    data = bytes.fromhex(text[2:])
    return [int.from_bytes(data[at : at + size], "big") for at in range(0, len(data), size)]


def flags(text: str, count: int) -> list[bool]:
    return [int(text) >> i & 1 == 1 for i in range(count)]


def weigh(vectors: Sequence[Sequence[int]], internals: int, budget: int) -> list[int]:
    """The weights of the external updates, where the first ones are internal."""
    updates = np.array(vectors, np.int64) + ZERO
    found = varsel_weights(
        plain_distances(updates.astype(np.uint32)), [k < internals for k in range(len(vectors))], budget
    )
    return found[internals:]


def variance(updates: NDArray[np.float64], internals: Sequence[bool], w: Sequence[float]) -> float:
    """Phi in floats, from its definition."""
    inside = np.array(internals)
    mean = updates[inside].mean(axis=0)
    spread = np.square(updates[inside] - mean).sum()
    step = np.asarray(w) @ (updates[~inside] - mean)
    return float((spread + step @ step) / (inside.sum() + np.sum(w)) ** 2)


@pytest.mark.parametrize("row", rows())
def test_published_weights_and_shares_hold(row: Row) -> None:
    d, budget = int(row["dimension"]), int(row["budget"])
    values = numbers(row["updates"], 4)
    count = len(values) // d
    included = flags(row["included"], count)
    internals = flags(row["internals"], count)
    kept = [i for i in range(count) if included[i]]
    updates = [np.array(values[d * i : d * i + d], np.uint32) for i in kept]
    is_internal = [internals[i] for i in kept]

    distances = pairwise_squared_distances(updates)
    weights = varsel_weights(distances, is_internal, budget)
    shares = iter(varsel_shares(weights, is_internal))
    posted = [0, *(next(shares) if each else 0 for each in included)]

    assert [each for line in distances for each in line] == numbers(row["distances"], 16)
    assert weights == numbers(row["weights"], 4)
    assert posted == numbers(row["shares"], 4)
    check_varsel_shares(posted, internals, included, budget)


def test_the_published_file_is_what_its_generator_writes() -> None:
    files: dict[str, str] = runpy.run_path(str(VECTORS / "generate_varsel.py"))["files"]()

    for name, content in files.items():
        assert (VECTORS / name).read_text() == content


@given(
    st.lists(st.tuples(*[st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1)] * 2), min_size=2, max_size=6),
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_weights_are_those_of_the_best_point_on_any_face(
    vectors: list[tuple[int, int]], internals: int, budget: int
) -> None:
    internals = max(min(internals, len(vectors)), len(vectors) - 3)
    inside = [k < internals for k in range(len(vectors))]

    found = weigh(vectors, internals, budget)

    assert found == generate_varsel.weights_of(vectors, inside, budget)[internals:]


@pytest.mark.parametrize("case", [case for case in cases(60, seed=1) if not all(case.internals)])
def test_weights_are_no_worse_than_what_a_general_solver_finds(case: Case) -> None:
    updates = case.updates.astype(np.float64)
    internals = case.internals
    budget = case.budget
    scale = np.abs(updates - updates.mean(axis=0)).max() or 1.0
    updates = (updates - updates.mean(axis=0)) / scale
    count = internals.count(False)

    weights = varsel_weights(plain_distances(case.updates), internals, budget)

    ours = [w / WHOLE for w, inside in zip(weights, internals, strict=True) if not inside]
    assert all(0 <= w <= 1 for w in ours)
    assert sum(ours) <= budget
    found = minimize(
        lambda w: variance(updates, internals, w),
        np.full(count, min(1.0, budget / count) / 2),
        bounds=[(0, 1)] * count,
        constraints={"type": "ineq", "fun": lambda w: budget - w.sum()},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 300},
    )
    theirs = np.clip(found.x, 0, 1)
    theirs *= min(1.0, budget / max(theirs.sum(), 1e-300))
    assert (
        variance(updates, internals, ours) <= variance(updates, internals, list(theirs)) * (1 + 1e-5) + 1e-12
    )


def test_one_external_update_by_hand() -> None:
    """a = 8, M = 2, |d|^2 = 1 and 64: (8 + w^2) / (2 + w)^2 falls up to w = 4; (8 + 64 w^2) / (2 + w)^2 to 1/16."""
    assert weigh([[0], [4], [3]], 2, 1) == [WHOLE]
    assert weigh([[0], [4], [10]], 2, 1) == [WHOLE // 16]


def test_opposite_updates_cancel_and_both_are_taken_whole() -> None:
    assert weigh([[0], [2], [1 + 2**20], [1 - 2**20]], 2, 2) == [WHOLE, WHOLE]


@pytest.mark.parametrize(
    ("vectors", "internals", "budget"),
    [
        ([[7], [7], [7], [8]], 2, 5),  # internal updates all equal: no spread
        ([[7], [9], [8]], 1, 5),  # one internal update: no spread
        ([[0], [1], [2**31 - 1], [2**31 - 1]], 2, 5),  # useless
        ([[0], [100], [50]], 2, 0),  # no budget
    ],
)
def test_nothing_external_is_taken(vectors: list[list[int]], internals: int, budget: int) -> None:
    found = weigh(vectors, internals, budget)

    assert found == [0] * (len(vectors) - internals)
    inside = [k < internals for k in range(len(vectors))]
    shares = varsel_shares([WHOLE] * internals + found, inside)
    assert sum(shares[:internals]) == TOTAL


def test_a_budget_above_the_number_of_updates_is_no_bound() -> None:
    vectors = [[0, 0], [100, 0], [50, 1], [50, -1], [50, 2]]

    assert weigh(vectors, 2, 3) == weigh(vectors, 2, 10**9) == [WHOLE] * 3


def test_a_budget_that_one_whole_update_spends_is_spent_on_the_right_one() -> None:
    """With the budget spent on whole updates, the way to a better choice is an exchange of two of them."""
    inside = [(1884480399, -4), (-69918231, -1449193352), (-1348142834, -2)]
    vectors = [*inside, (3, -1), (-599275258, -1530682827), (4, 2)]

    found = weigh(vectors, 3, 1)

    assert sum(found) == WHOLE
    assert found == generate_varsel.weights_of(vectors, [True] * 3 + [False] * 3, 1)[3:]


def test_copies_share_alike_and_their_number_does_not_matter() -> None:
    one = weigh([[0, 0], [8, 0], [4, 9]], 2, 10)
    four = weigh([[0, 0], [8, 0], *[[4, 9]] * 4], 2, 10)

    assert len(set(four)) == 1
    assert abs(sum(four) - one[0]) <= 2


def test_what_rounding_puts_above_the_budget_is_taken_off_the_last() -> None:
    found = weigh([[-50, 0], [50, 0], *[[0, 3]] * 6], 2, 1)

    assert sum(found) == WHOLE
    assert found == [174763] * 4 + [174762] * 2


@pytest.mark.parametrize("case", list(cases(40, seed=2)))
def test_the_order_of_updates_does_not_matter(case: Case) -> None:
    updates = case.updates
    internals = case.internals
    order = np.random.default_rng(3).permutation(len(updates))

    straight = varsel_weights(plain_distances(updates), internals, 10**6)
    moved = varsel_weights(plain_distances(updates[order]), [internals[i] for i in order], 10**6)

    assert moved == [straight[i] for i in order]


def shapes() -> list[ParameterSet]:
    """128 updates that are hard in one way or another, with a number of internal ones and a budget."""
    rng = np.random.default_rng(4)
    normal = rng.normal(size=(128, 60)) * 2**14
    near = normal.copy()
    near[3:] = near[2] + rng.integers(-1, 2, (125, 60))
    half = normal.copy()
    half[65:] = half[2:65]
    whole_range = rng.integers(-(2**31), 2**31, (128, 150)).astype(np.float64)
    powers = np.vander(rng.permutation(np.linspace(-1, 1, 128)), 30) * 2**30
    scenes = [
        ("normal", normal, 2, 10),
        ("near-copies", near, 2, 10),
        ("half-of-them-copies", half, 2, 1),
        ("the-whole-range", whole_range, 5, 60),
        ("small-numbers", rng.integers(-3, 4, (128, 40)).astype(np.float64), 2, 3),
        ("bits", rng.integers(0, 2, (128, 5)).astype(np.float64), 2, 3),
        ("lengths-apart", normal * 10 ** rng.uniform(-4, 4, (128, 1)) / 2**8, 5, 60),
        ("powers", powers, 3, 40),
    ]
    return [
        pytest.param(values.round().astype(np.int64), internals, budget, id=name)
        for name, values, internals, budget in scenes
    ]


@pytest.mark.parametrize(("vectors", "internals", "budget"), shapes())
def test_both_searches_find_the_weights_of_many_updates(
    vectors: NDArray[np.int64], internals: int, budget: int
) -> None:
    """The quick search and the one that descends from nothing reach the same proven weights."""
    updates = [(row + ZERO).astype(np.uint32) for row in vectors]
    exact = vectors.astype(object)
    apart = internals * exact - exact[:internals].sum(axis=0)
    gram: list[list[int]] = (2 * apart[internals:] @ apart[internals:].T).tolist()
    spread = int(2 * (apart[:internals] ** 2).sum())

    found = varsel_weights(pairwise_squared_distances(updates), [k < internals for k in range(128)], budget)[
        internals:
    ]

    scaled = [[(each << 20) + (i == j) for j, each in enumerate(row)] for i, row in enumerate(gram)]
    program = _quadratic.Program(spread << 20, scaled, internals, budget)
    bits = program.size + 256
    point = _quadratic._descend(program, [0] * len(gram), bits)
    assert point is not None
    rounded = _quadratic._proven(program, point, bits)
    assert rounded is not None
    assert {a - b for a, b in zip(rounded, found, strict=True)} <= {0, 1}
    assert sum(rounded) == sum(found) or sum(found) == budget * WHOLE


def test_an_imprecise_point_is_not_accepted() -> None:
    program = _quadratic.Program(1 << 30, [[1 << 40, 0], [0, 1 << 41]], 2, 1)
    bits = 200
    point = _quadratic._search(program, bits)
    assert point is not None

    assert _quadratic._proven(program, point, bits) is not None
    assert _quadratic._proven(program, [point[0] + (1 << bits - 20), point[1]], bits) is None
    assert _quadratic._proven(program, [0, 0], bits) is None


@pytest.mark.parametrize(
    ("distances", "internals", "budget", "says"),
    [
        ([[0, 1], [1, 0]], [False, False], 1, "no update is internal"),
        ([[0, 1], [1, 0]], [True, True], -1, "budget is -1"),
        ([[0, 1]], [True, True], 1, "2 rows of 2"),
        ([[0, 1], [2, 0]], [True, True], 1, "the same both ways"),
        ([[0, -1], [-1, 0]], [True, True], 1, "give 0 or more"),
        ([[0, 1], [1, 3]], [True, True], 1, "to itself is 0"),
        ([[0, 100, 1], [100, 0, 1], [1, 1, 0]], [True, True, False], 1, "not those of any vectors"),
    ],
)
def test_what_are_no_squared_distances_is_refused(
    distances: list[list[int]], internals: list[bool], budget: int, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        varsel_weights(distances, internals, budget)


@pytest.mark.parametrize("case", list(cases(200, seed=5)))
def test_shares_pass_the_checks(case: Case) -> None:
    internals = case.internals
    budget = case.budget
    weights = varsel_weights(plain_distances(case.updates), internals, budget)

    shares = varsel_shares(weights, internals)

    check_varsel_shares([0, *shares], internals, [True] * len(shares), budget)
    q = TOTAL * WHOLE // sum(weights)
    first = internals.index(True)
    expected = [q * weight // WHOLE for weight in weights]
    assert [share for k, share in enumerate(shares) if k != first] == [
        share for k, share in enumerate(expected) if k != first
    ]
    assert sum(shares) == TOTAL


INTERNALS = [True, True, True, False, False, False]
INCLUDED = [True, True, True, True, True, False]
Q = 600_000_000
E = TOTAL - 3 * Q - Q // 2


@pytest.mark.parametrize(
    ("shares", "budget"),
    [
        pytest.param([0, Q, Q, Q, Q // 2, E], 1, id="too-short"),
        pytest.param([0, Q, Q, Q, Q // 2, E, 0, 0], 1, id="too-long"),
        pytest.param([1, Q, Q, Q, Q // 2, E - 1, 0], 1, id="a-part-for-the-head"),
        pytest.param([0, Q, Q, Q, Q // 2, E - 1, 1], 1, id="a-part-for-one-not-included"),
        pytest.param([0, Q, Q, Q, Q // 2, E - 1, 0], 1, id="another-sum"),
        pytest.param([0, Q, Q + 1, Q, Q // 2, E - 1, 0], 1, id="internals-not-alike"),
        pytest.param([0, Q, Q, Q + 1, Q // 2, E - 1, 0], 1, id="the-rest-not-to-the-first"),
        pytest.param([0, Q + 7, Q, Q, Q // 2, E - 7, 0], 1, id="more-than-a-rest"),
        pytest.param([0, Q - 1, Q, Q, Q // 2, E + 1, 0], 1, id="a-negative-rest"),
        pytest.param([0, *[500_000_000] * 3, 500_000_001, 147_483_647, 0], 2, id="above-an-internal"),
        pytest.param([0, 429_496_732, *[429_496_729] * 4, 0], 1, id="above-the-budget"),
        pytest.param([0, Q, Q, Q, Q, TOTAL - 4 * Q, 0], 1, id="a-negative-share"),
    ],
)
def test_shares_of_another_form_are_refused(shares: list[int], budget: int) -> None:
    with pytest.raises(BadSharesError):
        check_varsel_shares(shares, INTERNALS, INCLUDED, budget)


def test_shares_at_the_edge_of_every_check_are_accepted() -> None:
    check_varsel_shares([0, Q, Q, Q, Q // 2, E, 0], INTERNALS, INCLUDED, 1)
    check_varsel_shares([0, Q + 6, Q, Q, Q // 2, E - 6, 0], INTERNALS, INCLUDED, 1)
    check_varsel_shares([0, 429_496_732, *[429_496_729] * 4, 0], INTERNALS, INCLUDED, 2)
    check_varsel_shares([0, 500_000_001, *[500_000_000] * 3, 147_483_647, 0], INTERNALS, INCLUDED, 2)


def test_an_internal_update_that_is_not_included_has_no_part() -> None:
    half = TOTAL // 2

    check_varsel_shares([0, half, 0, half], [True, True, True], [True, False, True], 0)
    for shares in ([0, half, half, 0], [0, TOTAL // 3 + 2, TOTAL // 3, TOTAL // 3]):
        with pytest.raises(BadSharesError):
            check_varsel_shares(shares, [True, True, True], [True, False, True], 0)


def test_one_internal_update_leaves_nothing_to_others() -> None:
    check_varsel_shares([0, TOTAL, 0], [True, False], [True, True], 5)

    for shares, internals in (
        ([0, TOTAL // 2, TOTAL // 2], [True, False]),
        ([0, 0, TOTAL], [False, False]),
    ):
        with pytest.raises(BadSharesError):
            check_varsel_shares(shares, internals, [True, True], 5)


def dispatch_modes() -> list[dict[str, str]]:
    """Environments that switch off numba and, step by step, what numpy found in this CPU."""
    from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]
        __cpu_dispatch__,
        __cpu_features__,
    )

    present: list[str] = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    without_512 = [name for name in present if "AVX512" in name or "X86_V4" in name]
    modes = [{}, {"CHAINFL_NO_NUMBA": "1"}]
    for switched_off in (without_512, present):
        if switched_off:
            modes.append({"CHAINFL_NO_NUMBA": "1", "NPY_DISABLE_CPU_FEATURES": " ".join(switched_off)})
    return modes


def digest_under(environment: dict[str, str], count: int, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.protocol.varsel_cases", str(count), *options],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    "count", [300, pytest.param(10_000, marks=[pytest.mark.deep, pytest.mark.timeout(3600)])]
)
def test_weights_are_the_same_whatever_the_cpu_offers_and_in_plain_python(count: int) -> None:
    found = [digest_under(mode, count) for mode in dispatch_modes()]
    found.append(digest_under({}, count, "--plain"))

    assert len(found) >= 4
    assert all(len(each) == 65 for each in found)
    assert all(a == b for a, b in pairwise(found))
