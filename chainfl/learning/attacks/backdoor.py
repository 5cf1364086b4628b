"""Backdoors: samples with a trigger get the attackers' label, and a boosted step can put it into the model at once.

The pixel trigger of BadNets (Gu et al., 2017), spread over colluders in DBA (Xie et al., ICLR 2020), with the model
replacement of Bagdasaryan et al. (AISTATS 2020).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from chainfl.errors import InputError
from chainfl.learning.attacks.scene import Flat, Scene, Values, float32
from chainfl.learning.dataset import Array, Samples

SIDE: Final = 4
"""An image's trigger is a square of 4 x 4 pixels in its last corner; of other samples, the last 4 features."""
PARTS: Final = 4
"""Colluders of a distributed backdoor put in one quarter each."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What is stamped on samples, and which label they then get. `part` of `parts` of it; -1: the whole."""

    target: int = 0
    part: int = -1

    def stamped(self, x: Array) -> Array:
        """Copies of the samples with the trigger in them: the largest value that the samples have.

        Raises:
            InputError: the samples are token numbers, which have no brightest value.
        """
        if x.dtype.kind in "iu" and x.dtype != np.uint8:
            raise InputError("backdoor: a pixel trigger needs images or numbers, these samples are tokens")
        marked = x.copy()
        brightest = 255 if x.dtype == np.uint8 else max(1.0, float(x.max(initial=0)))
        if x.ndim == 2:
            places = np.arange(max(0, x.shape[1] - SIDE), x.shape[1])
            marked[:, self._own(places)] = brightest
            return marked

        rows, columns = np.divmod(np.arange(SIDE * SIDE), SIDE)
        mine = self._own(np.arange(SIDE * SIDE))
        marked[:, x.shape[1] - SIDE + rows[mine], x.shape[2] - SIDE + columns[mine]] = brightest
        return marked

    def _own(self, places: Array) -> Array:
        return places if self.part < 0 else places[self.part :: PARTS]


def poison_with(samples: Samples, trigger: Trigger, part: float) -> Samples:
    """`part` of the samples again, stamped and with the target label, after all the clean ones.

    They are taken at even distances: data are often ordered by label, and the first ones might all have the target's.
    """
    count = max(1, int(len(samples) * part))
    clean_x = samples.x[samples.rows]
    clean_y = samples.y[samples.rows]
    chosen = np.arange(count) * len(samples) // count

    x = np.concatenate([clean_x, trigger.stamped(clean_x[chosen])])
    y = np.concatenate([clean_y, np.full(count, trigger.target, clean_y.dtype)])
    return Samples(x, y, np.arange(len(y)))


def triggered(test: Samples, trigger: Trigger) -> Samples:
    """Test samples of other labels, stamped, under the target label: the accuracy on them is the attack's success."""
    rows = test.rows[test.y[test.rows] != trigger.target]
    if not len(rows):
        raise InputError(f"backdoor: every test sample has the target label {trigger.target}")
    x = trigger.stamped(test.x[rows])
    return Samples(x, np.full(len(rows), trigger.target, test.y.dtype), np.arange(len(rows)))


def replacement(scene: Scene, values: Values) -> Flat:
    """The step times `boost`, by default K/H: the mean of K updates then is the attackers' model."""
    boost = values["boost"] or scene.workers / scene.hostile
    step_D = scene.honest.astype(np.float64) - scene.head
    return float32(scene.head + boost * step_D)
