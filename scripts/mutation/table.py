"""The tables of mutants: what is changed where, read from TOML and applied by search and replace.

A row names a file and a piece of its text, `at`, that occurs exactly once. Where only a part of it changes, the part
stands between « and »; `to` is what takes its place. A row that no longer fits its file is an error, so whoever changes
the code keeps the table current.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from chainfl.errors import InputError, VerificationError

ROOT: Final = Path(__file__).resolve().parents[2]
CONTRACTS: Final = Path(__file__).with_name("contracts.toml")
PYTHON: Final = Path(__file__).with_name("python.toml")
SOURCES: Final = {CONTRACTS: ROOT / "contracts" / "src", PYTHON: ROOT / "chainfl"}

_OPEN, _CLOSE = "«", "»"
_FIELDS: Final = frozenset(
    ["name", "kind", "why", "net", "test", "from_both_sides", "edits", "file", "at", "to", "shape"]
)


class StaleRowError(VerificationError):
    """A row of the table does not fit the code any more."""


class Shape(Enum):
    """What kind of text an edit replaces: that decides how both versions can stand in one program."""

    EXPRESSION = "expression"
    STATEMENT = "statement"
    ASSEMBLY = "assembly"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one file."""

    file: str
    at: str
    to: str
    shape: Shape = Shape.EXPRESSION


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug. `number` switches it on in a program that holds all of them; `net`, and in it `test`, is tried first."""

    number: int
    name: str
    kind: str
    why: str
    net: str
    edits: tuple[Edit, ...]
    test: str = ""
    from_both_sides: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Where in a file's text an edit applies."""

    start: int
    end: int


def load(path: Path) -> list[Mutant]:
    """All mutants of a table, numbered from 1.

    Raises:
        InputError: a row is incomplete, has a field that is not known, or a name that is taken.
    """
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    mutants = [_mutant(number, row) for number, row in enumerate(rows, 1)]

    names = [each.name for each in mutants]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path.name}: two mutants are named {name!r}; give one another name")
    return mutants


def pick(mutants: Sequence[Mutant], names: Iterable[str]) -> list[Mutant]:
    """The mutants with these names."""
    by_name = {each.name: each for each in mutants}
    return [by_name[name] for name in names if name in by_name]


def span_of(text: str, edit: Edit) -> Span:
    """Where the edit applies.

    Raises:
        StaleRowError: its piece of text is not there exactly once.
    """
    before, opened, rest = edit.at.partition(_OPEN)
    part, closed, after = rest.partition(_CLOSE)
    if opened and not closed:
        raise StaleRowError(f"{edit.file}: {edit.at!r} opens a part with {_OPEN} and does not close it")
    whole = before + part + after
    found = text.count(whole)
    if found != 1:
        raise StaleRowError(f"{edit.file}: found {found} times, not once; mend the row's `at`:\n{whole}")

    start = text.index(whole)
    if not opened:
        return Span(start, start + len(whole))
    return Span(start + len(before), start + len(before) + len(part))


def replaced(text: str, edits: Iterable[Edit]) -> str:
    """The text with all these edits made: a mutant by itself."""
    spans = [(span_of(text, edit), edit.to) for edit in edits]
    for span, to in sorted(spans, key=lambda each: each[0].start, reverse=True):
        text = text[: span.start] + to + text[span.end :]
    return text


def files_of(mutants: Iterable[Mutant]) -> list[str]:
    """The files that these mutants change."""
    return sorted({edit.file for mutant in mutants for edit in mutant.edits})


def _mutant(number: int, row: dict[str, Any]) -> Mutant:
    unknown = row.keys() - _FIELDS
    missing = {"name", "kind", "why", "net"} - row.keys()
    if unknown or missing:
        name = row.get("name", f"row {number}")
        raise InputError(f"mutant {name}: unknown fields {sorted(unknown)}, missing fields {sorted(missing)}")

    edits = row.get("edits") or [{key: row[key] for key in ("file", "at", "to", "shape") if key in row}]
    return Mutant(
        number,
        row["name"],
        row["kind"],
        row["why"],
        row["net"],
        tuple(_edit(row["name"], edit) for edit in edits),
        row.get("test", ""),
        row.get("from_both_sides", False),
    )


def _edit(name: str, fields: dict[str, Any]) -> Edit:
    missing = {"file", "at", "to"} - fields.keys()
    if missing:
        raise InputError(f"mutant {name}: an edit lacks {sorted(missing)}")
    shape = Shape(fields.get("shape", Shape.EXPRESSION.value))
    return Edit(fields["file"], fields["at"].strip("\n"), fields["to"].strip("\n"), shape)
