"""Measuring on a machine that others use: disturbed turns are counted and left out, and open verdicts are named."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

import psutil  # type: ignore[import-untyped]

from chainfl.report import Bar, Op, bar

MOST_FOREIGN = 0.1
"""Part of all cores that others may use during a sample that counts."""
TICKS = os.sysconf("SC_CLK_TCK")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of one turn, and the part of all cores that others used meanwhile."""

    seconds: float
    foreign: float


@dataclass(slots=True)
class Samples:
    """What a contender showed: quiet turns count, disturbed ones are counted.

    `cpu` is what its processes computed in a turn, the mean of each series of turns: others hardly lengthen it, so it
    says something where every turn was disturbed. No bar is held to it.
    """

    kept: list[float] = field(default_factory=list)
    disturbed: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """Keep a sample, or count it as disturbed."""
        (self.kept if sample.foreign <= MOST_FOREIGN else self.disturbed).append(sample.seconds)

    def plain(self) -> dict[str, object]:
        """The median with its quartiles, how many turns were thrown away, and what those would have said."""
        low, middle, high = spread(self.kept) if self.kept else (None, None, None)
        return {
            "median": middle,
            "low": low,
            "high": high,
            "kept": len(self.kept),
            "disturbed": len(self.disturbed),
            "disturbed_median": median(self.disturbed) if self.disturbed else None,
            "cpu": median(self.cpu) if self.cpu else None,
        }


def busy_seconds() -> float:
    """What all cores of the machine have computed, for whomever."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, fields[:8])
    return (user + nice + system + irq + soft + steal) / TICKS


def own_seconds(pids: Sequence[int]) -> float:
    """What these processes, their descendants and this one have computed."""
    return sum(os.times()[:4]) + sum(tree_seconds(pid) for pid in pids)


def tree_seconds(pid: int) -> float:
    """What a process and its descendants have computed."""
    total = 0.0
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])
    return total


def watched(turn: Callable[[], T], pids: Sequence[int]) -> tuple[T, float]:
    """What a turn answers, and the part of all cores that others used meanwhile; it may add to `pids`.

    The machine counts in hundredths of a second: less than a few of them tells nothing.
    """
    started, busy, own = time.perf_counter(), busy_seconds(), own_seconds(pids)

    answer = turn()

    foreign = (busy_seconds() - busy) - (own_seconds(pids) - own)
    whole = (time.perf_counter() - started) * (os.cpu_count() or 1)
    return answer, min(max(0.0, foreign) / whole, 1.0)


def sample(turn: Callable[[], float], pids: Sequence[int]) -> Sample:
    """Play a turn, which says its own seconds, and see what others computed meanwhile."""
    return Sample(*watched(turn, pids))


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, median(values), high


def judged(
    name: str, above: Samples, below: Samples, op: Op, limit: float
) -> tuple[Bar | None, Mapping[str, object]]:
    """The ratio of two medians as a bar, with its spread; no bar where the spread crosses the limit."""
    if not above.kept or not below.kept:
        return None, {"id": name, "verdict": "undecided", "why": _without_quiet_turns(above, below)}

    return decided(name, *ratio_of(above, below), op, limit)


def _without_quiet_turns(above: Samples, below: Samples) -> str:
    """What the disturbed turns would have said, which is no verdict."""
    if not above.disturbed or not below.disturbed:
        return "every turn was disturbed"
    ratio = median(above.disturbed) / median(below.disturbed)
    return f"every turn was disturbed; those say {ratio:.2f}"


def ratio_of(above: Samples, below: Samples) -> tuple[float, float, float]:
    """The ratio of two medians between the least and the most that the quartiles allow: low, middle, high."""
    (low_a, mid_a, high_a), (low_b, mid_b, high_b) = spread(above.kept), spread(below.kept)
    return low_a / high_b, mid_a / mid_b, high_a / low_b


def decided(
    name: str, low: float, value: float, high: float, op: Op, limit: float
) -> tuple[Bar | None, Mapping[str, object]]:
    """A value with its spread as a bar; no bar where the limit lies within the spread."""
    told = {
        "id": name,
        "ratio": round(value, 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "limit": limit,
    }
    if low < limit < high:
        return None, told | {"verdict": "undecided", "why": "the spread crosses the limit"}
    made = bar(name, round(value, 3), op, limit)
    return made, told | {"verdict": "ok" if made.ok else "missed"}


def told_lines(ratios: Sequence[Mapping[str, object]]) -> list[str]:
    """A line for each ratio: verdict, value, spread, limit."""
    return [
        f"{each['verdict']:<10} {each['id']:<32} "
        + (
            f"{each['ratio']:.2f} ({each['low']:.2f} to {each['high']:.2f})"
            if "ratio" in each
            else str(each["why"])
        )
        + (f", limit {each['limit']:g}" if "limit" in each else "")
        for each in ratios
    ]
