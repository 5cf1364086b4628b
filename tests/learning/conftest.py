"""A cache of their own for all tests of learning, and no data directory of the machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chainfl.learning import datasets
from chainfl.learning.dataset import Dataset


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHAINFL_CACHE", str(folder))
        patch.delenv("CHAINFL_DATA", raising=False)
        yield folder


@pytest.fixture(scope="session")
def digits(own_cache: Path) -> Dataset:
    """The embedded MNIST subset."""
    assert own_cache.is_dir()
    return datasets.load("mnist-embedded")
