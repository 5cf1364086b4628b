"""The story of a selfish stakeholder: its own three clients judge what nine outsiders hand in (docs/selfish.md).

The outsiders: three hold all digits, two hold two digits only, and four poison: their labels are flipped in their data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from chainfl.codec.text import ETHER
from chainfl.devnet.cast import Cast
from chainfl.devnet.processes import Person
from chainfl.learning.builtin import LearningSpec
from chainfl.learning.dataset import Dataset
from chainfl.learning.datasets import load
from chainfl.learning.partition import partition
from chainfl.learning.recipe import Recipe
from chainfl.learning.trainer import Trainer
from chainfl.sim.dealing import ReplayParticipant
from chainfl.sim.experiment import Selfish
from chainfl.sim.presets import SELFISH
from chainfl.sim.selfish import SelfishSetup, play_selfish, set_up_selfish
from chainfl.types import OnProgress
from chainfl.workflows.sponsor import Terms

INTERNALS: Final = ("ada", "ben", "cleo")
HONEST: Final = ("dan", "eve", "finn", "gus", "hana")
"""The last two of them hold two digits only."""
POISONING: Final = ("mal", "max", "mia", "moe")
NAMES: Final = (*INTERNALS, *HONEST, *POISONING)
STAKE: Final = 4 * ETHER
RULE: Final = "softmax:beta=20"
RECIPE: Final = Recipe(learning_rate=0.1, batch=32, local_epochs=2)
DEALS: Final = range(5)
"""Seeds that the comparison deals the data by; the chain plays the first."""
SOFTMAX: Final = "the internals' softmax"
METHODS: Final[Mapping[str, str]] = {
    "local training": "local",
    "plain averaging": "fedavg",
    "VaRSeL": "varsel",
    SOFTMAX: RULE,
}


def experiment_of(rounds: int, seed: int, method: str = RULE) -> Selfish:
    """The simulator's setting: scarce data inside, and outsiders of three kinds."""
    return replace(
        SELFISH["selfish-story"],
        method=method,
        recipe=RECIPE,
        rounds=rounds,
        hostile=0.45,
        narrow=0.4,
        seed=seed,
    )


def deal(seed: int) -> Dataset:
    """The story's samples."""
    return deal_of(experiment_of(1, seed))


def deal_of(experiment: Selfish, data: str | None = None) -> Dataset:
    """Everybody's samples as one data set that names their owners; poisoned labels are poisoned in it."""
    clients = set_up_selfish(experiment, data).clients
    whole = load(experiment.dataset, data)
    return Dataset(
        "selfish-story",
        np.concatenate([each.x[each.rows] for each in clients]),
        np.concatenate([each.y[each.rows] for each in clients]),
        whole.x_test,
        whole.y_test,
        whole.classes,
        {"client": np.repeat(np.arange(len(clients)), [len(each) for each in clients])},
    )


def selfish_cast(folder: Path, rounds: int, rule: str | None = None) -> Cast:
    """Writes the data to files, with a part for each participant; the last round's first proposer is set to lie."""
    seed = DEALS[0]
    dealt = deal(seed)
    file = write_deal(dealt, folder / "digits.npz")

    described = {
        name: ReplayParticipant(
            number, len(NAMES), "natural", seed, master_seed=seed, dataset=f"npz:{file.resolve()}"
        )
        for number, name in enumerate(NAMES)
    }

    people = [Person(name, STAKE, lie_in_round=rounds) for name in NAMES]
    return Cast(
        people,
        selfish_terms(rounds, seed, rule or RULE),
        described,
        frozenset(POISONING),
        frozenset(INTERNALS),
    )


def write_deal(dealt: Dataset, file: Path) -> Path:
    """The samples as a data set of one's own, `npz:FILE`, whose natural parts are the participants'."""
    np.savez_compressed(
        file,
        x=dealt.x,
        y=dealt.y,
        x_test=dealt.x_test,
        y_test=dealt.y_test,
        client=dealt.groups["client"],
    )
    return file


def selfish_terms(rounds: int, seed: int, rule: str) -> Terms:
    """Every round waits for everybody: all hand in an update but the outsider who proposes."""
    return Terms(
        rule=rule,
        rounds=rounds,
        escrow=rounds * ETHER // 5,
        model=experiment_of(rounds, seed).model,
        learning_rate=RECIPE.learning_rate,
        batch=RECIPE.batch,
        local_epochs=RECIPE.local_epochs,
        seed=seed,
        min_internals=len(INTERNALS),
        min_updates=len(NAMES) - 1,
        max_updates=len(NAMES),
        challenge_seconds=6,
    )


def compare(rounds: int, seeds: Sequence[int] = DEALS) -> dict[str, list[float]]:
    """The accuracy of each method after so many rounds in the simulator, a number for each deal of the data."""
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in seeds:
        dealt = deal(seed)
        for name, method in METHODS.items():
            *_, last = play_selfish(set_up(dealt, experiment_of(rounds, seed, method)))
            found[name].append(last.accuracy)
    return found


def set_up(dealt: Dataset, experiment: Selfish) -> SelfishSetup:
    """The simulator's clients train and judge on the very samples that the nodes do."""
    spec = LearningSpec(experiment.model, experiment.dataset, experiment.recipe, experiment.seed)
    parts = partition(dealt, "natural", experiment.clients, experiment.seed)
    trainers = [
        Trainer.of_rows(spec, dealt, rows, master_seed=experiment.seed, id_=client)
        for client, rows in enumerate(parts)
    ]
    inside = trainers[: experiment.internal]
    return SelfishSetup(
        experiment,
        [trainer.train_on for trainer in trainers],
        [dealt.test()] * experiment.internal,
        [trainer.held_out for trainer in inside],
    )


def tell_comparison(found: Mapping[str, Sequence[float]], on_chain: float, on_progress: OnProgress) -> None:
    """A line for each method, then how often the order was the expected one."""
    deals = len(found[SOFTMAX])
    on_progress(f"the same data in the simulator: this deal of it, and the mean of {deals}")
    for name, values in found.items():
        on_progress(f"  {name:<24}{100 * values[0]:5.1f}%  {100 * sum(values) / deals:5.1f}%")
    on_progress(f"  {'on this chain':<24}{100 * on_chain:5.1f}%")
    for line in findings(found):
        on_progress(line)


def findings(found: Mapping[str, Sequence[float]]) -> list[str]:
    """What held in how many deals, whether or not that is what one would like."""
    rows = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    claims = {
        "plain averaging falls below local training": [
            row["plain averaging"] < row["local training"] for row in rows
        ],
        "VaRSeL is above local training": [row["VaRSeL"] > row["local training"] for row in rows],
        "the internals' softmax is above all of them": [row[SOFTMAX] == max(row.values()) for row in rows],
    }
    return [f"{claim} in {sum(held)} of {len(held)} deals" for claim, held in claims.items()]
