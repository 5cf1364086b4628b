"""A Flower ClientApp, unchanged, as an app: what it is asked, what its replies become, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chainfl.cli.app import run
from chainfl.errors import AppError, ToolMissingError
from chainfl.learning.app import App, load_app
from chainfl.learning.learner import Job
from chainfl.learning.samples import part_of
from chainfl.learning.source import absolute, find_source

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = f"flower:{ROOT / 'examples' / 'flower'}"

PROJECT = """
[tool.flwr.app.components]
clientapp = "PACKAGE.client_app:app"
serverapp = "PACKAGE.server_app:app"
[tool.flwr.app.config]
step-size = 0.5
[tool.flwr.app.config.more]
words = "two"
"""

SERVER = """
import torch
from flwr.app import ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    assert context.run_config["step-size"] == 0.5
    start = {"layer.weight": torch.ones(2, 3), "layer.count": torch.tensor(7)}
    FedAvg().start(grid, ArrayRecord(start), train_config=ConfigRecord({"lr": 0.25}))
"""

CLIENT = """
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg, context):
    state = msg.content["arrays"].to_torch_state_dict()
    assert msg.metadata.message_type == "train"
    assert state["layer.count"].item() == 7
    config, place = msg.content["config"], context.node_config
    state["layer.weight"] += context.run_config["step-size"] * config["lr"]
    state["layer.weight"][0, 0] = config["server-round"]
    state["layer.weight"][1, 2] = place["partition-id"] + 10 * place["num-partitions"]
    state["layer.weight"][1, 1] = torch.rand(())
    metrics = MetricRecord({"train_loss": 1.5, "num-examples": 40 + place["partition-id"]})
    return Message(RecordDict({"arrays": ArrayRecord(state), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg, context):
    state = msg.content["arrays"].to_torch_state_dict()
    metrics = MetricRecord({"eval_loss": float(state["layer.weight"].sum()), "eval_acc": 0.75, "num-examples": 8})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
"""


@pytest.fixture(autouse=True)
def _flower(require_extra: Callable[[str], None]) -> None:
    require_extra("flower")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a project of these sources, in a package whose name no other test has."""
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    package = "flower_" + tmp_path.name.replace("-", "_").replace("[", "").replace("]", "")

    def make(client: str = CLIENT, server: str | None = SERVER, told: str = PROJECT) -> str:
        folder = tmp_path / package
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "client_app.py").write_text(client)
        if server is not None:
            (folder / "server_app.py").write_text(server)
        (tmp_path / "pyproject.toml").write_text(told.replace("PACKAGE", package))
        return f"flower:{tmp_path}"

    return make


def part(app: App, client: int, clients: int, where: str | None = None) -> Job:
    return Job(part_of(app.data(where), clients, client, 0)[0], 5, 1)


def test_the_first_model_is_the_one_that_the_server_sends(project: Callable[..., str]) -> None:
    app = load_app(project())

    assert [(each.name, each.shape) for each in app.layout.tensors] == [("layer.weight", (2, 3))]
    assert app.initial().tolist() == [1.0] * 6


def test_a_train_message_brings_head_round_rate_and_partition_and_its_reply_is_the_update(
    project: Callable[..., str],
) -> None:
    app = load_app(project())
    job = part(app, 3, 8)

    update_D = app.train(np.full(6, 2, np.float32), job, 9)

    assert update_D[[0, 1, 2, 3, 5]].tolist() == [9.0, 2.125, 2.125, 2.125, 83.0]
    assert app.metrics == {"train_loss": 1.5}
    assert job.samples.examples == 43
    assert app.train(np.full(6, 2, np.float32), part(app, 3, 8), 9).tolist() == update_D.tolist()


def test_the_reply_to_an_evaluate_message_is_the_score(project: Callable[..., str]) -> None:
    app = load_app(project())

    (score,) = app.score([np.full(6, 0.5, np.float32)], part(app, 0, 2))

    assert (score.loss, score.correct, score.samples) == (3.0, 6, 8)
    assert score.metrics == {"eval_acc": 0.75}


def test_a_sponsor_sets_the_run_config_and_an_operator_the_node_config(project: Callable[..., str]) -> None:
    client = CLIENT.replace(
        'state["layer.weight"][0, 0] =', 'assert place["path"] == "mine"; state["layer.weight"][0, 0] ='
    )
    app = load_app(project(client), {"step_size": "2", "more_words": "three"})

    update_D = app.train(np.zeros(6, np.float32), part(app, 0, 1, "path=mine"), 1)

    assert update_D[1] == 0.5
    assert app.config.more_words == "three"
    with pytest.raises(AppError, match="give a node config"):
        app.data("mine.csv")


def test_the_same_app_is_found_as_a_module_with_the_same_digest(
    project: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = project()
    monkeypatch.chdir(tmp_path)
    package = next(path.parent.name for path in tmp_path.glob("*/client_app.py"))
    module = find_source(f"flower:{package}.client_app:app")

    assert module.digest == find_source(where).digest
    assert module.flower == find_source(where).flower
    assert absolute("flower:.") == where


OLD = """
from flwr.app import Context
from flwr.clientapp import ClientApp


def client_fn(context: Context):
    pass


app = ClientApp(client_fn)
"""

WRONG_CLIENT = {
    "no loss": ("eval_loss", "quality", "has no loss: name one of its metrics eval_loss"),
    "other arrays": ("ArrayRecord(state)", 'ArrayRecord({"x": torch.ones(2)})', "other arrays"),
    "no arrays": ('"arrays": ArrayRecord(state), ', "", "0 ArrayRecords"),
    "fails": ("    assert msg", "    1 / 0\n    assert msg", r"client_app.py:\d+: train\(\): ZeroDivision"),
    "no client": ("app = ClientApp()", "app = 3", "'int' object has no attribute 'train'"),
    "an older client": (CLIENT, OLD, "older messages"),
}


@pytest.mark.parametrize("what", WRONG_CLIENT)
def test_a_client_that_cannot_be_an_app_is_refused_in_one_line(
    what: str, project: Callable[..., str]
) -> None:
    old, new, says = WRONG_CLIENT[what]
    assert old in CLIENT
    where = project(CLIENT.replace(old, new))

    with pytest.raises(AppError, match=says) as refused:
        play(where)

    assert "\n" not in str(refused.value)


def play(where: str) -> None:
    app = load_app(where)
    job = part(app, 0, 1)
    app.score([app.initial()], job)
    app.train(app.initial(), job, 1)


WRONG_PROJECT: dict[str, tuple[str | None, str, str]] = {
    "no server": (None, PROJECT.replace("serverapp", "other"), "no ServerApp beside it"),
    "a server that sends nothing": (
        SERVER.split("    start =")[0],
        PROJECT,
        "ended without sending a model",
    ),
    "no component": (SERVER, "[tool.other]", "names no .*clientapp"),
    "no TOML": (SERVER, "[tool", "pyproject.toml: "),
}


@pytest.mark.parametrize("what", WRONG_PROJECT)
def test_a_project_that_gives_no_first_model_is_refused_in_one_line(
    what: str, project: Callable[..., str]
) -> None:
    server, told, says = WRONG_PROJECT[what]
    where = project(CLIENT, server, told)

    with pytest.raises(AppError, match=says) as refused:
        play(where)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("where", ["flower:", "flower:nothing.here:app", "flower:json", "flower:a/b:app"])
def test_a_name_that_leads_nowhere_is_refused(where: str) -> None:
    with pytest.raises(AppError, match="flower:"):
        find_source(where)


def test_without_flwr_the_extra_is_named(
    project: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    where = project()
    for name in [name for name in sys.modules if name.partition(".")[0] == "flwr"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "chainfl.learning.flower", raising=False)
    monkeypatch.setitem(sys.modules, "flwr", None)

    with pytest.raises(ToolMissingError, match=r"needs flwr.*\[flower\]"):
        load_app(where)


@pytest.mark.slow
def test_the_example_learns_and_gives_the_same_roots_twice_and_with_real_roles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ("--participants", "5", "--committee", "3", "--rounds", "2", "--json")
    answers = []
    for more in ((), ("--faithful",)):
        assert run(["simulate", "--app", EXAMPLE, *few, *more]) == 0
        answers.append(json.loads(capsys.readouterr().out)["metrics"]["rounds"])

    quick, faithful = answers
    assert quick[1]["loss"] < quick[0]["loss"]
    assert [one["model_root"] for one in quick] == [one["model_root"] for one in faithful]
