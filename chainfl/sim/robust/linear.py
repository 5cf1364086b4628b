"""Rules whose result is a mix of the updates: each answers one weight for each input, and the head has the rest.

A mix is what a contract can prove once its shares are attested. J inputs.
"""

import numpy as np

from chainfl.codec.vector import BIAS
from chainfl.errors import InputError
from chainfl.protocol.shares import krum
from chainfl.sim.robust.geometry import (
    Matrix,
    Mixes,
    Weights,
    added,
    cosines_of,
    distances_of,
    middle_of,
    products,
    times,
)
from chainfl.sim.robust.pre import Values, shortening

_SQUARINGS = 24
"""A matrix to the power 2^24 is its first direction to the last bit, unless two directions are equally long."""


def mean(mixes: Mixes, values: Values) -> Weights:
    """All alike."""
    del values
    return np.full(len(mixes), 1.0 / len(mixes))


def geometric_median(mixes: Mixes, values: Values) -> Weights:
    """Smoothed Weiszfeld: weights by 1 / max(nu, distance to the present point) (RFA; Pillutla et al., 2022)."""
    weights_J = mean(mixes, values)
    for _ in range(int(values["iterations"])):
        inverse_J = 1.0 / np.maximum(values["nu"], mixes.distances_to(weights_J))
        weights_J = inverse_J / added(inverse_J)
    return weights_J


def centred_clipping(mixes: Mixes, values: Values) -> Weights:
    """v ← v + mean of the differences to v, each shortened to tau (Karimireddy, He, Jaggi, ICML 2021).

    v starts at the head: what is sent are models, not momenta. tau = 0: the median distance to v, in each pass.
    """
    weights_J = np.zeros(len(mixes))
    for _ in range(int(values["iterations"])):
        distances_J = mixes.distances_to(weights_J)
        factors_J = shortening(distances_J, values["tau"] or middle_of(distances_J)) / len(mixes)
        weights_J = weights_J * (1.0 - added(factors_J)) + factors_J
    return weights_J


def krum_choice(mixes: Mixes, values: Values) -> Weights:
    """The m with the least sum of squared distances to their J - f - 2 nearest (Blanchard et al., 2017)."""
    squared_JJ = mixes.squared_distances().tolist()
    selected = int(values.get("m", 1)) or len(mixes) - int(values["f"])
    chosen = krum(squared_JJ, int(values["f"]), selected)
    return _equal(chosen)


def divide_and_conquer(mixes: Mixes, values: Values) -> Weights:
    """Outliers along the first principal direction leave, in several random samples of coordinates.

    DnC (Shejwalkar and Houmansadr, NDSS 2021): each pass drops the c·f inputs with the largest squared projection;
    the mean is over those that no pass dropped (over all that the fewest passes dropped, where none is left).
    """
    updates = mixes.updates
    rng = np.random.Generator(np.random.Philox(updates.seed))
    size = len(updates.head)
    dropped = min(len(mixes) - 1, int(values["c"] * values["f"]))
    drops_J = np.zeros(len(mixes), np.int64)

    for _ in range(int(values["iterations"])):
        rows = np.sort(rng.permutation(size)[: int(values["sample"])])
        gram_KK = products(updates.head[rows], [u_D[rows] for u_D in updates.vectors], updates.scale)
        gram_JJ = times(times(mixes.weights, gram_KK), mixes.weights.T.copy())
        scores = np.abs(first_direction(centred(gram_JJ))).tolist()
        for j in sorted(range(len(mixes)), key=lambda j: (-scores[j], j))[:dropped]:
            drops_J[j] += 1
    return _equal((drops_J == drops_J.min()).tolist())


def centred(gram: Matrix) -> Matrix:
    """Inner products of the vectors minus their mean."""
    count = len(gram)
    about_mean = np.eye(count) - 1.0 / count
    return times(times(about_mean, gram), about_mean)


def first_direction(gram: Matrix) -> Weights:
    """The first eigenvector of inner products: what each vector's projection on the longest axis is in proportion to.

    By squaring the matrix again and again, in a fixed order: the same bits everywhere.
    """
    power = gram
    for _ in range(_SQUARINGS):
        largest = float(np.abs(power).max())
        if largest == 0.0:
            return np.zeros(len(gram))
        power = power / largest
        power = times(power, power)
    column = int(np.argmax(power.diagonal()))
    found: Weights = power[:, column]
    return found


def trusted_root(mixes: Mixes, values: Values) -> Weights:
    """Trust ReLU(cos to the root's step), lengths as the root's (FLTrust; Cao et al., NDSS 2021)."""
    del values
    updates = mixes.updates
    if updates.root is None:
        raise InputError("rule fltrust needs an update of the root samples")

    all_KK = products(updates.head, [*updates.vectors, updates.root], updates.scale)
    across_J = times(mixes.weights, all_KK[:-1, -1:])[:, 0]
    own = float(np.sqrt(all_KK[-1, -1]))
    lengths_J = mixes.lengths()

    # Both factors in one: cos·(own / length) = (inner product / length²), where it points the root's way.
    both_J = lengths_J * own
    trust_J = np.maximum(np.divide(across_J, both_J, out=np.zeros_like(both_J), where=both_J > 0), 0.0)
    total = added(trust_J)
    if total == 0.0:
        return np.zeros(len(mixes))
    return trust_J / total * np.divide(own, lengths_J, out=np.zeros_like(lengths_J), where=lengths_J > 0)


def flame_weights(mixes: Mixes, values: Values) -> Weights:
    """The majority cluster by angle, each shortened to the median length (FLAME; Nguyen et al., 2022).

    HDBSCAN with clusters of more than half and one neighbour is the first group of more than half that single
    linkage forms. The noise, which needs no weights, is added where the model is made.
    """
    del values
    admitted = majority_cluster(1.0 - cosines_of(mixes.gram))
    lengths_J = mixes.lengths()
    return shortening(lengths_J, middle_of(lengths_J)) * _equal(admitted)


def majority_cluster(distances: Matrix) -> list[bool]:
    """Join the nearest two groups until one holds more than half; that one."""
    count = len(distances)
    group = list(range(count))
    pairs = [(float(distances[i, j]), i, j) for i in range(count) for j in range(i + 1, count)]

    for _, i, j in sorted(pairs):
        old = group[j]
        group = [group[i] if each == old else each for each in group]
        if group.count(group[i]) > count // 2:
            return [each == group[i] for each in group]
    return [True] * count


def fools_gold(mixes: Mixes, values: Values) -> Weights:
    """Workers whose sums of steps point the same way weigh less (FoolsGold; Fung et al., RAID 2020).

    The paper adds the weighted updates of single steps; here updates are models, so the weights are parts of one.
    """
    del values
    history = mixes.updates.history
    count = len(history)
    origin = np.full(len(mixes.updates.head), BIAS, np.uint32)
    cosines_KK = cosines_of(products(origin, history, mixes.updates.scale))
    np.fill_diagonal(cosines_KK, 0.0)

    # Pardoning: who resembles somebody that resembles others more is not to blame for it.
    closest_K = np.maximum(cosines_KK.max(axis=1), 1e-12)
    pardon_KK = np.minimum(1.0, closest_K[:, None] / closest_K[None, :])
    rate_K = np.clip(1.0 - (cosines_KK * pardon_KK).max(axis=1), 0.0, 1.0)
    if count < 2 or rate_K.max() == 0.0:
        return np.full(count, 1.0 / count)

    # The logit spreads the rates; 0.99 keeps it finite, as in the authors' own program.
    rate_K = rate_K / rate_K.max()
    rate_K = np.where(rate_K == 1.0, 0.99, rate_K)
    logit_K = np.where(rate_K > 0.0, np.log(np.maximum(rate_K, 1e-300) / (1.0 - rate_K)) + 0.5, 0.0)
    weights_K = np.clip(logit_K, 0.0, 1.0)
    total = added(weights_K)
    return weights_K / total if total > 0 else np.full(count, 1.0 / count)


def bulyan_choice(mixes: Mixes, f: int) -> list[int]:
    """Krum again and again without the one it chose, until J - 2f are chosen (El Mhamdi et al., ICML 2018).

    Where so few are left that Krum would add no distance, the nearest one counts: the order of updates must not choose.
    """
    left = list(range(len(mixes)))
    squared_JJ = distances_of(mixes.gram)
    chosen: list[int] = []
    while len(chosen) < len(mixes) - 2 * f:
        among = squared_JJ[np.ix_(left, left)].tolist()
        best = krum(among, min(f, len(left) - 3), 1).index(True) if len(left) > 2 else 0
        chosen.append(left.pop(best))
    return chosen


def _equal(chosen: list[bool]) -> Weights:
    return np.array(chosen, np.float64) / sum(chosen)
