"""How a worker trains, as one value; it is read without torch."""

from dataclasses import dataclass, field

from chainfl.errors import InputError


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a worker trains: plain SGD on cross-entropy, with momentum and FedProx's proximal term as options.

    `local_steps`, if set, counts batches instead of epochs. From round `decay_at` on, the rate is multiplied
    by `decay`. The last batch of an epoch is smaller if the samples do not divide evenly, and counts as a step.
    """

    learning_rate: float = field(default=0.01, metadata={"help": "Workers' learning rate"})
    batch: int = field(default=32, metadata={"help": "Workers' batch size"})
    local_epochs: int = field(default=1, metadata={"help": "Passes over the local data"})
    local_steps: int | None = field(default=None, metadata={"help": "Batches instead of passes"})
    momentum: float = field(default=0.0, metadata={"help": "Workers' momentum"})
    proximal: float = field(default=0.0, metadata={"help": "FedProx's mu"})
    decay: float = field(default=1.0, metadata={"help": "Factor on the learning rate from --decay-at on"})
    decay_at: int | None = field(default=None, metadata={"help": "First round with the lower rate"})

    def __post_init__(self) -> None:
        for name, value in (("learning_rate", self.learning_rate), ("decay", self.decay)):
            if not 0 < value < float("inf"):
                raise InputError(f"{name} must be a positive number, not {value}")
        for name, value in (("batch", self.batch), ("local_epochs", self.local_epochs)):
            if value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        if self.local_steps is not None and self.local_steps < 1:
            raise InputError(f"local_steps must be at least 1, not {self.local_steps}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), not {self.momentum}")
        if not 0 <= self.proximal < float("inf"):
            raise InputError(f"proximal must not be negative, not {self.proximal}")

    @property
    def is_plain(self) -> bool:
        """Whether a step is nothing but the rate times the gradient."""
        return not self.momentum and not self.proximal

    def rate(self, round_: int) -> float:
        """The learning rate of a round."""
        decayed = self.decay_at is not None and round_ >= self.decay_at
        return self.learning_rate * (self.decay if decayed else 1.0)
