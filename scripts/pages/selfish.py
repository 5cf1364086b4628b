"""The tables of docs/selfish.md, from the packed run in docs/selfish: no number in them is typed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from chainfl.sim.experiments.results import Results, read_results

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PACKED: Final = DOCS / "selfish"
BEGIN: Final = "<!-- tables: made by python -m scripts.make_docs -->"
END: Final = "<!-- end of tables -->"
LAST: Final = 20
"""Rounds at the end of a run whose mean accuracy is shown."""

_NAMES: Final[Mapping[str, str]] = {
    "local": "local",
    "fedavg": "FedAvg",
    "varsel": "VaRSeL",
    "varsel-drawn": "VaRSeL, drawn",
    "softmax": "**softmax, β = 10**",
    "softmax-20": "**softmax, β = 20**",
    "softmax-50": "**softmax, β = 50**",
    "oracle": "oracle",
}
_AXES: Final[Mapping[str, str]] = {
    "samples": "samples of an internal",
    "hostile": "poisoned outsiders",
    "internals": "internals",
    "beta": "β",
}


def page() -> str:
    """The page with its tables as the packed run gives them."""
    before, _, rest = (DOCS / "selfish.md").read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(read_results(PACKED))}\n{END}{after}"


def tables(results: Results) -> str:
    """One table for each group of which something was run."""
    return "\n".join(_table(results, group) for group in results.campaign.groups if _was_run(results, group))


def _was_run(results: Results, group: str) -> bool:
    return any(cell.key() in results.found for cell in results.cells if cell.group == group)


def _table(results: Results, group: str) -> str:
    axes = {axis: _labels(results, group, axis) for axis in results.campaign.groups[group].axes}
    rows = _by_rule(results, group, axes) if "rule" in axes else _by_steepness(results, group, axes["beta"])
    title = results.campaign.groups[group].title
    return "\n".join(
        [f"**{title}**", "", _bar(rows[0]), "|" + "---|" * len(rows[0]), *map(_bar, rows[1:]), ""]
    )


def _labels(results: Results, group: str, axis: str) -> list[str]:
    """The labels of an axis of which a cell was run."""
    there = [
        dict(cell.labels)[axis]
        for cell in results.cells
        if cell.group == group and cell.key() in results.found
    ]
    return list(dict.fromkeys(there))


def _by_rule(results: Results, group: str, axes: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Rules as columns; the other axis, where there is one, as rows."""
    rules = axes["rule"]
    down = next((axis for axis in axes if axis != "rule"), None)
    heads = [_AXES[down] if down else "", *(_NAMES[rule] for rule in rules), "seeds"]
    rows = [heads]
    for label in axes[down] if down else [""]:
        fixed = {down: label} if down else {}
        found = [_accuracies(results, group, {**fixed, "rule": rule}) for rule in rules]
        rows.append([label, *map(_percent, found), _seeds(found)])
    return rows


def _by_steepness(results: Results, group: str, labels: Sequence[str]) -> list[list[str]]:
    rows = [["β", "accuracy", "outsiders' part of the model", "poisoned part", "seeds"]]
    for label in labels:
        found = _accuracies(results, group, {"beta": label})
        parts = [
            _percent(list(results.values(group, {"beta": label}, measure).values()))
            for measure in ("external_share", "hostile_share")
        ]
        rows.append([label, _percent(found), *parts, _seeds([found])])
    return rows


def _accuracies(results: Results, group: str, labels: Mapping[str, str]) -> list[float]:
    """The mean of the last rounds, one for each seed."""
    return [fmean(series[-LAST:]) for series in results.series(group, labels, "accuracy")]


def _percent(values: Sequence[float]) -> str:
    if not values:
        return "not run"
    wide = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.1f}{wide}"


def _seeds(found: Sequence[Sequence[float]]) -> str:
    counts = sorted({len(values) for values in found if values})
    return "–".join(map(str, dict.fromkeys((counts[0], counts[-1]))))  # noqa: RUF001 (a range in a table)


def _bar(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
