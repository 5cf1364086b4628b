"""A node's trainer: the manifest's model and recipe, the participant's own data."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chainfl.codec import merkle
from chainfl.codec.manifest import AnyManifest
from chainfl.codec.records import Layout
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import InputError, VerificationError
from chainfl.learning.app import App
from chainfl.learning.attacks import poisoned, worker_attack
from chainfl.learning.builtin import BuiltIn
from chainfl.learning.calls import time_limit
from chainfl.learning.compute import cores
from chainfl.learning.datasets import load
from chainfl.learning.evaluate import CHUNK
from chainfl.learning.partition import partition
from chainfl.learning.rehearsal import rehearse_app
from chainfl.learning.samples import part_of
from chainfl.learning.taskapp import is_app, task_app
from chainfl.learning.train import train
from chainfl.learning.trainer import Trainer, record_layout, spec_of_manifest
from chainfl.node.settings import NodeSettings
from chainfl.node.wrapped import WrappedTrainer
from chainfl.ports import Floats, Judgement, Ledger
from chainfl.ports import Trainer as AnyTrainer
from chainfl.protocol.combine import combine
from chainfl.types import TOTAL, TaskConfig

ABSURD = 100
"""A task whose training takes so many times its Train phase is not meant to be done."""


def open_app(settings: NodeSettings, manifest: AnyManifest) -> App | None:
    """The app that the operator brought, if the task runs one and it is this; None for the built-in one.

    Raises:
        InputError: the operator brought none, or another (both digests are named), or other frozen files.
    """
    if not is_app(manifest):
        if settings.app is not None:
            raise InputError(f"the task runs built-in models, not an app: leave out --app {settings.app}")
        return None
    if settings.app is None:
        raise InputError(
            f"the task runs the app {manifest.app} with digest {manifest.digest}: get its source, read it, and give "
            "it with --app FILE; a sponsor's code is never fetched"
        )
    return task_app(manifest, settings.app, settings.accept_app)


def check_manifest(manifest: AnyManifest, app: App | None = None) -> None:
    """Refuse a manifest that asks for what is not installed here or cannot be.

    Raises:
        VerificationError: says what it asks for; take no part.
    """
    if app is not None:
        layout = app.layout
        name = f"app {app.name!r}"
    else:
        try:
            model = spec_of_manifest(manifest).model
            layout = record_layout(model)
            name = f"model {model!r}"
        except InputError as error:
            raise VerificationError(f"the task's manifest: {error}: take no part") from None
    if layout != manifest.layout:
        raise VerificationError(f"{name} has another layout here than in the task's manifest: take no part")


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement without a model."""

    loss: float
    correct: int = 1
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Untrained:
    """Learns nothing, so that everything around learning can be measured: updates are the head and a little noise."""

    layout: Layout
    seed: int
    samples: int = 1

    def train(self, head_D: Floats, round_: int) -> Floats:
        """The head, a few parameters moved: no two participants or rounds give the same."""
        moved_D = head_D.copy()
        moved_D[:64] += np.random.default_rng((self.seed, round_)).normal(0, 1e-3, 64)[: len(moved_D)]
        return moved_D

    def score(self, models_KD: Sequence[Floats]) -> list[Judged]:
        """A number between 0 and 1 that a model's first parameter decides."""
        return [Judged(float(abs(model_D[0]) % 1)) for model_D in models_KD]


def build_trainer(settings: NodeSettings, manifest: AnyManifest, app: App | None = None) -> AnyTrainer:
    """Load the data and take this participant's part.

    Raises:
        InputError: the data is missing or the part is empty.
    """
    if settings.trainer == "none":
        return Untrained(manifest.layout, settings.master_seed + settings.client)
    if settings.trainer != "torch":
        raise InputError(f"trainer {settings.trainer!r}: there are torch and none")
    if app is not None:
        return _app_trainer(settings, manifest, app)
    spec = spec_of_manifest(manifest)
    dataset = load(settings.dataset or spec.dataset, settings.data)

    # Everybody deals the whole set with the same seed and keeps one part: nobody has to hand parts out.
    parts = partition(dataset, settings.partition, settings.clients, settings.partition_seed)
    if not 0 <= settings.client < len(parts):
        raise InputError(f"client {settings.client} of {len(parts)}: parts count from 0")

    trainer = Trainer.of_rows(
        spec,
        dataset,
        parts[settings.client],
        master_seed=settings.master_seed,
        id_=settings.client,
        device=settings.device,
    )

    if settings.attack is None:
        return trainer

    # An attack on updates needs to know those of its colluders, which a process of its own does not.
    attack, _ = worker_attack(settings.attack)
    if attack.labels is None:
        raise InputError(
            f"attack {settings.attack!r}: a node only poisons its labels; chainfl simulate has the others"
        )
    return trainer.on(
        poisoned(trainer.train_on, attack, dataset.classes),
        poisoned(trainer.held_out, attack, dataset.classes),
    )


def _app_trainer(settings: NodeSettings, manifest: AnyManifest, app: App) -> Trainer:
    """An app's own data, dealt only where the operator says so; torch has all cores unless told otherwise."""
    if settings.attack is not None:
        raise InputError(f"attack {settings.attack!r} is for built-in data sets, whose labels are known")
    if not 0 <= settings.client < settings.clients:
        raise InputError(f"client {settings.client} of {settings.clients}: parts count from 0")
    own = part_of(app.data(settings.dataset), settings.clients, settings.client, settings.partition_seed)
    return Trainer(
        app,
        *own,
        score_samples=manifest.score_samples,
        master_seed=settings.master_seed,
        id_=settings.client,
        device=settings.device,
        threads=settings.threads or cores(),
    )


@dataclass(slots=True)
class EndedInTime(WrappedTrainer):
    """A trainer whose calls end with the phase: what has not ended by then is worth nothing, and the round goes on."""

    ledger: Ledger

    def train(self, head_D: Floats, round_: int) -> Floats:
        """The update, if it is done before Train ends."""
        with time_limit(self._left(), "the time of Train is over: training"):
            return self.inner.train(head_D, round_)

    def score(self, models_KD: Sequence[Floats]) -> Sequence[Judgement]:
        """The scores, if they are done before Score ends."""
        with time_limit(self._left(), "the time of Score is over: scoring"):
            return self.inner.score(models_KD)

    def _left(self) -> float:
        return float(self.ledger.task().round.deadline - self.ledger.now())


def ended_in_time(trainer: AnyTrainer, ledger: Ledger) -> AnyTrainer:
    """The same trainer; a user's app is ended at the phase's deadline, whatever it does."""
    is_app_trainer = isinstance(trainer, Trainer) and isinstance(trainer.learner, App)
    return EndedInTime(trainer, ledger) if is_app_trainer else trainer


def rehearse(trainer: AnyTrainer, first_D: Vector, config: TaskConfig) -> None:
    """One small step of all that a round will ask for: what does not fit is refused now, and nothing is slow later.

    Raises:
        InputError: data and model do not fit, or training leaves the range of parameters.
        VerificationError: the training that the task asks for is not meant to be done.
    """
    head_D = decode(first_D, config.scale)
    if isinstance(trainer, Trainer) and isinstance(trainer.learner, App):
        rehearse_app(trainer, head_D, config)
        return
    update_D = encode(_first_step(trainer, head_D, config), config.scale)
    if isinstance(trainer, Trainer):
        trainer = trainer.on(trainer.train_on, trainer.held_out.first(CHUNK))
    trainer.score([head_D, decode(update_D, config.scale)])
    merkle.root(combine(first_D, [update_D], [TOTAL // 2, TOTAL // 2]))


def _first_step(trainer: AnyTrainer, head_D: Floats, config: TaskConfig) -> Floats:
    """One step of training, and from its time whether all of them are meant to be done at all."""
    if not isinstance(trainer, Trainer) or not isinstance(trainer.learner, BuiltIn):
        return trainer.train(head_D, 0)
    spec = trainer.learner.spec
    recipe = spec.recipe
    samples = trainer.train_on

    def step() -> Floats:
        one = replace(recipe, local_epochs=1, local_steps=1)
        return train(spec.model, head_D, samples.first(recipe.batch), one, trainer.seed(0))

    step()  # the first one also loads what torch needs
    started = time.perf_counter()
    update_D = step()
    whole = (time.perf_counter() - started) * recipe.local_epochs * -(-len(samples) // recipe.batch)
    if whole > ABSURD * config.train_seconds:
        raise VerificationError(
            f"the task asks for {recipe.local_epochs} passes, about {whole:.3g} s of training here, in a phase of "
            f"{config.train_seconds} s: take no part"
        )
    return update_D
