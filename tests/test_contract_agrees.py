"""The contracts and the rules agree: random play gives the same answers, refusals, events and state in both.

A sequence is a function of its seed: to see one again, play that seed. The state machine plays the same actions, each
from a seed of its own, so that hypothesis can cut a sequence that fails down to the steps that matter.
"""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chainfl.types import Phase, Rule
from tests.agree.evm import Chain
from tests.agree.play import Play, new_play, play
from tests.agree.twin import CHAIN_ID, new_twin
from tests.protocol.scene import SPONSOR, config

DEPTH = os.environ.get("CHAINFL_TEST_DEPTH", "default")
SEQUENCES = {"fast": 60, "default": 760, "deep": 760}
MACHINES = {"fast": 20, "default": 500, "deep": 2_000}
SEEDS = st.integers(0, 2**32 - 1)
DEEP_STEPS = 200_000
OFTEN = 20


def _played(seeds: Iterator[int], sequences: int, steps: int) -> Counter[str]:
    """Play at least this many sequences and steps; answers what was reached how often."""
    seen = Counter[str]()
    while seen["sequences"] < sequences or seen["steps"] < steps:
        seed, twin = next(seeds), new_twin(Chain(CHAIN_ID))
        try:
            play(twin, seed)
        except Exception as error:
            error.add_note(f"seed {seed}, step {twin.steps}, after\n" + "\n".join(twin.trace[-5:]))
            raise
        seen.update(twin.seen)
        seen.update({"sequences": 1, "steps": twin.steps})
    return seen


def _admission_refusals() -> list[str]:
    """Every way not to be let in, by oneself and by an operator."""
    shown = ["nothing", "somebody else's proof", "a proof of another role"]
    shown += ["a proof to another list", "a proof to an open task"]
    refused = [f"NotAdmitted after {what}{by}" for what in shown for by in ("", " by operator")]
    refused += [
        f"{name} after its own proof" for name in ("AlreadyEnrolled", "TooManyInternals", "WrongPhase")
    ]
    by_operator = ("NotOperator", "OperatorInUse", "StakeTooLow", "WrongPhase")
    return refused + [f"{name} after its own proof by operator" for name in by_operator]


def _expect_often(seen: Counter[str]) -> None:
    reached = [f"phase {phase.name}" for phase in Phase]
    reached += [
        f"rule {rule.name} in {phase.name}" for rule in Rule for phase in (Phase.TRAIN, Phase.PROPOSE)
    ]
    reached += ["attempt 2", "attempt 3", "void", "final", "conviction", "did release", "did withdraw"]
    reached += [
        f"refused {name}"
        for name in ("DrawTooEarly", "DrawNotOpen", "BadHeader", "NotAbsent", "StakeLocked", "StillUnbonding")
    ]
    reached += [f"event {name}" for name in ("Absent", "HeadDropped")]
    reached += [f"operator set in {phase.name}" for phase in Phase if phase is not Phase.ENDED]
    reached += [f"operator dismissed in {phase.name}" for phase in Phase]
    reached += ["refused NotOperator", "refused OperatorInUse"]
    reached += ["did enrolAdmitted", "event Admitted", *_admission_refusals()]
    reached += [
        f"{what} in {phase.name}" for phase in list(Phase)[:7] for what in ("appointed", "internals train")
    ]
    reached += ["refused TooManyInternals"]
    reached += ["withheld update"]
    rare = {name: seen[name] for name in reached if seen[name] < OFTEN}
    assert not rare, f"reached less than {OFTEN} times: {rare}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_contract_and_rules_agree_on_every_answer_and_every_refusal() -> None:
    sequences = SEQUENCES[DEPTH]

    seen = _played(count(), sequences, 0)

    if sequences >= SEQUENCES["default"]:
        _expect_often(seen)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_contract_and_rules_agree_over_many_steps() -> None:
    seen = _played(count(1_000_000), 0, DEEP_STEPS)

    _expect_often(seen)


class Agreement(RuleBasedStateMachine):
    """Phases and wild actions in any order; contract and rules are compared after every action and every step."""

    play: Play

    @initialize(seed=SEEDS)
    def begin(self, seed: int) -> None:
        """Tasks are created and most people enrol."""
        self.play = new_play(new_twin(Chain(CHAIN_ID)), seed)
        self.play.start()

    @precondition(lambda self: bool(self.play.running()))
    @rule(seed=SEEDS, phases=st.integers(1, 7))
    def go_on(self, seed: int, phases: int) -> None:
        """Phases are played and left."""
        self.play.random = Random(seed)
        for _ in range(phases):
            if running := self.play.running():
                self.play.play_phase(self.play.random.choice(running))

    @precondition(lambda self: bool(self.play.tasks))
    @rule(seed=SEEDS)
    def wild(self, seed: int) -> None:
        """Somebody does something, perhaps out of turn."""
        self.play.random = Random(seed)
        self.play.wild(self.play.random.choice(self.play.tasks))

    @rule(seconds=st.sampled_from([1, 30, 600]))
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.play.twin.now += seconds

    @invariant()
    def agrees(self) -> None:
        """Whatever can be asked is answered alike."""
        for task in self.play.tasks:
            self.play.twin.check(task)

    def teardown(self) -> None:
        """Everybody claims, and takes out what can be taken out."""
        if hasattr(self, "play"):
            self.play.finish()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_contract_and_rules_agree_whatever_a_state_machine_does() -> None:
    run_state_machine_as_test(
        Agreement, settings=settings(max_examples=MACHINES[DEPTH], stateful_step_count=30)
    )


def test_contract_and_rules_refuse_the_same_terms() -> None:
    twin, escrow = new_twin(Chain(CHAIN_ID)), 10**17
    wad = 10**18
    appointed = {"admission_root": b"\x01" * 32, "min_internals": 2, "committee_size": 4}
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
        ("committeeSize", Rule.SOFTMAX, {**appointed, "committee_size": 1, "min_internals": 2}),
        ("committeeSize", Rule.SOFTMAX, {**appointed, "committee_size": 46}),
        ("minInternals", Rule.SOFTMAX, {**appointed, "min_internals": 1}),
        ("minInternals", Rule.SOFTMAX, {**appointed, "min_internals": 5}),
        ("minInternals", Rule.SOFTMAX, {**appointed, "admission_root": bytes(32)}),
        ("minInternals", Rule.COMMITTEE_NEAR, {**appointed, "committee_size": 3}),
        ("internalsTrain", Rule.SOFTMAX, {"internals_train": True}),
        ("internalsTrain", Rule.SOFTMAX, {**appointed, "internals_train": True, "max_updates": 4}),
        ("alpha", Rule.VARSEL, {"alpha": wad - 1}),
        ("minInternals", Rule.VARSEL, {"min_internals": 0}),
        ("minInternals", Rule.VARSEL, {"min_internals": 0, "internals_train": False}),
        ("internalsTrain", Rule.VARSEL, {"internals_train": False}),
        ("internalsTrain", Rule.VARSEL, {"max_updates": 3}),
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

    for name, rule_, changes in bad:
        assert twin.create_task(SPONSOR, config(rule_, **changes), escrow) is None, name

    assert twin.seen["refused BadConfig"] == len(bad)
