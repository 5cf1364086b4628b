"""Tables over several groups: ranks, ratios, the worst case over attacks, rounds to an accuracy, clients."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from chainfl.sim.experiments.claims import mean_ranks, ranked_groups
from chainfl.sim.experiments.results import Labels, Results, mean
from chainfl.sim.robust.table import chain_proof, parse_with_known, pipeline_of

Row = tuple[str, ...]
Said = Mapping[str, Any]
Values = Mapping[int, float]

NOT_RUN: Final = "not run"


def table_of(results: Results, said: Said) -> tuple[Row, list[Row]]:
    """The columns and rows of a table as the campaign's file names it."""
    return _KINDS[said["kind"]](results, said)


def _ranks(results: Results, said: Said) -> tuple[Row, list[Row]]:
    """Each label's mean rank over the groups in which all labels were run, and over how many that is."""
    groups = _groups(said)
    left_out = said.get("except", ())
    last = mean_ranks(results, groups, "last", left_out)
    best = mean_ranks(results, groups, "best", left_out)
    whole = f"{len(ranked_groups(results, groups, 'last', left_out))} of {len(groups)}"

    rows: list[Row] = [
        (label, f"{last[label]:.2f}", f"{best[label]:.2f}", whole)
        for label in sorted(last, key=last.__getitem__)
    ]
    return (_first_axis(results, groups[0]), "mean rank by the last five", "by the best", "settings"), rows


def _ratio(results: Results, said: Said) -> tuple[Row, list[Row]]:
    """The first of two groups over the second, label by label: the groups are named in pairs."""
    groups = _groups(said)
    rows: list[Row] = []
    for upper, lower in zip(groups[::2], groups[1::2], strict=True):
        for label in _labels(results, upper):
            shown = [
                _quotient(_of(results, upper, label, measure), _of(results, lower, label, measure))
                for measure in ("last", "best")
            ]
            rows.append((f"{upper} / {lower}", label, *shown))
    return ("groups", _first_axis(results, groups[0]), "last five", "best"), rows


def _quotient(upper: Values, lower: Values) -> str:
    if not upper or not lower or mean(lower) == 0:
        return NOT_RUN
    return f"{mean(upper) / mean(lower):.3f}"


def _worst(results: Results, said: Said) -> tuple[Row, list[Row]]:
    """Each rule's worst accuracy, its highest attack success, and what a chain can prove of it.

    Where attacks are missing the worst case can only be worse than what is shown.
    """
    groups = _groups(said)
    found = []
    for label in _labels(results, groups[0]):
        cases = [case for group in groups for case in _cases(results, group, label)]
        lowest = min((case for case in cases if case.last is not None), key=_lowest, default=None)
        found.append((label, cases, lowest))
    # Rules that met every attack come first: the others' worst case is not known yet.
    found.sort(key=lambda each: (any(case.last is None for case in each[1]), -_lowest(each[2])))

    rows: list[Row] = []
    for label, cases, lowest in found:
        run = sum(case.last is not None for case in cases)
        bound = "at most " if run < len(cases) else ""
        shown = (f"{bound}{100 * _lowest(lowest):.1f}", lowest.name) if lowest else (NOT_RUN, "")
        proof = _proof(results, groups[0], label)
        rows.append((label, *shown, _highest(cases), f"{run} of {len(cases)}", proof))
    columns = ("worst accuracy", "where", "highest attack success", "attacks run", "a chain can prove")
    return (_first_axis(results, groups[0]), *columns), rows


@dataclass(frozen=True, slots=True)
class _Case:
    """What one rule showed under one attack: means over seeds; None where that was not run or not measured."""

    name: str
    last: float | None
    attack_success: float | None


def _cases(results: Results, group: str, label: str) -> list[_Case]:
    axis = _first_axis(results, group)
    cases = []
    for labels in results.rows(group):
        if dict(labels)[axis] != label:
            continue
        others = " ".join(text for name, text in labels if name != axis)
        last, success = (
            mean(values) if (values := results.values(group, dict(labels), measure)) else None
            for measure in ("last", "attack_success")
        )
        cases.append(_Case(f"{group} {others}".strip(), last, success))
    return cases


def _lowest(case: _Case | None) -> float:
    return -1.0 if case is None or case.last is None else case.last


def _highest(cases: Sequence[_Case]) -> str:
    known = [(case.attack_success, case.name) for case in cases if case.attack_success]
    if not known:
        return ""
    success, name = max(known)
    return f"{100 * success:.0f} ({name})"


def _proof(results: Results, group: str, label: str) -> str:
    """What a chain can prove of the rule that stands behind a label."""
    axis = _first_axis(results, group)
    rule = next(
        getattr(cell.experiment, "rule", "")
        for cell in results.cells
        if cell.group == group and dict(cell.labels)[axis] == label
    )
    pipeline = pipeline_of(rule)
    return (chain_proof(parse_with_known(rule)) if pipeline is None else pipeline.proof).value


def _reach(results: Results, said: Said) -> tuple[Row, list[Row]]:
    """After how many rounds a cell first had this accuracy: the mean over the seeds that reach it, and how many do."""
    level = float(said["level"])
    rows: list[Row] = []
    for group in _groups(said):
        for labels in results.rows(group):
            series = results.series(group, dict(labels), "accuracy")
            rounds = [found for each in series if (found := _first_at(each, level)) is not None]
            shown = f"{fmean(rounds):.1f}" if rounds else "never" if series else NOT_RUN
            rows.append((group, _named(labels), shown, f"{len(rounds)} of {len(series)}"))
    return ("group", "cell", f"rounds to {100 * level:g} %", "seeds that reach it"), rows


def _first_at(accuracies: Sequence[float], level: float) -> int | None:
    return next((number for number, value in enumerate(accuracies, 1) if value >= level), None)


def _clients(results: Results, said: Said) -> tuple[Row, list[Row]]:
    """How often honest and hostile clients are selected and sit in the committee, and accuracy on their own samples."""
    rows: list[Row] = []
    for group in _groups(said):
        for labels in results.rows(group):
            kept = results.clients(group, dict(labels))
            rows.append((group, _named(labels), *_of_clients(kept)) if kept else (group, _named(labels)))

    columns = (
        "selected, an honest client",
        "selected, a hostile one",
        "in committee, honest",
        "in committee, hostile",
        "clients never selected, %",
        "accuracy of the worst tenth of clients",
        "of the median client",
    )

    return ("group", "cell", *columns), [(*row, *[NOT_RUN] * (2 + len(columns) - len(row))) for row in rows]


def _of_clients(kept: Sequence[Mapping[str, Any]]) -> Row:
    counts = {True: [0, 0, 0], False: [0, 0, 0]}
    never = clients = 0
    accuracies: list[list[float]] = []
    for each in kept:
        hostile = set(each["hostile"])
        for id_ in range(1, len(each["accuracy"]) + 1):
            selected = int(each["times_selected"].get(str(id_), 0))
            tally = counts[id_ in hostile]
            tally[0] += 1
            tally[1] += selected
            tally[2] += int(each["times_in_committee"].get(str(id_), 0))
            never += selected == 0
            clients += 1
        accuracies.append(sorted(value for value in each["accuracy"] if value is not None))

    times = [_each(counts[is_hostile], place) for place in (1, 2) for is_hostile in (False, True)]
    worst = fmean(fmean(each[: max(1, len(each) // 10)]) for each in accuracies)
    middle = fmean(each[len(each) // 2] for each in accuracies)
    return (*times, f"{100 * never / clients:.0f}", f"{100 * worst:.1f}", f"{100 * middle:.1f}")


def _each(tally: Sequence[int], place: int) -> str:
    return f"{tally[place] / tally[0]:.2f}" if tally[0] else ""


_KINDS: Final[Mapping[str, Callable[[Results, Said], tuple[Row, list[Row]]]]] = {
    "ranks": _ranks,
    "ratio": _ratio,
    "worst": _worst,
    "reach": _reach,
    "clients": _clients,
}


def _groups(said: Said) -> list[str]:
    return [str(group) for group in said["groups"]]


def _first_axis(results: Results, group: str) -> str:
    return next(iter(results.campaign.groups[group].axes))


def _labels(results: Results, group: str) -> list[str]:
    axis = _first_axis(results, group)
    return list(dict.fromkeys(dict(labels)[axis] for labels in results.rows(group)))


def _of(results: Results, group: str, label: str, measure: str) -> Values:
    return results.values(group, {_first_axis(results, group): label}, measure)


def _named(labels: Labels | Iterable[tuple[str, str]]) -> str:
    return " ".join(text for _, text in labels)
