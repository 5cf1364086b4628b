"""One table of terms: config, contract, specification, command line and API name the same ones."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import pytest

from chainfl.api.indexer import terms_of
from chainfl.cli.lazy import load
from chainfl.codec.cid import Cid
from chainfl.protocol.state import new_task
from chainfl.protocol.term_table import BUDGET, TERM, TERMS, Source, Unit
from chainfl.protocol.terms import RULE_VALUES, Floors, check_config, default_terms
from chainfl.types import WAD, Address, Phase, Rule, Statistic, TaskConfig
from chainfl.workflows.sponsor_terms import Terms

ROOT = Path(__file__).resolve().parents[1]
SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "contracts" / "src").rglob("*.sol")))
NAMES = [term.name for term in TERMS]
CONTRACT_NAMES = [term.contract_name for term in TERMS]


def test_the_table_has_every_term_in_the_order_of_the_config() -> None:
    assert [field.name for field in fields(TaskConfig)] == NAMES


def test_the_contracts_struct_has_the_same_terms_in_the_same_order() -> None:
    (struct,) = re.findall(r"^struct TaskConfig \{(.*?)^\}", SOURCES, flags=re.MULTILINE | re.DOTALL)

    assert re.findall(r"^ +\w+ (\w+);", struct, flags=re.MULTILINE) == CONTRACT_NAMES


def test_the_contract_reads_each_term_at_its_place() -> None:
    read = re.findall(
        r"function (\w+)\(\) internal view returns \(\w+\) \{\s+return [\w(]*_field\((\d+)\)", SOURCES
    )
    (before_train,) = re.findall(r"_field\((\d+) \+ uint256\(phase\)\)", SOURCES)
    (words,) = re.findall(r"CONFIG_BYTES = (\d+) \* 32;", SOURCES)

    assert len(read) >= 7
    assert [CONTRACT_NAMES[int(place)] for _, place in read] == [name for name, _ in read]
    assert NAMES[int(before_train) + Phase.TRAIN :][:6] == [
        f"{phase.name.lower()}_seconds" for phase in Phase if phase not in (Phase.DRAW, Phase.ENDED)
    ]
    assert int(words) == len(TERMS)


def test_section_4_of_the_specification_names_the_same_terms() -> None:
    specification = (ROOT / "docs" / "protocol.md").read_text()
    section = re.split(r"^## (?=\d)", specification, flags=re.MULTILINE)[4]
    cells = re.findall(r"^\| (`[^|]+|six phase lengths) \|", section, flags=re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]

    assert "six phase lengths" in cells
    assert sorted(named) == sorted(t.contract_name for t in TERMS if t.unit is not Unit.SECONDS)
    assert sum(term.unit is Unit.SECONDS for term in TERMS) == 6


def test_a_sponsor_has_an_option_for_every_term_that_is_decided_by_one() -> None:
    group = load("chainfl.cli.task:task")
    assert isinstance(group, click.Group)
    options = {flag for each in group.commands["create"].params for flag in each.opts}

    assert {term.option for term in TERMS if term.source is Source.OPTION} | {"--rule"} <= options
    assert {each.option for each in TERMS if each.source is not Source.OPTION} & options == {"--rule"}
    assert {f"--{each.name.replace('_', '-')}" for each in fields(Terms)} <= options


def test_the_text_of_a_rule_sets_every_other_term_that_the_model_does_not() -> None:
    of_rule = [term for term in TERMS if term.source is Source.RULE and term.name != "rule"]
    base = default_terms("softmax", 200, 3, 3)

    assert all(term.rule_keys for term in of_rule)
    assert {key for term in of_rule for key in term.rule_keys} == set(RULE_VALUES)
    for text, name, value in (
        ("softmax:mean=1", "statistic", Statistic.MEAN),
        ("softmax:beta=2", "beta", 2 * WAD),
        ("mean:alpha=0.5", "alpha", WAD // 2),
        ("fedrob:b=2", "tolerated", 2),
        ("krum:f=3", "tolerated", 3),
        ("multi-krum:m=4", "selected", 4),
        ("committee-near:keep=0.25", "keep", WAD // 4),
        ("committee-near:samples=1", "by_samples", True),
        ("mean:unique=0", "unique_roots", False),
        ("committee-far:redraw=7", "redraw_every", 7),
        ("varsel:budget=3", "budget", 3),
    ):
        assert getattr(default_terms(text, 200, 3, 3), name) == value != getattr(base, name)


@pytest.mark.parametrize("rule", Rule)
def test_the_defaults_of_the_table_are_terms_that_a_task_accepts(rule: Rule) -> None:
    config = default_terms(rule.name_text, 200, TERM["committee_size"].default, TERM["min_updates"].default)
    if rule is Rule.VARSEL:
        # Who is internal has no default.
        config = replace(config, admission_root=b"\x01" * 32, min_internals=2, internals_train=True)

    check_config(config, config.rounds * BUDGET, Floors(5))

    assert [term.name for term in TERMS if term.source is Source.OPTION and not term.fits(term.default)] == []
    assert [
        t.name
        for t in TERMS
        if t.source is Source.OPTION and t.name not in ("scale", "dev_cap") and not t.bound
    ] == []


def test_the_api_shows_every_term() -> None:
    """Every value is another one, so that a term in the place of another is seen."""
    different: dict[str, Any] = {
        term.name: 1_000 + at
        for at, term in enumerate(TERMS)
        if term.unit in (Unit.COUNT, Unit.WAD, Unit.WEI, Unit.SECONDS)
    }
    digests: dict[str, Any] = {
        name: bytes([at]) * 32 for at, name in enumerate(("manifest", "first_root", "first_model"), 1)
    }
    config = replace(default_terms("committee-far:mean=1,samples=1", 200, 3, 3), **different, **digests)

    document = terms_of(new_task(1, Address(bytes(20)), 1, Address(bytes(20)), config, 0, 1)).model_dump()

    assert {name: _shown(document, name) for name in NAMES} == {
        name: _expected(name, getattr(config, name)) for name in NAMES
    }


def _shown(document: dict[str, Any], name: str) -> object:
    """A term in the API's document: under its name, or in the group of its kind."""
    if name in document:
        return document[name]
    stem, _, kind = name.rpartition("_")
    return document[{"seconds": "seconds", "part": "parts", "slash": "slashes"}[kind]][stem]


def _expected(name: str, value: Any) -> object:
    if name in ("manifest", "first_model"):
        return str(Cid.dag_cbor(value))
    if name in ("workers_part", "committee_part") or name.endswith("_slash"):
        return value / WAD
    texts: dict[Unit, Any] = {
        Unit.DIGEST: lambda: "0x" + value.hex(),
        Unit.NAME: lambda: {"rule": "committee-far", "statistic": "mean"}[name],
        Unit.WAD: lambda: str(value),
        Unit.WEI: lambda: str(value),
    }
    return texts.get(TERM[name].unit, lambda: value)()
