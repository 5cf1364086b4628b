"""Claims are data, verdicts are computed: each claim against what the run showed, with numbers and seeds.

A claim over several groups holds only where all of them were run; one that fails anywhere fails. One seed decides
nothing where the campaign plans more.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from chainfl.sim.experiments.campaign import named_groups
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
    (test,) = [test for verb, test in _TESTS.items() if verb in claim]
    return test(results, claim, measure)


def _first(results: Results, claim: Claim, measure: str) -> Finding:
    """One label is above all others of its axis, also those that this size goes without, in every group."""
    found = []
    for group in named_groups(claim):
        others = [
            label
            for label in _axis_of(results, claim, group)
            if label != claim["first"] and label not in claim.get("except", ())
        ]
        pairs = [[str(claim["first"]), other] for other in others]
        found.append(_compare(results, claim, measure, pairs, group))
    return _at_least(found, int(claim["settings"])) if "settings" in claim else _all_of(found)


def _at_least(findings: Sequence[Finding], wanted: int) -> Finding:
    """It must hold in so many of the groups: decided as soon as those that were not tested cannot change it."""
    counts = Counter(finding.verdict for finding in findings)
    possible = len(findings) - counts[FAILS]
    verdict = HOLDS if counts[HOLDS] >= wanted else FAILS if possible < wanted else UNCLEAR
    if verdict == UNCLEAR and counts[NOT_TESTED]:
        verdict = NOT_TESTED
    shown = ", ".join(f"{each} in {count}" for each, count in counts.items())
    return Finding(verdict, f"{shown} of {len(findings)}: {'; '.join(finding.why for finding in findings)}")


def _order(results: Results, claim: Claim, measure: str) -> Finding:
    """Each label is above the next."""
    pairs = [list(pair) for pair in pairwise(map(str, claim["order"]))]
    return _all_of([_compare(results, claim, measure, pairs, group) for group in named_groups(claim)])


def _over(results: Results, claim: Claim, measure: str) -> Finding:
    """The first label is above each of the others by so much."""
    left, *others = map(str, claim["over"])
    pairs = [[left, other] for other in others]
    return _all_of([_compare(results, claim, measure, pairs, group) for group in named_groups(claim)])


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
    seeds = []
    agree = compared = 0

    for left, right in pairs:
        lefts = _of(results, claim, group, left, measure)
        rights = _of(results, claim, group, right, measure)
        both = lefts.keys() & rights.keys()
        if not both:
            return Finding(NOT_TESTED, f"{group}: {left if not lefts else right} was not run")

        # A seed deals the same data to both sides, so gaps are taken seed by seed and not between means.
        gaps = [(lefts[s] - rights[s]) * (-1 if is_lower_better else 1) for s in sorted(both)]
        verdicts.append(_of_gaps(gaps, margin))

        agree += sum(gap > margin for gap in gaps)
        compared += len(gaps)
        seeds.append(len(gaps))
        shown |= {left: _number(mean(lefts), measure), right: _number(mean(rights), measure)}

    numbers = ", ".join(f"{label} {number}" for label, number in shown.items())
    why = f"{group}: {numbers}; {agree} of {compared} comparisons by seed"
    return _by_seeds(results, group, Finding(_together(verdicts), why), min(seeds))


def _by_seeds(results: Results, group: str, finding: Finding, seeds: int) -> Finding:
    """The finding with its number of seeds; one seed of several planned ones is not yet a test."""
    planned = results.seeds(group)
    if seeds < min(2, planned):
        why = f"{finding.why}; {finding.verdict} with the one seed of {planned} that was run"
        return Finding(NOT_TESTED, why)
    return Finding(finding.verdict, f"{finding.why}; {seeds} of {planned} seeds")


def _of_gaps(gaps: Sequence[float], margin: float) -> str:
    """By the mean gap, where more than half of the seeds are on its side too."""
    return _with_most(sum(gaps) / len(gaps) > margin, [gap > margin for gap in gaps])


def _together(verdicts: Sequence[str]) -> str:
    """What fails in one place fails; what is unclear in one place is unclear."""
    return next((each for each in (FAILS, UNCLEAR) if each in verdicts), HOLDS)


def _along(results: Results, claim: Claim, measure: str) -> Finding:
    """How a measure moves along an axis: it falls, rises, or falls off a cliff after a stretch without one."""
    found = []
    for group in named_groups(claim):
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

        shape, by = str(claim.get("shape", "falls")), float(claim.get("by", 0.0))
        means = [mean(values) for values in by_label.values()]

        # Seeds that every label has: the shape is looked for in each of them, and in the mean.
        seeds = set.intersection(*(set(values) for values in by_label.values()))
        by_seed = [
            _has_shape([values[seed] for values in by_label.values()], shape, by) for seed in sorted(seeds)
        ]

        numbers = ", ".join(
            f"{label} {_number(value, measure)}" for label, value in zip(by_label, means, strict=True)
        )
        verdict = _with_most(_has_shape(means, shape, by), by_seed)

        finding = Finding(verdict, f"{group}: {axis}: {numbers}; so in {sum(by_seed)} seeds")
        found.append(_by_seeds(results, group, finding, len(seeds)))
    return _all_of(found)


def _with_most(holds: bool, by_seed: Sequence[bool]) -> str:
    """By the mean, where more than half of the seeds say so too."""
    if 2 * sum(each == holds for each in by_seed) <= len(by_seed):
        return UNCLEAR
    return HOLDS if holds else FAILS


def _across(results: Results, claim: Claim, measure: str) -> Finding:
    """How a label's measure moves from one group to the next."""
    label = str(claim["across"])
    groups = named_groups(claim)
    by_group = {group: _of(results, claim, group, label, measure) for group in groups}
    seeds = set.intersection(*(set(values) for values in by_group.values())) if groups else set()
    if missing := [group for group, values in by_group.items() if not values]:
        return Finding(NOT_TESTED, f"{label} was not run in {', '.join(missing)}")

    shape, by = str(claim.get("shape", "falls")), float(claim.get("by", 0.0))
    by_seed = [
        _has_shape([values[seed] for values in by_group.values()], shape, by) for seed in sorted(seeds)
    ]
    means = {group: mean(values) for group, values in by_group.items()}
    numbers = ", ".join(f"{group} {_number(value, measure)}" for group, value in means.items())
    verdict = _with_most(_has_shape(list(means.values()), shape, by), by_seed)
    finding = Finding(verdict, f"{label}: {numbers}; so in {sum(by_seed)} seeds")
    return _by_seeds(results, groups[0], finding, len(seeds))


def _has_shape(values: Sequence[float], shape: str, by: float) -> bool:
    steps = [later - earlier for earlier, later in pairwise(values)]
    if shape == "cliff":
        return min(steps) <= -(by or CLIFF)
    if shape == "peak":
        return max(values) > max(values[0], values[-1])
    if shape == "falls":
        return values[-1] < values[0] - by
    if shape == "rises":
        return values[-1] > values[0] + by
    return max(values) - min(values) <= by  # flat


def _level(results: Results, claim: Claim, measure: str) -> Finding:
    """A label's value against a bound, or within so many points of the paper's number."""
    found = []
    label = str(claim["level"])
    for group in named_groups(claim):
        values = _of(results, claim, group, label, measure)
        if not values:
            found.append(Finding(NOT_TESTED, _not_run(results, group, f"{label} ")))
            continue

        value = mean(values)
        text = f"{group}: {label} {_number(value, measure)}"

        if "near_paper" in claim:
            paper = results.campaign.groups[group].paper[label]
            holds = abs(100 * value - paper) <= float(claim["near_paper"])
            text += f", paper {paper:g}"
        else:
            holds = float(claim.get("at_least", value)) <= value <= float(claim.get("at_most", value))

        found.append(_by_seeds(results, group, Finding(HOLDS if holds else FAILS, text), len(values)))
    return _all_of(found)


def _ranks(results: Results, claim: Claim, measure: str) -> Finding:
    """A label has the best mean rank over the groups; ranks over some are proof where the others cannot change it."""
    groups = named_groups(claim)
    left_out = claim.get("except", ())
    ranked = ranked_groups(results, groups, measure, left_out)
    if not ranked:
        return Finding(NOT_TESTED, f"none of {len(groups)} settings was run with all its labels")

    ranks = mean_ranks(results, ranked, measure, left_out)
    shown = ", ".join(
        f"{label} {rank:.2f}" for label, rank in sorted(ranks.items(), key=lambda each: each[1])
    )
    missing = [group for group in groups if group not in ranked]
    verdict = _of_ranks(str(claim["ranks"]), ranks, len(ranked), len(missing))
    if not missing:
        return Finding(verdict, f"mean ranks: {shown}")
    why = f"mean ranks over {len(ranked)} of {len(groups)} settings: {shown}; not run whole: {', '.join(missing)}"
    decided = "" if verdict == NOT_TESTED else "; their ranks cannot change the verdict"
    return Finding(verdict, why + decided)


def _of_ranks(label: str, ranks: Mapping[str, float], ranked: int, missing: int) -> str:
    """Whether the label has the least sum of ranks, whatever its ranks are in the settings that are missing."""
    sums = {name: rank * ranked for name, rank in ranks.items()}
    own = sums.pop(label, float("inf"))
    best_other = min(sums.values(), default=float("inf"))
    swing = missing * (len(ranks) - 1)
    if own + swing <= best_other:
        return HOLDS
    return FAILS if own > best_other + swing else NOT_TESTED


def ranked_groups(
    results: Results, groups: Sequence[str], measure: str, left_out: Sequence[str] = ()
) -> list[str]:
    """The groups in which all labels of the first axis were run, in two seeds at least where more are planned."""
    whole = []
    for group in groups:
        labels = [label for label in _axis_of(results, {}, group) if label not in left_out]
        least = min(2, results.seeds(group))
        if least and all(len(_of(results, {}, group, label, measure)) >= least for label in labels):
            whole.append(group)
    return whole


def mean_ranks(
    results: Results, groups: Sequence[str], measure: str, left_out: Sequence[str] = ()
) -> dict[str, float]:
    """The mean rank of each label of the first axis over the groups where all of them were run; 1 is best."""
    places: dict[str, list[int]] = {}
    for group in ranked_groups(results, groups, measure, left_out):
        labels = [label for label in _axis_of(results, {}, group) if label not in left_out]
        values = {label: mean(_of(results, {}, group, label, measure)) for label in labels}
        for place, label in enumerate(sorted(labels, key=lambda label: -values[label]), 1):
            places.setdefault(label, []).append(place)
    return {label: sum(each) / len(each) for label, each in places.items()}


def _ratio(results: Results, claim: Claim, measure: str) -> Finding:
    """A label's measure in the first of each two groups over that in the second is, in the mean, the nearest to 1."""
    groups = named_groups(claim)
    pairs = list(zip(groups[::2], groups[1::2], strict=True))
    labels = [label for label in _axis_of(results, claim, groups[0]) if label not in claim.get("except", ())]
    distances = {label: _distances(results, claim, pairs, label, measure) for label in labels}
    if missing := [label for label, values in distances.items() if not values]:
        return Finding(NOT_TESTED, f"{', '.join(missing)} was not run in all of {', '.join(groups)}")

    own = distances[str(claim["ratio"])]
    seeds = sorted(set.intersection(*(set(values) for values in distances.values())))
    nearest = [all(own[seed] <= values[seed] for values in distances.values()) for seed in seeds]
    means = {label: mean(values) for label, values in distances.items()}
    verdict = _with_most(mean(own) <= min(means.values()), nearest)
    shown = ", ".join(f"{label} {value:.3f}" for label, value in means.items())
    why = f"distance of the ratios from 1: {shown}; so in {sum(nearest)} seeds"
    return _by_seeds(results, groups[0], Finding(verdict, why), len(seeds))


def _distances(
    results: Results, claim: Claim, pairs: Sequence[tuple[str, str]], label: str, measure: str
) -> dict[int, float]:
    """The mean distance from 1 of a label's ratios, by seed; of the seeds that all groups have."""
    values = [
        (_of(results, claim, up, label, measure), _of(results, claim, down, label, measure))
        for up, down in pairs
    ]
    seeds = set.intersection(*(up.keys() & down.keys() for up, down in values))
    return {
        seed: sum(abs(1 - up[seed] / max(down[seed], 1e-9)) for up, down in values) / len(values)
        for seed in seeds
    }


def _decays(results: Results, claim: Claim) -> Finding:
    """A series ends lower than it began: the mean of its last fifth against that of its first."""
    found = []
    name = str(claim["decays"])
    for group in named_groups(claim):
        series = results.series(group, claim.get("of", {}), name)
        if not series:
            found.append(Finding(NOT_TESTED, _not_run(results, group)))
            continue

        fifth = max(1, len(series[0]) // 5)
        first = [sum(each[:fifth]) / fifth for each in series]
        last = [sum(each[-fifth:]) / fifth for each in series]

        decays = [end < start for start, end in zip(first, last, strict=True)]
        verdict = _with_most(sum(last) < sum(first), decays)

        means = (sum(first) / len(series), sum(last) / len(series))
        text = f"{group}: {means[0]:.3f} in the first fifth, {means[1]:.3f} in the last; so in {sum(decays)} seeds"
        found.append(_by_seeds(results, group, Finding(verdict, text), len(series)))
    return _all_of(found)


def _not_run(results: Results, group: str, what: str = "") -> str:
    why = results.skipped(group)
    return f"{group}: {what}was not run" + (f": {why}" if why else "")


def _of(results: Results, claim: Claim, group: str, label: str, measure: str) -> Values:
    axis = _axis_name(results, claim, group)
    return results.values(group, {axis: label, **claim.get("of", {})}, measure)


def _labels(results: Results, claim: Claim, group: str) -> list[str]:
    """The labels of the claim's axis that this size has."""
    axis = _axis_name(results, claim, group)
    there = {dict(labels).get(axis) for labels in results.rows(group)}
    return [label for label in _axis_of(results, claim, group) if label in there]


def _axis_of(results: Results, claim: Claim, group: str) -> list[str]:
    """All labels of the claim's axis, also those that this size leaves out."""
    return list(results.campaign.groups[group].axes.get(_axis_name(results, claim, group), {}))


def _axis_name(results: Results, claim: Claim, group: str) -> str:
    return str(claim.get("axis", next(iter(results.campaign.groups[group].axes), "")))


def _all_of(findings: Sequence[Finding]) -> Finding:
    """Every one must hold: one that fails decides, one that was not tested leaves the claim untested."""
    whys = "; ".join(finding.why for finding in findings) or "names no group"
    tested = [finding for finding in findings if finding.verdict != NOT_TESTED]
    verdict = _together([finding.verdict for finding in tested])
    missing = len(findings) - len(tested)
    if not tested or not missing:
        return Finding(verdict if tested else NOT_TESTED, whys)

    counts = Counter(finding.verdict for finding in tested)
    shown = ", ".join(f"{each} in {count}" for each, count in counts.items())
    why = f"{shown} of {len(findings)} settings, {missing} not tested: {whys}"
    return Finding(FAILS if verdict == FAILS else NOT_TESTED, why)


def _number(value: float, measure: str) -> str:
    return f"{100 * value:.1f}" if measure in ("last", "best", "final") else f"{value:.4g}"


_TESTS: Final[Mapping[str, Callable[[Results, Claim, str], Finding]]] = {
    "first": _first,
    "order": _order,
    "over": _over,
    "along": _along,
    "across": _across,
    "level": _level,
    "ranks": _ranks,
    "ratio": _ratio,
}
