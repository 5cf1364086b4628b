"""Small rounds by hand: steps from a head, and what a rule makes of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import decode, encode
from chainfl.sim.robust.geometry import Updates
from chainfl.sim.robust.play import Combined, aggregate
from chainfl.sim.robust.table import pipeline_of

SCALE = 20


def updates_of(steps: Any, head: Sequence[float] | None = None, **more: Any) -> Updates:
    steps_KD = np.array(steps, np.float64)
    head_D = np.zeros(steps_KD.shape[1]) if head is None else np.array(head, np.float64)
    vectors = [encode(head_D + step_D, SCALE) for step_D in steps_KD]
    return Updates(encode(head_D, SCALE), vectors, SCALE, **more)


def combined(rule: str, updates: Updates) -> Combined:
    pipeline = pipeline_of(rule)
    assert pipeline is not None
    return aggregate(pipeline, updates)


def step_of(rule: str, updates: Updates) -> NDArray[np.float64]:
    """The step that a rule takes from the head."""
    made = combined(rule, updates).model
    step_D: NDArray[np.float64] = decode(made, SCALE, np.float64) - decode(updates.head, SCALE, np.float64)
    return step_D
