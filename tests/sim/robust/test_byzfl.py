"""The same numbers as ByzFL's aggregators give, where it is installed (`pip install --no-deps byzfl`).

Krum is not among them: ByzFL adds K - f - 1 distances, Blanchard et al. and the contract K - f - 2.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.sim.robust.steps import step_of, updates_of

FOUND = importlib.util.find_spec("byzfl")
pytestmark = pytest.mark.skipif(FOUND is None, reason="byzfl is not installed: pip install --no-deps byzfl")

STEPS = np.random.Generator(np.random.Philox(3)).normal(size=(11, 8))


@pytest.fixture(scope="module")
def byzfl() -> Any:
    """Its aggregators alone: the package itself imports data sets that are not needed here."""
    assert FOUND is not None
    bare = ModuleType("byzfl")
    bare.__path__ = list(FOUND.submodule_search_locations or ())
    before = sys.modules.get("byzfl")
    sys.modules["byzfl"] = bare
    yield importlib.import_module("byzfl.aggregators")
    if before is None:
        del sys.modules["byzfl"]
    else:
        sys.modules["byzfl"] = before


def ours(rule: str) -> Any:
    return step_of(rule, updates_of(STEPS.tolist()))


def test_geometric_medians_agree(byzfl: Any) -> None:
    theirs = byzfl.GeometricMedian(nu=1e-6, T=300)(STEPS.copy())

    assert ours("geometric-median:iterations=300") == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize(("tau", "passes"), [(0.5, 1), (2, 3), (100, 2)])
def test_centred_clipping_agrees(byzfl: Any, tau: float, passes: int) -> None:
    theirs = byzfl.CenteredClipping(L=passes, tau=float(tau))(STEPS.copy())

    assert ours(f"centred-clipping:tau={tau},iterations={passes}") == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("f", [1, 3])
def test_what_stands_before_a_rule_agrees(byzfl: Any, f: int) -> None:
    nearest = byzfl.NNM(f)(STEPS.copy())
    shortened = byzfl.ARC(f)(STEPS.copy())

    assert ours(f"nnm:f={f}+median") == pytest.approx(byzfl.Median()(nearest), abs=1e-5)
    assert ours(f"nnm:f={f}+fedrob:b={f}") == pytest.approx(byzfl.TrMean(f)(nearest), abs=1e-5)
    assert ours(f"arc:f={f}+mean") == pytest.approx(byzfl.Average()(shortened), abs=1e-5)
    assert ours("norm-clip:tau=1+mean") == pytest.approx(
        byzfl.Average()(byzfl.Clipping(1.0)(STEPS.copy())), abs=1e-5
    )
