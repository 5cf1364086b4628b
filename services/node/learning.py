"""A node's trainer: the manifest's model and recipe, the participant's own data."""

from chainfl.codec.records import Layout, Manifest
from chainfl.errors import InputError, VerificationError
from chainfl.learning.attacks import poisoned, worker_attack
from chainfl.learning.datasets import load
from chainfl.learning.partition import partition
from chainfl.learning.train import Recipe
from chainfl.learning.trainer import LearningSpec, Trainer, record_layout
from chainfl.types import WAD
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


def build_trainer(settings: NodeSettings, manifest: Manifest) -> Trainer:
    """Load the data, take this participant's part, and check that the model is the task's.

    Raises:
        InputError: the data is missing or the part is empty; VerificationError: the model here has another layout.
    """
    spec = spec_of_manifest(manifest)
    layout = record_layout(spec.model)
    _check_layout(layout, manifest)
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


def _check_layout(layout: Layout, manifest: Manifest) -> None:
    if layout != manifest.layout:
        raise VerificationError(
            f"model {manifest.model!r} has another layout here than in the task's manifest: take no part"
        )
