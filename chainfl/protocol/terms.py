"""The terms of a task and their bounds (docs/protocol.md section 4). The contract checks the same at creation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from chainfl import names
from chainfl.codec.merkle import depth
from chainfl.protocol.admission import NO_LIST
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.rewards import PAID_CALLS
from chainfl.protocol.shares import head_share
from chainfl.protocol.term_table import (
    MAX_COMMITTEE,
    MAX_PHASE_SECONDS,
    MAX_SCORES,
    MIN_INTERNALS,
    TERM,
    TERMS,
    UNITS_PER_MIN_STAKE,
    Source,
    Term,
    Unit,
)
from chainfl.types import TOTAL, WAD, Phase, Rule, Statistic, TaskConfig

MAX_WEIGHT: Final = 2**32 - 1
"""What all weights of a task may add up to: the tree packs eight 32-bit sums into a word."""
MAX_PROOF_BYTES: Final = 120_000


def _as_number(term: Term) -> float:
    """A default as the text of a rule writes it: fractions as decimals."""
    return term.default / WAD if term.unit is Unit.WAD else term.default


RULE_VALUES: Final[Mapping[str, float]] = {
    key: _as_number(term) for term in TERMS if term.source is Source.RULE for key in term.rule_keys
}
"""What may follow a rule's name, and what holds without it (docs/simulator.md, "Rules")."""


@dataclass(frozen=True, slots=True)
class Floors:
    """What a chain's factory gives all its tasks: the least length of a phase, how far ahead the seed's block lies."""

    phase_seconds: int
    seed_delay: int = 1


def weight_of(stake: int, config: TaskConfig) -> int:
    """An account's weight in the draw: its stake in thousandths of the minimum; below the minimum nothing."""
    return stake * UNITS_PER_MIN_STAKE // config.min_stake if stake >= config.min_stake else 0


def rule_minimum(config: TaskConfig) -> int:
    """How many included updates the rule needs to mean anything."""
    if config.rule is Rule.FEDROB:
        return 2 * config.tolerated + 1
    if config.rule in (Rule.KRUM, Rule.MULTI_KRUM):
        return 2 * config.tolerated + 3
    return config.committee_size if config.rule.is_elected else 1


def check_config(config: TaskConfig, escrow: int, floors: Floors) -> None:
    """Refuse terms that could stall a task, overflow a transaction or make a lie pay.

    Raises:
        BadConfigError: names the first field that is out of bounds.
    """
    # The escrow is spread over the rounds: bounds on money are bounds on one round's part of it.
    c = config
    amount = TOTAL - head_share(min(c.alpha, WAD))
    budget = escrow // c.rounds if c.rounds else 0
    phases = [phase_seconds(c, phase) for phase in TIMED]
    needs_internals = c.rule is Rule.VARSEL

    def fits(name: str) -> bool:
        return TERM[name].fits(getattr(c, name))

    bounds: tuple[tuple[str, bool], ...] = (
        ("dimension", fits("dimension")),
        ("depth", c.dimension >= 1 and c.depth == depth(c.dimension)),
        ("scale", fits("scale")),
        ("committeeSize", _is_committee(c)),
        # One `tally` reads every entry of every seat.
        ("maxUpdates", fits("max_updates") and c.max_updates * c.committee_size <= MAX_SCORES),
        # The longest proof of one parameter has to fit a transaction, or a lie could not be shown.
        ("proofBytes", (c.max_updates + 2) * (256 + 32 * c.depth) < MAX_PROOF_BYTES),
        # With fewer updates than the rule needs, a tally would have nothing to decide by.
        ("minUpdates", max(1, rule_minimum(c)) <= c.min_updates <= c.max_updates),
        ("selected", c.rule is not Rule.MULTI_KRUM or 1 <= c.selected <= c.min_updates),
        ("maxSamples", fits("max_samples")),
        ("alpha", fits("alpha") and amount >= c.max_updates and (not needs_internals or c.alpha == WAD)),
        ("beta", fits("beta")),
        ("keep", not c.rule.is_elected or (c.keep > 0 and fits("keep"))),
        # Who appoints a committee names it in a list; who has no list draws or elects.
        ("minInternals", not (c.is_appointed or needs_internals) or _may_appoint(c)),
        ("internalsTrain", _may_train(c) if c.internals_train else not needs_internals),
        ("redrawEvery", fits("redraw_every")),
        ("rounds", fits("rounds")),
        ("target", fits("target")),
        ("minStake", fits("min_stake")),
        # Too short and honest nodes miss deadlines; too long and stake is locked for nothing.
        ("phaseSeconds", max(1, floors.phase_seconds) <= min(phases) and max(phases) <= MAX_PHASE_SECONDS),
        ("parts", c.workers_part + c.committee_part <= WAD),
        # The calls of one round may not cost more than what there is for it.
        ("callerFee", PAID_CALLS * c.caller_fee <= budget),
        ("livenessSlash", fits("liveness_slash")),
        ("noRevealSlash", fits("no_reveal_slash")),
        # A proposer that is slashed loses at least twice what the round could have paid.
        ("lieSlash", fits("lie_slash") and c.min_stake * c.lie_slash // WAD >= 2 * budget),
        ("finderPart", fits("finder_part")),
        ("burnPart", fits("burn_part") and c.burn_part <= WAD - c.finder_part),
    )
    for name, holds in bounds:
        if not holds:
            raise BadConfigError(name)


def _is_committee(config: TaskConfig) -> bool:
    """Whom the sponsor appoints may be two; an even number decides by more than half, as an odd one does."""
    size = config.committee_size
    if config.is_appointed:
        return MIN_INTERNALS <= size <= MAX_COMMITTEE
    return TERM["committee_size"].fits(size) and size % 2 == 1


def _may_appoint(config: TaskConfig) -> bool:
    """A list names the internals, and no rule elects others in their place."""
    is_bounded = MIN_INTERNALS <= config.min_internals <= config.committee_size
    return is_bounded and config.admission_root != NO_LIST and not config.rule.is_elected


def _may_train(config: TaskConfig) -> bool:
    """Beside an appointed committee that trains there has to be room for others."""
    return config.is_appointed and config.max_updates > config.committee_size


TIMED: Final = (Phase.TRAIN, Phase.REVEAL, Phase.SCORE, Phase.TALLY, Phase.PROPOSE, Phase.CHALLENGE)
"""The phases that have a length."""


def phase_seconds(config: TaskConfig, phase: Phase) -> int:
    """How long a phase runs at most."""
    return {
        Phase.TRAIN: config.train_seconds,
        Phase.REVEAL: config.reveal_seconds,
        Phase.SCORE: config.score_seconds,
        Phase.TALLY: config.tally_seconds,
        Phase.PROPOSE: config.propose_seconds,
        Phase.CHALLENGE: config.challenge_seconds,
    }[phase]


def needed_accounts(config: TaskConfig, internals: int = 0) -> int:
    """How many must be enrolled at the minimum stake before a round is drawn, so many of them internals.

    Beside an appointed committee a miner, who does not train, and at least one who does; its own updates count where it
    trains.
    """
    if config.is_appointed:
        members = max(internals, config.min_internals)
        if config.internals_train:
            return max(members + 2, 1 + config.min_updates)
        return members + 1 + config.min_updates
    return config.committee_size + config.min_updates + (0 if config.rule.is_elected else 1)


def parse_rule(text: str) -> tuple[Rule, dict[str, float]]:
    """A rule and all its parameters from text such as `fedrob:b=2,alpha=0.88`.

    Raises:
        UnknownNameError: no such rule or parameter; lists the known ones.
    """
    rules = {rule.name_text: rule for rule in Rule}
    name, values = names.parse_call("rule", text, {each: values_of(rule) for each, rule in rules.items()})
    return rules[name], {**RULE_VALUES, **values}


def values_of(rule: Rule) -> dict[str, float]:
    """The parameters that change something under this rule, with their defaults."""
    read_by = {
        "beta": rule.is_softmax,
        "b": rule is Rule.FEDROB,
        "f": rule in (Rule.KRUM, Rule.MULTI_KRUM),
        "m": rule is Rule.MULTI_KRUM,
        "keep": rule.is_elected,
        "samples": rule.is_elected,
        "redraw": rule.is_elected,
        "alpha": rule is not Rule.VARSEL,
        "budget": rule is Rule.VARSEL,
    }
    return {name: value for name, value in RULE_VALUES.items() if read_by.get(name, True)}


def default_terms(rule_text: str, dimension: int, committee: int, min_updates: int) -> TaskConfig:
    """The terms of a rule with defaults for all else; at least as many updates as the rule needs."""
    rule, values = parse_rule(rule_text)
    tolerated = {Rule.FEDROB: "b", Rule.KRUM: "f", Rule.MULTI_KRUM: "f"}.get(rule)

    usual: dict[str, Any] = {term.name: term.usual_value for term in TERMS if term.source is Source.OPTION}
    of_model: dict[str, Any] = {
        "manifest": bytes(32),
        "first_root": bytes(32),
        "first_model": bytes(32),
        "dimension": dimension,
        "depth": depth(dimension),
    }
    of_rule: dict[str, Any] = {
        "rule": rule,
        "statistic": Statistic.MEAN if values["mean"] else Statistic.MEDIAN,
        "beta": int(values["beta"] * WAD) if rule.is_softmax else 0,
        "alpha": int(values["alpha"] * WAD),
        "tolerated": int(values[tolerated]) if tolerated else 0,
        "selected": 0,
        "keep": int(values["keep"] * WAD) if rule.is_elected else 0,
        "by_samples": bool(values["samples"]),
        "unique_roots": bool(values["unique"]),
        "redraw_every": int(values["redraw"]),
        "budget": int(values["budget"]) if rule is Rule.VARSEL else 0,
    }
    decided = {"committee_size": committee, "min_updates": min_updates}

    config = TaskConfig(**usual | of_model | of_rule | decided)
    return _with_minimum(config, int(values["m"]))


def _with_minimum(config: TaskConfig, selected: int) -> TaskConfig:
    """At least as many updates as the rule needs; Multi-Krum takes that many by default."""
    least = max(config.min_updates, rule_minimum(config), selected)
    chosen = (selected or least) if config.rule is Rule.MULTI_KRUM else 0
    return replace(config, min_updates=least, selected=chosen)
