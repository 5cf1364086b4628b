"""The large data sets themselves, where CHAINFL_DATA says they are: decoded, checked by digest, partitioned."""

import os
from pathlib import Path

import numpy as np
import pytest

from chainfl.learning import datasets
from chainfl.learning.partition import partition

DATA = os.environ.get("CHAINFL_DATA")  # read before the tests of learning take it away
FORMS = {
    "mnist": ((60_000, 28, 28), 10_000, 10),
    "fashion-mnist": ((60_000, 28, 28), 10_000, 10),
    "covtype": ((None, 54), None, 7),
    "imdb": ((25_000, 200), 25_000, 2),
    "shakespeare": ((None, 80), None, 80),
    "shakespeare-six": ((None, 80), None, 80),
    "cifar10": ((None, 32, 32, 3), 10_000, 10),
    "cifar10-24": ((None, 24, 24, 3), 10_000, 10),
}


@pytest.fixture
def data() -> Path:
    """The directory of the large data sets, else a skip, or a failure where CHAINFL_REQUIRE names `data`."""
    if DATA is not None and Path(DATA).is_dir():
        return Path(DATA)
    if "data" in os.environ.get("CHAINFL_REQUIRE", "").split(","):
        pytest.fail("CHAINFL_DATA names no directory, and CHAINFL_REQUIRE names data")
    pytest.skip("CHAINFL_DATA names no directory")


@pytest.mark.deep
@pytest.mark.parametrize("name", FORMS)
def test_a_large_data_set_is_decoded_and_is_the_known_one(name: str, data: Path) -> None:
    form, tests, classes = FORMS[name]

    dataset = datasets.load(name, data)

    assert len(dataset.x.shape) == len(form)
    assert all(wanted in (None, found) for wanted, found in zip(form, dataset.x.shape, strict=True))
    assert tests in (None, len(dataset.x_test))
    assert dataset.classes == classes
    assert set(np.unique(dataset.y)) <= set(range(classes))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "text", "clients"),
    [
        ("mnist", "writer", 539),
        ("imdb", "movie:min=9", 772),
        ("shakespeare", "role:min=64", 143),
        ("shakespeare-six", "cast:play=3,inside=21,min=64", 104),
    ],
)
def test_natural_partitions_have_as_many_clients_as_the_papers_stand_ins(
    name: str, text: str, clients: int, data: Path
) -> None:
    parts = partition(datasets.load(name, data), text, clients, seed=0)

    assert len(parts) == clients
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
