"""What Byzantine participants do: each attack a small pure function, by name, for tests and the simulator.

Workers' attacks are on the data (before training) or on the update (after it); validators' attacks are on the data
they score with or on the scores they post. Shapes: D parameters, H hostile colluders, K updates.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chainfl import names
from chainfl.errors import InputError
from chainfl.learning.attacks import backdoor, optimised
from chainfl.learning.attacks.scene import Flat as Flat
from chainfl.learning.attacks.scene import Flats as Flats
from chainfl.learning.attacks.scene import Scene as Scene
from chainfl.learning.attacks.scene import Values as Values
from chainfl.learning.attacks.scene import float32 as _float32
from chainfl.learning.attacks.scene import rng_of as _rng
from chainfl.learning.dataset import Labels, Samples

ABSURD_LOSS: Final = 2**64 - 2
"""The worst loss that is a number; one more would be a vote "not available"."""


def flip_labels(labels: Labels, classes: int) -> Labels:
    """label → classes - 1 - label (9 - label for digits)."""
    return classes - 1 - labels


def shift_labels(labels: Labels, classes: int, by: int = 1) -> Labels:
    """label → (label + by) mod classes."""
    return (labels + by) % classes


def scale(scene: Scene, values: Values) -> Flat:
    """Each element of the step times its own random value in [low, 1) (CMFL's gradient scaling, low = 0.5)."""
    factors = _rng(scene.seed).uniform(values["low"], 1.0, len(scene.head))
    return _float32(scene.head + factors * _step(scene))


def same_value(scene: Scene, values: Values) -> Flat:
    """A step whose elements are all the same (CMFL: all 0, so the update is the head)."""
    return _float32(scene.head.astype(np.float64) + values["value"])


def back(scene: Scene, values: Values) -> Flat:
    """The step in the opposite direction (CMFL's back-gradient)."""
    return _float32(scene.head - values["factor"] * _step(scene))


def gaussian(scene: Scene, values: Values) -> Flat:
    """The head plus Gaussian noise instead of a step."""
    noise = _rng(scene.seed).standard_normal(len(scene.head))
    return _float32(scene.head + values["sigma"] * noise)


def a_little_is_enough(scene: Scene, values: Values) -> Flat:
    """Mean - z·deviation of the colluders' updates, just inside the honest spread (Baruch et al., 2019).

    z = Φ⁻¹((n - m - s)/(n - m)) with s = ⌊n/2 + 1⌋ - m supporters among the honest, unless `z` is given.
    """
    updates_HD = scene.colluders.astype(np.float64)
    z = values["z"] or spread_to_hide(scene.workers, scene.hostile)
    return _float32(updates_HD.mean(axis=0) - z * updates_HD.std(axis=0))


def spread_to_hide(workers: int, hostile: int) -> float:
    """ALIE's z: as many deviations as still leave enough honest workers farther from the mean; at least 0."""
    honest = workers - hostile
    supporters = workers // 2 + 1 - hostile
    if honest < 1 or not 0 < honest - supporters < honest:
        return 0.0
    return max(0.0, NormalDist().inv_cdf((honest - supporters) / honest))


def inner_product(scene: Scene, values: Values) -> Flat:
    """The head minus ε times the colluders' mean step: a negative inner product with the true one (Xie, 2020)."""
    steps_HD = scene.colluders.astype(np.float64) - scene.head
    return _float32(scene.head - values["epsilon"] * steps_HD.mean(axis=0))


def cancel_mean(scene: Scene, values: Values) -> Flat:
    """-((k - q)/q)·x + c, which moves the mean of k updates to (q/k)·c in expectation (proposition 1 of FedRob)."""
    ratio = (scene.workers - scene.hostile) / scene.hostile
    return _float32(values["c"] - ratio * scene.honest.astype(np.float64))


def copy_cat(scene: Scene, values: Values) -> Flat:
    """The first colluder's update, bit for bit, however many send it."""
    del values
    first: Flat = scene.colluders[0]
    return first.copy()


def free_ride(scene: Scene, values: Values) -> Flat:
    """The head itself, with a little noise if it must not equal the head."""
    noise = values["noise"] * _rng(scene.seed).standard_normal(len(scene.head))
    return _float32(scene.head + noise)


@dataclass(frozen=True, slots=True)
class WorkerAttack:
    """A hostile worker: the labels it trains on, its trigger (by colluder), and what it makes of its update.

    An omniscient one is given the honest updates and the rule.
    """

    name: str
    labels: Callable[[Labels, int], Labels] | None = None
    update: Callable[[Scene, Values], Flat] | None = None
    defaults: Values | None = None
    trigger: Callable[[int, Values], backdoor.Trigger] | None = None
    is_omniscient: bool = False


def _whole_trigger(colluder: int, values: Values) -> backdoor.Trigger:
    del colluder
    return backdoor.Trigger(int(values["target"]))


def _trigger_part(colluder: int, values: Values) -> backdoor.Trigger:
    return backdoor.Trigger(int(values["target"]), colluder % backdoor.PARTS)


_BACKDOOR: Final = {"target": 0.0, "part": 0.3}


WORKER_ATTACKS: Final[dict[str, WorkerAttack]] = {
    attack.name: attack
    for attack in (
        WorkerAttack("label-flip", labels=flip_labels),
        WorkerAttack("label-shift", labels=shift_labels),
        WorkerAttack("scaling", update=scale, defaults={"low": 0.5}),
        WorkerAttack("same-value", update=same_value, defaults={"value": 0.0}),
        WorkerAttack("back-gradient", update=back, defaults={"factor": 1.0}),
        WorkerAttack("gaussian", update=gaussian, defaults={"sigma": 1.0}),
        WorkerAttack("alie", update=a_little_is_enough, defaults={"z": 0.0}),
        WorkerAttack("inner-product", update=inner_product, defaults={"epsilon": 0.5}),
        WorkerAttack("cancel-mean", update=cancel_mean, defaults={"c": 0.0}),
        WorkerAttack("copy-cat", update=copy_cat),
        WorkerAttack("free-rider", update=free_ride, defaults={"noise": 0.0}),
        WorkerAttack(
            "alie-optimal", update=optimised.optimal_alie, defaults={"most": 20.0}, is_omniscient=True
        ),
        WorkerAttack(
            "ipm-optimal", update=optimised.optimal_ipm, defaults={"most": 20.0}, is_omniscient=True
        ),
        WorkerAttack("min-max", update=optimised.min_max, is_omniscient=True),
        WorkerAttack("min-sum", update=optimised.min_sum, is_omniscient=True),
        WorkerAttack("fang-trim", update=optimised.fang_trim, defaults={"b": 2.0}, is_omniscient=True),
        WorkerAttack("fang-krum", update=optimised.fang_krum, is_omniscient=True),
        WorkerAttack("mimic", update=optimised.mimic, is_omniscient=True),
        WorkerAttack("backdoor", defaults=_BACKDOOR, trigger=_whole_trigger),
        WorkerAttack("backdoor-parts", defaults=_BACKDOOR, trigger=_trigger_part),
        WorkerAttack(
            "backdoor-replace",
            update=backdoor.replacement,
            defaults=_BACKDOOR | {"boost": 0.0},
            trigger=_whole_trigger,
        ),
    )
}


def absurd_scores(honest_K: Sequence[int], friends: Sequence[int], best: int = 0) -> tuple[int, ...]:
    """The worst loss for everybody, the best for friends (indices of colluders' updates)."""
    chosen = set(friends)
    return tuple(best if index in chosen else ABSURD_LOSS for index in range(len(honest_K)))


def copied_scores(honest_K: Sequence[int], seen: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The first colluding validator's scores instead of its own work; its own if none are known."""
    return tuple(seen[0]) if seen else tuple(honest_K)


def swapped_scores(honest_K: Sequence[int], friends: Sequence[int]) -> tuple[int, ...]:
    """Its own honest numbers, permuted: the best to friends, the worst to the others. Each is plausible."""
    chosen = set(friends)
    order = sorted(range(len(honest_K)), key=lambda k: (k not in chosen, honest_K[k], k))
    dealt = dict(zip(order, sorted(honest_K), strict=True))
    return tuple(dealt[k] for k in range(len(honest_K)))


def nudged_scores(honest_K: Sequence[int], friends: Sequence[int]) -> tuple[int, ...]:
    """Friends half of the spread between best and median better, the others as much worse: a lie within the noise."""
    ordered = sorted(honest_K)
    by = (ordered[len(ordered) // 2] - ordered[0]) // 2 if ordered else 0
    chosen = set(friends)
    return tuple(
        max(0, score - by) if k in chosen else min(ABSURD_LOSS, score + by)
        for k, score in enumerate(honest_K)
    )


@dataclass(frozen=True, slots=True)
class ValidatorAttack:
    """A hostile validator: it scores on flipped labels, stays silent, forges or copies its scores, or bends them."""

    name: str
    flips: bool = False
    is_silent: bool = False
    forges: bool = False
    copies: bool = False
    bends: Callable[[Sequence[int], Sequence[int]], tuple[int, ...]] | None = None


VALIDATOR_ATTACKS: Final[Mapping[str, ValidatorAttack]] = {
    attack.name: attack
    for attack in (
        ValidatorAttack("flipped-scorer", flips=True),
        ValidatorAttack("absurd-losses", forges=True),
        ValidatorAttack("copier", copies=True),
        ValidatorAttack("silent", is_silent=True),
        ValidatorAttack("swapped-losses", bends=swapped_scores),
        ValidatorAttack("nudged-losses", bends=nudged_scores),
    )
}


def add_attack(attack: WorkerAttack) -> None:
    """Add an attack of your own to those of this process.

    Raises:
        InputError: an attack of that name is there already.
    """
    if attack.name in WORKER_ATTACKS:
        raise InputError(f"there is an attack called {attack.name!r} already: choose another name")
    WORKER_ATTACKS[attack.name] = attack


def worker_attack(text: str) -> tuple[WorkerAttack, Values]:
    """The attack in `name:key=number,…` with its parameters.

    Raises:
        UnknownNameError: no such attack or parameter.
    """
    name, values = names.parse_call(
        "worker attack", text, {known: attack.defaults or {} for known, attack in WORKER_ATTACKS.items()}
    )
    return WORKER_ATTACKS[name], values


def validator_attack(text: str) -> ValidatorAttack:
    """The validators' attack called so.

    Raises:
        UnknownNameError: no such attack.
    """
    name, _ = names.parse_call("validator attack", text, {known: {} for known in VALIDATOR_ATTACKS})
    return VALIDATOR_ATTACKS[name]


def poisoned(samples: Samples, attack: WorkerAttack, classes: int) -> Samples:
    """The samples as a hostile worker trains on them."""
    return samples if attack.labels is None else samples.with_labels(attack.labels(samples.y, classes))


def forged_update(attack: WorkerAttack, values: Values, scene: Scene) -> Flat:
    """What a hostile worker sends in place of its honest update.

    Raises:
        InputError: the scene does not hold together.
    """
    if not 0 <= scene.own < scene.hostile <= scene.workers:
        raise InputError(f"colluder {scene.own} of {scene.hostile} among {scene.workers} workers cannot be")
    return scene.honest if attack.update is None else attack.update(scene, values)


def forged_scores(
    attack: ValidatorAttack, honest_K: Sequence[int], friends: Sequence[int], seen: Sequence[Sequence[int]]
) -> tuple[int, ...] | None:
    """What a hostile validator posts; None for silence. (A flipped-label scorer's scores are its honest work.)"""
    if attack.is_silent:
        return None
    if attack.forges:
        return absurd_scores(honest_K, friends)
    if attack.bends is not None:
        return attack.bends(honest_K, friends)
    return copied_scores(honest_K, seen) if attack.copies else tuple(honest_K)


def hostile_count(participants: int, fraction: float) -> int:
    """How many of the participants are hostile: the fraction, rounded down.

    Raises:
        InputError: the fraction is not within 0…1.
    """
    if not 0 <= fraction <= 1:
        raise InputError(f"the hostile fraction must lie within 0…1, not {fraction}")
    return math.floor(participants * fraction + 1e-9)


def _step(scene: Scene) -> NDArray[np.float64]:
    return scene.honest.astype(np.float64) - scene.head
