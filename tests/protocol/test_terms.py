"""The bounds of a task's terms, each at its edge and a step beyond (docs/protocol.md section 4)."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from chainfl.codec.merkle import depth
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.terms import (
    Floors,
    check_config,
    needed_accounts,
    phase_seconds,
    rule_minimum,
    weight_of,
)
from chainfl.types import WAD, Phase, Rule, TaskConfig
from tests.protocol.scene import ETHER, SPONSOR, config, scene

FLOORS = Floors(10)


@dataclass(frozen=True, slots=True)
class Edge:
    """The last value of a field that is allowed, the first that is not, and the name of the refusal."""

    field: str
    good: Any
    bad: Any
    name: str
    terms: TaskConfig
    escrow: int = ETHER // 2

    def __str__(self) -> str:
        return f"{self.field}={self.bad}"


def edge(field: str, good: Any, bad: Any, name: str, rule: Rule = Rule.SOFTMAX, **changes: Any) -> Edge:
    return Edge(field, good, bad, name, config(rule, **{"min_stake": ETHER} | changes))


EDGES = [
    edge("dimension", 1, 0, "dimension", depth=0),
    edge("dimension", 2**32 - 1, 2**32, "dimension", depth=26),
    edge("depth", 2, 1, "depth"),
    edge("depth", 2, 3, "depth"),
    edge("scale", 31, 32, "scale"),
    edge("committee_size", 3, 1, "committeeSize"),
    edge("committee_size", 5, 4, "committeeSize"),
    edge("committee_size", 45, 47, "committeeSize"),
    edge("max_updates", 128, 129, "maxUpdates"),
    edge("max_updates", 45, 46, "maxUpdates", committee_size=45),
    edge("max_updates", 3, 0, "maxUpdates"),
    edge("min_updates", 1, 0, "minUpdates"),
    edge("min_updates", 8, 9, "minUpdates"),
    edge("min_updates", 3, 2, "minUpdates", Rule.FEDROB),
    edge("min_updates", 5, 4, "minUpdates", Rule.KRUM),
    edge("min_updates", 7, 6, "minUpdates", Rule.MULTI_KRUM, tolerated=2),
    edge("min_updates", 5, 4, "minUpdates", Rule.COMMITTEE_NEAR, committee_size=5),
    edge("selected", 5, 6, "selected", Rule.MULTI_KRUM),
    edge("selected", 1, 0, "selected", Rule.MULTI_KRUM),
    edge("max_samples", 1, 0, "maxSamples"),
    edge("max_samples", 2**64 - 1, 2**64, "maxSamples"),
    edge("alpha", WAD, WAD + 1, "alpha"),
    edge("alpha", WAD // 2**31 * 9, 0, "alpha"),
    edge("alpha", 3725290299, 3725290298, "alpha"),
    edge("beta", 10**21, 10**21 + 1, "beta"),
    edge("keep", 1, 0, "keep", Rule.COMMITTEE_NEAR),
    edge("keep", WAD, WAD + 1, "keep", Rule.COMMITTEE_FAR),
    edge("redraw_every", 1, 0, "redrawEvery"),
    edge("rounds", 4, 0, "rounds"),
    edge("target", 2**128 - 2, 2**128 - 1, "target"),
    Edge("min_stake", 1000, 999, "minStake", config(caller_fee=0), escrow=0),
    edge("train_seconds", 10, 9, "phaseSeconds"),
    edge("reveal_seconds", 10, 9, "phaseSeconds"),
    edge("score_seconds", 10, 9, "phaseSeconds"),
    edge("tally_seconds", 10, 9, "phaseSeconds"),
    edge("propose_seconds", 10, 9, "phaseSeconds"),
    edge("challenge_seconds", 10, 9, "phaseSeconds"),
    edge("train_seconds", 604_800, 604_801, "phaseSeconds"),
    edge("reveal_seconds", 604_800, 604_801, "phaseSeconds"),
    edge("score_seconds", 604_800, 604_801, "phaseSeconds"),
    edge("tally_seconds", 604_800, 604_801, "phaseSeconds"),
    edge("propose_seconds", 604_800, 604_801, "phaseSeconds"),
    edge("challenge_seconds", 604_800, 604_801, "phaseSeconds"),
    edge("committee_part", 4 * WAD // 10, 4 * WAD // 10 + 1, "parts"),
    edge("workers_part", 7 * WAD // 10, 7 * WAD // 10 + 1, "parts"),
    edge("caller_fee", ETHER // 8 // 12, ETHER // 8 // 12 + 1, "callerFee"),
    edge("liveness_slash", WAD // 100, WAD // 100 + 1, "livenessSlash"),
    edge("no_reveal_slash", WAD // 20, WAD // 20 + 1, "noRevealSlash"),
    edge("lie_slash", WAD // 4, WAD // 4 - 1, "lieSlash"),
    edge("lie_slash", WAD, WAD + 1, "lieSlash"),
    edge("min_stake", ETHER // 2, ETHER // 2 - 1, "lieSlash"),
    edge("finder_part", 3 * WAD // 10, 3 * WAD // 10 + 1, "finderPart"),
    edge("burn_part", WAD // 2, WAD // 2 - 1, "burnPart"),
    edge("burn_part", 8 * WAD // 10, 8 * WAD // 10 + 1, "burnPart"),
]


@pytest.mark.parametrize("case", EDGES, ids=str)
def test_a_value_at_its_bound_passes_and_the_next_is_refused_by_name(case: Edge) -> None:
    good, bad = (replace(case.terms, **{case.field: value}) for value in (case.good, case.bad))

    check_config(good, case.escrow, FLOORS)
    with pytest.raises(BadConfigError) as refused:
        check_config(bad, case.escrow, FLOORS)

    assert refused.value.values == (case.name,)


def test_a_proof_has_to_fit_a_transaction() -> None:
    largest = {d: (120_000 - 1) // (256 + 32 * depth(d)) - 2 for d in (2**28, 2**31, 2**32 - 1)}

    for d, most in largest.items():
        fits = config(dimension=d, depth=depth(d), max_updates=most)
        check_config(fits, ETHER // 2, FLOORS)
        with pytest.raises(BadConfigError, match="proofBytes"):
            check_config(replace(fits, max_updates=most + 1), ETHER // 2, FLOORS)


def test_every_field_that_the_rule_does_not_use_may_be_anything() -> None:
    check_config(config(Rule.MEAN, keep=0, selected=0, tolerated=0, beta=0), ETHER // 2, FLOORS)
    check_config(config(Rule.MEDIAN, keep=5 * WAD, selected=99, tolerated=99), ETHER // 2, FLOORS)


@pytest.mark.parametrize("rule", Rule)
def test_the_terms_of_the_scene_hold_for_every_rule(rule: Rule) -> None:
    check_config(config(rule), ETHER // 2, Floors(1))


def test_a_refused_task_leaves_no_trace() -> None:
    played = scene()
    before = (dict(played.world.tasks), dict(played.world.balances), len(played.world.log))

    with pytest.raises(BadConfigError):
        played.world.create_task(played.call(SPONSOR), SPONSOR, config(rounds=0), ETHER)

    assert (played.world.tasks, played.world.balances, len(played.world.log)) == before


def test_a_lie_costs_at_least_two_budgets_of_a_round() -> None:
    terms = config(rounds=1, lie_slash=WAD, min_stake=ETHER)

    check_config(terms, ETHER // 2, FLOORS)
    with pytest.raises(BadConfigError, match="lieSlash"):
        check_config(terms, ETHER // 2 + 1, FLOORS)


@pytest.mark.parametrize(
    ("rule", "minimum", "needed"),
    [
        (Rule.SOFTMAX, 1, 7),
        (Rule.FEDROB, 3, 7),
        (Rule.KRUM, 5, 9),
        (Rule.COMMITTEE_NEAR, 3, 6),
    ],
)
def test_a_rule_needs_so_many_updates_and_accounts(rule: Rule, minimum: int, needed: int) -> None:
    assert rule_minimum(config(rule)) == minimum
    assert needed_accounts(config(rule)) == needed


@pytest.mark.parametrize(
    ("stake", "weight"),
    [(0, 0), (ETHER - 1, 0), (ETHER, 1000), (ETHER + ETHER // 1000 - 1, 1000), (7 * ETHER // 2, 3500)],
)
def test_weights_count_thousandths_of_the_minimum_stake(stake: int, weight: int) -> None:
    assert weight_of(stake, config(min_stake=ETHER)) == weight


def test_every_timed_phase_has_a_length_and_together_they_bound_a_round() -> None:
    terms = config(
        train_seconds=1,
        reveal_seconds=2,
        score_seconds=3,
        tally_seconds=4,
        propose_seconds=5,
        challenge_seconds=6,
    )

    timed = [phase for phase in Phase if phase not in (Phase.DRAW, Phase.ENDED)]

    assert [phase_seconds(terms, phase) for phase in timed] == [1, 2, 3, 4, 5, 6]
    assert terms.longest_round() == 2 * 1 + 2 + 3 + 4 + 3 * (5 + 6)
