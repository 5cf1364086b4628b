"""Attacks that look for the most harm a rule lets through: optimal ALIE and IPM, min-max, min-sum, Fang, mimic.

The attackers of these papers know the honest updates; `Scene.others` holds them. H colluders, N honest, D parameters.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chainfl.learning.attacks.scene import Flat, Scene, Values, float32, rng_of

Doubles = NDArray[np.float64]

_PASSES: Final = 30
_MARK: Final = 2.0**-16
"""A small difference between colluders' otherwise equal updates: equal ones would count once."""


def known(scene: Scene) -> Doubles:
    """The honest updates that the attackers have: the others' if there are any, else their own."""
    rows = scene.others if len(scene.others) else scene.colluders
    return rows.astype(np.float64)


def optimal_alie(scene: Scene, values: Values) -> Flat:
    """Mean - z·deviation, z by search: what moves the rule's result farthest (Baruch, 2019; Allouah, 2023)."""
    honest_ND = known(scene)
    centre_D = honest_ND.mean(axis=0)
    deviation_D = honest_ND.std(axis=0)
    return _farthest(scene, lambda z: centre_D - z * deviation_D, centre_D, values["most"])


def optimal_ipm(scene: Scene, values: Values) -> Flat:
    """The head minus ε times the mean honest step, ε by search (Xie et al., 2020; Allouah et al., 2023)."""
    centre_D = known(scene).mean(axis=0)
    step_D = centre_D - scene.head
    return _farthest(scene, lambda epsilon: scene.head - epsilon * step_D, centre_D, values["most"])


def min_max(scene: Scene, values: Values) -> Flat:
    """As far against the deviation as no honest update lies from another (Shejwalkar and Houmansadr, NDSS 2021)."""
    del values
    honest_ND = known(scene)
    limit = max(float(_squared(honest_ND, row_D).max()) for row_D in honest_ND)
    return _bisected(scene, honest_ND, lambda at_D: float(_squared(honest_ND, at_D).max()) <= limit)


def min_sum(scene: Scene, values: Values) -> Flat:
    """The same with the sum of squared distances to all honest updates (Shejwalkar and Houmansadr, NDSS 2021)."""
    del values
    honest_ND = known(scene)
    limit = max(float(_squared(honest_ND, row_D).sum()) for row_D in honest_ND)
    return _bisected(scene, honest_ND, lambda at_D: float(_squared(honest_ND, at_D).sum()) <= limit)


def fang_trim(scene: Scene, values: Values) -> Flat:
    """Against median and trimmed mean: each parameter beyond the honest ones, against the honest direction.

    Fang et al. (USENIX Security 2020): where honest updates grow, values within [low/b, low] or [b·low, low] below
    them; where they fall, the same above.
    """
    honest_ND = known(scene)
    low_D = honest_ND.min(axis=0)
    high_D = honest_ND.max(axis=0)
    b = values["b"]
    is_growing = honest_ND.mean(axis=0) >= scene.head

    # The far end of the interval is b times as far from 0, on the side away from the honest values.
    below_D = np.where(low_D > 0, low_D / b, low_D * b)
    above_D = np.where(high_D > 0, high_D * b, high_D / b)
    part_D = rng_of(scene.seed).uniform(0.0, 1.0, len(scene.head))
    forged_D = np.where(is_growing, low_D + part_D * (below_D - low_D), high_D + part_D * (above_D - high_D))
    return float32(forged_D)


def fang_krum(scene: Scene, values: Values) -> Flat:
    """Against Krum: head - λ·sign(honest step), the largest λ, by halving, that Krum takes (Fang et al., 2020)."""
    del values
    honest_ND = known(scene)
    sign_D = np.sign(honest_ND.mean(axis=0) - scene.head)
    nearest = float(np.sqrt(max(_squared(honest_ND, row_D).max() for row_D in honest_ND)))
    reach = nearest / np.sqrt(len(scene.head)) + float(np.abs(honest_ND - scene.head).max())

    while reach > 1e-6:
        at_D = scene.head - reach * sign_D
        if _is_krums_choice(honest_ND, at_D, scene.hostile):
            break
        reach /= 2
    return _marked(scene, scene.head - reach * sign_D)


def mimic(scene: Scene, values: Values) -> Flat:
    """All send the honest update farthest along the honest ones' first axis (Karimireddy et al., ICLR 2022)."""
    del values
    honest_ND = known(scene)
    centred_ND = honest_ND - honest_ND.mean(axis=0)
    axis_N = np.linalg.eigh(centred_ND @ centred_ND.T)[1][:, -1]
    return _marked(scene, honest_ND[int(np.argmax(np.abs(axis_N)))])


def _farthest(scene: Scene, forge: Callable[[float], Doubles], centre_D: Doubles, most: float) -> Flat:
    """What `forge` makes with the factor that brings the rule's result farthest from the honest mean.

    Factors grow by half from 0.1 up to `most`; without a rule to try them on, the attackers take 1.5.
    """
    if scene.preview is None:
        return _marked(scene, forge(1.5))
    factors = [0.1 * 1.5**step for step in range(40) if 0.1 * 1.5**step <= most]

    def harm(factor: float) -> float:
        assert scene.preview is not None
        moved_D = scene.preview(float32(forge(factor))) - centre_D
        return float(np.dot(moved_D, moved_D))

    return _marked(scene, forge(max(factors, key=harm)))


def _bisected(scene: Scene, honest_ND: Doubles, is_hidden: Callable[[Doubles], bool]) -> Flat:
    """The mean minus as many deviations as stay hidden."""
    centre_D = honest_ND.mean(axis=0)
    deviation_D = honest_ND.std(axis=0)
    low = 0.0
    high = 100.0
    for _ in range(_PASSES):
        half = (low + high) / 2
        if is_hidden(centre_D - half * deviation_D):
            low = half
        else:
            high = half
    return _marked(scene, centre_D - low * deviation_D)


def _is_krums_choice(honest_ND: Doubles, at_D: Doubles, hostile: int) -> bool:
    """Whether Krum with f = H takes the forged update when all colluders send it."""
    count = len(honest_ND) + hostile
    rows = np.concatenate([honest_ND, np.repeat(at_D[None, :], hostile, axis=0)])
    sums = [
        float(np.sort(np.delete(_squared(rows, row_D), i))[: max(1, count - hostile - 2)].sum())
        for i, row_D in enumerate(rows)
    ]
    return int(np.argmin(sums)) >= len(honest_ND)


def _squared(rows_ND: Doubles, at_D: Doubles) -> Doubles:
    found: Doubles = ((rows_ND - at_D) ** 2).sum(axis=1)
    return found


def _marked(scene: Scene, forged_D: Doubles) -> Flat:
    """The forged update with one parameter moved a little, another one for each colluder."""
    marked_D = float32(forged_D)
    marked_D[scene.own % len(marked_D)] += np.float32(_MARK)
    return marked_D
