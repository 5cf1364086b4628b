"""Simulations from Python: the command's bits, typed results, errors of chainfl's own tree."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainfl
from chainfl.cli.app import run
from chainfl.codec import merkle
from chainfl.codec.vector import encode
from chainfl.errors import InputError
from chainfl.learning.recipe import Recipe
from chainfl.public.simulation import Settings
from chainfl.sim.experiment import Experiment

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "examples" / "tabular" / "app.py"
SMALL: Settings = {"participants": 8, "committee": 3, "rounds": 2, "local_steps": 2, "test_samples": 100}


@pytest.fixture(scope="module")
def result() -> chainfl.SimulationResult:
    return chainfl.simulate(**SMALL | Settings(hostile=0.25, seed=3))


def as_options(settings: Settings) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def test_the_same_settings_give_the_roots_of_the_command(
    result: chainfl.SimulationResult, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["simulate", *as_options(SMALL), "--hostile", "0.25", "--seed", "3", "--json"])

    told: dict[str, Any] = json.loads(capsys.readouterr().out)["metrics"]
    assert code == 0
    assert [one.model_root for one in result.rounds] == [one["model_root"] for one in told["rounds"]]
    assert result.accuracies == [one["accuracy"] for one in told["rounds"]]
    assert result.hostile_ids == told["hostile_ids"]
    assert result.experiment.seed == 3


def test_shares_of_a_round_are_by_participant_and_make_the_model(result: chainfl.SimulationResult) -> None:
    for one, shares in zip(result.rounds, result.shares, strict=True):
        assert sum(shares.values()) == pytest.approx(one.share_honest + one.share_hostile)
        assert set(shares) <= set(range(1, 9)) - set(one.committee_ids)
        assert len(shares) == len(one.selected) > 0


def test_the_model_has_the_root_that_the_run_names(result: chainfl.SimulationResult) -> None:
    flat_D = result.parameters()
    network = result.model()

    held_D = np.concatenate(
        [each.detach().numpy().ravel() for _, each in sorted(network.state_dict().items())]
    )
    assert merkle.root(encode(flat_D, result.experiment.scale)).hex() == result.model_root
    assert sorted(held_D) == pytest.approx(sorted(flat_D))
    assert not network.training


def test_the_plot_has_three_pictures_and_is_written_where_asked(
    result: chainfl.SimulationResult, tmp_path: Path
) -> None:
    figure = result.plot(tmp_path / "run.png")

    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["test accuracy of the head", "part of the new model", "members of the committee"]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert np.asarray(figure.axes[0].lines[0].get_ydata()).tolist() == result.accuracies


def test_the_whole_result_is_plain_json(result: chainfl.SimulationResult) -> None:
    plain = json.loads(json.dumps(result.as_plain()))

    assert plain["model_root"] == result.model_root
    assert [one["selected"] for one in plain["rounds"]] == [list(shares) for shares in result.shares]
    assert repr(result).startswith("<SimulationResult: 2 rounds, accuracy 0.")


def test_progress_is_told_round_by_round_and_a_kept_run_goes_on(tmp_path: Path) -> None:
    seen = list[int]()
    whole = chainfl.simulate(**SMALL | Settings(rounds=3))
    first = chainfl.simulate(**SMALL, run=tmp_path / "run", on_round=lambda one: seen.append(one.round))

    longer = chainfl.resume(tmp_path / "run", rounds=3, on_round=lambda one: seen.append(one.round))

    assert seen == [1, 2, 3]
    assert first.folder == longer.folder == tmp_path / "run"
    assert [one.model_root for one in longer.rounds] == [one.model_root for one in whole.rounds]


def test_an_app_gives_its_own_module_and_takes_its_config(tmp_path: Path) -> None:
    app = tmp_path / "own.py"
    app.write_text(_OWN)

    found = chainfl.simulate(app=app, app_config={"rate": 0.5}, participants=5, committee=3, rounds=1)
    again = chainfl.simulate(app=str(app), app_config="rate=0.5", participants=5, committee=3, rounds=1)

    assert type(found.model()).__name__ == "Linear"
    assert found.model_root == again.model_root
    assert chainfl.load_app(str(app)).name == "own"


_OWN = """
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class config:
    rate: float = 0.1


def model():
    return nn.Linear(2, 2)


def data(where):
    x = torch.rand(40, 2)
    y = (x[:, 0] > x[:, 1]).long()
    return (x, y), (x, y)
"""


def test_a_preset_is_changed_by_settings() -> None:
    found = chainfl.simulate(preset="quick", **SMALL | Settings(rule="median"))

    assert found.experiment.rule == "median"
    assert len(found.rounds) == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"participant": 5}, "simulate() has no setting 'participant' (did you mean 'participants'?)"),
        ({"participants": 4}, "leave no worker"),
        ({"rule": "medina"}, "no rule is called 'medina'"),
        ({"preset": "fast"}, "no preset is called 'fast'"),
        ({"app": "nowhere.py"}, "nowhere.py"),
        ({"app": APP, "batch": 3}, "--batch is for built-in models"),
        ({"rounds": "3"}, "rounds must be a whole number, not '3'"),
        ({"participants": 12.5}, "participants must be a whole number, not 12.5"),
        ({"hostile": "half"}, "hostile must be a number, not 'half'"),
        ({"local_steps": True}, "local_steps must be a whole number, not True"),
        ({"rule": 3}, "rule must be a text, not 3"),
        ({"beyond_contract": "yes"}, "beyond_contract must be True or False, not 'yes'"),
        ({"track": "board"}, "give tensorboard:DIR or mlflow:URI"),
    ],
)
def test_what_does_not_fit_is_chainfls_own_error(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        chainfl.simulate(**settings)

    assert isinstance(refused.value, chainfl.ChainflError)
    assert says in str(refused.value)


def test_numbers_of_numpy_are_numbers() -> None:
    few = SMALL | Settings(rounds=np.int64(1), learning_rate=np.float32(0.1), local_steps=None)  # type: ignore[typeddict-item]
    found = chainfl.simulate(**few)

    assert (found.experiment.rounds, type(found.experiment.recipe.learning_rate)) == (1, float)


def test_type_checkers_know_every_setting() -> None:
    names = {each.name for each in (*fields(Experiment), *fields(Recipe))} - {"recipe"}

    assert Settings.__annotations__.keys() == names
