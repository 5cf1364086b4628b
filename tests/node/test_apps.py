"""A node with an app: which source it runs, with how many threads, and what becomes of training that does not end."""

from pathlib import Path

import pytest

from chainfl.codec.manifest import AppManifest
from chainfl.codec.vector import decode
from chainfl.errors import AppError, InputError, VerificationError
from chainfl.learning.app import load_app
from chainfl.learning.compute import cores
from chainfl.learning.taskapp import manifest_of
from chainfl.learning.trainer import Trainer
from chainfl.node.journal import SqliteJournal
from chainfl.node.learning import build_trainer, check_manifest, ended_in_time, open_app
from chainfl.node.settings import NodeSettings
from chainfl.sim.experiment import Experiment
from chainfl.sim.network import training
from chainfl.sim.run import head_of
from chainfl.sim.simulation import Simulation, set_up
from chainfl.types import Address

APP = """
import torch
from torch import nn


def model():
    return nn.Linear(4, 2)


def data(where):
    x = torch.randn(60, 4)
    return (x[10:], (x[10:].sum(1) > 0).long()), (x[:10], (x[:10].sum(1) > 0).long())


def train(model, samples, ctx):
    while ctx.round == 1 and ENDLESS:
        pass
    with torch.no_grad():
        model.bias += 0.5


def score(model, samples, ctx):
    return float(model.bias.sum()) ** 2
"""


def write(folder: Path, endless: bool = False) -> str:
    path = folder / "mine.py"
    path.write_text(APP.replace("ENDLESS", str(endless)))
    return str(path)


def settings(**more: object) -> NodeSettings:
    needed = {"task": "0x" + "11" * 20, "keystore": Path("key.json"), "store": "dir:store"}
    return NodeSettings(**(needed | more))  # type: ignore[arg-type]


def manifest(where: str) -> AppManifest:
    return manifest_of(load_app(where), score_samples=5, scale=20)


def test_a_node_runs_the_tasks_app_or_none(tmp_path: Path) -> None:
    where = write(tmp_path)
    task = manifest(where)

    found = open_app(settings(app=where), task)
    assert found is not None
    check_manifest(task, found)

    with pytest.raises(InputError, match=f"runs the app mine with digest {task.digest}.*--app FILE"):
        open_app(settings(), task)
    write(tmp_path, endless=True)
    mine = load_app(where).digest
    with pytest.raises(InputError, match=f"{task.digest}.*{mine}"):
        open_app(settings(app=where), task)
    assert open_app(settings(app=where, accept_app=mine), task) is not None


def test_an_accepted_app_must_still_have_the_tasks_tensors(tmp_path: Path) -> None:
    where = write(tmp_path)
    task = manifest(where)
    Path(where).write_text(APP.replace("ENDLESS", "False").replace("nn.Linear(4, 2)", "nn.Linear(4, 3)"))
    app = open_app(settings(app=where, accept_app=load_app(where).digest), task)
    with pytest.raises(VerificationError, match="another layout here"):
        check_manifest(task, app)


def test_a_node_uses_all_cores_unless_told_and_writes_their_number_down(tmp_path: Path) -> None:
    where = write(tmp_path)
    app = load_app(where)
    by_default = build_trainer(settings(app=where), manifest(where), app)
    told = build_trainer(settings(app=where, threads=3), manifest(where), app)
    assert isinstance(by_default, Trainer)
    assert isinstance(told, Trainer)
    assert (by_default.threads, told.threads) == (cores(), 3)

    journal = SqliteJournal(tmp_path / "journal.sqlite", 1, Address(bytes(20)), Address(bytes(20)))
    journal.note("threads", "3")
    journal.note("threads", "2")
    assert journal.noted("threads") == "2"
    assert journal.noted("other") is None
    journal.close()


def in_train(where: str) -> Simulation:
    """A task in Train, two seconds before its end."""
    experiment = Experiment(app=where, dataset="", participants=5, committee=3, rounds=1)
    simulation = set_up(experiment, faithful=True)
    simulation.net.ledger.draw()
    simulation.net.chain.now = simulation.net.task.round.deadline - 2
    return simulation


@pytest.mark.parametrize("endless", [False, True])
def test_training_that_does_not_end_is_ended_with_the_phase(endless: bool, tmp_path: Path) -> None:
    simulation = in_train(write(tmp_path, endless))
    net = simulation.net
    trainer = ended_in_time(simulation.population.trainers[training(net.task)[0]], net.ledger)
    head_D = decode(head_of(simulation), net.task.config.scale)

    if not endless:
        assert trainer.train(head_D, 1).shape == head_D.shape
        return
    with pytest.raises(
        AppError, match=r"mine.py:\d+: train\(\): the time of Train is over: training has not ended"
    ):
        trainer.train(head_D, 1)
    assert trainer.train(head_D, 2).shape == head_D.shape  # the next round finds it at work
