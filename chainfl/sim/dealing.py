"""Who gets which data: a data set by name, dealt as the experiment says, or what an app's own `data` gives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chainfl.codec.commitments import training_seed
from chainfl.codec.manifest import AnyManifest, AppManifest
from chainfl.errors import InputError
from chainfl.learning.app import load_app
from chainfl.learning.appconfig import parse_changes
from chainfl.learning.attacks import validator_attack, worker_attack
from chainfl.learning.builtin import LearningSpec
from chainfl.learning.datasets import load
from chainfl.learning.families import check_dataset
from chainfl.learning.learner import Job
from chainfl.learning.partition import partition, sizes_of
from chainfl.learning.samples import first, part_of
from chainfl.learning.taskapp import task_app
from chainfl.learning.trainer import Trainer
from chainfl.sim.experiment import Experiment
from chainfl.types import Id

PLACE: Final = "{client}"
"""In `--dataset` of an app: stands for each participant's number, from 0."""


@dataclass(frozen=True, slots=True)
class Trainers(Mapping[Id, Trainer]):
    """The trainers of participants 1 to `count`, each made when it is first asked for: most are never drawn."""

    count: int
    make: Callable[[int], Trainer]
    made: dict[Id, Trainer] = field(default_factory=dict)

    def __getitem__(self, id_: Id) -> Trainer:
        if id_ not in self.made:
            if not 1 <= id_ <= self.count:
                raise KeyError(id_)
            self.made[id_] = self.make(id_ - 1)
        return self.made[id_]

    def __iter__(self) -> Iterator[Id]:
        return map(Id, range(1, self.count + 1))

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True)
class Dealt:
    """Everybody's trainer and number of samples, and what the head is tested on."""

    trainers: Mapping[Id, Trainer]
    sizes: Sequence[int]
    classes: int
    tests: Sequence[Job]
    seen: Job | None = None


def deal_named(experiment: Experiment, data: str | Path | None) -> Dealt:
    """The built-in app on a data set by name."""
    dataset = load(experiment.dataset, data)
    check_dataset(experiment.model, dataset)
    spec = LearningSpec(
        experiment.model, experiment.dataset, experiment.recipe, experiment.seed, experiment.score_samples
    )
    seed = training_seed(experiment.seed, "partition", 0, 0)
    parts = partition(dataset, experiment.partition, experiment.participants, seed)

    def trainer_of(client: int) -> Trainer:
        return Trainer.of_rows(spec, dataset, parts[client], master_seed=experiment.seed, id_=client)

    trainers = Trainers(len(parts), trainer_of)

    # The same samples in every round and for every rule of the experiment.
    test = dataset.test()
    if experiment.test_samples:
        test = test.sampled(experiment.test_samples, training_seed(experiment.seed, "test", 0, 0))
    seen = None
    if experiment.loss_samples:
        sample = dataset.train().sampled(
            experiment.loss_samples, training_seed(experiment.seed, "test", 1, 0)
        )
        seen = Job(sample, 0)
    return Dealt(trainers, sizes_of(parts), dataset.classes, [Job(test, 0)], seen)


def deal_app(experiment: Experiment) -> Dealt:
    """A user's app: its data dealt in equal parts at random, or one place for each participant.

    Raises:
        AppError: its code fails, or its data cannot be dealt.
        InputError: the experiment asks for what only named data sets have.
    """
    _check(experiment)
    assert experiment.app is not None
    app = load_app(experiment.app, parse_changes(experiment.app_config), experiment.seed)
    where = experiment.dataset or None

    trainers = {}
    tests = []
    whole = None if where is not None and PLACE in where else app.data(where)

    for client in range(experiment.participants):
        if whole is None:
            assert where is not None
            own = app.data(where.replace(PLACE, str(client)))
            tests.append(own[1])
        else:
            own = part_of(
                whole, experiment.participants, client, training_seed(experiment.seed, "partition", 0, 0)
            )
        trainers[Id(client + 1)] = Trainer(
            app,
            *own,
            score_samples=experiment.score_samples,
            master_seed=experiment.seed,
            id_=client,
            threads=1,
        )

    if whole is not None:
        tests.append(whole[1])

    most = experiment.test_samples
    jobs = [Job(first(test, most) if most else test, experiment.seed, 1) for test in tests]
    return Dealt(trainers, [trainer.samples for trainer in trainers.values()], 0, jobs)


@dataclass(frozen=True, slots=True)
class ReplayParticipant:
    """One participant as `--participants` describes it: its part of the data, its seed, its attack, torch's threads."""

    client: int
    clients: int
    partition: str = "iid"
    partition_seed: int = 0
    master_seed: int = 0
    dataset: str | None = None
    attack: str | None = None
    threads: int = 1


def app_trainers(
    manifest: AnyManifest, described: Mapping[Id, ReplayParticipant], where: str | None
) -> dict[Id, Trainer]:
    """Every participant's trainer of a task with a user's app, made as its node makes it.

    Raises:
        InputError: the app is not given, or not the one that the task names.
    """
    assert isinstance(manifest, AppManifest)
    if where is None:
        raise InputError(f"the task runs the app {manifest.app}: give its source with --app FILE")
    app = task_app(manifest, where)

    loaded: dict[str | None, tuple[object, object]] = {}
    trainers = {}
    for id_, one in described.items():
        # An app's data() is called once for each place: it may read files or download.
        if one.dataset not in loaded:
            loaded[one.dataset] = app.data(one.dataset)
        own = part_of(loaded[one.dataset], one.clients, one.client, one.partition_seed)
        trainers[id_] = Trainer(
            app,
            *own,
            score_samples=manifest.score_samples,
            master_seed=one.master_seed,
            id_=one.client,
            threads=one.threads,
        )

    return trainers


def _check(experiment: Experiment) -> None:
    if experiment.partition != "iid":
        raise InputError(
            f"--partition {experiment.partition} needs labels that are known: an app's data is dealt iid, or give "
            f"--dataset with {PLACE} in it, one place for each participant"
        )

    if experiment.loss_samples:
        raise InputError("--loss-samples is for named data sets: an app's samples are its own to judge")

    # An attack that changes labels needs labels to change.
    if not experiment.hostile and not experiment.hostile_workers:
        return

    attack, _ = worker_attack(experiment.worker_attack)
    if attack.labels is not None or attack.trigger is not None:
        raise InputError(
            f"--worker-attack {experiment.worker_attack} changes labels, which an app's samples do not show: take "
            "another, such as alie, back or gaussian"
        )
    if validator_attack(experiment.validator_attack).flips:
        raise InputError(
            f"--validator-attack {experiment.validator_attack} changes labels, which an app's samples do not show: "
            "take another"
        )
