"""An attack of one's own against three rules: colluders send the mean step turned around, as long as an honest one.

A filter by length does not see it.
"""

import argparse
from statistics import fmean

import numpy as np

import chainfl
from chainfl.learning.attacks import WorkerAttack, add_attack

SEEDS = (1, 2, 3)


def turned(scene, values):
    """The head minus the colluders' mean direction, `values["times"]` times as long as their usual step."""
    steps = scene.colluders.astype(np.float64) - scene.head
    mean = steps.mean(axis=0)
    usual = np.linalg.norm(steps, axis=1).mean()
    direction = mean / max(np.linalg.norm(mean), 1e-12)
    return (scene.head - values["times"] * usual * direction).astype(np.float32)


def play(rule, hostile, seed, rounds):
    """The mean accuracy of the last rounds."""
    found = chainfl.simulate(
        rule=rule,
        seed=seed,
        rounds=rounds,
        participants=16,
        committee=5,
        hostile=hostile,
        worker_attack="turned:times=1",
    )
    return fmean(found.accuracies[-3:])


def main():
    """Every rule with and without the attackers."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=10)
    rounds = asked.parse_args().rounds

    add_attack(WorkerAttack("turned", update=turned, defaults={"times": 1.0}))

    for rule in ("mean", "median", "softmax"):
        clean, attacked = (fmean(play(rule, part, seed, rounds) for seed in SEEDS) for part in (0.0, 0.3))
        print(f"{rule:8} accuracy {clean:.3f} without attackers, {attacked:.3f} with 30 % of them")


if __name__ == "__main__":
    main()
