"""A sponsor's terms are refused in a sponsor's words, before anything is sent."""

from pathlib import Path
from typing import Any

import pytest

from chainfl.codec.text import ETHER
from chainfl.errors import InputError
from chainfl.sim.memory import MemoryStore
from chainfl.types import WAD, Rule
from chainfl.workflows.sponsor import Terms, check_terms, prepare_task, with_changes

FLOOR = 5


def checked(**changes: Any) -> None:
    """Check the default terms with these changes."""
    terms = with_changes(Terms(), changes)
    check_terms(prepare_task(MemoryStore(), terms), terms.escrow, FLOOR)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rounds": 2}, "a round pays 0.5 ETH .*: give --min-stake 2 or more, less escrow, or more rounds"),
        ({"committee_size": 4}, "--committee-size 4: give an odd number from 3 to 45"),
        ({"max_updates": 500}, "--max-updates 500: give 1 to 128"),
        ({"challenge_seconds": 4}, "every phase must last at least 5 s at this factory"),
        ({"min_stake": 10}, "--min-stake: give at least 1000 wei"),
        ({"target": 2**128 - 1}, "--target: give a loss below 3.4e"),
        ({"rounds": 0}, "--rounds 0: give at least 1"),
        (
            {"workers_part": WAD, "committee_part": 1},
            "--workers-part and --committee-part: give no more than 1",
        ),
        ({"caller_fee": ETHER // 50}, "--caller-fee: 12 calls a round are paid, out of 0.2 ETH"),
        ({"liveness_slash": WAD // 99}, "--liveness-slash: give at most 0.01"),
        ({"no_reveal_slash": WAD // 19}, "--no-reveal-slash: give at most 0.05"),
        ({"finder_part": WAD // 3}, "--finder-part: give at most 0.3"),
        ({"burn_part": WAD // 3}, "--burn-part: give at least 0.5"),
        ({"min_stake": ETHER // 10}, "a round pays 0.2 ETH .*: give --min-stake 0.8 or more"),
    ],
)
def test_terms_out_of_bounds_name_the_option_and_what_would_do(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        checked(**changes)


def test_what_a_sponsor_does_not_decide_is_as_usual() -> None:
    usual = prepare_task(MemoryStore(), Terms())
    decided = prepare_task(MemoryStore(), Terms(target=WAD // 10, burn_part=WAD * 7 // 10, rule="median"))

    assert (decided.target, decided.burn_part, decided.rule) == (WAD // 10, WAD * 7 // 10, Rule.MEDIAN)
    assert (usual.target, usual.burn_part, usual.rule) == (0, WAD // 2, Rule.SOFTMAX)
    assert decided.finder_part == usual.finder_part
    assert usual.caller_fee == ETHER // 5 // 1200


def test_what_the_refusal_proposes_is_taken() -> None:
    checked()
    checked(rounds=2, min_stake=2 * ETHER)


def listed(folder: Path, *roles: str) -> str:
    """A list with an account for each role."""
    file = folder / "list.txt"
    file.write_text("".join(f"0x{number:040x} {role}\n" for number, role in enumerate(roles, 1)))
    return str(file)


def test_fewer_internals_on_the_list_than_a_draw_needs_are_refused(tmp_path: Path) -> None:
    mixed = listed(tmp_path, "internal", "internal", "participant")

    with pytest.raises(InputError, match=r"--min-internals 3: .*list.txt names 2 internals; name more"):
        checked(admission=mixed, min_internals=3)
    checked(admission=mixed, min_internals=2)

    internals = listed(tmp_path, "internal", "internal")
    with pytest.raises(InputError, match=r"--min-internals 3: .*list.txt names 2 internals; name more"):
        checked(internals=internals, min_internals=3)


def test_varsel_asks_for_internals_and_has_them_train(tmp_path: Path) -> None:
    file = listed(tmp_path, "internal", "internal", "participant")

    for given in ({}, {"admission": file}):
        with pytest.raises(InputError, match=r"--rule varsel:budget=3: weighs outsiders .* --internals FILE"):
            checked(rule="varsel:budget=3", **given)
    checked(rule="varsel:budget=3", admission=file, min_internals=2)
    made = prepare_task(
        MemoryStore(), Terms(rule="varsel:budget=3", admission=file, min_internals=2, committee_size=3)
    )

    assert (made.rule, made.budget, made.internals_train, made.alpha) == (Rule.VARSEL, 3, True, WAD)


@pytest.mark.parametrize(("given", "train"), [({}, True), ({"internals_train": False}, False)])
def test_internals_train_unless_the_sponsor_says_no(
    given: dict[str, bool], train: bool, tmp_path: Path
) -> None:
    terms = with_changes(Terms(internals=listed(tmp_path, "internal", "internal", "internal")), dict(given))

    made = prepare_task(MemoryStore(), terms)

    assert (made.internals_train, made.min_internals, made.committee_size) == (train, 2, 3)
    assert (made.committee_part, made.workers_part) == (0, Terms().workers_part + Terms().committee_part)


def test_a_sponsor_with_internals_who_names_no_rule_gets_the_steep_softmax(tmp_path: Path) -> None:
    for name in ("own", "mixed"):
        (tmp_path / name).mkdir()
    internals = listed(tmp_path / "own", "internal", "internal")
    mixed = listed(tmp_path / "mixed", "internal", "internal", "participant")

    rules = [
        (made.rule, made.beta)
        for terms in (
            Terms(),
            Terms(internals=internals),
            Terms(admission=mixed),
            Terms(admission=mixed, min_internals=2),
            Terms(internals=internals, rule="softmax"),
        )
        for made in [prepare_task(MemoryStore(), terms)]
    ]

    assert rules == [(Rule.SOFTMAX, beta * WAD) for beta in (1, 50, 1, 50, 1)]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("varsel:budget=300", "budget 300: give a whole number, 0 to 255"),
        ("varsel:budget=-1", "budget -1: give a whole number, 0 to 255"),
        ("varsel:budget=1.5", "budget 1.5: give a whole number, 0 to 255"),
        ("softmax:beta=-1", "beta -1: give a number, at most 1000"),
        ("krum:f=256", "f 256: give a whole number, 0 to 255"),
        ("multi-krum:m=129", "m 129: give a whole number, at least 1 and no more than the fewest updates"),
        ("softmax:alpha=0", "alpha 0: give a number, more than 0, at most 1"),
    ],
)
def test_a_value_of_the_rule_that_no_contract_can_hold_is_refused_in_a_sponsors_words(
    rule: str, line: str, tmp_path: Path
) -> None:
    internals = listed(tmp_path, "internal", "internal") if rule.startswith("varsel") else None

    with pytest.raises(InputError, match=f"^--rule {rule}: {line}"):
        prepare_task(MemoryStore(), Terms(rule=rule, internals=internals))
