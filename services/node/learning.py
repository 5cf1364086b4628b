"""A node's trainer: the manifest's model and recipe, the participant's own data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chainfl.codec import merkle
from chainfl.codec.records import Layout, Manifest
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import InputError, VerificationError
from chainfl.learning.attacks import poisoned, worker_attack
from chainfl.learning.datasets import load
from chainfl.learning.evaluate import CHUNK
from chainfl.learning.partition import partition
from chainfl.learning.train import Recipe
from chainfl.learning.trainer import LearningSpec, Trainer, record_layout
from chainfl.ports import Floats
from chainfl.ports import Trainer as AnyTrainer
from chainfl.protocol.combine import combine
from chainfl.types import TOTAL, WAD
from services.node.settings import NodeSettings


def spec_of_manifest(manifest: Manifest) -> LearningSpec:
    """The manifest in learning's words. Names that are not installed here are refused: no code comes with a task."""
    recipe = Recipe(
        learning_rate=manifest.learning_rate / WAD, batch=manifest.batch, local_epochs=manifest.local_epochs
    )
    return LearningSpec(
        manifest.model,
        manifest.dataset,
        recipe,
        manifest.seed,
        manifest.score_samples,
        manifest.loss,
        manifest.optimiser,
    )


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


def build_trainer(settings: NodeSettings, manifest: Manifest) -> AnyTrainer:
    """Load the data, take this participant's part, and check that the model is the task's.

    Raises:
        InputError: the data is missing or the part is empty; VerificationError: the model here has another layout.
    """
    spec = spec_of_manifest(manifest)
    layout = record_layout(spec.model)
    _check_layout(layout, manifest)
    if settings.trainer == "none":
        return Untrained(layout, settings.master_seed + settings.client)
    if settings.trainer != "torch":
        raise InputError(f"trainer {settings.trainer!r}: there are torch and none")
    dataset = load(settings.dataset or spec.dataset, settings.data)
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
    attack, _ = worker_attack(settings.attack)
    if attack.labels is None:
        raise InputError(
            f"attack {settings.attack!r}: a node only poisons its labels; chainfl simulate has the others"
        )
    return trainer.on(
        poisoned(trainer.train_on, attack, dataset.classes),
        poisoned(trainer.held_out, attack, dataset.classes),
    )


def rehearse(trainer: AnyTrainer, first_D: Vector, scale: int) -> None:
    """One small step of all that a round will ask for: what does not fit is refused now, and nothing is slow later.

    Raises:
        InputError: data and model do not fit, or training leaves the range of parameters.
    """
    head_D = decode(first_D, scale)
    if isinstance(trainer, Trainer):
        batch = trainer.spec.recipe.batch
        trainer = trainer.on(trainer.train_on.first(batch), trainer.held_out.first(CHUNK))
    update_D = encode(trainer.train(head_D, 0), scale)
    trainer.score([head_D, decode(update_D, scale)])
    merkle.root(combine(first_D, [update_D], [TOTAL // 2, TOTAL // 2]))


def _check_layout(layout: Layout, manifest: Manifest) -> None:
    if layout != manifest.layout:
        raise VerificationError(
            f"model {manifest.model!r} has another layout here than in the task's manifest: take no part"
        )
