"""A task's app against the code and the frozen files that are here, and what a rehearsal finds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chainfl.codec.manifest import AppManifest, ConfigValue, decode_manifest
from chainfl.errors import AppError, InputError
from chainfl.learning import builtin
from chainfl.learning.app import load_app
from chainfl.learning.builtin import BuiltIn, LearningSpec, spec_of_manifest
from chainfl.learning.check import NOTE, OK, WRONG, Trial, check_app
from chainfl.learning.recipe import Recipe
from chainfl.learning.rehearsal import rehearse_app
from chainfl.learning.taskapp import is_app, manifest_of, task_app
from chainfl.learning.trainer import Trainer
from chainfl.protocol.terms import default_terms
from chainfl.types import TaskConfig

APP = """
import torch
from torch import nn
from torch.nn import functional

from pathlib import Path

calls = []


def base():
    return [Path(__file__).with_name("base")]


def model():
    return nn.Linear(4, 2)


def data(where):
    x = torch.randn(60, 4)
    y = (x.sum(1) > 0).long()
    return (x[10:], y[10:]), (x[:10], y[:10])


def train(model, samples, ctx):
    x, y = samples
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()


def score(model, samples, ctx):
    x, y = samples
    return functional.cross_entropy(model(x), y)
"""


@pytest.fixture
def where(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "weights.bin").write_bytes(b"frozen")
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def manifest(where: Path) -> AppManifest:
    made = decode_manifest(manifest_of(load_app(str(where)), score_samples=5, scale=20).encode())
    assert isinstance(made, AppManifest)
    return made


def test_the_tasks_own_app_is_taken_and_another_is_refused_by_both_digests(where: Path) -> None:
    task = manifest(where)
    assert is_app(task)
    assert task_app(task, str(where / "app.py")).digest == task.digest

    (where / "app.py").write_text(APP + "# changed\n")
    mine = load_app(str(where)).digest
    with pytest.raises(
        InputError, match=f"digest {task.digest}, the source here has {mine}.*--accept-app {mine}"
    ):
        task_app(task, str(where))
    with pytest.raises(InputError, match="is not the task's"):
        task_app(task, str(where), accepted=task.digest)
    assert task_app(task, str(where), accepted=mine).digest == mine


def test_frozen_files_are_checked_before_anything_is_enrolled(where: Path) -> None:
    task = manifest(where)
    frozen = where / "base" / "weights.bin"
    assert [(each.name, each.bytes) for each in task.base] == [("weights.bin", 6)]

    frozen.write_bytes(b"frozeN")
    with pytest.raises(InputError, match=r"frozen file weights.bin: the task names SHA-256 \w+ \(6 bytes\)"):
        task_app(task, str(where))
    frozen.rename(frozen.with_name("other.bin"))
    with pytest.raises(InputError, match=r"weights.bin \(6 bytes\) is not among base\(\) here"):
        task_app(task, str(where))


def config(where: Path, rule: str = "softmax") -> TaskConfig:
    return default_terms(rule, load_app(str(where)).layout.d, 3, 2)


def rehearse(where: Path, text: str, rule: str = "softmax") -> None:
    (where / "app.py").write_text(text)
    app = load_app(str(where))
    trainer = Trainer(app, *app.data(None), score_samples=5, master_seed=1, threads=1)
    rehearse_app(trainer, app.initial(), config(where, rule))


BAD = {
    "NaN": (
        "    optimiser.step()\n",
        "    model.weight.data[1, 2] = float('nan')\n",
        "leaves a value in weight that cannot",
    ),
    "too large": (
        "    optimiser.step()\n",
        "    model.bias.data += 1e9\n",
        "leaves a value in bias that cannot",
    ),
    "a score that changes": (
        "    return functional.cross_entropy(model(x), y)\n",
        "    calls.append(1)\n    return functional.cross_entropy(model(x), y) + len(calls)\n",
        "of the same model",
    ),
    "a score that is NaN": (
        "    return functional.",
        "    return float('nan') * functional.",
        "first model is nan",
    ),
    "a score below 0": (
        "    return functional.",
        "    return -1 * functional.",
        "less than 0 has no place on chain",
    ),
    "a score too large": (
        "    return functional.",
        "    return 1e9 * functional.",
        "1.84467e.07 is the most",
    ),
    "wrong shapes": ("nn.Linear(4, 2)", "nn.Linear(5, 2)", "app.py:.*mat1 and mat2"),
}


def test_a_sound_app_rehearses(where: Path) -> None:
    rehearse(where, APP)


@pytest.mark.parametrize("what", BAD)
def test_a_rehearsal_refuses_what_no_round_could_use(what: str, where: Path) -> None:
    old, new, says = BAD[what]
    assert old in APP
    with pytest.raises(AppError, match=says):
        rehearse(where, APP.replace(old, new))


def test_a_rule_that_counts_correct_answers_needs_them(where: Path) -> None:
    with pytest.raises(AppError, match="counts correct answers"):
        rehearse(where, APP, "softmax-accuracy")


FOUND = {
    "gradients on in score": ("calls = []", "calls = []", "gradients", NOTE),
    "writes into its samples": (
        "    loss.backward()\n",
        "    loss.backward()\n    x += 1\n",
        "samples",
        WRONG,
    ),
    "changes nothing": ("    optimiser.step()\n", "", "update", WRONG),
    "a score that changes": (
        "    return functional.cross_entropy(model(x), y)\n",
        "    calls.append(1)\n    return functional.cross_entropy(model(x), y) + len(calls)\n",
        "score again",
        WRONG,
    ),
    "a score below 0": ("    return functional.", "    return -1 * functional.", "score", WRONG),
    "a score too large": ("    return functional.", "    return 1e9 * functional.", "score", WRONG),
    "values that the encoding cannot hold": (
        "    return nn.Linear(4, 2)\n",
        "    net = nn.Linear(4, 2)\n    net.weight.data += 1e6\n    return net\n",
        "range",
        WRONG,
    ),
    "training that changes": (
        "    optimiser.step()\n",
        "    calls.append(1)\n    model.bias.data += len(calls)\n",
        "train again",
        NOTE,
    ),
    "yields copies": (
        "def train(",
        "def parameters(model):\n    return [('w', model.weight.detach().clone())]\n\n\ndef train(",
        "parameters",
        WRONG,
    ),
    "trains what it does not share": (
        "def train(",
        "def parameters(model):\n    return [('w', model.weight)]\n\n\ndef train(",
        "frozen",
        WRONG,
    ),
    "values that the encoding loses": (
        "    return nn.Linear(4, 2)\n",
        "    net = nn.Linear(4, 2)\n    net.weight.data *= 1e-8\n    return net\n",
        "range",
        NOTE,
    ),
    "tied weights": (
        "    return nn.Linear(4, 2)\n",
        "    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))\n"
        "    net[1].weight = net[0].weight\n    return net\n",
        "frozen",
        OK,
    ),
    "a loss with its gradients": (
        "    optimiser.step()\n",
        "    optimiser.step()\n    return {'train loss': loss}\n",
        "train",
        OK,
    ),
    "NaN": ("    optimiser.step()\n", "    model.weight.data[0, 0] = float('nan')\n", "run", WRONG),
}


@pytest.mark.parametrize("what", FOUND)
def test_a_check_says_what_would_go_wrong(what: str, where: Path) -> None:
    old, new, check, verdict = FOUND[what]
    assert old in APP
    (where / "app.py").write_text(APP.replace(old, new))
    found = {each.check: each.verdict for each in check_app(load_app(str(where)), Trial())}
    assert found[check] == verdict


def test_a_check_finds_nothing_wrong_with_a_sound_app(where: Path) -> None:
    (where / "app.py").write_text(APP.replace("    return functional.", "    return float(1) * functional."))
    found = list(check_app(load_app(str(where)), Trial()))
    assert [each for each in found if each.verdict not in (OK, NOTE)] == []


def test_the_built_in_app_is_an_app_with_its_version_for_a_digest() -> None:
    spec = LearningSpec("varsel-logistic", "mnist-embedded", Recipe(learning_rate=0.5, batch=8), 3, 50)
    chosen = {"model": spec.model, "dataset": spec.dataset, "learning_rate": 0.5, "batch": 8}
    config = tuple(ConfigValue(name, json.dumps(chosen[name])) for name in sorted(chosen))
    layout = BuiltIn(spec).layout
    task = AppManifest(builtin.NAME, builtin.VERSION, config, (), 3, 50, 20, layout)

    assert not is_app(task)
    assert spec_of_manifest(task) == spec
    with pytest.raises(InputError, match="requires version builtin-9 of the built-in app, this is builtin-1"):
        spec_of_manifest(replace(task, digest="builtin-9"))
