"""What TensorBoard and MLflow are shown, read back with their own libraries."""

import json
import os
import subprocess
import sys
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from chainfl.cli.app import run
from chainfl.errors import InputError, ToolMissingError
from chainfl.tracking import check_tracker, flat, numbers_of

SMALL = ["--participants", "8", "--committee", "3", "--local-steps", "2", "--test-samples", "100"]


def simulate(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """As typed, in a process of its own: MLflow's libraries warn in ways that tests here do not allow."""
    command = [sys.executable, "-m", "chainfl", "simulate", *SMALL, "--json", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])} | more
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves in a folder of event files, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    found = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(each.step, float(make_ndarray(each.tensor_proto))) for each in found.Tensors(tag)]
        for tag in found.Tags()["tensors"]
    }


def test_tensorboard_has_a_curve_for_every_number_of_the_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        [
            "simulate",
            *SMALL,
            "--rounds",
            "3",
            "--run",
            str(tmp_path / "mine"),
            "--json",
            "--track",
            f"tensorboard:{tmp_path / 'board'}",
        ]
    )

    assert code == 0
    rounds = json.loads(capsys.readouterr().out)["metrics"]["rounds"]
    drawn = points(tmp_path / "board" / "mine")
    for name in ("accuracy", "loss", "share_honest", "included", "seconds"):
        assert [step for step, _ in drawn[name]] == [one["round"] for one in rounds]
        assert [value for _, value in drawn[name]] == pytest.approx([one[name] for one in rounds], rel=1e-6)
    assert "model_root" not in drawn


def test_a_resumed_run_goes_on_on_the_same_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = ["--track", f"tensorboard:{tmp_path / 'board'}"]
    assert run(["simulate", *SMALL, "--rounds", "1", "--run", str(tmp_path / "mine"), *board]) == 0

    assert run(["simulate", "--resume", str(tmp_path / "mine"), "--rounds", "3", *board]) == 0

    capsys.readouterr()
    assert [step for step, _ in points(tmp_path / "board" / "mine")["loss"]] == [1, 2, 3]


@pytest.mark.slow
def test_mlflow_has_a_run_with_settings_and_curves(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--rounds", "2", "--run", "mine", "--track", "mlflow:sqlite:///runs.db")
    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)["metrics"]["rounds"]

    read = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _READ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    told: dict[str, Any] = json.loads(read.stdout)
    assert told["name"] == "mine"
    assert told["status"] == "FINISHED"
    assert told["params"]["rule"] == "softmax"
    assert told["params"]["recipe.local_steps"] == "2"
    assert told["accuracy"] == [[one["round"], one["accuracy"]] for one in rounds]


_READ = """
import json
from mlflow import MlflowClient
client = MlflowClient(tracking_uri="sqlite:///runs.db")
number = client.get_experiment_by_name("chainfl").experiment_id
(run,) = client.search_runs([number])
history = client.get_metric_history(run.info.run_id, "accuracy")
print(json.dumps({"name": run.info.run_name, "status": run.info.status, "params": run.data.params,
                  "accuracy": [[each.step, each.value] for each in history]}))
"""


@pytest.mark.slow
def test_what_mlflow_refuses_is_one_line(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--rounds", "1", "--track", "mlflow:nowhere://x")

    assert done.returncode == 5
    assert "error: --track mlflow:nowhere://x: MLflow says: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "board").write_text("a file")

    code = run(["simulate", *SMALL, "--rounds", "1", "--track", f"tensorboard:{tmp_path / 'board'}"])

    assert code == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("library", ["tensorboard", "mlflow"])
def test_a_missing_library_is_named_with_its_remedy_before_anything_begins(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "chainfl.tracking.find_spec", lambda name: None if name == library else util.find_spec(name)
    )

    code = run(["simulate", *SMALL, "--run", str(tmp_path / "run"), "--track", f"{library}:place"])

    assert code == ToolMissingError.exit_code
    assert f"pip install 'chainfl-protocol[{library}]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("address", ["", "tensorboard", "tensorboard:", "wandb:x"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="give tensorboard:DIR or mlflow:URI"):
        check_tracker(address)


def test_only_finite_numbers_are_shown_and_settings_are_flat() -> None:
    named = {"round": 3, "training": {"train loss": 0.25, "odd:name": 1.0}}
    facts = {"round": 3, "loss": 0.5, "accuracy": None, "bad": float("nan"), "root": "ab", "captured": True}

    assert numbers_of(facts) == {"loss": 0.5, "captured": 1.0}
    assert numbers_of(named) == {"training/train loss": 0.25, "training/odd_name": 1.0}
    assert flat({"rule": "mean", "recipe": {"batch": 8}, "app": None}) == {
        "rule": "mean",
        "recipe.batch": "8",
    }
