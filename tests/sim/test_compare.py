"""Runs side by side, from their folders alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chainfl.cli.app import run

SMALL = ["--participants", "8", "--committee", "3", "--local-steps", "2", "--test-samples", "100"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs that differ in rule and number of rounds."""
    home = tmp_path_factory.mktemp("runs")
    for name, rounds in (("mean", "2"), ("median", "3")):
        kept = ["--rule", name, "--rounds", rounds, "--run", str(home / name)]
        assert run(["simulate", *SMALL, *kept, "--json"]) == 0
    return [str(home / "mean"), str(home / "median")]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["compare", *arguments, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)["metrics"]
    return told


def facts(folder: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]


def test_each_run_is_summed_up_and_what_differs_is_named(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, *runs)

    assert told["differences"] == {"rule": ["mean", "median"], "rounds": ["2", "3"]}
    assert [one["rounds_played"] for one in told["runs"]] == [2, 3]
    assert [one["model_root"] for one in told["runs"]] == [facts(each)[-1]["model_root"] for each in runs]
    assert told["series"]["median"] == [one["accuracy"] for one in facts(runs[1])]


def test_any_number_of_a_round_can_be_drawn(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, *runs, "--measure", "share_honest", "--plot", str(tmp_path / "drawn.png"))

    assert told["series"]["mean"] == [one["share_honest"] for one in facts(runs[0])]
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_one_file_with_tables_and_the_picture(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, *runs, "--html", str(tmp_path / "compared.html"))

    page = (tmp_path / "compared.html").read_text()
    assert '<img src="data:image/svg+xml;base64,' in page
    assert "<td>rule</td><td>mean</td><td>median</td>" in page
    assert facts(runs[0])[-1]["model_root"][:12] in page


def test_people_get_tables(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    assert run(["compare", *runs]) == 0

    shown = capsys.readouterr().out
    assert "differs in" in shown
    assert facts(runs[1])[-1]["model_root"][:12] in shown


def test_a_selfish_run_can_be_compared_too(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "selfish")
    kept = ["--preset", "varsel-small", "--rule", "local", "--rounds", "1", "--run", folder]
    assert run(["simulate", *kept, "--json"]) == 0

    told = answer(capsys, runs[0], folder)

    assert told["differences"]["method"] == ["–", "local"]  # noqa: RUF001 (a dash in a table)
    assert told["runs"][1]["accuracy"] == facts(folder)[-1]["accuracy"]


def test_runs_of_the_same_name_are_told_apart_by_their_paths(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mean").symlink_to(runs[0])

    told = answer(capsys, runs[0], str(tmp_path / "mean"))

    assert [one["name"] for one in told["runs"]] == [runs[0], str(tmp_path / "mean")]


def test_reading_runs_needs_no_torch(runs: list[str]) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from chainfl.cli.app import run; "
        f"sys.exit(run(['compare', *{runs!r}, '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "no run is in this folder"),
        (["{run}", "--measure", "speed"], "no run has 'speed'; there are: accuracy,"),
        (["{run}", "--plot", "drawn.gif"], "give .png, .svg or .pdf"),
        (["{run}", "--html", "nowhere/page.html"], "cannot be written"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], says: str, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    code = run(["compare", *(each.format(run=runs[0]) for each in arguments)])

    shown = capsys.readouterr()
    assert code == 2
    assert says in shown.err
    assert "Traceback" not in shown.err


def test_a_damaged_run_and_one_without_rounds_are_named(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "experiment.json").write_text((Path(runs[0]) / "experiment.json").read_text())
    assert run(["compare", str(tmp_path)]) == 2
    assert "no round of this run was played yet" in capsys.readouterr().err

    (tmp_path / "metrics.jsonl").write_text("not json\n")
    assert run(["compare", str(tmp_path)]) == 2
    assert "metrics.jsonl is damaged" in capsys.readouterr().err
