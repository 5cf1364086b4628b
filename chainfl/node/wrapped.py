"""What trainers share that change how another one trains: everything else is the other one's."""

from collections.abc import Mapping
from dataclasses import dataclass

from chainfl.codec.records import Layout
from chainfl.ports import Trainer


@dataclass(slots=True)
class WrappedTrainer:
    """Around another trainer; `train` and `score` are each wrapper's own."""

    inner: Trainer

    @property
    def layout(self) -> Layout:
        """The tensors of the model."""
        return self.inner.layout

    @property
    def samples(self) -> int:
        """How many samples a training pass uses."""
        return self.inner.samples

    @property
    def metrics(self) -> Mapping[str, float]:
        """What the last training returned for the log, where the inner trainer keeps it; it stays with the node."""
        metrics: Mapping[str, float] = getattr(self.inner, "metrics", {})
        return metrics
