"""One participant's learning: what a role asks for, and nothing about chains, stores or other participants."""

from collections.abc import Mapping, Sequence
from typing import Any

from chainfl.codec import records
from chainfl.codec.commitments import training_seed
from chainfl.learning.builtin import BuiltIn, LearningSpec, spec_of_manifest
from chainfl.learning.builtin import record_layout as record_layout
from chainfl.learning.dataset import Dataset, Rows, Samples
from chainfl.learning.learner import Flat, Job, Learner
from chainfl.learning.models import spec_of
from chainfl.learning.partition import HELD_OUT, hold_out
from chainfl.learning.samples import count, first
from chainfl.learning.score import Score

__all__ = ["LearningSpec", "Trainer", "record_layout", "spec_of_manifest"]


class Trainer:
    """Trains and scores for one participant; its seeds come from its master seed, its id and the round."""

    def __init__(
        self,
        learner: Learner,
        train_on: Any,
        held_out: Any,
        *,
        score_samples: int,
        master_seed: int,
        id_: int = 0,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.learner = learner
        self.train_on = train_on
        self.held_out = first(held_out, score_samples)
        self.score_samples = score_samples
        self.threads = threads
        self._master_seed = master_seed
        self._id = id_
        self._device = device

    @classmethod
    def of_rows(
        cls,
        spec: LearningSpec,
        dataset: Dataset,
        rows: Rows,
        *,
        master_seed: int,
        id_: int = 0,
        held: float = HELD_OUT,
        device: str = "cpu",
        threads: int | None = None,
    ) -> "Trainer":
        """A participant of the built-in app that owns these rows of a data set and holds out a tenth of them."""
        spec_of(spec.model)
        holding = hold_out(rows, training_seed(master_seed, "data", id_, 0), held)
        return cls(
            BuiltIn(spec),
            dataset.rows(holding.train),
            dataset.rows(holding.held),
            score_samples=spec.score_samples,
            master_seed=master_seed,
            id_=id_,
            device=device,
            threads=threads,
        )

    def on(self, train_on: Samples, held_out: Samples) -> "Trainer":
        """The same participant with other samples, as when it poisons its own."""
        return Trainer(
            self.learner,
            train_on,
            held_out,
            score_samples=self.score_samples,
            master_seed=self._master_seed,
            id_=self._id,
            device=self._device,
            threads=self.threads,
        )

    @property
    def layout(self) -> records.Layout:
        """The tensors of the model, as records name them."""
        return self.learner.layout

    @property
    def samples(self) -> int:
        """How many samples it trains on, at least one; what a worker declares."""
        return count(self.train_on) or 1

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of the app's last training, such as its loss."""
        return self.learner.metrics

    def initial(self) -> Flat:
        """The task's first model."""
        return self.learner.initial()

    def seed(self, round_: int) -> int:
        """The seed of its training in a round."""
        return training_seed(self._master_seed, "train", self._id, round_)

    def train_job(self, round_: int, samples: Any = None) -> Job:
        """Its samples, or these in their place, and its seed of the round."""
        return Job(self.train_on if samples is None else samples, self.seed(round_), self.threads)

    def score_job(self, samples: Any = None) -> Job:
        """Its held-out samples, or these in their place, and the seed of its scoring, which no round changes."""
        held = self.held_out if samples is None else samples
        return Job(held, training_seed(self._master_seed, "score", self._id, 0), self.threads)

    def train(self, head_D: Flat, round_: int) -> Flat:
        """Its update of the head."""
        return self.learner.train(head_D, self.train_job(round_), round_, device=self._device)

    def score(self, flats_KD: Sequence[Flat]) -> tuple[Score, ...]:
        """Each model's score on its first held-out samples."""
        return self.learner.score(flats_KD, self.score_job(), device=self._device)
