"""Pictures of a run's groups: accuracy by round with the spread over seeds, and values along an axis (extra `plot`)."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainfl.errors import ToolMissingError
from chainfl.sim.experiments.results import Labels, Results, mean, spread
from chainfl.tools import pip_install

_SERIES = {
    "accuracy": "test accuracy",
    "training_loss": "training loss",
    "external_weight": "1'w",
}

_MOST_LINES = 20
"""More lines than this in one picture tell nothing apart: a picture for each combination of the axes but the first."""

_MOST_PICTURES = 12
"""More pictures than this of one group nobody looks at; the tables have what they would show."""


def draw_figures(results: Results, folder: Path) -> dict[str, list[str]]:
    """Write the pictures of every group that was run; answers their names by group.

    Raises:
        ToolMissingError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolMissingError(f"plots need matplotlib: {pip_install('plot')}") from None

    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, list[str]] = {}
    for name, group in results.campaign.groups.items():
        rows = [labels for labels in results.rows(name) if results.values(name, dict(labels), "last")]
        if not rows:
            continue

        if group.figure == "axis" and len(group.axes) > 1:
            figure = Figure(figsize=(7, 4))
            _along_axis(figure.subplots(), results, name, rows)
            written.setdefault(name, []).append(_save(figure, folder, f"{name}-axis", group.title))
            continue
        for others, some in _apart(rows):
            for series, label in _SERIES.items():
                if not any(results.series(name, dict(labels), series) for labels in some):
                    continue
                figure = Figure(figsize=(7, 4))
                _by_round(figure.subplots(), results, name, some, series, label)
                stem = "-".join((name, *others, series))
                title = ", ".join((group.title, *others))
                written.setdefault(name, []).append(_save(figure, folder, stem, title))
    return written


def _apart(rows: Sequence[Labels]) -> list[tuple[tuple[str, ...], list[Labels]]]:
    """The rows of each picture, after the labels that they share where one picture would hold too many."""
    if len(rows) <= _MOST_LINES:
        return [((), list(rows))]
    pictures: dict[tuple[str, ...], list[Labels]] = {}
    for labels in rows:
        pictures.setdefault(tuple(label for _, label in labels[1:]), []).append(labels)
    few_lines = all(len(some) <= _MOST_LINES for some in pictures.values())
    return list(pictures.items()) if few_lines and len(pictures) <= _MOST_PICTURES else []


def _by_round(
    axes: Any, results: Results, name: str, rows: Sequence[Labels], series: str, title: str
) -> None:
    for labels in rows:
        found = results.series(name, dict(labels), series)
        if not found:
            continue
        shortest = min(map(len, found))
        values_SR = np.array([each[:shortest] for each in found])
        rounds = np.arange(1, shortest + 1)
        (line,) = axes.plot(
            rounds, values_SR.mean(axis=0), label=" ".join(label for _, label in labels) or name
        )
        axes.fill_between(
            rounds, values_SR.min(axis=0), values_SR.max(axis=0), color=line.get_color(), alpha=0.15
        )
    axes.set(xlabel="round", ylabel=title)


def _along_axis(axes: Any, results: Results, name: str, rows: Sequence[Labels]) -> None:
    """A line for each label of the first axis, and of a third and more, over the values of the second."""
    _, second, *_ = results.campaign.groups[name].axes
    lines: dict[str, list[Labels]] = {}
    for labels in rows:
        line = " ".join(label for axis, label in labels if axis != second)
        lines.setdefault(line, []).append(labels)

    for label, points in lines.items():
        values = [results.values(name, dict(labels), "last") for labels in points]
        axes.errorbar(
            [dict(labels)[second] for labels in points],
            [mean(each) for each in values],
            yerr=[spread(each) or 0.0 for each in values],
            label=label,
            marker="o",
            capsize=2,
        )
    axes.set(xlabel=second, ylabel="test accuracy, last five rounds")


def _save(figure: Any, folder: Path, stem: str, title: str) -> str:
    from matplotlib import rc_context

    axes = figure.axes[0]
    axes.set_title(title, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.tick_params(labelsize="x-small")
    if len(axes.get_xticks()) > 6:
        axes.tick_params(axis="x", rotation=20)
    figure.subplots_adjust(left=0.1, right=0.76, top=0.92, bottom=0.15)
    figure.legend(loc="center left", bbox_to_anchor=(0.77, 0.5), frameon=False, fontsize="x-small")
    name = re.sub(r"[^\w.+-]", "-", stem) + ".svg"
    # The same numbers give the same bytes, so that a page's figures can be compared.
    with rc_context({"svg.hashsalt": "chainfl", "svg.fonttype": "none"}):
        figure.savefig(folder / name, metadata={"Date": None, "Creator": None})
    return f"{folder.name}/{name}"
