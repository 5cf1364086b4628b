"""One participant's learning: what a role asks for, and nothing about chains, stores or other participants."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from chainfl.codec import records
from chainfl.codec.commitments import training_seed
from chainfl.errors import InputError
from chainfl.learning.dataset import Dataset, Rows, Samples
from chainfl.learning.evaluate import Score, score
from chainfl.learning.models import Flat, build, initial_flat, integer_buffers, layout, spec_of
from chainfl.learning.partition import HELD_OUT, hold_out
from chainfl.learning.train import Recipe, train
from chainfl.types import WAD

LOSS = "cross-entropy"
OPTIMISER = "sgd"


@dataclass(frozen=True, slots=True)
class LearningSpec:
    """The part of a task's manifest that learning needs."""

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


def spec_of_manifest(manifest: records.Manifest) -> LearningSpec:
    """The part of a manifest that learning needs; names that are not installed here are refused."""
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


class Trainer:
    """Trains and scores for one participant; its seeds come from its master seed, its id and the round."""

    def __init__(
        self,
        spec: LearningSpec,
        train_on: Samples,
        held_out: Samples,
        *,
        master_seed: int,
        id_: int = 0,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        spec_of(spec.model)
        self.spec, self.train_on, self.held_out = spec, train_on, held_out.first(spec.score_samples)
        self._master_seed, self._id, self._device, self._threads = master_seed, id_, device, threads

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
        """A participant that owns these rows of a data set and holds out a tenth of them."""
        holding = hold_out(rows, training_seed(master_seed, "data", id_, 0), held)
        return cls(
            spec,
            dataset.rows(holding.train),
            dataset.rows(holding.held),
            master_seed=master_seed,
            id_=id_,
            device=device,
            threads=threads,
        )

    def on(self, train_on: Samples, held_out: Samples) -> "Trainer":
        """The same participant with other samples, as when it poisons its own."""
        return Trainer(
            self.spec,
            train_on,
            held_out,
            master_seed=self._master_seed,
            id_=self._id,
            device=self._device,
            threads=self._threads,
        )

    @property
    def layout(self) -> records.Layout:
        """The tensors of the model, as records name them."""
        return record_layout(self.spec.model)

    @property
    def samples(self) -> int:
        """How many samples it trains on; what a worker declares."""
        return len(self.train_on)

    def initial(self) -> Flat:
        """The task's first model, from the manifest's seed."""
        return initial_flat(self.spec.model, self.spec.initial_seed)

    def seed(self, round_: int) -> int:
        """The seed of its training in a round."""
        return training_seed(self._master_seed, "train", self._id, round_)

    def train(self, head_D: Flat, round_: int) -> Flat:
        """Its update of the head."""
        recipe = self.spec.recipe
        return train(
            self.spec.model,
            head_D,
            self.train_on,
            recipe,
            self.seed(round_),
            round_=round_,
            device=self._device,
        )

    def score(self, flats_KD: Sequence[Flat]) -> tuple[Score, ...]:
        """Each model's score on its first held-out samples."""
        return score(self.spec.model, flats_KD, self.held_out, threads=self._threads, device=self._device)


@cache
def record_layout(model: str) -> records.Layout:
    """The layout of the model called so, as manifests and model nodes hold it."""
    network = build(model)
    tensors = tuple(records.Tensor(name, shape) for name, shape in layout(network))
    return records.Layout(tensors, integer_buffers(network))
