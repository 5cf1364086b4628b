"""`chainfl simulate` as people and scripts run it."""

import json
from pathlib import Path
from typing import Any

import pytest

from chainfl.cli.app import run

QUICK = ["--participants", "10", "--committee", "3", "--local-steps", "2", "--test-samples", "100"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["simulate", *arguments, "--json"])
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    plain: dict[str, Any] = json.loads(out)
    return code, plain


def test_a_run_answers_with_one_report_and_leaves_metrics_and_plots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"

    code, told = answer(capsys, *QUICK, "--rounds", "2", "--hostile", "0.3", "--run", str(folder))

    assert code == 0
    assert told["schema"] == "chainfl/simulate/1"
    assert [one["outcome"] for one in told["metrics"]["rounds"]] == ["final", "final"]
    assert len(told["metrics"]["hostile_ids"]) == 3
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == told["metrics"]["rounds"]
    assert sorted(path.name for path in (folder / "plots").iterdir()) == [
        "accuracy.png",
        "committee.png",
        "shares.png",
    ]


def test_a_finished_run_can_be_resumed_and_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    _, first = answer(capsys, *QUICK, "--rounds", "1", "--run", folder)

    code, again = answer(capsys, "--resume", folder)

    assert code == 0
    assert again["metrics"]["model_root"] == first["metrics"]["model_root"]


def test_people_get_a_table_and_progress_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["simulate", "--preset", "quick", *QUICK, "--rounds", "1", "--rule", "median"])

    shown = capsys.readouterr()
    assert code == 0
    assert "model root:" in shown.out
    assert "round 1/1: final, accuracy" in shown.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--preset", "none"], "no preset is called 'none'; there are: 1-HH"),
        (["--rule", "none"], "no rule is called 'none'"),
        (["--participants", "many"], "give a number"),
        (["--resume", "none"], "no run is in this folder"),
        (["--resume", "none", "--rounds", "3"], "no run is in this folder"),
        (["--resume", "none", "--rule", "mean"], "give no other flags beside it but --rounds"),
        (["--track", "tensorboard"], "give tensorboard:DIR or mlflow:URI"),
        (["--replay", "none.json"], "--replay needs --participants"),
        (["--replay", "none.json", "--participants", "p.json"], "No such file"),
        (["--dataset", "mnist", "--data", "nowhere"], "mnist"),
        (["--participants", "5"], "leave no worker"),
        (["--hostile", "2"], "0…1"),
        (["--preset", "varsel-none"], "no preset is called 'varsel-none'"),
        (["--preset", "varsel-small", "--committee", "5"], "no place for --committee"),
        (["--preset", "selfish-small", "--worker-attack", "alie"], "poison labels"),
        (["--preset", "selfish-small", "--internal", "1"], "at least 2 internal clients"),
        (["--preset", "varsel-small", "--internal", "0"], "some must be external"),
        (["--budget", "3"], "--budget is for selfish experiments: take a selfish- or varsel- preset"),
        (["--preset", "varsel-small", "--faithful"], "no place for --faithful"),
        (["--preset", "varsel-small", "--engine", "ray"], "no place for --engine"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["simulate", *arguments])

    shown = capsys.readouterr()
    assert code == 2
    assert says in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


def test_selfish_learning_runs_by_preset_with_its_method_as_rule(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(capsys, "--preset", "varsel-small", "--rounds", "2", "--rule", "local")

    assert code == 0
    assert told["schema"] == "chainfl/simulate-selfish/1"
    assert [one["external"] for one in told["metrics"]["rounds"]] == [0, 0]


def test_a_selfish_run_is_kept_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "run")
    _, first = answer(capsys, "--preset", "varsel-small", "--rounds", "2", "--rule", "local", "--run", folder)
    (tmp_path / "run" / "checkpoint.json").unlink()

    code, again = answer(capsys, "--resume", folder)

    assert code == 0
    assert again["metrics"]["model_root"] == first["metrics"]["model_root"]
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = answer(capsys, "--list")

    assert code == 0
    assert {"quick", "1-LH", "9-LH", "3-HHE", "cmfl-shakespeare"} <= told["metrics"]["presets"].keys()
