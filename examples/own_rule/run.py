"""A rule of one's own beside the mean and the median, with a third of the workers turning their steps around.

The rule: each update is as far away as its median distance to the others says; the nearer half shares equally.
"""

import argparse
from statistics import fmean, median

import numpy as np

import chainfl
from chainfl.sim.robust.play import add_rule
from chainfl.sim.robust.table import Entry, Proof

SEEDS = (1, 2, 3)


def nearer_half(mixes, values):
    """Equal weights for the half of the updates that is nearest to the others, none for the rest."""
    del values
    distances = mixes.squared_distances().tolist()
    away = [median(row[:k] + row[k + 1 :]) for k, row in enumerate(distances)]
    kept = sorted(range(len(mixes)), key=lambda k: (away[k], k))[: (len(mixes) + 1) // 2]

    weights = np.zeros(len(mixes))
    weights[kept] = 1 / len(kept)
    return weights


def play(rule, seed, rounds):
    """A round's mean accuracy over the last rounds, and what the hostile had of the model."""
    found = chainfl.simulate(
        rule=rule,
        seed=seed,
        rounds=rounds,
        participants=16,
        committee=3,
        hostile_workers=4,
        worker_attack="back-gradient:factor=3",
        validator_attack="silent",
    )
    hostile = fmean(one.share_hostile for one in found.rounds)
    return fmean(found.accuracies[-3:]), hostile


def main():
    """Play every rule with every seed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=10)
    rounds = asked.parse_args().rounds

    # A mix of the updates could be proven on a chain once its shares are attested, as Krum's are.
    add_rule(Entry("nearer-half", Proof.ATTESTED, "examples/own_rule"), nearer_half)

    for rule in ("mean", "median", "nearer-half"):
        played = [play(rule, seed, rounds) for seed in SEEDS]
        accuracy, hostile = (fmean(column) for column in zip(*played, strict=True))
        print(f"{rule:12} accuracy {accuracy:.3f}  hostile part of the model {hostile:.3f}")


if __name__ == "__main__":
    main()
