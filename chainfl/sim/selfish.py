"""Selfish federated learning: a stakeholder trains the best model for its internal clients (VaRSeL and its rivals).

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
from chainfl.codec.scores import loss_score
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import InputError
from chainfl.learning.attacks import poisoned, worker_attack
from chainfl.learning.dataset import Dataset, Rows, Samples
from chainfl.learning.datasets import load
from chainfl.learning.evaluate import score, score_many
from chainfl.learning.families import check_dataset
from chainfl.learning.models import Flat, initial_flat
from chainfl.learning.partition import alike, partition
from chainfl.learning.train import Job, Recipe, train, train_many
from chainfl.names import unknown
from chainfl.protocol.combine import combine, pairwise_squared_distances
from chainfl.protocol.varsel import varsel_shares, varsel_weights
from chainfl.sim.experiment import Selfish as Selfish
from chainfl.sim.experiment import parse_method
from chainfl.sim.judged import judged_shares
from chainfl.sim.presets import SELFISH
from chainfl.sim.selfish_tests import tests_of
from chainfl.sim.varsel import choose, step_shares
from chainfl.types import TOTAL, WAD, Statistic


@dataclass(frozen=True, slots=True)
class SelfishFacts:
    """What one round showed: accuracy on the internal clients' kind of data, and how many external ones counted."""

    round: int
    model_root: str
    accuracy: float
    external: int
    external_share: float
    seconds: float
    external_weight: float = 0.0
    """1'w: how many internal clients the external ones together count as."""
    hostile_share: float = 0.0

    def as_plain(self) -> dict[str, object]:
        """The facts as JSON holds them."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class SelfishSetup:
    """Everybody's samples, internal clients first, and the test samples of each internal client's classes."""

    experiment: Selfish
    clients: Sequence[Samples]
    tests: Sequence[Samples]
    judges: Sequence[Samples] = ()
    """What each internal client scores updates on; nothing: what it trains on."""

    @property
    def external(self) -> int:
        """N."""
        return self.experiment.external

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
    """The models that count in a round, whose they are, the share of each, and how many external ones there are."""

    models: NDArray[np.float32]
    ids: Sequence[int]
    shares: Sequence[int]
    external: int


Method = Callable[[SelfishSetup, Flat, int], Step]


def _varsel(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Norms of all, updates of the sampled; the parts minimise the variance bound."""
    experiment = setup.experiment
    if experiment.drawn:
        return _varsel_of_drawn(setup, head_D, round_)

    internal = experiment.internal
    ids = range(len(setup.clients))
    rows = setup.updates(head_D, ids, round_)
    vectors = [encode(row, experiment.scale) for row in rows]
    chosen = choose(vectors[:internal], vectors[internal:], experiment.budget, setup.rng(round_))
    return Step(rows, ids, step_shares(internal, chosen, setup.external), len(chosen.sampled))


def _varsel_of_drawn(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """As on a chain: no norms first; the exact weights are over the updates of all who were drawn."""
    experiment = setup.experiment
    ids = _with_internal(setup, _drawn(setup, round_))
    rows = setup.updates(head_D, ids, round_)
    internals = [k < experiment.internal for k in ids]
    distances = pairwise_squared_distances([encode(row, experiment.scale) for row in rows])
    weights = varsel_weights(distances, internals, experiment.budget)
    return Step(rows, ids, varsel_shares(weights, internals), sum(map(bool, weights[experiment.internal :])))


def _softmax(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Internal clients judge every update by its loss on their data; the contract's softmax makes the shares."""
    experiment = setup.experiment
    _, values = parse_method(experiment.method)
    ids = _with_internal(setup, _drawn(setup, round_))
    rows = setup.updates(head_D, ids, round_)

    # What a committee judges on a chain are the bytes that were submitted.
    submitted = [decode(encode(row, experiment.scale), experiment.scale) for row in rows]
    judges = setup.judges or setup.clients[: experiment.internal]
    judged = score_many(experiment.model, submitted, judges)
    scores_KM = [[loss_score(each.loss) for each in row] for row in judged]
    statistic = Statistic.MEAN if values["mean"] else Statistic.MEDIAN
    shares = judged_shares(scores_KM, int(values["beta"] * WAD), statistic)
    return Step(rows, ids, shares, len(ids) - experiment.internal)


def _oracle(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """An upper bound that needs unknown facts: as FedAvg, drawn from the honest external clients only."""
    honest = setup.experiment.honest
    wanted = min(_draw_size(setup), len(honest))
    places = setup.rng(round_).permutation(len(honest))[:wanted]
    ids = _with_internal(setup, sorted(honest[place] for place in places))
    return _equal(setup.updates(head_D, ids, round_), ids, setup)


def _local(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """The internal clients alone."""
    ids = range(setup.experiment.internal)
    return _equal(setup.updates(head_D, ids, round_), ids, setup)


def _fedavg(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """A random set of the budget's size beside the internal clients, all alike."""
    ids = _with_internal(setup, _drawn(setup, round_))
    return _equal(setup.updates(head_D, ids, round_), ids, setup)


def _fedprox(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """As FedAvg, with local training held near the head."""
    ids = _with_internal(setup, _drawn(setup, round_))
    mu = setup.experiment.proximal
    return _equal(setup.updates(head_D, ids, round_, proximal=mu), ids, setup)


def _skew(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Power of choice: of twice the budget's number drawn at random, those with the highest loss of the head."""
    drawn = _drawn(setup, round_, setup.experiment.drawn or 2 * setup.experiment.budget)
    judged = score_many(setup.experiment.model, [head_D], [setup.clients[k] for k in drawn])[0]
    by_loss = sorted(range(len(drawn)), key=lambda place: (-judged[place].loss, drawn[place]))
    chosen = sorted(drawn[place] for place in by_loss[: setup.experiment.budget])
    ids = _with_internal(setup, chosen)
    return _equal(setup.updates(head_D, ids, round_), ids, setup)


def _ocs(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """Optimal client sampling: by the size of the update, weighed so that the mean stays what it is."""
    internal = setup.experiment.internal
    budget = setup.experiment.budget
    ids = range(len(setup.clients))
    rows = setup.updates(head_D, ids, round_)
    sizes = np.linalg.norm(rows[internal:] - head_D, axis=1)
    chances = sampling_chances(sizes, budget)
    taken = setup.rng(round_).random(setup.external) < chances
    inverse = np.where(taken, 1 / np.maximum(chances, 1e-12), 0) / setup.external * budget
    weights = np.concatenate([np.ones(internal), inverse])
    return Step(rows, ids, whole_shares(list(weights / weights.sum())), int(taken.sum()))


def _per_fl(setup: SelfishSetup, head_D: Flat, round_: int) -> Step:
    """First-order MAML: each step's gradient is taken after one step ahead; internal clients adapt it later."""
    ids = _with_internal(setup, _drawn(setup, round_))
    rows = np.stack([_maml(setup, head_D, k, round_) for k in ids])
    return _equal(rows, ids, setup)


METHODS: Final[Mapping[str, Method]] = {
    "varsel": _varsel,
    "softmax": _softmax,
    "local": _local,
    "fedavg": _fedavg,
    "fedprox": _fedprox,
    "skew": _skew,
    "ocs": _ocs,
    "per-fl": _per_fl,
    "oracle": _oracle,
}
"""The step of each method; the names are `SELFISH_METHODS`."""


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
    check_dataset(experiment.model, dataset)
    seed = training_seed(experiment.seed, "partition", 0, 0)
    parts = partition(dataset, experiment.partition, experiment.clients, seed)
    if experiment.deal == "alike":
        parts = alike(dataset.y, parts, experiment.internal, training_seed(experiment.seed, "alike", 0, 0))
    clients = [held_by(experiment, dataset, k, rows) for k, rows in enumerate(parts)]
    tests = [tests_of(dataset, own) for own in clients[: experiment.internal]]
    if experiment.test_samples:
        test_seed = training_seed(experiment.seed, "test", 0, 0)
        tests = [test.sampled(experiment.test_samples, test_seed) for test in tests]
    return SelfishSetup(experiment, clients, tests)


def held_by(experiment: Selfish, dataset: Dataset, client: int, rows: Rows) -> Samples:
    """A client's samples: as many as its kind has, each label in its proportion; poisoned where it is hostile."""
    is_internal = client < experiment.internal
    most = experiment.internal_samples if is_internal else experiment.external_samples
    if client in experiment.narrow_clients:
        rows = rows[np.isin(dataset.y[rows], two_labels(client, dataset.classes))]
    samples = dataset.rows(rows)
    if most:
        samples = samples.sampled(most, training_seed(experiment.seed, "cut", client, 0))
    if is_internal or client in experiment.honest:
        return samples
    return poisoned(samples, worker_attack(experiment.worker_attack)[0], dataset.classes)


def two_labels(client: int, classes: int) -> tuple[int, int]:
    """The labels of a client that holds two only; neighbours hold others."""
    return 2 * client % classes, (2 * client + 1) % classes


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
    method = METHODS[parse_method(experiment.method)[0]]

    for round_ in range(len(progress.facts) + 1, experiment.rounds + 1):
        started = time.perf_counter()
        step = method(setup, decode(progress.head, experiment.scale), round_)
        progress.head = combine_models(step.models, step.shares, experiment.scale)
        external = sum(step.shares[experiment.internal :])
        honest = [share for k, share in zip(step.ids, step.shares, strict=True) if k < experiment.honest.stop]

        one = SelfishFacts(
            round_,
            merkle.root(progress.head).hex(),
            internal_accuracy(setup, decode(progress.head, experiment.scale), round_),
            step.external,
            external / TOTAL,
            time.perf_counter() - started,
            experiment.internal * external / max(1, TOTAL - external),  # at most: no internal share at all
            1 - sum(honest) / TOTAL,
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
    if setup.experiment.method == "per-fl":
        found = [
            score(model, [_adapted(setup, head_D, k, round_)], test)[0].accuracy
            for k, test in enumerate(setup.tests)
        ]
    else:
        # Internal clients of the same classes have the same test samples, which are looked at once.
        distinct = {test.rows.tobytes(): test for test in setup.tests}
        judged = dict(zip(distinct, score_many(model, [head_D], list(distinct.values()))[0], strict=True))
        found = [judged[test.rows.tobytes()].accuracy for test in setup.tests]
    return sum(found) / len(found)


def _adapted(setup: SelfishSetup, head_D: Flat, client: int, round_: int) -> Flat:
    """The head after one step on an internal client's data."""
    experiment = setup.experiment
    seed = training_seed(experiment.seed, "adapt", client, round_)
    recipe = replace(experiment.recipe, local_steps=1)
    return train(experiment.model, head_D, setup.clients[client], recipe, seed, round_=round_)


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


def _draw_size(setup: SelfishSetup) -> int:
    return setup.experiment.drawn or setup.experiment.budget


def _drawn(setup: SelfishSetup, round_: int, count: int | None = None) -> list[int]:
    """External clients drawn at random, by index."""
    wanted = min(count or _draw_size(setup), setup.external)
    places = setup.rng(round_).permutation(setup.external)[:wanted]
    return sorted(int(place) + setup.experiment.internal for place in places)


def _with_internal(setup: SelfishSetup, external: Sequence[int]) -> list[int]:
    return [*range(setup.experiment.internal), *external]


def _equal(rows: NDArray[np.float32], ids: Sequence[int], setup: SelfishSetup) -> Step:
    shares = whole_shares([1 / len(rows)] * len(rows))
    return Step(rows, ids, shares, len(rows) - setup.experiment.internal)
