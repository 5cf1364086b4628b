"""What a hostile worker is given when it forges its update."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Flat: TypeAlias = NDArray[np.float32]
Flats: TypeAlias = NDArray[np.float32]
Values: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Colluders know each other's honest updates; attackers of the strongest kind know the others' and the rule too.

    `colluders` (HxD) are the honest updates of all hostile workers of the round by enrolment id, its own at `own`;
    `workers` counts all updates expected in the round; `others` are the honest workers' updates. `preview` answers
    with what the rule would make of the round if all colluders sent this update, as far as they can know it.
    """

    head: Flat
    colluders: Flats
    own: int
    workers: int
    seed: int
    others: Flats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    preview: Callable[[Flat], Flat] | None = None

    @property
    def honest(self) -> Flat:
        """The update it would send if it were honest."""
        row: Flat = self.colluders[self.own]
        return row

    @property
    def hostile(self) -> int:
        """How many colluders there are, itself included."""
        return len(self.colluders)


def float32(values_D: NDArray[np.float64]) -> Flat:
    """As updates are sent."""
    return values_D.astype(np.float32)


def rng_of(seed: int) -> np.random.Generator:
    """The generator of an attack."""
    return np.random.Generator(np.random.Philox(seed))
