"""An exported model in its app's hands: judged on data of one's own, and the same in other libraries' formats."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from chainfl.cli.app import run
from chainfl.codec import merkle
from chainfl.codec.model_file import About, ModelFile, read_model_file, write_model_file
from chainfl.codec.vector import encode
from chainfl.errors import AppError, InputError
from chainfl.learning.app import App, load_app
from chainfl.learning.exported import network_of, score_file, write_onnx, write_peft
from chainfl.learning.learner import Job
from chainfl.learning.taskapp import manifest_of, settings_of

APP = """
import torch
from torch import nn
import chainfl


def model():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4 * 36, 3)
    )


def data(where):
    x, y = torch.randn(90, 1, 8, 8), torch.arange(90) % 3
    return (x[30:], y[30:]), (x[:30], y[:30])
"""


BRANCHES = """

class Sometimes(nn.Module):
    def forward(self, x):
        return x if float(x.sum()) > 0 else -x
"""


@pytest.fixture
def app(tmp_path: Path) -> App:
    (tmp_path / "mine.py").write_text(APP)
    return load_app(str(tmp_path / "mine.py"))


def exported(app: App, *, is_trained: bool = True) -> ModelFile:
    """A model of the app, after some training or as built, as a chain would hold it."""
    train_on, _ = app.data(None)
    flat_D = app.train(app.initial(), Job(train_on, 3, 1), 1) if is_trained else app.initial()
    u_D = encode(flat_D, 20)
    about = About(31337, bytes(20), 4, merkle.root(u_D), 20)
    return read_model_file(write_model_file(u_D, app.layout, about))


def test_a_model_is_judged_as_a_validator_would(
    app: App, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(app)
    out = tmp_path / "model.safetensors"
    out.write_bytes(write_model_file(file.vector, file.layout, file.about))

    code = run(["model", "score", str(out), "--app", str(tmp_path / "mine.py"), "--samples", "20", "--json"])

    told = json.loads(capsys.readouterr().out)["metrics"]
    expected = score_file(app, file, None, 20, 1)
    assert code == 0
    assert (told["loss"], told["samples"], told["round"]) == (expected.loss, 20, 4)
    assert told["accuracy"] == expected.accuracy
    assert score_file(app, file, None, 0, 1).samples == 30


def test_another_apps_model_is_refused_by_the_tensors_name(app: App, tmp_path: Path) -> None:
    file = exported(app)
    (tmp_path / "other.py").write_text(APP.replace("4 * 36, 3", "4 * 36, 5"))

    with pytest.raises(InputError, match=r"no model of app other: 5\.bias differs"):
        score_file(load_app(str(tmp_path / "other.py")), file, None, 0, 1)


SHAPED = """
from dataclasses import dataclass
from torch import nn


@dataclass
class Config:
    width: int = 4


config = Config()


def model():
    return nn.Linear(config.width, 2)


def data(where):
    raise RuntimeError("not asked for")
"""


def test_what_the_sponsor_set_shapes_the_model_and_is_read_from_the_tasks_manifest(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SHAPED)
    where = str(tmp_path / "mine.py")
    sponsors = load_app(where, {"width": "6"}, 7)
    task = manifest_of(sponsors, score_samples=5, scale=20)
    u_D = encode(sponsors.initial(), 20)
    file = ModelFile(u_D, sponsors.layout, About(31337, bytes(20), 0, merkle.root(u_D), 20))

    with pytest.raises(InputError, match="weight differs in name or shape; a task's own --app-config may"):
        network_of(load_app(where), file)
    assert network_of(load_app(where, *settings_of(task)), file).in_features == 6


def test_the_onnx_file_gives_the_same_answers_for_any_size_of_a_batch(
    app: App, tmp_path: Path, require_extra: Callable[[str], None]
) -> None:
    require_extra("onnx")
    from onnx.reference import ReferenceEvaluator

    file = exported(app)
    write_onnx(app, file, None, tmp_path / "model.onnx")

    evaluator = ReferenceEvaluator(str(tmp_path / "model.onnx"))
    network = network_of(app, file)
    for size in (1, 2, 7):
        x = torch.randn(size, 1, 8, 8)
        (answers,) = evaluator.run(None, {"x": x.numpy()})
        with torch.no_grad():
            assert np.allclose(answers, network(x).numpy(), atol=1e-4)


def test_what_torch_cannot_export_is_said_in_one_line(
    tmp_path: Path, require_extra: Callable[[str], None]
) -> None:
    require_extra("onnx")
    (tmp_path / "mine.py").write_text(APP.replace("nn.Flatten()", "Sometimes(), nn.Flatten()") + BRANCHES)
    app = load_app(str(tmp_path / "mine.py"))

    with pytest.raises(AppError, match="torch cannot export this model to ONNX") as refused:
        write_onnx(app, exported(app, is_trained=False), None, tmp_path / "model.onnx")

    assert "\n" not in str(refused.value)


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_adapters_is_no_peft_model(
    app: App, tmp_path: Path, require_extra: Callable[[str], None]
) -> None:
    require_extra("hf")
    with pytest.raises(InputError, match="is a Sequential, no PeftModel"):
        write_peft(app, exported(app), tmp_path / "adapters")


def test_other_formats_need_the_app(capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--task", "0x" + "11" * 20, "--store", "dir:nowhere", "--out", "m.safetensors"]

    assert run(["model", "export", *task, "--onnx", "m.onnx"]) == 2
    assert "give --app FILE" in capsys.readouterr().err
