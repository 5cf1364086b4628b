"""Robust in fact: with 40 % label flippers that also judge, softmax keeps what the mean loses."""

from dataclasses import replace

import pytest

from chainfl.learning.train import Recipe
from chainfl.sim.experiment import LAST, Experiment
from chainfl.sim.run import RoundMetrics, play
from chainfl.sim.simulation import set_up

SCENE = Experiment(
    partition="dirichlet:lambda=1",
    recipe=Recipe(learning_rate=0.2, local_epochs=2),
    rounds=10,
    hostile=0.4,
    max_hostile_committee="half",
    seed=1,
)


def facts_of(rule: str) -> list[RoundMetrics]:
    return list(play(set_up(replace(SCENE, rule=rule)), []))


def last_accuracy(facts: list[RoundMetrics]) -> float:
    accuracies = [one.accuracy for one in facts[-LAST:] if one.accuracy is not None]
    return sum(accuracies) / LAST


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_softmax_ends_five_points_above_the_mean_under_forty_per_cent_label_flippers() -> None:
    softmax, mean = facts_of("softmax"), facts_of("mean")

    assert last_accuracy(softmax) >= last_accuracy(mean) + 0.05
    assert last_accuracy(softmax) > 0.8
    assert any(one.acting_hostile == 2 for one in softmax)
    assert not any(one.captured for one in softmax)
    hostile_part = sum(one.hostile_workers for one in softmax) / sum(one.workers for one in softmax)
    assert hostile_part > 0.35
    assert sum(one.share_hostile for one in softmax) / len(softmax) < hostile_part / 2
