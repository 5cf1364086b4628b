"""How commands answer: results on stdout, narration on stderr, one JSON object with `--json`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from chainfl.codec.text import ether
from chainfl.report import Report, emit

F = TypeVar("F", bound=Callable[..., Any])
_NO_LIMIT = 10_000
_NAME_WIDTH = 24
"""Names in a first column up to this long stay on one line, spaces or not."""


@dataclass(slots=True)
class Answer:
    """What the error handler needs of the running command: how it answers, its name, since when."""

    as_json: bool = False
    name: str = "chainfl"
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """How long the command has been running."""
        return time.perf_counter() - self.started


def json_option(command: F) -> F:
    """Add `--json`: exactly one object on stdout, also when the command is refused."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        callback=_remember,
        help="Print one JSON object on stdout (docs/schemas/report.json).",
    )(command)


def finish(report: Report, as_json: bool, show: Callable[[Report], None]) -> int:
    """Answer a machine with JSON or people with `show`; returns the exit code."""
    answer = click.get_current_context().find_object(Answer)
    if not report.seconds and answer is not None:
        report = replace(report, seconds=answer.seconds)
    if as_json:
        return emit(report)
    show(report)
    return report.exit_code


def in_ether(wei: object) -> str:
    """An amount for people; machines get wei, as text or number."""
    return ether(int(str(wei)), 6)


def in_utc(seconds: int) -> str:
    """A moment of a chain's clock for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people, as wide as the terminal; cells fold between words, and names are never broken.

    Where the words alone are wider than the terminal, so is the table. Cells are text, never markup.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)
    natural, least = [], []
    for number, cells in enumerate(zip(columns, *rows, strict=True)):
        longest = max(map(len, cells))
        is_name = number == 0 and longest <= _NAME_WIDTH
        natural.append(longest)
        least.append(
            longest if is_name else max(len(word) for cell in cells for word in cell.split() or [""])
        )
    for row in rows:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))

    # Rich itself shares a narrow terminal out by proportion, and cuts off words for it: every width is set here.
    console = Console()
    for column in table.columns:
        column.width = 0
    lines = Measurement.get(console, console.options.update(max_width=_NO_LIMIT), table).minimum
    widths = _shared_out(natural, least, console.width - lines)
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    Console(width=max(console.width, sum(widths) + lines)).print(table)


def _shared_out(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """How wide each column is: the widest are narrowed first, and none below its longest word."""
    widths = list(natural)
    while sum(widths) > room:
        foldable = [number for number, width in enumerate(widths) if width > least[number]]
        if not foldable:
            break
        widths[max(foldable, key=lambda number: widths[number])] -= 1
    return widths


def _remember(ctx: click.Context, _param: click.Parameter, value: bool) -> bool:
    answer = ctx.find_object(Answer)
    if value and answer is not None:
        answer.as_json, answer.name = True, "-".join(ctx.command_path.split()[1:])
    return value
