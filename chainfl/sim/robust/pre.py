"""Pre-aggregations: what may be done to the updates before a rule sees them. Each answers mixes of its input."""

from collections.abc import Mapping

import numpy as np

from chainfl.sim.robust.geometry import Mixes, Weights, middle_of

Values = Mapping[str, float]


def nearest_neighbours(mixes: Mixes, values: Values) -> Mixes:
    """Each becomes the mean of its J - f nearest, itself included (NNM; Allouah et al., AISTATS 2023)."""
    count = len(mixes) - int(values["f"])
    squared_JJ = mixes.squared_distances()
    weights_JJ = np.zeros((len(mixes), len(mixes)))

    for row, distances in enumerate(squared_JJ.tolist()):
        nearest = sorted(range(len(mixes)), key=lambda j: (distances[j], j != row, j))[:count]
        weights_JJ[row, nearest] = 1.0 / count
    return mixes.mixed(weights_JJ)


def buckets(mixes: Mixes, values: Values) -> Mixes:
    """Means of random groups of s, the last one smaller (bucketing; Karimireddy, He, Jaggi, ICLR 2022)."""
    size = int(values["s"])
    order = np.random.Generator(np.random.Philox(mixes.updates.seed)).permutation(len(mixes))
    groups = [order[start : start + size] for start in range(0, len(order), size)]

    weights_IJ = np.zeros((len(groups), len(mixes)))
    for row, group in enumerate(groups):
        weights_IJ[row, group] = 1.0 / len(group)
    return mixes.mixed(weights_IJ)


def clipped(mixes: Mixes, values: Values) -> Mixes:
    """Steps longer than tau are shortened to it (Sun et al., 2019); tau = 0: the median length of the round."""
    lengths = mixes.lengths()
    return mixes.mixed(np.diag(shortening(lengths, values["tau"] or middle_of(lengths))))


def adaptively_clipped(mixes: Mixes, values: Values) -> Mixes:
    """The k = ⌊2(f/J)(J - f)⌋ longest are shortened to the next length (ARC; Allouah et al., ICLR 2025)."""
    count = len(mixes)
    f = int(values["f"])
    lengths = mixes.lengths()
    longest = 2 * f * (count - f) // count

    limit = sorted(lengths.tolist(), reverse=True)[min(longest, count - 1)]
    return mixes.mixed(np.diag(shortening(lengths, limit)))


def shortening(lengths: Weights, limit: float) -> Weights:
    """The factors that bring lengths down to a limit."""
    return np.minimum(1.0, np.divide(limit, lengths, out=np.ones_like(lengths), where=lengths > limit))
