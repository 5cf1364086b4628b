"""The built-in app: models and data sets by name, plain SGD, cross-entropy; kernels that train many clients at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from chainfl.codec import records
from chainfl.codec.manifest import AnyManifest, AppManifest
from chainfl.errors import InputError
from chainfl.learning.appconfig import of_values
from chainfl.learning.evaluate import score, score_many
from chainfl.learning.learner import Flat, Job
from chainfl.learning.models import build, initial_flat, integer_buffers, layout
from chainfl.learning.score import Score
from chainfl.learning.train import Recipe, train, train_many
from chainfl.types import WAD

NAME: Final = "chainfl.learning.builtin"
VERSION: Final = "builtin-1"
"""Changes when the same names and seeds would give other bits."""
LOSS: Final = "cross-entropy"
OPTIMISER: Final = "sgd"


@dataclass(frozen=True, slots=True)
class LearningSpec:
    """The built-in app's settings: names of things that every participant has installed."""

    model: str
    dataset: str
    recipe: Recipe = field(default_factory=Recipe)
    initial_seed: int = 0
    score_samples: int = 300
    loss: str = LOSS
    optimiser: str = OPTIMISER

    def __post_init__(self) -> None:
        if self.loss != LOSS:
            raise InputError(f"no loss is called {self.loss!r}; there is: {LOSS}")
        if self.optimiser != OPTIMISER:
            raise InputError(f"no optimiser is called {self.optimiser!r}; there is: {OPTIMISER}")
        if self.score_samples < 1:
            raise InputError(f"score_samples must be at least 1, not {self.score_samples}")


def spec_of_manifest(manifest: AnyManifest) -> LearningSpec:
    """What a manifest of either format sets for the built-in app; names that are not installed here are refused."""
    if isinstance(manifest, AppManifest):
        return _spec_of_config(manifest)
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


def _spec_of_config(manifest: AppManifest) -> LearningSpec:
    if manifest.digest != VERSION:
        raise InputError(
            f"the task requires version {manifest.digest} of the built-in app, this is {VERSION}"
        )
    values: dict[str, Any] = of_values(manifest.config)
    try:
        model = str(values.pop("model"))
        dataset = str(values.pop("dataset"))
        recipe = Recipe(**values)
    except (KeyError, TypeError) as error:
        raise InputError(f"the manifest's config does not fit the built-in app: {error}") from None
    return LearningSpec(model, dataset, recipe, manifest.seed, manifest.score_samples)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The built-in app for one task. Each model has one torch thread, whatever a job says, so its bits are fixed."""

    spec: LearningSpec
    metrics: dict[str, float] = field(default_factory=dict, compare=False)
    """The mean loss of the steps of the last `train` of a client by itself."""

    @property
    def name(self) -> str:
        """What manifests call it."""
        return NAME

    @property
    def digest(self) -> str:
        """Its version."""
        return VERSION

    @property
    def layout(self) -> records.Layout:
        """The tensors of the model, as records name them."""
        return record_layout(self.spec.model)

    def initial(self) -> Flat:
        """The task's first model, from the manifest's seed."""
        return initial_flat(self.spec.model, self.spec.initial_seed)

    def train(
        self, head_D: Flat, job: Job, round_: int, *, device: str = "cpu", out_D: Flat | None = None
    ) -> Flat:
        """The update of one client."""
        spec = self.spec
        # A simulation's rows are many and their losses nobody's: it is spared what they cost.
        losses = list[Tensor]() if out_D is None else None

        update_D = train(
            spec.model,
            head_D,
            job.samples,
            spec.recipe,
            job.seed,
            round_=round_,
            device=device,
            out_D=out_D,
            losses=losses,
        )
        if losses:
            self.metrics["train loss"] = float(torch.stack(losses).mean())
        return update_D

    def score(self, flats_KD: Sequence[Flat], job: Job, *, device: str = "cpu") -> tuple[Score, ...]:
        """Each model's score; several side by side where there are cores."""
        return score(self.spec.model, flats_KD, job.samples, threads=job.threads, device=device)

    def train_many(self, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat) -> None:
        """Every client's update, side by side."""
        train_many(self.spec.model, head_D, jobs, self.spec.recipe, round_=round_, out_KD=out_KD)

    def score_many(self, flats_KD: Sequence[Flat], jobs: Sequence[Job]) -> tuple[tuple[Score, ...], ...]:
        """A whole committee's scores at once."""
        return score_many(self.spec.model, flats_KD, [job.samples for job in jobs])


@cache
def record_layout(model: str) -> records.Layout:
    """The layout of the model called so, as manifests and model nodes hold it."""
    network = build(model)
    tensors = tuple(records.Tensor(name, shape) for name, shape in layout(network))
    return records.Layout(tensors, integer_buffers(network))
