"""Which test samples an internal client's accuracy is measured on."""

import numpy as np
from numpy.typing import NDArray

from chainfl.learning.dataset import Dataset, Samples


def tests_of(dataset: Dataset, own: Samples) -> Samples:
    """Those of its own owner, where the data set names who made each; else those of the classes that it holds."""
    return Samples(dataset.x_test, dataset.y_test, np.flatnonzero(_is_its_own(dataset, own)))


def _is_its_own(dataset: Dataset, own: Samples) -> NDArray[np.bool_]:
    by_owner = []
    for kind, makers in dataset.test_groups.items():
        owners = np.unique(dataset.groups[kind][own.rows])
        if len(owners) == 1:
            by_owner.append(makers == owners[0])

    # A role is of one play too: the narrowest kind of owner is the client.
    if by_owner:
        return min(by_owner, key=lambda is_own: int(is_own.sum()))
    return np.isin(dataset.y_test, np.unique(own.y[own.rows]))
