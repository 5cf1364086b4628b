"""Plots of a run: accuracy per round, shares of honest and hostile, the committee's make-up (extra `plot`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from chainfl.errors import ToolMissingError
from chainfl.sim.run import RoundMetrics
from chainfl.tools import pip_install

BLUE: Final = "#2b6cb0"
RED: Final = "#c05621"
GREY: Final = "#a0aec0"
MARKED: Final = 40
"""Up to so many rounds, each has a dot."""


def draw_plots(folder: Path, facts: Sequence[RoundMetrics], title: str) -> list[Path]:
    """Write the three pictures of a run into the folder.

    Raises:
        ToolMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise ToolMissingError(f"plots need matplotlib: {pip_install('plot')}") from None
    folder.mkdir(parents=True, exist_ok=True)
    rounds = [one.round for one in facts]
    written = []
    for name, label, draw in (
        ("accuracy", "test accuracy of the head", _accuracy),
        ("shares", "part of the new model", _shares),
        ("committee", "members of the committee", _committee),
    ):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        draw(axes, rounds, facts)
        axes.set(xlabel="round", ylabel=label, xlim=(rounds[0] - 0.6, rounds[-1] + 0.6))
        axes.set_title(title, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=120)
    return written


def _accuracy(axes: Any, rounds: Sequence[int], facts: Sequence[RoundMetrics]) -> None:
    marker = "o" if len(rounds) <= MARKED else None
    axes.plot(rounds, [one.accuracy for one in facts], color=BLUE, marker=marker, markersize=4)
    axes.set_ylim(0, 1)
    axes.grid(axis="y", alpha=0.3)


def _shares(axes: Any, rounds: Sequence[int], facts: Sequence[RoundMetrics]) -> None:
    parts = (
        ("honest", BLUE, [one.share_honest for one in facts]),
        ("hostile", RED, [one.share_hostile for one in facts]),
        ("head", GREY, [one.share_head for one in facts]),
    )
    _stack(axes, rounds, [part for part in parts if any(share > 1e-9 for share in part[2])])
    axes.set_ylim(0, 1)


def _committee(axes: Any, rounds: Sequence[int], facts: Sequence[RoundMetrics]) -> None:
    acting = [float(one.acting_hostile) for one in facts]
    excused = [float(one.hostile_in_committee - one.acting_hostile) for one in facts]
    honest = [float(one.committee - one.hostile_in_committee) for one in facts]
    parts = (
        ("hostile", RED, acting),
        ("hostile, made to be honest", GREY, excused),
        ("honest", BLUE, honest),
    )
    majority = [one.committee // 2 + 1.0 for one in facts]
    axes.step(rounds, majority, where="mid", color="black", linestyle="--", linewidth=1, label="majority")
    _stack(axes, rounds, [part for part in parts if any(part[2])])
    axes.yaxis.get_major_locator().set_params(integer=True)


def _stack(axes: Any, rounds: Sequence[int], parts: Sequence[tuple[str, str, list[float]]]) -> None:
    """Bars upon each other, with the legend above the picture."""
    below = [0.0] * len(rounds)
    for label, colour, values in parts:
        axes.bar(rounds, values, bottom=below, width=0.9, color=colour, label=label)
        below = [low + value for low, value in zip(below, values, strict=True)]
    axes.figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
