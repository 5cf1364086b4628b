"""docs/results.md and its figures, from the packed runs in docs/results/NAME: no number in them is typed.

A run is packed by `chainfl experiment report RUN --pack docs/results/NAME`; what is said of it stands in `notes.txt`.
"""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from chainfl.sim.experiments.figures import draw_figures
from chainfl.sim.experiments.report import blocks_of
from chainfl.sim.experiments.results import Results, read_results
from chainfl.sim.experiments.runner import RUN
from chainfl.sim.experiments.tables import NOT_RUN
from chainfl.sim.pages import Block, as_markdown

RESULTS: Final = Path(__file__).resolve().parents[2] / "docs" / "results"
INTRO: Final = "intro.txt"
NOTES: Final = "notes.txt"
FIGURES: Final = "figures"
ORDER: Final = ("sabfl", "cmfl", "fedrob", "varsel", "robust")


def packed() -> list[str]:
    """The campaigns of this page whose runs are kept; others have pages of their own."""
    return [name for name in ORDER if (RESULTS / name / RUN).is_file()]


def page() -> str:
    """docs/results.md."""
    sections = [as_markdown(_section(name)) for name in packed()]
    return "\n".join([_said(INTRO), *sections])


def figures() -> dict[str, str]:
    """Every figure of the page as SVG, by its name below docs/results."""
    return {path: text for name in packed() for path, text in _drawn(name)[1].items()}


@cache
def _drawn(name: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The figures of a run: their names by group, and the pictures themselves."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / FIGURES
        by_group = draw_figures(read_results(RESULTS / name), folder)
        texts = {
            f"{name}/{FIGURES}/{path.name}": path.read_text(encoding="utf-8") for path in folder.glob("*.svg")
        }
    return {group: [f"results/{name}/{path}" for path in paths] for group, paths in by_group.items()}, texts


def _section(name: str) -> list[Block]:
    """A run's report as a part of the page: what was not run is one line, and notes come before the tables."""
    results = read_results(RESULTS / name)
    head, *rest = [_run_only(block) for block in blocks_of(results, _drawn(name)[0])]
    shown = [block for block in rest if block.rows]

    notes = _said(f"{name}/{NOTES}").strip()
    text = [*head.text, *([notes] if notes else []), *_not_run(results)]
    return [replace(head, text=text, level=2), *(replace(block, level=3) for block in shown)]


def _run_only(block: Block) -> Block:
    return replace(block, rows=[row for row in block.rows if NOT_RUN not in row])


def _not_run(results: Results) -> list[str]:
    """One line for the groups of which no cell was run, and one for those that lack seeds or labels."""
    nothing, part = [], []
    for group in results.campaign.groups:
        cells = [cell for cell in results.cells if cell.group == group]
        done = len(results.by_group.get(group, ()))
        if done == 0:
            why = results.skipped(group)
            nothing.append(f"`{group}`" + (f" ({why})" if why else ""))
        elif done < len(cells):
            part.append(f"`{group}` ({done} of {len(cells)})")
    lines = [f"Not run: {', '.join(nothing)}."] if nothing else []
    return [*lines, f"Run in part: {', '.join(part)}."] if part else lines


def _said(name: str) -> str:
    path = RESULTS / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""
