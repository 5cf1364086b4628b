"""Forest Cover Type (UCI): 54 integer features, seven kinds of forest, four wilderness areas, forty soils."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from chainfl.learning.dataset import Array
from chainfl.learning.sources.files import expect, unpack

COLUMNS = 55
QUANTITIES = slice(0, 10)
AREAS = slice(10, 14)
SOILS = slice(14, 54)
TEST_EVERY = 10
FILES = {"table": ("covtype.data.gz", "covtype.data")}


def decode_covtype(found: Mapping[str, Path]) -> dict[str, Array]:
    """Quantities standardised over the training rows, the rest 0 or 1; every tenth row, from the first, is test."""
    table = _table(found["table"])
    expect(
        bool((table[:, AREAS].sum(1) == 1).all()), found["table"], "rows without exactly one wilderness area"
    )
    expect(bool((table[:, SOILS].sum(1) == 1).all()), found["table"], "rows without exactly one soil type")

    is_test = np.arange(len(table)) % TEST_EVERY == 0
    x = table[:, :54].astype(np.float32)
    mean, spread = _mean_and_spread(table[~is_test, QUANTITIES].astype(np.int64))
    x[:, QUANTITIES] = (table[:, QUANTITIES] - mean) / spread
    y = table[:, 54].astype(np.int64) - 1
    area = table[:, AREAS].argmax(1).astype(np.int64)
    soil = table[:, SOILS].argmax(1).astype(np.int64)
    return {
        "x": x[~is_test],
        "y": y[~is_test],
        "x_test": x[is_test],
        "y_test": y[is_test],
        "group_area": area[~is_test],
        "group_soil": soil[~is_test],
    }


def _mean_and_spread(quantities: Array) -> tuple[Array, Array]:
    """Of each column, from exact integer sums, so that every machine gets the same bits."""
    count = len(quantities)
    total = quantities.sum(0)
    squares = (quantities * quantities).sum(0)
    spread = [
        math.sqrt(count * int(square) - int(sum_) ** 2) / count or 1.0
        for sum_, square in zip(total, squares, strict=True)
    ]
    return total / count, np.array(spread)


def _table(path: Path) -> Array:
    text = unpack(path)
    try:
        table = np.loadtxt(text.decode("ascii").splitlines(), delimiter=",", dtype=np.int16, ndmin=2)
    except (ValueError, UnicodeDecodeError, OverflowError) as problem:
        expect(False, path, f"not a table of integers: {problem}")
        raise
    expect(
        table.shape[1] == COLUMNS and len(table) >= TEST_EVERY, path, f"{list(table.shape)} numbers, not Nx55"
    )
    expect(int(table[:, 54].min()) >= 1 and int(table[:, 54].max()) <= 7, path, "classes outside 1…7")
    return table
