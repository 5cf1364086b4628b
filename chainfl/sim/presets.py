"""The papers' experiments by name, and small ones for a first look (docs/simulator.md, "Presets")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from chainfl.errors import UnknownNameError
from chainfl.learning.recipe import Recipe
from chainfl.names import unknown
from chainfl.sim.experiment import Experiment, Selfish

_LH, _HH = "dirichlet:lambda=1", "dirichlet:lambda=0.1"

QUICK: Final = Experiment(participants=12, committee=3, rounds=5, hostile=0.25)
SABFL_SMALL: Final = Experiment(
    partition=_LH,
    rule="softmax:mean=1,unique=0",
    recipe=Recipe(learning_rate=0.1, local_epochs=4),
    rounds=25,
    hostile=0.4,
)


def _sabfl(
    participants: int,
    hostile: int,
    partition: str,
    *,
    dataset: str = "mnist",
    model: str = "mnist-cnn",
    epochs: int = 4,
) -> Experiment:
    """SABFL's settings: V = 5, rate 0.01, batch 32, mean statistic, stakes by samples, its stopping rule."""
    return Experiment(
        dataset=dataset,
        partition=partition,
        model=model,
        recipe=Recipe(learning_rate=0.01, batch=32, local_epochs=epochs),
        rule="softmax:mean=1,unique=0",
        participants=participants,
        committee=5,
        rounds=200,
        hostile=hostile / participants,
        stop="sabfl",
    )


def _cmfl(
    dataset: str, partition: str, model: str, participants: int, active: int, rate: float
) -> Experiment:
    """CMFL's settings: 10 % active, of these 40 % the committee, 40 % kept, one step a round, 10 % hostile."""
    committee = int(active * 0.4) | 1

    return Experiment(
        dataset=dataset,
        partition=partition,
        model=model,
        recipe=Recipe(learning_rate=rate, batch=32, local_steps=1),
        rule="committee-near:keep=0.4,mean=1,samples=1,unique=0",
        participants=participants,
        committee=committee,
        max_updates=active - committee,
        rounds=600,
        hostile=0.1,
        worker_attack="back-gradient",
        max_hostile_committee="none",
        stakes="equal",
        scale=26,
    )


def _fedrob(rule: str, partition: str, hostile_workers: int, rate: float = 0.1) -> Experiment:
    """The settings of Xie et al.: 100 devices, 10 a round, batch 50, one pass, the rate falls at epoch 400."""
    return Experiment(
        dataset="cifar10-24",
        partition=partition,
        model="cifar-cnn",
        recipe=Recipe(learning_rate=rate, batch=50, local_epochs=1, decay=0.4, decay_at=400),
        rule=rule,
        participants=100,
        committee=3,
        max_updates=10,
        rounds=800,
        hostile_workers=hostile_workers,
        stakes="equal",
    )


PRESETS: Final[Mapping[str, Experiment]] = {
    "quick": QUICK,
    "sabfl-small": SABFL_SMALL,
    **{
        f"{number}-{kind}": _sabfl(participants, hostile, partition)
        for number, participants, hostile in (
            (1, 20, 0),
            (2, 20, 3),
            (3, 20, 8),
            (4, 40, 6),
            (5, 40, 16),
            (6, 10, 4),
        )
        for kind, partition in (("LH", _LH), ("HH", _HH))
    },
    "3-HHE": _sabfl(20, 8, _HH, epochs=8),
    "7-LH": _sabfl(20, 8, _LH, dataset="fashion-mnist", model="fashion-cnn"),
    "8-LH": _sabfl(20, 8, _LH, dataset="covtype", model="covtype-mlp"),
    "9-LH": _sabfl(20, 8, _LH, dataset="imdb", model="imdb-lstm"),
    "cmfl-mnist": _cmfl("mnist", "writer", "mnist-cnn", 539, 54, 0.005),
    "cmfl-imdb": _cmfl("imdb", "movie:min=9", "imdb-lstm", 772, 77, 0.005),
    "cmfl-shakespeare": _cmfl("shakespeare", "role:min=64", "shakespeare-lstm-100", 143, 14, 0.005),
    "fedavg-balanced": _fedrob("mean", "iid", 0),
    "fedreg-balanced": _fedrob("fedreg:alpha=0.88", "iid", 0),
    "fedreg-poisoned": _fedrob("fedreg:alpha=0.88", "iid", 2),
    "fedrob-balanced": _fedrob("fedrob:b=2,alpha=0.88", "iid", 0),
    "fedrob-poisoned": _fedrob("fedrob:b=2,alpha=0.88", "iid", 2),
    "fedavg-unbalanced": _fedrob("mean", "unbalanced:labels=5", 0, 0.15),
    "fedreg-unbalanced": _fedrob("fedreg:alpha=0.88", "unbalanced:labels=5", 0, 0.15),
    "fedrob-unbalanced": _fedrob("fedrob:b=2,alpha=0.88", "unbalanced:labels=5", 2, 0.15),
}
"""Every preset. A flag beside it changes one thing: `--preset 3-LH --rule mean` is the paper's simple mean."""

SELFISH: Final[Mapping[str, Selfish]] = {
    "selfish-small": Selfish(
        method="softmax:beta=20",
        partition="iid",
        internal_samples=20,
        external_samples=150,
        clients=42,
        rounds=30,
        hostile=0.75,
    ),
    "selfish-story": Selfish(
        method="softmax:beta=20",
        partition="iid",
        internal_samples=20,
        external_samples=150,
        internal=3,
        clients=12,
        drawn=9,
        budget=9,
        rounds=20,
        narrow=0.5,
        hostile=0.34,
    ),
    "selfish-fashion": Selfish(
        dataset="fashion-mnist",
        method="softmax:beta=20",
        partition="iid",
        internal_samples=30,
        external_samples=300,
        clients=42,
        rounds=150,
        hostile=0.75,
    ),
    "varsel-small": Selfish(clients=30, budget=5, rounds=20),
    "varsel-fashion": Selfish(dataset="fashion-mnist", partition="shards:per=2,size=500"),
    "varsel-mnist": Selfish(
        dataset="mnist", partition="shards:per=24,size=90,next=1", model="varsel-2nn", clients=25, budget=10
    ),
    "varsel-cifar": Selfish(
        dataset="cifar10",
        partition="shards:per=2",
        model="varsel-cnn",
        recipe=Recipe(learning_rate=0.03, batch=32, local_steps=3),
    ),
}
"""The presets of selfish experiments; the method is chosen with `--rule`."""


def preset(name: str) -> Experiment:
    """The preset called so.

    Raises:
        UnknownNameError: no preset is called so; lists the known ones.
    """
    if name not in PRESETS:
        problem: UnknownNameError = unknown("preset", name, PRESETS)
        raise problem
    return replace(PRESETS[name])
