"""How large a task may be for us: a sponsor chooses its terms freely, and every step of a round holds whole models.

A model node can name one small chunk thousands of times, so what lies in a store says nothing about what reading it
takes. The task's own terms do, and they are known before the first byte is asked for.
"""

from dataclasses import dataclass

from chainfl.errors import ModelTooLargeError
from chainfl.types import TaskConfig

_PARAMETER_BYTES = 4
_BESIDES_UPDATES = 4
"""Models that a step holds besides the updates: the head, the result, its bytes, and one that is being read."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most parameters of a model, and the most bytes that one step may hold in memory."""

    parameters: int = 1 << 27
    memory: int = 8 << 30


DEFAULT_LIMITS = Limits()


def step_bytes(dimension: int, updates: int) -> int:
    """What redoing a round with this many updates holds in memory."""
    return _PARAMETER_BYTES * dimension * (updates + _BESIDES_UPDATES)


def check_size(config: TaskConfig, limits: Limits, updates: int | None = None) -> None:
    """Refuse a task that is too large, from its terms alone; `updates` are a round's, else as many as there may be.

    Raises:
        ModelTooLargeError: says by how much, and which limit to raise.
    """
    dimension = config.dimension
    if dimension > limits.parameters:
        raise ModelTooLargeError(
            f"the task's models have {dimension} parameters, more than the {limits.parameters} allowed here: "
            "leave it alone, or raise --max-parameters"
        )

    count = config.max_updates if updates is None else updates
    needed = step_bytes(dimension, count)
    if needed > limits.memory:
        raise ModelTooLargeError(
            f"{count} updates of {dimension} parameters take {_mib(needed)} MiB of memory, more than the "
            f"{_mib(limits.memory)} allowed here: leave the task alone, or raise --max-memory-mib"
        )


def _mib(size: int) -> int:
    return -(-size // (1 << 20))
