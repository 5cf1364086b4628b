"""A finished run that is given more rounds goes on as one that was longer from the start."""

import json
from pathlib import Path

import pytest

from chainfl.cli.app import run

SMALL = ["--participants", "9", "--committee", "3", "--local-steps", "2", "--test-samples", "100"]


def play(*arguments: str) -> int:
    return run(["simulate", *arguments, "--json"])


def kept(folder: Path) -> tuple[dict[str, object], list[dict[str, object]]]:
    """The state after the last round, and what each round showed but for its seconds."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return json.loads((folder / "checkpoint.json").read_text()), [one | {"seconds": 0} for one in lines]


@pytest.mark.parametrize(
    "rule",
    ["softmax", "median", "krum", "committee-near:redraw=3", "committee-near:redraw=2", "foolsgold"],
)
def test_two_rounds_and_three_more_are_five_rounds_to_the_last_bit_of_state(
    tmp_path: Path, rule: str
) -> None:
    chosen = [*SMALL, "--rule", rule, "--hostile", "0.2"]
    longer, whole = tmp_path / "longer", tmp_path / "whole"
    assert play(*chosen, "--rounds", "2", "--run", str(longer)) == 0
    assert play(*chosen, "--rounds", "5", "--run", str(whole)) == 0

    assert play("--resume", str(longer), "--rounds", "5") == 0

    assert kept(longer) == kept(whole)
    assert (longer / "experiment.json").read_text() == (whole / "experiment.json").read_text()


def test_a_run_with_real_roles_goes_on_too(tmp_path: Path) -> None:
    longer, whole = tmp_path / "longer", tmp_path / "whole"
    assert play(*SMALL, "--faithful", "--rounds", "1", "--run", str(longer)) == 0
    assert play(*SMALL, "--faithful", "--rounds", "3", "--run", str(whole)) == 0

    assert play("--resume", str(longer), "--rounds", "3") == 0

    assert kept(longer) == kept(whole)


def test_a_run_that_was_cut_off_can_be_made_longer(tmp_path: Path) -> None:
    longer, whole = tmp_path / "longer", tmp_path / "whole"
    assert play(*SMALL, "--rounds", "1", "--run", str(longer)) == 0
    assert play(*SMALL, "--rounds", "3", "--run", str(whole)) == 0
    assert play("--resume", str(longer), "--rounds", "2") == 0
    (longer / "checkpoint.json").unlink()

    assert play("--resume", str(longer), "--rounds", "3") == 0

    assert kept(longer) == kept(whole)


def test_selfish_learning_goes_on_too(tmp_path: Path) -> None:
    longer, whole = tmp_path / "longer", tmp_path / "whole"
    chosen = ["--preset", "varsel-small", "--rule", "local"]
    assert play(*chosen, "--rounds", "2", "--run", str(longer)) == 0
    assert play(*chosen, "--rounds", "3", "--run", str(whole)) == 0

    assert play("--resume", str(longer), "--rounds", "3") == 0

    assert kept(longer) == kept(whole)


def test_a_run_cannot_be_made_shorter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert play(*SMALL, "--rounds", "2", "--run", str(folder)) == 0
    before = kept(folder)

    code = run(["simulate", "--resume", str(folder), "--rounds", "1"])

    assert code == 2
    assert "the run has 2 rounds, and --rounds counts them all: give more than 2" in capsys.readouterr().err
    assert kept(folder) == before
