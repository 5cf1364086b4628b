"""The contracts and the rules agree: random play gives the same answers, refusals, events and state in both.

A sequence is a function of its seed: to see one again, play that seed.
"""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from chainfl.types import Phase, Rule
from tests.agree.evm import Chain
from tests.agree.play import play
from tests.agree.twin import CHAIN_ID, new_twin
from tests.protocol.scene import SPONSOR, config

SEQUENCES = {"fast": 60, "default": 500, "deep": 500}
DEEP_STEPS = 200_000
OFTEN = 20


def _played(seeds: Iterator[int], sequences: int, steps: int) -> Counter[str]:
    """Play at least this many sequences and steps; answers what was reached how often."""
    chain, seen = Chain(CHAIN_ID), Counter[str]()
    while seen["sequences"] < sequences or seen["steps"] < steps:
        seed, twin = next(seeds), new_twin(chain)
        try:
            play(twin, seed)
        except Exception as error:
            error.add_note(f"seed {seed}, step {twin.steps}, after\n" + "\n".join(twin.trace[-5:]))
            raise
        seen.update(twin.seen)
        seen.update({"sequences": 1, "steps": twin.steps})
    return seen


def _expect_often(seen: Counter[str]) -> None:
    reached = [f"phase {phase.name}" for phase in Phase]
    reached += [
        f"rule {rule.name} in {phase.name}" for rule in Rule for phase in (Phase.TRAIN, Phase.PROPOSE)
    ]
    reached += ["attempt 2", "attempt 3", "void", "final", "conviction", "did release", "did withdraw"]
    reached += [
        f"refused {name}" for name in ("DrawTooEarly", "DrawNotOpen", "StakeLocked", "StillUnbonding")
    ]
    rare = {name: seen[name] for name in reached if seen[name] < OFTEN}
    assert not rare, f"reached less than {OFTEN} times: {rare}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_contract_and_rules_agree_on_every_answer_and_every_refusal() -> None:
    sequences = SEQUENCES[os.environ.get("CHAINFL_TEST_DEPTH", "default")]

    seen = _played(count(), sequences, 0)

    if sequences >= SEQUENCES["default"]:
        _expect_often(seen)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_contract_and_rules_agree_over_many_steps() -> None:
    seen = _played(count(1_000_000), 0, DEEP_STEPS)

    _expect_often(seen)


def test_contract_and_rules_refuse_the_same_terms() -> None:
    twin, escrow = new_twin(Chain(CHAIN_ID)), 10**17
    wad = 10**18
    bad: list[tuple[str, Rule, dict[str, object]]] = [
        ("dimension", Rule.SOFTMAX, {"dimension": 0}),
        ("dimension", Rule.SOFTMAX, {"dimension": 2**32}),
        ("depth", Rule.SOFTMAX, {"depth": 3}),
        ("scale", Rule.SOFTMAX, {"scale": 32}),
        ("committeeSize", Rule.SOFTMAX, {"committee_size": 4}),
        ("committeeSize", Rule.SOFTMAX, {"committee_size": 1}),
        ("committeeSize", Rule.SOFTMAX, {"committee_size": 47}),
        ("maxUpdates", Rule.SOFTMAX, {"max_updates": 0}),
        ("maxUpdates", Rule.SOFTMAX, {"max_updates": 129}),
        ("maxUpdates", Rule.SOFTMAX, {"max_updates": 128, "committee_size": 17}),
        ("proofBytes", Rule.SOFTMAX, {"dimension": 2**31, "depth": 25, "max_updates": 128}),
        ("minUpdates", Rule.SOFTMAX, {"min_updates": 0}),
        ("minUpdates", Rule.SOFTMAX, {"min_updates": 9}),
        ("minUpdates", Rule.FEDROB, {"tolerated": 2}),
        ("minUpdates", Rule.KRUM, {"tolerated": 2}),
        ("minUpdates", Rule.COMMITTEE_NEAR, {"committee_size": 5}),
        ("selected", Rule.MULTI_KRUM, {"selected": 0}),
        ("selected", Rule.MULTI_KRUM, {"selected": 6}),
        ("maxSamples", Rule.SOFTMAX, {"max_samples": 0}),
        ("alpha", Rule.SOFTMAX, {"alpha": 0}),
        ("alpha", Rule.SOFTMAX, {"alpha": wad + 1}),
        ("alpha", Rule.SOFTMAX, {"alpha": 10**9}),
        ("beta", Rule.SOFTMAX, {"beta": 10**21 + 1}),
        ("keep", Rule.COMMITTEE_FAR, {"keep": 0}),
        ("keep", Rule.COMMITTEE_FAR, {"keep": wad + 1}),
        ("redrawEvery", Rule.SOFTMAX, {"redraw_every": 0}),
        ("rounds", Rule.SOFTMAX, {"rounds": 0}),
        ("target", Rule.SOFTMAX, {"target": 2**128 - 1}),
        ("minStake", Rule.SOFTMAX, {"min_stake": 999}),
        ("phaseSeconds", Rule.SOFTMAX, {"tally_seconds": 0}),
        ("parts", Rule.SOFTMAX, {"workers_part": wad}),
        ("callerFee", Rule.SOFTMAX, {"caller_fee": 10**17}),
        ("livenessSlash", Rule.SOFTMAX, {"liveness_slash": wad // 100 + 1}),
        ("noRevealSlash", Rule.SOFTMAX, {"no_reveal_slash": wad // 20 + 1}),
        ("lieSlash", Rule.SOFTMAX, {"lie_slash": wad + 1}),
        ("lieSlash", Rule.SOFTMAX, {"lie_slash": wad // 100}),
        ("finderPart", Rule.SOFTMAX, {"finder_part": 3 * wad // 10 + 1}),
        ("burnPart", Rule.SOFTMAX, {"burn_part": wad // 2 - 1}),
        ("burnPart", Rule.SOFTMAX, {"burn_part": wad}),
    ]

    for name, rule, changes in bad:
        assert twin.create_task(SPONSOR, config(rule, **changes), escrow) is None, name

    assert twin.seen["refused BadConfig"] == len(bad)
