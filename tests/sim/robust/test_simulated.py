"""Robust rules in whole rounds: replayable, resumable, counted, refused where they cannot be."""

from dataclasses import replace
from pathlib import Path

import pytest

from chainfl.errors import InputError
from chainfl.learning.train import Recipe
from chainfl.sim import rundir
from chainfl.sim.experiment import Experiment
from chainfl.sim.run import RoundMetrics, play
from chainfl.sim.simulation import set_up

SMALL = Experiment(
    participants=12,
    committee=3,
    rounds=2,
    hostile=0.25,
    recipe=Recipe(learning_rate=0.1, batch=50, local_steps=2),
    score_samples=50,
    test_samples=100,
    seed=3,
)


def facts_of(experiment: Experiment) -> list[RoundMetrics]:
    return list(play(set_up(experiment), []))


def stopped_and_resumed(experiment: Experiment, folder: Path) -> list[RoundMetrics]:
    """The rounds of a run that is stopped after two of them and goes on from its folder."""
    rundir.start(folder, rundir.Plan(experiment, False, None))
    first = set_up(experiment)
    facts: list[RoundMetrics] = []
    for _, _ in zip(range(2), play(first, facts), strict=False):
        rundir.keep(folder, first, facts)

    again = set_up(experiment)
    resumed = rundir.restore(folder, again)
    list(play(again, resumed))
    return resumed


@pytest.mark.parametrize("rule", ["fltrust", "foolsgold", "flame", "dnc:f=2", "bucketing:s=2+bulyan:f=0"])
def test_the_same_seed_gives_the_same_roots(rule: str) -> None:
    first, again = (facts_of(replace(SMALL, rule=rule)) for _ in range(2))

    assert [one.model_root for one in first] == [one.model_root for one in again]
    assert [one.outcome for one in first] == ["final", "final"]


def test_the_parts_are_those_that_the_rule_gave() -> None:
    for one in facts_of(replace(SMALL, rule="krum:f=2")) + facts_of(replace(SMALL, rule="norm-clipping")):
        assert one.share_honest + one.share_hostile + one.share_head == pytest.approx(1)

    assert facts_of(replace(SMALL, rule="norm-clipping"))[-1].share_head > 0


def test_what_a_rule_remembers_survives_a_stop(tmp_path: Path) -> None:
    experiment = replace(SMALL, rule="foolsgold", rounds=3)
    whole = facts_of(experiment)

    resumed = stopped_and_resumed(experiment, tmp_path)

    assert [path.name for path in tmp_path.glob("memory-*")] == ["memory-2.npz"]
    assert [one.model_root for one in resumed] == [one.model_root for one in whole]


def test_what_cannot_be_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="needs 11 updates, a round has 8"):
        replace(SMALL, rule="bulyan:f=2")
    with pytest.raises(InputError, match="leave out --faithful"):
        set_up(replace(SMALL, rule="geometric-median"), faithful=True)


def test_our_own_rule_is_replayable_and_remembers_records(tmp_path: Path) -> None:
    experiment = replace(SMALL, rule="softmax-spread", validator_attack="swapped-losses", rounds=3)
    whole = facts_of(experiment)

    resumed = stopped_and_resumed(experiment, tmp_path)

    assert [one.model_root for one in resumed] == [one.model_root for one in whole]


@pytest.mark.parametrize(
    "rule", ["softmax", "softmax-spread", "median", "krum:f=1", "nnm:f=2+mean", "fltrust"]
)
def test_attackers_who_know_the_rule_attack_it(rule: str) -> None:
    for one in facts_of(replace(SMALL, rule=rule, worker_attack="ipm-optimal", rounds=1)):
        assert one.outcome == "final"
        assert one.hostile_workers > 0
        assert one.attack_success is None


def test_a_backdoors_success_is_told_beside_the_accuracy() -> None:
    (one,) = facts_of(replace(SMALL, rule="mean", worker_attack="backdoor-replace:target=3", rounds=1))

    assert one.attack_success is not None
    assert 0 <= one.attack_success <= 1
