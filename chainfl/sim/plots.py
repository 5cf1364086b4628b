"""Plots of runs: accuracy per round, shares of honest and hostile, the committee's make-up; and runs side by side.

They need matplotlib, the extra `plot`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chainfl.errors import ToolMissingError
from chainfl.tools import pip_install

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from chainfl.sim.run import RoundMetrics

BLUE: Final = "#2b6cb0"
RED: Final = "#c05621"
GREY: Final = "#a0aec0"
MARKED: Final = 40
"""Up to so many rounds, each has a dot."""


def draw_plots(folder: Path, facts: Sequence["RoundMetrics"], title: str) -> list[Path]:
    """Write the three pictures of a run into the folder.

    Raises:
        ToolMissingError: matplotlib is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for picture in _pictures(facts):
        figure = _new_figure(7, 4)
        _draw(figure.subplots(), picture, facts)
        figure.axes[0].set_title(title, fontsize="medium")
        written.append(folder / f"{picture.name}.png")
        figure.savefig(written[-1], dpi=120)
    return written


def draw_run(facts: Sequence["RoundMetrics"], title: str) -> "Figure":
    """The three pictures of a run under each other.

    Raises:
        ToolMissingError: matplotlib is not installed.
    """
    figure = _new_figure(7, 9)
    pictures = _pictures(facts)
    parts: Any = figure.subfigures(len(pictures), 1)
    for part, picture in zip(parts, pictures, strict=True):
        _draw(part.subplots(), picture, facts)
    figure.suptitle(title, fontsize="medium")
    return figure


def draw_lines(lines: Mapping[str, Sequence[float | None]], label: str) -> "Figure":
    """A number of several runs over the rounds, a line for each.

    Raises:
        ToolMissingError: matplotlib is not installed.
    """
    figure = _new_figure(8, 4)
    axes = figure.subplots()
    for name, values in lines.items():
        drawn = [nan if value is None else value for value in values]
        axes.plot(range(1, len(drawn) + 1), drawn, label=name, marker="o", markersize=3)
    axes.set(xlabel="round", ylabel=label)
    axes.grid(axis="y", alpha=0.3)
    _tidy(axes)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


@dataclass(frozen=True, slots=True)
class _Picture:
    """A picture of a run: its file's name, what its axis says, and who draws it."""

    name: str
    label: str
    draw: Callable[[Any, Sequence[int], Sequence["RoundMetrics"]], None]


def _pictures(facts: Sequence["RoundMetrics"]) -> tuple[_Picture, ...]:
    counts = all(one.accuracy is not None for one in facts)
    first = (
        _Picture("accuracy", "test accuracy of the head", _accuracy)
        if counts
        else _Picture("loss", "test loss of the head", _loss)
    )
    return (
        first,
        _Picture("shares", "part of the new model", _shares),
        _Picture("committee", "members of the committee", _committee),
    )


def _new_figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolMissingError(f"plots need matplotlib: {pip_install('plot')}") from None
    return Figure(figsize=(width, height), layout="constrained")


def _draw(axes: Any, picture: _Picture, facts: Sequence["RoundMetrics"]) -> None:
    rounds = [one.round for one in facts]
    picture.draw(axes, rounds, facts)
    axes.set(xlabel="round", ylabel=picture.label, xlim=(rounds[0] - 0.6, rounds[-1] + 0.6))
    _tidy(axes)


def _tidy(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _accuracy(axes: Any, rounds: Sequence[int], facts: Sequence["RoundMetrics"]) -> None:
    marker = "o" if len(rounds) <= MARKED else None
    axes.plot(rounds, [one.accuracy for one in facts], color=BLUE, marker=marker, markersize=4)
    axes.set_ylim(0, 1)
    axes.grid(axis="y", alpha=0.3)


def _loss(axes: Any, rounds: Sequence[int], facts: Sequence["RoundMetrics"]) -> None:
    marker = "o" if len(rounds) <= MARKED else None
    losses = [nan if one.loss is None else one.loss for one in facts]
    axes.plot(rounds, losses, color=BLUE, marker=marker, markersize=4)
    axes.grid(axis="y", alpha=0.3)


def _shares(axes: Any, rounds: Sequence[int], facts: Sequence["RoundMetrics"]) -> None:
    parts = (
        ("honest", BLUE, [one.share_honest for one in facts]),
        ("hostile", RED, [one.share_hostile for one in facts]),
        ("head", GREY, [one.share_head for one in facts]),
    )
    _stack(axes, rounds, [part for part in parts if any(share > 1e-9 for share in part[2])])
    axes.set_ylim(0, 1)


def _committee(axes: Any, rounds: Sequence[int], facts: Sequence["RoundMetrics"]) -> None:
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
