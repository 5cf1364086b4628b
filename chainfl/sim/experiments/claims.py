"""Claims are data, verdicts are computed: each claim against what the run showed, with numbers and seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from chainfl.errors import InputError
from chainfl.sim.experiments.results import Results, mean

HOLDS: Final = "holds"
FAILS: Final = "fails"
UNCLEAR: Final = "unclear"
"""The mean says one thing and at least half of the seeds say another."""
NOT_TESTED: Final = "not tested"
MEASURES: Final = ("last", "best")
LOWER_IS_BETTER: Final = ("mega", "seconds", "hours", "attack", "hostile")
CLIFF: Final = 0.2
"""A fall of so much from one value of an axis to the next is a cliff."""

Claim = Mapping[str, Any]
Values = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict by one measure, and the numbers that it rests on."""

    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, and what was found by each measure: the mean of the last five rounds, and the best round."""

    text: str
    findings: Mapping[str, Finding]
    note: str = ""

    @property
    def verdict(self) -> str:
        """By the last five rounds, or by the claim's own measure."""
        return next(iter(self.findings.values())).verdict


def judge(results: Results) -> list[Verdict]:
    """A verdict for every claim of the campaign."""
    return [_judge(results, claim) for claim in results.campaign.claims]


def _judge(results: Results, claim: Claim) -> Verdict:
    measures = (claim["measure"],) if "measure" in claim else MEASURES
    if "untested" in claim:
        findings = {MEASURES[0]: Finding(NOT_TESTED, str(claim["untested"]))}
    elif "decays" in claim:
        findings = {str(claim["decays"]): _decays(results, claim)}
    else:
        findings = {measure: _by_measure(results, claim, measure) for measure in measures}
    return Verdict(str(claim["text"]), findings, str(claim.get("note", "")))


def _by_measure(results: Results, claim: Claim, measure: str) -> Finding:
    for verb, test in (("first", _first), ("order", _order), ("over", _over), ("along", _along)):
        if verb in claim:
            return test(results, claim, measure)
    return _level(results, claim, measure) if "level" in claim else _ranks(results, claim, measure)


def _first(results: Results, claim: Claim, measure: str) -> Finding:
    """One label is above all others of its axis, in every group that the claim names."""
    found = []
    for group in _groups(claim):
        others = [
            label
            for label in _labels(results, claim, group)
            if label != claim["first"] and label not in claim.get("except", ())
        ]
        found.append(
            _compare(results, claim, measure, [[str(claim["first"]), other] for other in others], group)
        )
    return _all_of(found)


def _order(results: Results, claim: Claim, measure: str) -> Finding:
    """Each label is above the next."""
    pairs = [list(pair) for pair in pairwise(map(str, claim["order"]))]
    return _all_of([_compare(results, claim, measure, pairs, group) for group in _groups(claim)])


def _over(results: Results, claim: Claim, measure: str) -> Finding:
    """The first label is above each of the others by so much."""
    left, *others = map(str, claim["over"])
    pairs = [[left, other] for other in others]
    return _all_of([_compare(results, claim, measure, pairs, group) for group in _groups(claim)])


def _compare(
    results: Results, claim: Claim, measure: str, pairs: Sequence[Sequence[str]], group: str
) -> Finding:
    """Whether the left of each pair is above the right by the margin, in the mean over the seeds that both have."""
    if not pairs or (results.skipped(group) is not None):
        return Finding(NOT_TESTED, _not_run(results, group))
    margin = float(claim.get("by", 0.0))
    is_lower_better = "loss" in measure or measure.startswith(LOWER_IS_BETTER)
    shown: dict[str, str] = {}
    verdicts = []
    agree = seeds = 0
    for left, right in pairs:
        lefts = _of(results, claim, group, left, measure)
        rights = _of(results, claim, group, right, measure)
        both = lefts.keys() & rights.keys()
        if not both:
            return Finding(NOT_TESTED, f"{group}: {left if not lefts else right} was not run")
        gaps = [(lefts[s] - rights[s]) * (-1 if is_lower_better else 1) for s in sorted(both)]
        verdicts.append(_of_gaps(gaps, margin))
        agree += sum(gap > margin for gap in gaps)
        seeds += len(gaps)
        shown |= {left: _number(mean(lefts), measure), right: _number(mean(rights), measure)}
    numbers = ", ".join(f"{label} {number}" for label, number in shown.items())
    return Finding(_together(verdicts), f"{group}: {numbers}; {agree} of {seeds} comparisons by seed")


def _of_gaps(gaps: Sequence[float], margin: float) -> str:
    """By the mean gap, where more than half of the seeds are on its side too."""
    holds = sum(gaps) / len(gaps) > margin
    on_its_side = sum((gap > margin) == holds for gap in gaps)
    if 2 * on_its_side <= len(gaps):
        return UNCLEAR
    return HOLDS if holds else FAILS


def _together(verdicts: Sequence[str]) -> str:
    """What fails in one place fails; what is unclear in one place is unclear."""
    return next((each for each in (FAILS, UNCLEAR) if each in verdicts), HOLDS)


def _along(results: Results, claim: Claim, measure: str) -> Finding:
    """How a measure moves along an axis: it falls, rises, or falls off a cliff after a stretch without one."""
    found = []
    for group in _groups(claim):
        axis = str(claim["along"])
        by_label = {
            label: _of(results, {**claim, "axis": axis}, group, label, measure)
            for label in _labels(results, {**claim, "axis": axis}, group)
        }
        if not by_label:
            found.append(Finding(NOT_TESTED, _not_run(results, group)))
            continue
        if missing := [label for label, values in by_label.items() if not values]:
            found.append(Finding(NOT_TESTED, f"{group}: {axis} {', '.join(missing)} was not run"))
            continue
        means = [mean(values) for values in by_label.values()]
        seeds = min(map(len, by_label.values()))
        numbers = ", ".join(
            f"{label} {_number(value, measure)}" for label, value in zip(by_label, means, strict=True)
        )
        holds = _has_shape(means, str(claim.get("shape", "falls")), float(claim.get("by", 0.0)))
        found.append(Finding(HOLDS if holds else FAILS, f"{group}: {axis}: {numbers}; {seeds} seeds"))
    return _all_of(found)


def _has_shape(values: Sequence[float], shape: str, by: float) -> bool:
    steps = [later - earlier for earlier, later in pairwise(values)]
    if shape == "cliff":
        return min(steps) <= -(by or CLIFF)
    if shape == "falls":
        return values[-1] < values[0] - by
    if shape == "rises":
        return values[-1] > values[0] + by
    if shape == "flat":
        return max(values) - min(values) <= by
    raise InputError(f"a claim's shape is {shape!r}; there are: cliff, falls, rises, flat")


def _level(results: Results, claim: Claim, measure: str) -> Finding:
    """A label's value against a bound, or within so many points of the paper's number."""
    found = []
    label = str(claim["level"])
    for group in _groups(claim):
        values = _of(results, claim, group, label, measure)
        if not values:
            found.append(Finding(NOT_TESTED, _not_run(results, group, f"{label} ")))
            continue
        value = mean(values)
        text = f"{group}: {label} {_number(value, measure)}, {len(values)} seeds"
        if "near_paper" in claim:
            paper = results.campaign.groups[group].paper.get(label)
            if paper is None:
                raise InputError(f"campaign {results.campaign.name}: group {group} has no number for {label}")
            holds = abs(100 * value - paper) <= float(claim["near_paper"])
            text += f", paper {paper:g}"
        else:
            holds = float(claim.get("at_least", value)) <= value <= float(claim.get("at_most", value))
        found.append(Finding(HOLDS if holds else FAILS, text))
    return _all_of(found)


def _ranks(results: Results, claim: Claim, measure: str) -> Finding:
    """A label has the best mean rank over the groups."""
    ranks = mean_ranks(results, _groups(claim), measure, claim.get("except", ()))
    if not ranks:
        return Finding(NOT_TESTED, "no group was run with all its labels")
    best = min(ranks, key=lambda label: ranks[label])
    shown = ", ".join(
        f"{label} {rank:.2f}" for label, rank in sorted(ranks.items(), key=lambda each: each[1])
    )
    return Finding(HOLDS if best == claim["ranks"] else FAILS, f"mean ranks: {shown}")


def mean_ranks(
    results: Results, groups: Sequence[str], measure: str, left_out: Sequence[str] = ()
) -> dict[str, float]:
    """The mean rank of each label of the first axis over the groups where all of them were run; 1 is best."""
    sums: dict[str, list[int]] = {}
    for group in groups:
        labels = [label for label in _labels(results, {}, group) if label not in left_out]
        values = {label: _of(results, {}, group, label, measure) for label in labels}
        if not labels or not all(values.values()):
            continue
        order = sorted(labels, key=lambda label: -mean(values[label]))
        for place, label in enumerate(order, 1):
            sums.setdefault(label, []).append(place)
    return {label: sum(places) / len(places) for label, places in sums.items()}


def _decays(results: Results, claim: Claim) -> Finding:
    """A series ends lower than it began: the mean of its last fifth against that of its first."""
    found = []
    name = str(claim["decays"])
    for group in _groups(claim):
        series = results.series(group, claim.get("of", {}), name)
        if not series:
            found.append(Finding(NOT_TESTED, _not_run(results, group)))
            continue
        fifth = max(1, len(series[0]) // 5)
        first = sum(sum(each[:fifth]) / fifth for each in series) / len(series)
        last = sum(sum(each[-fifth:]) / fifth for each in series) / len(series)
        text = f"{group}: {first:.3f} in the first fifth, {last:.3f} in the last; {len(series)} seeds"
        found.append(Finding(HOLDS if last < first else FAILS, text))
    return _all_of(found)


def _not_run(results: Results, group: str, what: str = "") -> str:
    why = results.skipped(group)
    return f"{group}: {what}was not run" + (f": {why}" if why else "")


def _of(results: Results, claim: Claim, group: str, label: str, measure: str) -> Values:
    axes = results.campaign.groups[group].axes
    axis = str(claim.get("axis", next(iter(axes), "")))
    return results.values(group, {axis: label, **claim.get("of", {})}, measure)


def _labels(results: Results, claim: Claim, group: str) -> list[str]:
    axes = results.campaign.groups[group].axes
    axis = str(claim.get("axis", next(iter(axes), "")))
    there = {dict(labels).get(axis) for labels in results.rows(group)}
    return [label for label in axes.get(axis, {}) if label in there]


def _groups(claim: Claim) -> list[str]:
    return [str(claim["group"])] if "group" in claim else [str(group) for group in claim.get("groups", [])]


def _all_of(findings: Sequence[Finding]) -> Finding:
    """Every one must hold; what was not run is not counted, unless nothing was."""
    tested = [finding for finding in findings if finding.verdict != NOT_TESTED]
    if not tested:
        return Finding(NOT_TESTED, "; ".join(finding.why for finding in findings) or "names no group")
    verdict = _together([finding.verdict for finding in tested])
    return Finding(verdict, "; ".join(finding.why for finding in findings))


def _number(value: float, measure: str) -> str:
    return f"{100 * value:.1f}" if measure in ("last", "best", "final") else f"{value:.4g}"
