"""A user's own package adds a model and a data set: installed, it is found by name; broken, it is named."""

import json
from pathlib import Path

import numpy as np
import pytest

from chainfl.cli.app import run
from chainfl.errors import InputError, UnknownNameError
from chainfl.learning import datasets, models
from chainfl.learning.train import Recipe, train

PACKAGE = '''
"""A plug-in: two blobs of points and a model for them."""
import numpy as np
from torch import nn
from chainfl.learning.dataset import Dataset
from chainfl.learning.models import ModelSpec

tiny = ModelSpec("tiny-net", lambda: nn.Linear(2, 2), "features", (2,), 2)

def blobs(root):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    x = (rng.standard_normal((400, 2)) + 3 * y[:, None]).astype(np.float32)
    return Dataset("blobs", x[:300], y[:300], x[300:], y[300:], 2)

def nothing(root):
    return None
'''
ENTRIES = """
[chainfl.models]
tiny-net = plugged_in:tiny
not-a-model = plugged_in:blobs
gone-net = plugged_in_nowhere:net
mnist-cnn = plugged_in:tiny

[chainfl.datasets]
blobs = plugged_in:blobs
nothing = plugged_in:nothing
"""


@pytest.fixture
def plugged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as pip would leave it."""
    about = tmp_path / "plugged_in-1.0.dist-info"
    about.mkdir()
    (tmp_path / "plugged_in.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-in\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("plugged_in")
def test_models_and_data_sets_of_an_installed_package_are_found_by_name() -> None:
    dataset = datasets.load("blobs")

    head = models.initial_flat("tiny-net", 0)
    update = train("tiny-net", head, dataset.rows(np.arange(100)), Recipe(), 1)

    assert {"tiny-net", "mnist-cnn"} <= set(models.known_models())
    assert "blobs" in datasets.known_datasets()
    assert update.shape == (6,)


@pytest.mark.usefixtures("plugged_in")
def test_they_are_simulated_like_our_own(capsys: pytest.CaptureFixture[str]) -> None:
    scene = ["--model", "tiny-net", "--dataset", "blobs", "--participants", "8", "--committee", "3"]

    code = run(["simulate", *scene, "--rounds", "6", "--learning-rate", "0.5", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert told["metrics"]["accuracy"] > 0.9


@pytest.mark.usefixtures("plugged_in")
def test_no_package_changes_the_meaning_of_our_names() -> None:
    assert models.spec_of("mnist-cnn").shape == (28, 28)


@pytest.mark.usefixtures("plugged_in")
def test_a_package_that_offers_something_else_is_named() -> None:
    with pytest.raises(InputError, match="'not-a-model': its package offers function"):
        models.spec_of("not-a-model")
    with pytest.raises(InputError, match="'gone-net': its package plugged_in_nowhere:net does not load"):
        models.spec_of("gone-net")
    with pytest.raises(InputError, match="'nothing': its package returned NoneType"):
        datasets.load("nothing")


def test_without_the_package_its_names_are_unknown() -> None:
    with pytest.raises(UnknownNameError, match="no model is called 'tiny-net'"):
        models.spec_of("tiny-net")
