"""Commands that list: what they show can be typed and fits a terminal."""

import json

import pytest

from chainfl.cli import run
from chainfl.cli.output import print_table
from chainfl.errors import InputError
from chainfl.protocol.terms import parse_rule
from chainfl.sim.experiments.campaign import shipped
from chainfl.sim.robust.table import Row, all_rules, pipeline_of


@pytest.mark.parametrize("row", all_rules(), ids=lambda row: row.name)
def test_every_rule_of_the_list_can_be_typed_with_the_parameters_shown(row: Row) -> None:
    name, is_before, _ = row.name.partition("+")
    typed = f"{name}:{row.parameters}" if row.parameters else name

    pipeline_of(f"{typed}+mean" if is_before else typed)


def test_the_list_shows_the_parameters_of_rules_that_a_contract_plays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["rules", "--json"]) == 0

    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["metrics"]["rules"]}
    assert rows["fedrob"]["parameters"] == "mean=0,alpha=1,b=1,unique=1"
    assert "budget=10" in rows["varsel"]["parameters"]


@pytest.mark.parametrize("rule", ["softmax:samples=1", "fedavg:samples=1", "median:b=1", "varsel:alpha=1"])
def test_a_parameter_that_would_change_nothing_is_refused(rule: str) -> None:
    with pytest.raises(InputError, match=r"no parameter of rule .* is called"):
        parse_rule(rule)


def test_the_list_fits_a_terminal_of_eighty_columns_and_says_how_a_rule_is_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert run(["rules"]) == 0

    said = capsys.readouterr().out
    assert max(map(len, said.splitlines()[:-2])) <= 80
    assert "--rule fedrob:b=2,alpha=0.9" in said
    assert "attested shares" in said


def test_parameters_may_be_typed_with_spaces_as_the_list_shows_them() -> None:
    assert parse_rule("fedrob:b=2, alpha=0.5") == parse_rule("fedrob:b=2,alpha=0.5")


def test_campaigns_are_listed_in_a_line_each_and_groups_on_demand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    assert run(["experiment", "list"]) == 0
    campaigns = capsys.readouterr().out.splitlines()
    assert run(["experiment", "list", "fedrob"]) == 0
    groups = capsys.readouterr().out

    assert [line.split()[0] for line in campaigns if line.split()[:1] and line.split()[0] in shipped()] == [
        *shipped()
    ]
    assert campaigns[-1] == "the groups of one: chainfl experiment list NAME"
    assert "poisoned-unbalanced" in groups


@pytest.mark.parametrize("width", range(24, 120, 8))
def test_no_cell_is_cut_off_in_any_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns whose words together are almost as wide as the terminal: their shares used to exceed it."""
    monkeypatch.setenv("COLUMNS", str(width))
    row = (
        "ok",
        "solc",
        "0.8.37+commit.f401782d.Emscripten.clang",
        "compiling contracts (the wheel carries them)",
    )

    print_table(("", "what", "found", "for"), [row])

    said = capsys.readouterr().out
    assert [word for word in " ".join(row).split() if word not in said.split()] == []
    assert max(map(len, said.splitlines())) <= max(width, 72)
