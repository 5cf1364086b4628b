"""A robust rule at work in a simulated round: from the included updates to the next model, with its own state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import BIAS, Vector, from_signed, to_signed
from chainfl.errors import InputError
from chainfl.sim.robust import coordinates, linear, pre
from chainfl.sim.robust.geometry import Mixes, Updates, Weights, middle_of, times
from chainfl.sim.robust.table import OWN, PRE, Entry, Pipeline, Stage
from chainfl.types import TOTAL, Id, Rule

Mixing = Callable[[Mixes, Mapping[str, float]], Weights]
"""A rule whose result is a mix: one weight for each of its inputs; the head has the rest."""

MIXING: Final[dict[str, Mixing]] = {
    "mean": linear.mean,
    "norm-clipping": linear.mean,
    "geometric-median": linear.geometric_median,
    "centred-clipping": linear.centred_clipping,
    "krum": linear.krum_choice,
    "multi-krum": linear.krum_choice,
    "dnc": linear.divide_and_conquer,
    "fltrust": linear.trusted_root,
    "flame": linear.flame_weights,
    "foolsgold": linear.fools_gold,
}
ON_PARAMETERS: Final[Mapping[str, Callable[[Mixes, Mapping[str, float]], Vector]]] = {
    "median": coordinates.median,
    "fedrob": coordinates.trimmed_mean,
    "bulyan": coordinates.bulyan,
}
BEFORE: Final[Mapping[str, Callable[[Mixes, Mapping[str, float]], Mixes]]] = {
    "nnm": pre.nearest_neighbours,
    "bucketing": pre.buckets,
    "arc": pre.adaptively_clipped,
    "norm-clip": pre.clipped,
}


def add_rule(entry: Entry, weights: Mixing) -> None:
    """Add a rule of your own to those that the simulator plays in this process.

    Raises:
        InputError: a rule of that name is there already.
    """
    taken = {rule.name_text for rule in Rule} | set(OWN) | set(PRE)
    if entry.name in taken:
        raise InputError(f"there is a rule called {entry.name!r} already: choose another name")
    OWN[entry.name] = entry
    MIXING[entry.name] = weights


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The next model, and each update's part of it; a rule on parameters has no parts of its own: equal ones."""

    model: Vector
    parts: tuple[float, ...]


def aggregate(pipeline: Pipeline, updates: Updates) -> Combined:
    """The next model by a pipeline; the same updates give the same bits on one machine.

    Raises:
        InputError: there are fewer updates than the rule is defined for.
    """
    if len(updates) < pipeline.least:
        raise InputError(
            f"rule {pipeline.text!r} needs {pipeline.least} updates, a round has {len(updates)}: "
            "take more participants, a smaller committee or a smaller f"
        )
    mixes = Mixes.of(updates)
    for stage in _stages(pipeline):
        mixes = BEFORE[stage.entry.name](mixes, stage.values)

    name = pipeline.last.entry.name
    values = pipeline.last.values
    if name in ON_PARAMETERS:
        return Combined(ON_PARAMETERS[name](mixes, values), (1.0 / len(updates),) * len(updates))

    weights_J = MIXING[name](mixes, values)
    weights_K = times(weights_J[None, :], mixes.weights)[0]
    shares, model_D = coordinates.weighed(updates.head, updates.vectors, weights_K)
    if name == "flame" and values["noise"]:
        model_D = _noisy(model_D, values["noise"] * middle_of(mixes.lengths()), updates)
    return Combined(model_D, tuple(share / TOTAL for share in shares[1:]))


def _stages(pipeline: Pipeline) -> Sequence[Stage]:
    """What stands before the rule; norm clipping on its own is the mean behind `norm-clip`."""
    if pipeline.last.entry.name != "norm-clipping":
        return pipeline.before
    return (*pipeline.before, Stage(PRE["norm-clip"], pipeline.last.values))


def _noisy(model_D: Vector, sigma: float, updates: Updates) -> Vector:
    """FLAME's noise, in whole steps of the fixed point."""
    rng = np.random.Generator(np.random.Philox(updates.seed))
    noise_D = np.rint(rng.standard_normal(len(model_D)) * (sigma * 2.0**updates.scale)).astype(np.int64)
    moved_D = to_signed(model_D).astype(np.int64) + noise_D
    return from_signed(np.clip(moved_D, -BIAS, BIAS - 1))


@dataclass(slots=True)
class Memory:
    """The state that a rule keeps from round to round: sums of steps by worker (FoolsGold), validators' records."""

    sums: dict[Id, NDArray[np.int64]] = field(default_factory=dict)
    records: dict[Id, int] = field(default_factory=dict)

    def with_steps(self, head: Vector, ids: Sequence[Id], vectors: Sequence[Vector]) -> list[Vector]:
        """Add this round's steps; the sums of these workers, as vectors about the bias."""
        origin_D = to_signed(head).astype(np.int64)
        for id_, u_D in zip(ids, vectors, strict=True):
            step_D = to_signed(u_D).astype(np.int64) - origin_D
            before_D = self.sums.get(id_)
            self.sums[id_] = step_D if before_D is None else before_D + step_D
        return [from_signed(np.clip(self.sums[id_], -BIAS, BIAS - 1)) for id_ in ids]

    def as_arrays(self) -> dict[str, NDArray[np.int64]]:
        """All of it, to be kept in a file."""
        sums = {f"sum-{id_}": sum_D for id_, sum_D in self.sums.items()}
        records = {f"record-{id_}": np.array(record, np.int64) for id_, record in self.records.items()}
        return sums | records

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.int64]]) -> "Memory":
        """What a file kept."""
        memory = cls()
        for name, values in arrays.items():
            kind, _, number = name.partition("-")
            if kind == "sum":
                memory.sums[Id(int(number))] = values
            else:
                memory.records[Id(int(number))] = int(values)
        return memory
