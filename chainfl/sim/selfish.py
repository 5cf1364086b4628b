"""Selfish federated learning: a stakeholder wants the best model for its internal clients (VaRSeL and its rivals).

M internal clients, N external ones, D parameters. Every method says which external clients work and what part of the
next model each update has; parts become integer shares and are combined exactly, as everywhere.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chainfl.codec import merkle
from chainfl.codec.commitments import training_seed
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import InputError
from chainfl.learning.dataset import Dataset, Samples
from chainfl.learning.datasets import load
from chainfl.learning.evaluate import score, score_many
from chainfl.learning.models import Flat, initial_flat
from chainfl.learning.partition import partition
from chainfl.learning.train import Job, Recipe, train, train_many
from chainfl.names import unknown
from chainfl.protocol.combine import combine
from chainfl.sim.experiment import Selfish as Selfish
from chainfl.sim.varsel import choose, step_shares
from chainfl.types import TOTAL


@dataclass(frozen=True, slots=True)
class SelfishFacts:
    """What one round showed: accuracy on the internal clients' kind of data, and how many external ones counted."""

    round: int
    model_root: str
    accuracy: float
    external: int
    external_share: float
    seconds: float

    def as_plain(self) -> dict[str, object]:
        """The facts as JSON holds them."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class SelfishSetup:
    """Everybody's samples, internal clients first, and the test samples of each internal client's classes."""

    experiment: Selfish
    clients: Sequence[Samples]
    tests: Sequence[Samples]

    @property
    def external(self) -> int:
        """N."""
        return len(self.clients) - self.experiment.internal

    def rng(self, round_: int) -> np.random.Generator:
        """The random numbers of a round's sampling."""
        return np.random.Generator(np.random.Philox(training_seed(self.experiment.seed, "sample", 0, round_)))

    def updates(self, head_D: Flat, ids: Sequence[int], round_: int, **changes: Any) -> NDArray[np.float32]:
        """These clients' models after their local steps."""
        jobs = [Job(self.clients[k], training_seed(self.experiment.seed, "train", k, round_)) for k in ids]
        recipe = replace(self.experiment.recipe, **changes)
        return train_many(self.experiment.model, head_D, jobs, recipe, round_=round_)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The models that count in a round, the share of each, and how many external ones there are."""

    models: NDArray[np.float32]
    shares: Sequence[int]
    external: int


Method = Callable[[SelfishSetup, Flat, int], Step]


def _varsel(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Norms of all, updates of the sampled; the parts minimise the variance bound."""
    internal = setup.experiment.internal
    rows = setup.updates(head_D, range(len(setup.clients)), round_)
    vectors = [encode(row, setup.experiment.scale) for row in rows]
    chosen = choose(vectors[:internal], vectors[internal:], setup.experiment.budget, setup.rng(round_))
    return Step(rows, step_shares(internal, chosen, setup.external), len(chosen.sampled))


def _local(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """The internal clients alone."""
    return _equal(setup.updates(head_D, range(setup.experiment.internal), round_), setup)


def _fedavg(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """A random set of the budget's size beside the internal clients, all alike."""
    return _equal(setup.updates(head_D, _with_internal(setup, _drawn(setup, round_)), round_), setup)


def _fedprox(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """As FedAvg, with local training held near the head."""
    ids = _with_internal(setup, _drawn(setup, round_))
    mu = setup.experiment.proximal
    return _equal(setup.updates(head_D, ids, round_, proximal=mu), setup)


def _skew(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Power of choice: of twice the budget's number drawn at random, those with the highest loss of the head."""
    drawn = _drawn(setup, round_, 2 * setup.experiment.budget)
    judged = score_many(setup.experiment.model, [head_D], [setup.clients[k] for k in drawn])[0]
    by_loss = sorted(range(len(drawn)), key=lambda place: (-judged[place].loss, drawn[place]))
    chosen = sorted(drawn[place] for place in by_loss[: setup.experiment.budget])
    return _equal(setup.updates(head_D, _with_internal(setup, chosen), round_), setup)


def _ocs(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Optimal client sampling: by the size of the update, weighed so that the mean stays what it is."""
    internal = setup.experiment.internal
    budget = setup.experiment.budget
    rows = setup.updates(head_D, range(len(setup.clients)), round_)
    sizes = np.linalg.norm(rows[internal:] - head_D, axis=1)
    chances = sampling_chances(sizes, budget)
    taken = setup.rng(round_).random(setup.external) < chances
    inverse = np.where(taken, 1 / np.maximum(chances, 1e-12), 0) / setup.external * budget
    weights = np.concatenate([np.ones(internal), inverse])
    return Step(rows, whole_shares(list(weights / weights.sum())), int(taken.sum()))


def _per_fl(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """First-order MAML: each step's gradient is taken after one step ahead; internal clients adapt it later."""
    ids = _with_internal(setup, _drawn(setup, round_))
    rows = np.stack([_maml(setup, head_D, k, round_) for k in ids])
    return _equal(rows, setup)


METHODS: Final[Mapping[str, Method]] = {
    "varsel": _varsel,
    "local": _local,
    "fedavg": _fedavg,
    "fedprox": _fedprox,
    "skew": _skew,
    "ocs": _ocs,
    "per-fl": _per_fl,
}
"""The step of each method; the names are `SELFISH_METHODS`."""

SELFISH: Final[Mapping[str, Selfish]] = {
    "varsel-small": Selfish(clients=30, budget=5, rounds=20),
    "varsel-fashion": Selfish(dataset="fashion-mnist", partition="shards:per=2,size=500"),
    "varsel-mnist": Selfish(
        dataset="mnist", partition="shards:per=24,size=90", model="varsel-2nn", clients=25, budget=10
    ),
    "varsel-cifar": Selfish(
        dataset="cifar10",
        partition="shards:per=2",
        model="varsel-cnn",
        recipe=Recipe(learning_rate=0.03, batch=32, local_steps=3),
    ),
}
"""The presets of selfish experiments; the method is chosen with `--rule`."""


def selfish_with(name: str, changes: Mapping[str, Any]) -> Selfish:
    """The preset called so with what a caller gave; None means not given, `rule` is the method.

    Raises:
        UnknownNameError: no preset is called so; InputError: a change has no place in such an experiment.
    """
    if name not in SELFISH:
        raise unknown("preset", name, SELFISH)
    given = {key: value for key, value in changes.items() if value is not None}
    if "rule" in given:
        given["method"] = given.pop("rule")
    known, in_recipe = ({each.name for each in fields(kind)} for kind in (Selfish, Recipe))
    strange = sorted(given.keys() - known - in_recipe)
    if strange:
        raise InputError(f"preset {name} has no place for --{strange[0].replace('_', '-')}")
    recipe = {key: value for key, value in given.items() if key in in_recipe - {"proximal"}}
    rest = {key: value for key, value in given.items() if key not in recipe}
    return replace(SELFISH[name], recipe=replace(SELFISH[name].recipe, **recipe), **rest)


def set_up_selfish(experiment: Selfish, data: str | None = None) -> SelfishSetup:
    """Deal the data; the first clients are the internal ones."""
    dataset = load(experiment.dataset, data)
    seed = training_seed(experiment.seed, "partition", 0, 0)
    parts = partition(dataset, experiment.partition, experiment.clients, seed)
    clients = [dataset.rows(rows) for rows in parts]
    return SelfishSetup(
        experiment, clients, [tests_like(dataset, own) for own in clients[: experiment.internal]]
    )


def tests_like(dataset: Dataset, own: Samples) -> Samples:
    """The test samples of the classes that a client holds."""
    held = np.unique(own.y[own.rows])
    return Samples(dataset.x_test, dataset.y_test, np.flatnonzero(np.isin(dataset.y_test, held)))


@dataclass(slots=True)
class SelfishProgress:
    """How far a run has come: the head, and what each round showed."""

    head: Vector
    facts: list[SelfishFacts] = field(default_factory=list)


def first_progress(experiment: Selfish) -> SelfishProgress:
    """Before the first round."""
    return SelfishProgress(encode(initial_flat(experiment.model, experiment.seed), experiment.scale))


def play_selfish(setup: SelfishSetup, progress: SelfishProgress | None = None) -> Iterator[SelfishFacts]:
    """The rounds that are left: the method's step, exactly combined, tested on what the internal clients care for.

    `progress` moves on with every round; without it the run starts anew.
    """
    experiment = setup.experiment
    progress = first_progress(experiment) if progress is None else progress
    for round_ in range(len(progress.facts) + 1, experiment.rounds + 1):
        started = time.perf_counter()
        step = METHODS[experiment.method](setup, decode(progress.head, experiment.scale), round_)
        progress.head = combine_models(step.models, step.shares, experiment.scale)
        one = SelfishFacts(
            round_,
            merkle.root(progress.head).hex(),
            internal_accuracy(setup, decode(progress.head, experiment.scale), round_),
            step.external,
            sum(step.shares[experiment.internal :]) / TOTAL,
            time.perf_counter() - started,
        )
        progress.facts.append(one)
        yield one


def whole_shares(parts: Sequence[float]) -> list[int]:
    """Parts that add up to one as integer shares; the rest goes to the first."""
    shares = [int(part * TOTAL) for part in parts]
    shares[0] += TOTAL - sum(shares)
    return shares


def combine_models(models: NDArray[np.float32], shares: Sequence[int], scale: int) -> Vector:
    """The exact combination of models; what has no share is left out."""
    vectors = [encode(model, scale) if share else None for model, share in zip(models, shares, strict=True)]
    return combine(None, vectors, [0, *shares])


def internal_accuracy(setup: SelfishSetup, head_D: Flat, round_: int) -> float:
    """The mean over internal clients of the accuracy on their classes; Per-FL adapts to each by one step first."""
    model = setup.experiment.model
    recipe = setup.experiment.recipe
    found = []
    for k, test in enumerate(setup.tests):
        own_D = head_D
        if setup.experiment.method == "per-fl":
            seed = training_seed(setup.experiment.seed, "adapt", k, round_)
            own_D = train(
                model, head_D, setup.clients[k], replace(recipe, local_steps=1), seed, round_=round_
            )
        found.append(score(model, [own_D], test)[0].accuracy)
    return sum(found) / len(found)


def sampling_chances(sizes_N: NDArray[np.floating[Any]], budget: int) -> NDArray[np.float64]:
    """Chances in proportion to the updates' sizes, at most one each, that add up to the budget (Chen et al.)."""
    sizes = np.asarray(sizes_N, np.float64)
    if budget >= len(sizes) or not sizes.any():
        return np.full(len(sizes), min(1.0, budget / len(sizes)))
    chances = np.zeros(len(sizes))
    sure = np.zeros(len(sizes), bool)
    while True:
        rest = sizes[~sure].sum()
        chances = np.where(sure, 1.0, (budget - sure.sum()) * sizes / rest if rest else 0.0)
        if not (chances > 1).any():
            return chances
        sure |= chances > 1


def _maml(setup: SelfishSetup, head_D: Flat, client: int, round_: int) -> Flat:
    experiment = setup.experiment
    one = replace(experiment.recipe, local_steps=1)
    ahead = replace(one, learning_rate=experiment.inner_rate)
    samples = setup.clients[client]
    model_D = head_D
    for step in range(experiment.recipe.local_steps or 1):
        seed = training_seed(experiment.seed, "ahead", client, round_ * 1000 + step)
        looked_D = train(experiment.model, model_D, samples, ahead, seed, round_=round_)
        moved_D = train(experiment.model, looked_D, samples, one, seed + 1, round_=round_)
        model_D = model_D + (moved_D - looked_D)
    return model_D


def _drawn(setup: SelfishSetup, round_: int, count: int | None = None) -> list[int]:
    """External clients drawn at random, by index."""
    wanted = min(count or setup.experiment.budget, setup.external)
    places = setup.rng(round_).permutation(setup.external)[:wanted]
    return sorted(int(place) + setup.experiment.internal for place in places)


def _with_internal(setup: SelfishSetup, external: Sequence[int]) -> list[int]:
    return [*range(setup.experiment.internal), *external]


def _equal(rows: NDArray[np.float32], setup: SelfishSetup) -> Step:
    return Step(rows, whole_shares([1 / len(rows)] * len(rows)), len(rows) - setup.experiment.internal)
