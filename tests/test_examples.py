"""Every example runs as its line in examples/README.md says, the notebook cell by cell."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "examples" / "README.md").read_text()
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


def lines() -> list[str]:
    """What the README says to type."""
    blocks = "\n".join(re.findall(r"^```\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL))
    return [line.split("  #")[0].strip() for line in blocks.splitlines() if line.strip()]


def typed(line: str) -> subprocess.CompletedProcess[str]:
    """The line, with this Python and few rounds."""
    words = shlex.split(line)
    program = [sys.executable, "-m", "chainfl"] if words[0] == "chainfl" else [sys.executable]
    return subprocess.run(
        [*program, *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=290, check=False
    )


def test_every_example_has_its_line_and_its_row() -> None:
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.suffix != ".md"} - {"__pycache__"}

    assert {name for name in folders if f"| `{name}`" not in README} == set()
    assert {name for name in folders if not any(f"examples/{name}" in line for line in lines())} == {
        NOTEBOOK.name  # Jupyter opens it; its cells run below
    }


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("chainfl simulate")])
def test_an_app_runs_as_its_line_says(line: str, require_extra: Callable[[str], None]) -> None:
    for word, extra in (("flower:", "flower"), ("--dp", "dp")):
        if word in line:
            require_extra(extra)

    done = typed(f"{line} --json")

    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)["metrics"]["rounds"]
    assert [one["outcome"] for one in rounds] == ["final"] * len(rounds)
    assert rounds[-1]["loss"] < rounds[0]["loss"]


@pytest.mark.slow
def test_a_rule_of_ones_own_gives_attackers_nothing_where_the_mean_gives_them_their_part() -> None:
    done = typed(next(line for line in lines() if "own_rule" in line))

    assert done.returncode == 0, done.stderr
    found = {
        row.split()[0]: [float(each) for each in re.findall(r"\d\.\d+", row)]
        for row in done.stdout.splitlines()
    }
    assert found["nearer-half"][1] < found["mean"][1] / 3
    assert found["nearer-half"][0] > found["mean"][0]


@pytest.mark.slow
def test_an_attack_of_ones_own_costs_the_mean_accuracy() -> None:
    done = typed(next(line for line in lines() if "own_attack" in line))

    assert done.returncode == 0, done.stderr
    found = {
        row.split()[0]: [float(each) for each in re.findall(r"\d\.\d+", row)]
        for row in done.stdout.splitlines()
    }
    assert set(found) == {"mean", "median", "softmax"}
    assert found["mean"][1] < found["mean"][0]


# The notebook


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text())["cells"]
    return found


def test_the_notebook_is_kept_without_outputs_which_could_be_old() -> None:
    code = [cell for cell in cells() if cell["cell_type"] == "code"]

    assert len(code) >= 8
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in cells()}) == len(cells())


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as Jupyter does: the value of its last expression is its output."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), NOTEBOOK.name, "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)


@pytest.mark.slow
def test_the_notebook_runs_from_the_first_cell_to_the_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    names: dict[str, Any] = {"__name__": "__main__"}

    answers = [shown("".join(cell["source"]), names) for cell in cells() if cell["cell_type"] == "code"]

    told = capsys.readouterr().out
    assert repr(answers[0]).startswith("<SimulationResult: 4 rounds, accuracy 0.")
    assert answers[1] == names["again"].model_root
    assert answers[4]["median"][-1] > answers[4]["mean"][-1]  # what the text above that cell says
    assert tuple(answers[5]) == (2, 10)
    assert answers[7] == 3
    assert "no rule is called 'medina'" in told
