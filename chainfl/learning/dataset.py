"""The noun of this package: a data set as plain arrays, and rows of it that one participant holds.

Shapes: N samples. Nothing here is copied: participants share the arrays and hold row numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.errors import DataCorruptError, InputError

Array: TypeAlias = NDArray[Any]
Labels: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.int64]

TOKEN_DTYPES = (np.dtype(np.uint16), np.dtype(np.int32), np.dtype(np.int64))
DTYPES = (np.dtype(np.uint8), np.dtype(np.float32), *TOKEN_DTYPES)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Some samples and their labels, as rows of arrays that others may share.

    `x` is uint8 (pixels, used as value/255, or characters), float32 (features) or wider integers (tokens).
    """

    x: Array
    y: Labels
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def first(self, count: int) -> "Samples":
        """The first `count` of them, or all if there are fewer."""
        return Samples(self.x, self.y, self.rows[:count])

    def sampled(self, count: int, seed: int) -> "Samples":
        """`count` of them drawn at random, each label in its proportion; all if there are not more.

        Test sets are often ordered by label, author or place: their first samples are no fair sample.
        """
        if count >= len(self.rows):
            return self

        rng = np.random.Generator(np.random.Philox(seed))
        shuffled = rng.permutation(self.rows)
        labels, places, sizes = np.unique(self.y[shuffled], return_inverse=True, return_counts=True)

        # What each label is due, rounded down; what is missing goes to the largest remainders.
        quotas = sizes * count // len(self.rows)
        remainders = sizes * count % len(self.rows)
        missing = count - int(quotas.sum())
        quotas[np.argsort(-remainders, kind="stable")[:missing]] += 1

        chosen = [shuffled[places == place][: quotas[place]] for place in range(len(labels))]
        return Samples(self.x, self.y, np.sort(np.concatenate(chosen)))

    def with_labels(self, y: Labels) -> "Samples":
        """The same samples under other labels (one for each row of `x`)."""
        return Samples(self.x, y, self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Training and test samples; `groups` names each training sample's natural owner, by kind of owner.

    `test_groups` does so for the test samples, where the data set has it.
    """

    name: str
    x: Array
    y: Labels
    x_test: Array
    y_test: Labels
    classes: int
    groups: Mapping[str, Labels] = field(default_factory=dict)
    test_groups: Mapping[str, Labels] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_pair(self.name, self.x, self.y, self.classes)
        _check_pair(f"{self.name} (test)", self.x_test, self.y_test, self.classes)
        if self.x.shape[1:] != self.x_test.shape[1:] or self.x.dtype != self.x_test.dtype:
            raise DataCorruptError(
                f"{self.name}: training samples are {_form(self.x)}, test samples {_form(self.x_test)}, not alike"
            )
        for labels, groups in ((self.y, self.groups), (self.y_test, self.test_groups)):
            for kind, owners in groups.items():
                if owners.shape != labels.shape:
                    raise DataCorruptError(
                        f"{self.name}: {kind} names {owners.shape} owners for {labels.shape} samples"
                    )

    def rows(self, rows: Rows) -> Samples:
        """These training samples."""
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self.y):
            raise InputError(f"{self.name}: rows must lie in 0…{len(self.y) - 1}")
        return Samples(self.x, self.y, rows)

    def train(self) -> Samples:
        """All training samples."""
        return Samples(self.x, self.y, np.arange(len(self.y)))

    def test(self) -> Samples:
        """All test samples."""
        return Samples(self.x_test, self.y_test, np.arange(len(self.y_test)))


def _check_pair(name: str, x: Array, y: Labels, classes: int) -> None:
    if x.dtype not in DTYPES:
        allowed = ", ".join(str(dtype) for dtype in DTYPES)
        raise DataCorruptError(f"{name}: samples are {x.dtype}; allowed are {allowed}")
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y):
        raise DataCorruptError(f"{name}: {_form(x)} samples do not match {_form(y)} labels")
    if y.dtype != np.int64:
        raise DataCorruptError(f"{name}: labels are {y.dtype}, not int64")
    if len(y) and not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise DataCorruptError(f"{name}: labels are {y.min()}…{y.max()}, not within 0…{classes - 1}")


def _form(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"
