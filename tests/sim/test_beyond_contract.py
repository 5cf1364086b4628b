"""`--beyond-contract`: more updates and members than a contract allows, said in every output."""

import json
from pathlib import Path

import pytest

from chainfl.cli.app import run

MANY = [
    *("simulate", "--participants", "190", "--committee", "47", "--max-updates", "140", "--rounds", "1"),
    *("--model", "varsel-logistic", "--test-samples", "20", "--score-samples", "5", "--stakes", "equal"),
]


def test_a_round_of_more_updates_and_members_than_a_contract_takes_is_played_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"

    code = run([*MANY, "--beyond-contract", "--json", "--run", str(folder)])

    said = capsys.readouterr()
    told = json.loads(said.out)["metrics"]
    outside = (
        "a committee of 47, at most 45; 140 updates a round, at most 45 here: no contract takes these terms"
    )
    assert code == 0
    assert (told["rounds"][0]["workers"], told["rounds"][0]["committee"]) == (140, 47)
    assert told["outside_bounds"] == outside
    assert outside in said.err
    assert told["experiment"]["beyond_contract"] is True
    assert json.loads((folder / "experiment.json").read_text())["experiment"]["beyond_contract"] is True


def test_without_it_such_a_round_is_refused_and_the_flag_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(MANY)

    assert code == 2
    assert "more with --beyond-contract" in capsys.readouterr().err


def test_real_roles_have_no_records_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    code = run([*MANY, "--beyond-contract", "--faithful"])

    assert code == 2
    assert "leave out --faithful" in capsys.readouterr().err


def test_within_the_limits_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--participants", "9", "--committee", "3", "--max-updates", "4", "--beyond-contract", "--json"]

    run([*MANY, *few])

    assert json.loads(capsys.readouterr().out)["metrics"]["outside_bounds"] is None
