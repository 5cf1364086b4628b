"""How good a model is: the noun that apps, validators and plots share. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Score:
    """How a model does on some samples; `loss` is NaN or infinite where the model's answers are.

    `correct` of `samples` is for classifiers; without them there is no accuracy. `metrics` are for logs and plots.
    """

    loss: float
    correct: int = 0
    samples: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def accuracy(self) -> float:
        """The part of the samples it names correctly; NaN where none are counted."""
        return self.correct / self.samples if self.samples else float("nan")
