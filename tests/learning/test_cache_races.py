"""Many processes decode the same data set at once, as the nodes of a devnet do at their first start."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from chainfl.learning.dataset import Array
from chainfl.learning.sources.cache import cached

NAMES = ("x", "y", "x_test", "y_test")


def test_whoever_reads_while_others_write_gets_every_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINFL_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "source"
    source.write_bytes(b"as published")

    def decode() -> dict[str, Array]:
        return {name: np.full(50, place, np.uint8) for place, name in enumerate(NAMES)}

    def read(number: int) -> tuple[list[str], list[int]]:
        arrays = cached("digits", [source], decode, fresh=number % 4 == 0)
        return sorted(arrays), [int(arrays[name][0]) for name in NAMES]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(800)))

    assert found == [(sorted(NAMES), [0, 1, 2, 3])] * 800
