"""Options that are generated from fields: none is missing, and what is out of bounds is refused by its option."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import click
import pytest

from chainfl.cli import run
from chainfl.cli.generated import described
from chainfl.cli.lazy import load
from chainfl.learning.recipe import Recipe
from chainfl.sim.experiment import Experiment, Selfish
from chainfl.workflows.sponsor_terms import Terms

CREATE = ["task", "create", "--factory", "0x00", "--keystore", "none.json", "--store", "dir:none"]


def options(command: click.Command) -> dict[str, click.Option]:
    return {each.name or "": each for each in command.params if isinstance(each, click.Option)}


def creating() -> click.Command:
    group = load("chainfl.cli.task:task")
    assert isinstance(group, click.Group)
    return group.commands["create"]


def test_every_field_of_an_experiment_and_its_recipe_is_an_option() -> None:
    known = set(options(load("chainfl.cli.simulate:simulate")))
    of_selfish = {each.name for each in fields(Selfish)} - {"method", "clients"}  # --rule, --participants

    wanted = {each.name for kind in (Experiment, Recipe) for each in fields(kind)} | of_selfish

    assert wanted - {"recipe"} <= known


def test_every_field_of_a_sponsors_terms_is_an_option_with_its_default_in_the_help() -> None:
    known = options(creating())

    assert {each.name for each in fields(Terms)} <= set(known)
    for name, shown in (
        ("rounds", "[5]"),
        ("min_stake", "[1]"),
        ("workers_part", "[0.6]"),
        ("target", "[never]"),
        ("caller_fee", "[a 1200th of a round's budget]"),
        ("learning_rate", "[0.1]"),
    ):
        assert shown in (known[name].help or "")


def test_a_described_field_has_the_default_of_the_value_that_it_is_part_of() -> None:
    found = {each.name: each.default for each in described(Experiment)}

    assert found["learning_rate"] == Experiment().recipe.learning_rate != Recipe().learning_rate
    assert "participants" not in found


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--escrow", "much", "'much' is not an amount: give ether such as 1.5, or 100wei"),
        ("--min-stake", "-1", "'-1' is not a positive whole number of wei"),
        ("--rounds", "0", "0 is not in the range x>=1"),
        ("--committee-size", "47", "47 is not in the range 3<=x<=45"),
        ("--challenge-seconds", "604801", "604801 is not in the range 1<=x<=604800"),
        ("--liveness-slash", "0.02", "0.02 is too large: give at most 0.01"),
        ("--burn-part", "0.4", "0.4 is too small: give at least 0.5"),
    ],
)
def test_a_term_out_of_bounds_is_refused_by_its_option_before_anything_is_opened(
    option: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    escrow = [] if option == "--escrow" else ["--escrow", "1"]

    assert run([*CREATE, *escrow, f"{option}={value}"]) == 2

    refused = capsys.readouterr().err
    assert f"'{option}'" in refused
    assert says in refused
    assert refused.count("\n") == 1


@pytest.mark.parametrize("module", ["chainfl.cli.task", "chainfl.cli.simulate"])
def test_generating_options_loads_no_heavy_package(module: str) -> None:
    heavy = {"numba", "torch", "web3", "numpy", "pydantic", "rich"}
    code = f"import sys, {module}; print(sorted({heavy!r} & set(sys.modules)))"
    root = Path(__file__).resolve().parents[2]

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=root, check=True
    )

    assert done.stdout == "[]\n"
