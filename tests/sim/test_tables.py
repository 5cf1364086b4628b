"""Tables over groups of a campaign, and finished cells that are played again."""

import json
from pathlib import Path
from typing import Any

import pytest

from chainfl.cli.app import run as command
from chainfl.errors import InputError
from chainfl.sim.experiments.campaign import parse
from chainfl.sim.experiments.cells import expand
from chainfl.sim.experiments.claims import judge
from chainfl.sim.experiments.report import blocks_of
from chainfl.sim.experiments.results import Results, read_results
from chainfl.sim.experiments.runner import CELLS, Plan, open_run, run_campaign
from chainfl.sim.experiments.tables import Row, table_of
from chainfl.sim.pages import as_markdown
from tests.sim.campaign import SMALL_CELLS, quiet

TWO_GROUPS = (
    """
seeds = 1
"""
    + SMALL_CELLS
    + """
[sizes.small]
[sizes.paper]

[axes]
rule = ["softmax", "mean"]

[groups.low]
set = { partition = "dirichlet:lambda=1" }
sizes.paper = { skip = "nobody has the machine" }

[groups.high]
set = { partition = "dirichlet:lambda=0.1" }
more_axes.attack = ["label-flip", "backdoor"]
"""
)


def table(**said: Any) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in ({"title": "t"} | said).items()]
    return "\n".join(["", "[[tables]]", *lines, ""])


def with_cells(folder: Path, text: str, seen: dict[str, dict[str, Any]]) -> Results:
    """A run's folder whose cells showed this, by group and labels."""
    plan = Plan(parse("mine", text), "small", folder)
    open_run(plan)
    for cell in expand(plan.campaign, "small")[0]:
        name = " ".join([cell.group, *(label for _, label in cell.labels)])
        if name in seen:
            shown = {"measures": {}, "series": {}, "outside_bounds": None, "seconds": 1.0} | seen[name]
            (folder / CELLS / f"{cell.key()}.json").write_text(json.dumps({"key": cell.key(), **shown}))
    return read_results(folder)


def measured(last: float, **more: float) -> dict[str, Any]:
    return {"measures": {"last": last, "best": last, **more}}


def rows_of(results: Results) -> list[Row]:
    return table_of(results, results.campaign.tables[0])[1]


def test_a_ratio_is_of_the_same_label_in_both_groups(tmp_path: Path) -> None:
    text = TWO_GROUPS + table(kind="ratio", groups=["low", "high"])
    seen = {
        "low softmax": measured(0.9),
        "high softmax label-flip": measured(0.6),
        "high softmax backdoor": measured(0.6),
        "low mean": measured(0.9),
    }

    rows = rows_of(with_cells(tmp_path, text, seen))

    assert rows == [
        ("low / high", "softmax", "1.500", "1.500"),
        ("low / high", "mean", "not run", "not run"),
    ]


def test_the_worst_case_is_over_attacks_and_names_what_a_chain_can_prove(tmp_path: Path) -> None:
    text = TWO_GROUPS + table(kind="worst", groups=["high"])
    seen = {
        "high softmax label-flip": measured(0.8),
        "high softmax backdoor": measured(0.7, attack_success=0.25),
        "high mean label-flip": measured(0.75),
    }

    rows = rows_of(with_cells(tmp_path, text, seen))

    assert rows == [
        ("softmax", "70.0", "high backdoor", "25 (high backdoor)", "2 of 2", "fixed shares"),
        ("mean", "at most 75.0", "high label-flip", "", "1 of 2", "fixed shares"),
    ]


def test_rounds_to_an_accuracy_are_counted_from_the_first(tmp_path: Path) -> None:
    text = TWO_GROUPS + table(kind="reach", groups=["low"], level=0.8)
    seen: dict[str, dict[str, Any]] = {
        "low softmax": {"series": {"accuracy": [0.1, 0.85, 0.7]}},
        "low mean": {"series": {"accuracy": [0.1, 0.2, 0.7]}},
    }

    rows = rows_of(with_cells(tmp_path, text, seen))

    assert rows == [("low", "softmax", "2.0", "1 of 1"), ("low", "mean", "never", "0 of 1")]


def test_clients_are_counted_by_hostile_and_honest(tmp_path: Path) -> None:
    text = TWO_GROUPS + table(kind="clients", groups=["low"])
    clients = {
        "accuracy": [0.5, 0.9, None, 0.7],
        "times_selected": {"1": 2, "2": 4, "4": 1},
        "times_in_committee": {"3": 3},
        "hostile": [3, 4],
    }

    rows = rows_of(with_cells(tmp_path, text, {"low softmax": {"clients": clients}}))

    assert rows[0] == ("low", "softmax", "3.00", "0.50", "0.00", "1.50", "25", "50.0", "70.0")
    assert rows[1][2:] == ("not run",) * 7


def test_a_group_that_a_size_goes_without_is_named_with_its_reason(tmp_path: Path) -> None:
    claim = '\n[[claims]]\ntext = "c"\ngroup = "low"\nfirst = "softmax"\n'
    plan = Plan(parse("mine", TWO_GROUPS + claim), "paper", tmp_path)
    open_run(plan)

    results = read_results(tmp_path)
    (verdict,) = judge(results)

    assert verdict.verdict == "not tested"
    assert "low: was not run: nobody has the machine" in verdict.findings["last"].why
    assert "Not run in size paper: nobody has the machine." in as_markdown(blocks_of(results))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"kind": "rank", "groups": ["low"]}, "no kind of table is called 'rank'.*did you mean 'ranks"),
        ({"kind": "ratio", "groups": ["low"]}, "a ratio's groups are named in pairs"),
        ({"kind": "reach", "groups": ["low"]}, "reach needs a level"),
        ({"kind": "ranks", "groups": ["lov"]}, "no group of campaign mine is called 'lov'"),
        ({"kind": "ranks"}, "needs a title, a kind and groups"),
    ],
)
def test_a_table_that_cannot_be_made_is_refused_when_the_file_is_read(
    said: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        parse("mine", TWO_GROUPS + table(**said))


def test_finished_cells_end_in_the_same_model_when_they_are_played_again(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TWO_GROUPS)
    folder = tmp_path / "run"
    run_campaign(Plan(parse("mine", TWO_GROUPS).only("low"), "small", folder, jobs=0), quiet)
    again = [
        "experiment",
        "run",
        str(tmp_path / "mine.toml"),
        "--size",
        "small",
        "--run",
        str(folder),
        "--jobs",
        "1",
        "--check",
        "5",
    ]

    same = command(again)
    for path in (folder / CELLS).glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"root": "00" * 32}))
    other = command(again)

    assert (same, other) == (0, 1)


def test_nothing_to_play_again_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TWO_GROUPS)

    code = command(
        ["experiment", "run", str(tmp_path / "mine.toml"), "--run", str(tmp_path / "run"), "--check", "1"]
    )

    assert code == 2
