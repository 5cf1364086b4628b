"""What a run's folder holds, as tables and claims ask for it: measures of the cells with given labels, by seed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.sim.experiments.campaign import Campaign, parse
from chainfl.sim.experiments.cells import Cell, expand
from chainfl.sim.experiments.runner import CAMPAIGN, FAILED, PACKED, RUN, read_cells
from chainfl.sim.runfiles import read_json, write_whole

_KEPT: Final = ("key", "measures", "series", "root", "outside_bounds", "seconds", "clients")

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Results:
    """The finished cells of a campaign's run, and which are missing."""

    campaign: Campaign
    size: str
    about: Mapping[str, str]
    cells: Sequence[Cell]
    found: Mapping[str, Mapping[str, Any]]
    failed: Mapping[str, str]

    def rows(self, group: str) -> list[Labels]:
        """The combinations of labels of a group, in the order of its axes."""
        return list(dict.fromkeys(cell.labels for cell in self.cells if cell.group == group))

    def seeds(self, group: str) -> int:
        """How many seeds this size plans for the group."""
        return len({cell.seed for cell in self.cells if cell.group == group})

    def values(self, group: str, labels: Mapping[str, str], measure: str) -> dict[int, float]:
        """A measure of the finished cells with these labels, by seed."""
        answer = {}
        for cell, kept in self._finished(group, labels):
            value = kept["measures"].get(measure)
            if value is not None:
                answer[cell.seed] = float(value)
        return answer

    def series(self, group: str, labels: Mapping[str, str], name: str) -> list[list[float]]:
        """A series of the finished cells with these labels, one for each seed."""
        all_ = [kept["series"].get(name) for _, kept in self._finished(group, labels)]
        return [[float("nan") if value is None else value for value in each] for each in all_ if each]

    def clients(self, group: str, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """What is known of each client, one value for each seed: only of cells that ask for it."""
        all_ = [kept.get("clients") for _, kept in self._finished(group, labels)]
        return [each for each in all_ if each]

    def skipped(self, group: str) -> str | None:
        """Why this size goes without the group; None where it does not."""
        why = self.campaign.groups[group].sizes.get(self.size, {}).get("skip")
        return None if why is None else str(why)

    def seconds(self) -> float:
        """The processor time of all finished cells together."""
        return sum(float(each["seconds"]) for each in self.found.values())

    def outside(self) -> list[str]:
        """Cells that no contract would take, and why, each once."""
        return list(
            dict.fromkeys(
                f"{cell.group} {' '.join(label for _, label in cell.labels)}: {why}"
                for finished in self.by_group.values()
                for cell, kept in finished
                if (why := kept["outside_bounds"])
            )
        )

    @cached_property
    def by_group(self) -> Mapping[str, Sequence[tuple[Cell, Mapping[str, Any]]]]:
        """The finished cells of each group with what is kept of them."""
        answer: dict[str, list[tuple[Cell, Mapping[str, Any]]]] = {}
        for cell in self.cells:
            kept = self.found.get(cell.key())
            if kept is not None:
                answer.setdefault(cell.group, []).append((cell, kept))
        return answer

    def _finished(self, group: str, labels: Mapping[str, str]) -> list[tuple[Cell, Mapping[str, Any]]]:
        wanted = labels.items()
        return [each for each in self.by_group.get(group, ()) if wanted <= dict(each[0].labels).items()]


def read_results(folder: Path) -> Results:
    """What a run's folder holds.

    Raises:
        InputError: there is no run of a campaign in it, or a file is damaged; names it.
    """
    about = read_json(
        folder / RUN, "no campaign was run in this folder: chainfl experiment run NAME makes one"
    )

    try:
        campaign = parse(str(about["campaign"]), (folder / CAMPAIGN).read_text(encoding="utf-8"))
        size = str(about["size"])
    except (OSError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: damaged: {error}") from None

    cells, _ = expand(campaign, size)
    failed = [read_json(path, "gone") for path in sorted((folder / FAILED).glob("*.json"))]

    return Results(
        campaign,
        size,
        about,
        cells,
        read_cells(folder),
        {str(each["cell"]): str(each["error"]) for each in failed},
    )


def pack(folder: Path, target: Path) -> None:
    """The same run in three small files that can be committed: one line for each cell."""
    found = read_cells(folder)
    lines = [
        json.dumps({name: each[name] for name in _KEPT if name in each}, separators=(",", ":"))
        for _, each in sorted(found.items())
    ]
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in (RUN, CAMPAIGN):
            write_whole(target / name, (folder / name).read_bytes())
        write_whole(target / PACKED, "".join(line + "\n" for line in lines))
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error}") from None


def mean(values: Mapping[int, float]) -> float:
    """The mean over seeds."""
    return fmean(values.values())


def spread(values: Mapping[int, float]) -> float | None:
    """The standard deviation over seeds; None where there is one seed only."""
    return stdev(values.values()) if len(values) > 1 else None
