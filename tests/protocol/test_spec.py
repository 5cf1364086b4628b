"""The specification names what the code has: fields, rules, events, phases and errors cannot drift apart silently."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from chainfl.protocol import errors, events
from chainfl.protocol.term_table import MAX_COMMITTEE, MAX_SCORES, MAX_UPDATES
from chainfl.protocol.terms import MAX_PROOF_BYTES
from chainfl.types import Phase, Rule, TaskConfig

ROOT = Path(__file__).resolve().parents[2]
SPEC = (ROOT / "docs" / "protocol.md").read_text()
ADRS = sorted((ROOT / "docs" / "adr").glob("0*.md"))


def section(number: int) -> str:
    """The text of one numbered section."""
    return re.split(r"^## (?=\d)", SPEC, flags=re.MULTILINE)[number]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def test_the_sections_are_numbered_in_order() -> None:
    numbers = re.findall(r"^## (\d+)\.", SPEC, flags=re.MULTILINE)
    steps = re.findall(r"^### 5\.(\d+) (\w+)", SPEC, flags=re.MULTILINE)

    assert numbers == [str(n) for n in range(1, 11)]
    assert [name for _, name in steps] == [
        "Draw", "Train", "Reveal", "Score", "Tally", "Propose", "Challenge", "Final",
    ]  # fmt: skip


@pytest.mark.parametrize("field", [field.name for field in fields(TaskConfig)])
def test_every_term_of_a_task_is_in_section_4(field: str) -> None:
    if field.endswith("_seconds"):
        assert "six phase lengths" in section(4)
    else:
        assert f"`{camel(field)}`" in section(4)


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_is_in_section_7_with_its_number(rule: Rule) -> None:
    assert f"| {int(rule)} | `{rule.name_text}` |" in section(7)


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_is_in_section_1_with_its_number(phase: Phase) -> None:
    assert f"| {int(phase)} {phase.name.title()} " in section(1)


@pytest.mark.parametrize("event", events.Event.__subclasses__(), ids=lambda event: event.__name__)
def test_every_event_is_in_section_10(event: type[events.Event]) -> None:
    assert f"`{event.__name__}`" in section(10)


@pytest.mark.parametrize("number", [MAX_COMMITTEE, MAX_UPDATES, MAX_SCORES, MAX_PROOF_BYTES])
def test_the_bounds_in_section_4_are_those_of_the_code(number: int) -> None:
    assert re.search(rf"\b{number:,}\b|\b{number}\b", section(4))


def test_every_refusal_that_the_specification_names_exists() -> None:
    known = {cls.solidity_name() for cls in errors.RuleError.__subclasses__()}
    named = set(re.findall(r"\(`([A-Z]\w+)`(?:, `([A-Z]\w+)`)?\)", SPEC))
    words = {word for pair in named for word in pair if word}

    emitted = {event.__name__ for event in events.Event.__subclasses__()}
    assert words - emitted <= known


def test_every_attack_in_the_table_has_a_test_of_its_own() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| `(test_\w+)` \|$", (ROOT / "docs" / "attacks.md").read_text(), re.MULTILINE
    )
    tests = (ROOT / "tests").glob("**/test_*.py")
    known = [
        name
        for path in (*tests, *(ROOT / "contracts" / "test").glob("*.t.sol"))
        for name in re.findall(r"^ *(?:def|function) (test_\w+)", path.read_text(), re.MULTILINE)
    ]
    named = [name for _, name in rows]

    assert len(rows) >= 60
    assert sorted(named) == sorted(set(named) & set(known))


@pytest.mark.parametrize("path", ADRS, ids=lambda path: path.stem)
def test_a_decision_has_context_options_or_a_table_decision_and_cost(path: Path) -> None:
    text = path.read_text()
    number = int(path.stem.split("-")[0])

    assert text.startswith(f"# {number}. ")
    for heading in ("## Context", "## Decision", "## Cost"):
        assert heading in text


def test_every_link_between_the_pages_leads_somewhere() -> None:
    pages = [*(ROOT / "docs" / f"{name}.md" for name in ("protocol", "security", "attacks")), *ADRS]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
