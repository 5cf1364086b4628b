"""What a trainer runs: an app, a user's own or the built-in one. Shapes: K models or clients, D parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chainfl.codec import records
from chainfl.learning.score import Score

Flat: TypeAlias = NDArray[np.float32]
Metrics: TypeAlias = Mapping[str, float]
"""What a training returned for the log, such as its loss."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One client's samples and seed, and how many threads torch may use for it (None: as the app likes)."""

    samples: Any
    seed: int
    threads: int | None = None


class Learner(Protocol):
    """An app as trainers see it: it turns heads and samples into updates and scores, for any participant."""

    @property
    def name(self) -> str:
        """What manifests and logs call it."""
        ...

    @property
    def digest(self) -> str:
        """Which version of its code this is."""
        ...

    @property
    def layout(self) -> records.Layout:
        """The tensors of the model vector."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What the last `train` returned for the log, such as its loss."""
        ...

    def initial(self) -> Flat:
        """The task's first model."""
        ...

    def train(
        self, head_D: Flat, job: Job, round_: int, *, device: str = "cpu", out_D: Flat | None = None
    ) -> Flat:
        """The update; the same for the same head, job, round and number of threads."""
        ...

    def score(self, flats_KD: Sequence[Flat], job: Job, *, device: str = "cpu") -> tuple[Score, ...]:
        """Each model's score on the same samples; the same, whatever others are scored with it."""
        ...


@runtime_checkable
class BatchLearner(Protocol):
    """An app that trains and scores for many clients at once, with the bits of one at a time."""

    def train_many(self, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat) -> None:
        """Every client's update, each in its row."""
        ...

    def score_many(self, flats_KD: Sequence[Flat], jobs: Sequence[Job]) -> tuple[tuple[Score, ...], ...]:
        """For each model its scores by every judge."""
        ...


def score_all(
    learner: Learner, flats_KD: Sequence[Flat], jobs: Sequence[Job]
) -> tuple[tuple[Score, ...], ...]:
    """For each model its scores by every judge."""
    if isinstance(learner, BatchLearner):
        return learner.score_many(flats_KD, jobs)
    return tuple(tuple(learner.score([flat_D], job)[0] for job in jobs) for flat_D in flats_KD)
