"""Runs side by side, from their folders alone: what each ended with, and in which settings they differ."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.sim.experiment import LAST
from chainfl.sim.pages import Block, Row
from chainfl.sim.runfiles import EXPERIMENT, METRICS, read_json
from chainfl.tracking import flat, numbers_of

NOT_SET: Final = "–"  # noqa: RUF001 (a dash in a table)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run as its folder holds it: settings by dotted name, and the facts of each round."""

    name: str
    folder: Path
    settings: Mapping[str, str]
    rounds: Sequence[Mapping[str, Any]]

    def series(self, measure: str) -> list[float | None]:
        """A number over the rounds."""
        return [numbers_of(one).get(measure) for one in self.rounds]

    def plain(self) -> dict[str, object]:
        """What it ended with, as JSON holds it."""
        return {
            "run": str(self.folder),
            "name": self.name,
            "rounds_played": len(self.rounds),
            "accuracy": _last(self.series("accuracy")),
            "mean_accuracy_last_five": _mean(self.series("accuracy")[-LAST:]),
            "best_accuracy": max(_known(self.series("accuracy")), default=None),
            "loss": _last(self.series("loss")),
            "mean_share_hostile": _mean(self.series("share_hostile")),
            "seconds": sum(_known(self.series("seconds"))),
            "model_root": self.rounds[-1].get("model_root") if self.rounds else None,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs, and the settings that are not the same in all of them."""

    runs: Sequence[KeptRun]
    differences: Mapping[str, Sequence[str]]

    def measures(self) -> list[str]:
        """The numbers that at least one run has in some round."""
        return sorted({name for run in self.runs for one in run.rounds for name in numbers_of(one)})

    def lines(self, measure: str) -> dict[str, list[float | None]]:
        """A number of every run over its rounds, by the run's name.

        Raises:
            InputError: no run has such a number.
        """
        if measure not in self.measures():
            raise InputError(f"no run has {measure!r}; there are: {', '.join(self.measures())}")
        return {run.name: run.series(measure) for run in self.runs}

    def usual_measure(self) -> str:
        """Accuracy where all count correct answers, else the loss."""
        counted = all(_known(run.series("accuracy")) for run in self.runs)
        return "accuracy" if counted else "loss"


def compare(folders: Sequence[Path]) -> Comparison:
    """Read the runs in these folders.

    Raises:
        InputError: there is no run in one of them, its files are damaged, or no round of it was played.
    """
    runs = [read_run(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    settings = dict.fromkeys(name for run in runs for name in run.settings)
    values = {name: [run.settings.get(name, NOT_SET) for run in runs] for name in settings}
    return Comparison(runs, {name: each for name, each in values.items() if len(set(each)) > 1})


def read_run(folder: Path, name: str | None = None) -> KeptRun:
    """One run.

    Raises:
        InputError: there is none, or no round of it was played.
    """
    plan = read_json(folder / EXPERIMENT, "no run is in this folder; start one with --run")
    found = plan.get("experiment") or plan.get("selfish") if isinstance(plan, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"{folder / EXPERIMENT} is damaged: it names no experiment")

    try:
        text = (folder / METRICS).read_text(encoding="utf-8")
        rounds = [json.loads(line) for line in text.splitlines()]
        rounds[-1]["round"]
    except (FileNotFoundError, IndexError):
        raise InputError(f"{folder}: no round of this run was played yet") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder / METRICS} is damaged: {error}") from None

    settings = flat(found)
    if isinstance(digest := plan.get("app_digest"), str):
        settings["app digest"] = digest[:12]  # the same file may have changed between two runs
    return KeptRun(name or folder.name, folder, settings, rounds)


def blocks_of(comparison: Comparison, pictures: Sequence[str] = ()) -> list[Block]:
    """The comparison as a page."""
    runs = comparison.runs
    differing: list[Row] = [(name, *values) for name, values in comparison.differences.items()]
    text = (
        "What these runs do not have in common." if differing else "The settings of these runs are the same."
    )
    return [
        Block(f"{len(runs)} runs", pictures=pictures, level=1),
        Block("What they ended with", (), COLUMNS, rows_of(comparison)),
        Block("Settings", [text], ("setting", *(run.name for run in runs)) if differing else (), differing),
    ]


COLUMNS: Final = (
    "run", "rounds", "last five", "best", "loss", "hostile", "seconds", "model root",
)  # fmt: skip


def rows_of(comparison: Comparison) -> list[Row]:
    """A row for each run: accuracies, loss of the last head, the part that hostile updates had."""
    rows = list[Row]()
    for run in comparison.runs:
        row = run.plain()
        rows.append(
            (
                run.name,
                str(row["rounds_played"]),
                _shown(row["mean_accuracy_last_five"]),
                _shown(row["best_accuracy"]),
                _shown(row["loss"]),
                _shown(row["mean_share_hostile"]),
                _shown(row["seconds"], 1),
                str(row["model_root"])[:12],
            )
        )

    return rows


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names; the whole path where two are called the same."""
    own = [folder.resolve().name for folder in folders]
    return [str(folder) if own.count(name) > 1 else name for folder, name in zip(folders, own, strict=True)]


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return fmean(known) if known else None


def _last(values: Sequence[float | None]) -> float | None:
    known = _known(values)
    return known[-1] if known else None


def _shown(value: object, digits: int = 4) -> str:
    return f"{value:.{digits}f}" if isinstance(value, float) else NOT_SET
