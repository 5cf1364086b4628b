"""A campaign's run in a folder: `campaign.toml`, `run.json`, a file for each finished cell, a file for each failed one.

A cell's file appears whole or not at all, under a name that says what was run: a finished cell is never run again.
"""

import json
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.learning.compute import cores
from chainfl.report import version_line
from chainfl.sim.experiments.campaign import Campaign
from chainfl.sim.experiments.cells import Cell, expand
from chainfl.sim.experiments.check import impossible_cells
from chainfl.sim.experiments.workers import Outcome, attempt, on_ray, side_by_side
from chainfl.sim.runfiles import write_whole
from chainfl.types import OnProgress

CAMPAIGN: Final = "campaign.toml"
RUN: Final = "run.json"
CELLS: Final = "cells"
FAILED: Final = "failed"
PACKED: Final = "cells.jsonl"
REQUIRED: Final = frozenset({"key", "measures", "series", "outside_bounds", "seconds"})
"""What a finished cell's file holds at least."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run, where, and by whom. `jobs` 0: in this process."""

    campaign: Campaign
    size: str
    folder: Path
    data: str | None = None
    jobs: int = 1
    engine: str = "local"
    skip_impossible: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended."""

    cells: int
    found: int
    finished: int
    failed: dict[str, str]
    impossible: dict[str, str]
    seconds: float


def run_campaign(plan: Plan, on_progress: OnProgress) -> Ran:
    """Run every cell that is not finished yet.

    Raises:
        InputError: cells cannot be run, and nobody said to leave them out; names each.
    """
    started = time.perf_counter()
    cells, refused = expand(plan.campaign, plan.size)
    complaints = impossible_cells(cells, plan.data)
    impossible = {line.partition(": ")[0]: line.partition(": ")[2] for line in refused}
    impossible |= {cell.name: complaints[cell.key()] for cell in cells if cell.key() in complaints}
    if impossible and not plan.skip_impossible:
        raise InputError(_refusal(impossible))

    open_run(plan)
    for path in damaged_cells(plan.folder):
        on_progress(f"{path} is damaged: its cell is run again")
    done = finished_keys(plan.folder)
    possible = [cell for cell in cells if cell.key() not in complaints]
    waiting = list({cell.key(): cell for cell in possible if cell.key() not in done}.values())
    waiting.sort(key=lambda cell: cell.seed)  # so that a run that is stopped early has whole seeds
    found = len({cell.key() for cell in possible} & done)
    on_progress(
        f"{len(cells)} cells, {found} finished before, {len(waiting)} to run (equal ones are run once)"
    )

    failed = {}
    for number, outcome in enumerate(_outcomes(plan, waiting), 1):
        if outcome.result is None:
            failed[outcome.cell.name] = outcome.error
        keep(plan.folder, outcome)
        on_progress(_line(number, len(waiting), outcome, time.perf_counter() - started))
    return Ran(
        cells=len(cells),
        found=found,
        finished=len(waiting) - len(failed),
        failed=failed,
        impossible=impossible,
        seconds=time.perf_counter() - started,
    )


def open_run(plan: Plan) -> None:
    """Make the folder, or see that it is of the same campaign and size.

    Raises:
        InputError: the folder holds another campaign's run, or cannot be written.
    """
    about = {
        "campaign": plan.campaign.name,
        "size": plan.size,
        "machine": f"{platform.machine()}, {cores()} cores, Python {platform.python_version()}",
        "chainfl": version_line(),
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }

    try:
        for name in (CELLS, FAILED):
            (plan.folder / name).mkdir(parents=True, exist_ok=True)
        if (plan.folder / RUN).exists():
            before = json.loads((plan.folder / RUN).read_text(encoding="utf-8"))
            if (before["campaign"], before["size"]) != (plan.campaign.name, plan.size):
                raise InputError(
                    f"{plan.folder} holds {before['campaign']} in size {before['size']}: name another folder"
                )
            about["started"] = before["started"]
        write_whole(plan.folder / RUN, json.dumps(about, indent=2) + "\n")
        write_whole(plan.folder / CAMPAIGN, plan.campaign.source)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{plan.folder}: no run can be kept here: {error}") from None


def keep(folder: Path, outcome: Outcome) -> None:
    """Write down how a cell ended; a cell that succeeds after all is no longer a failed one."""
    name = f"{outcome.cell.key()}.json"
    if outcome.result is None:
        failure = {"cell": outcome.cell.name, "error": outcome.error}
        write_whole(folder / FAILED / name, json.dumps(failure, indent=2) + "\n")
        return
    write_whole(folder / CELLS / name, json.dumps(outcome.result) + "\n")
    (folder / FAILED / name).unlink(missing_ok=True)


def finished_keys(folder: Path) -> set[str]:
    """The keys of the finished cells, those of a packed run too; a file that is damaged is of no finished cell."""
    return set(read_cells(folder))


def read_cells(folder: Path) -> dict[str, dict[str, Any]]:
    """Every finished cell of a run's folder, or of a packed one, by its key.

    Raises:
        InputError: the packed cells are damaged.
    """
    found = {}
    packed = folder / PACKED
    if packed.exists():
        try:
            lines = [json.loads(line) for line in packed.read_text(encoding="utf-8").splitlines()]
            found = {str(each["key"]): each for each in lines}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{packed} is damaged: {error}") from None
    for path in sorted((folder / CELLS).glob("*.json")):
        kept = _read_cell(path)
        if kept is not None:
            found[path.stem] = kept
    return found


def damaged_cells(folder: Path) -> list[Path]:
    """Files that should hold a finished cell and do not: a machine that lost its power, or a hand."""
    return [path for path in sorted((folder / CELLS).glob("*.json")) if _read_cell(path) is None]


def _read_cell(path: Path) -> dict[str, Any] | None:
    """A cell's file, if it is whole and of the cell that its name says."""
    try:
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_whole = isinstance(kept, dict) and kept.get("key") == path.stem and kept.keys() >= REQUIRED
    return kept if is_whole else None


def _outcomes(plan: Plan, cells: Sequence[Cell]) -> Iterable[Outcome] | Iterator[Outcome]:
    if plan.engine == "ray":
        return on_ray(cells, plan.data)
    if plan.jobs:
        return side_by_side(cells, plan.data, plan.jobs)
    return (attempt(cell, plan.data) for cell in cells)


def _refusal(impossible: dict[str, str]) -> str:
    """Each reason once, with the first cell that has it: one mistake in a file is one of hundreds of cells."""
    by_reason: dict[str, list[str]] = {}
    for name, why in impossible.items():
        by_reason.setdefault(why, []).append(name)
    shown = [
        f"{name}: {why}{f' (and {len(alike)} more)' if alike else ''}"
        for why, (name, *alike) in list(by_reason.items())[:5]
    ]
    more = f"; and {len(by_reason) - 5} more reasons" if len(by_reason) > 5 else ""
    count = f"{len(impossible)} cell{'s' if len(impossible) > 1 else ''}"
    return f"{count} cannot be run: {'; '.join(shown)}{more} (--skip-impossible runs the others)"


def _line(number: int, total: int, outcome: Outcome, seconds: float) -> str:
    """How far the run is, what the cell showed, and how long the rest will take."""
    left = seconds / number * (total - number)
    shown = f"FAILED: {outcome.error}" if outcome.result is None else _shown(outcome.result["measures"])
    return f"{number}/{total}, {duration(left)} left: {outcome.cell.name}: {shown}"


def _shown(measures: dict[str, Any]) -> str:
    if "last" in measures:
        return f"last five {measures['last']:.4f}, best {measures['best']:.4f}"
    return ", ".join(f"{name} {value:.4g}" for name, value in measures.items())


def duration(seconds: float) -> str:
    """For people: seconds up to a minute and a half, then minutes."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
