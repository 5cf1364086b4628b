"""Differential privacy at the worker: an update's difference from the head is clipped, then Gaussian noise is added.

What that protects, and what not, is in docs/privacy.md. Shapes: D parameters.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.records import Layout
from chainfl.errors import AppError, InputError, ToolMissingError
from chainfl.learning.learner import Flat
from chainfl.tools import pip_install

NAMES: Final = ("clip", "noise", "delta")
Normal = Callable[[int], NDArray[np.float64]]
"""So many independent numbers from the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class Privacy:
    """`clip` bounds the L2 norm of the difference, `noise` is the deviation of the noise in units of it."""

    clip: float
    noise: float
    delta: float


def parse_privacy(text: str) -> Privacy:
    """`clip=1.0,noise=1.1,delta=1e-5` as a value; all three are needed.

    Raises:
        InputError: it is written otherwise, or a number makes no sense.
    """
    values: dict[str, float] = {}
    for item in text.split(","):
        name, _, value = item.strip().partition("=")
        try:
            values[name] = float(value)
        except ValueError:
            raise InputError(f"--dp {text!r}: write clip=1.0,noise=1.1,delta=1e-5") from None
    if sorted(values) != sorted(NAMES) or not all(0 < each < math.inf for each in values.values()):
        raise InputError(
            f"--dp {text!r}: give clip, noise and delta, each above 0, such as clip=1.0,noise=1.1,delta=1e-5"
        )
    if values["delta"] >= 1:
        raise InputError(f"--dp {text!r}: delta is a probability, far below 1")
    return Privacy(**values)


def expect_bearable(layout: Layout) -> None:
    """Refuse tensors that noise makes useless: a batch norm divides by the root of its variance.

    Raises:
        InputError: running variances are trained together.
    """
    for tensor in layout.tensors:
        if tensor.name.rpartition(".")[2] == "running_var":
            raise InputError(
                f"--dp: noise makes {tensor.name} negative, and a batch norm without a variance gives no numbers: use "
                "nn.GroupNorm or nn.LayerNorm, or a batch norm with track_running_stats=False"
            )


def private_update(head_D: Flat, update_D: Flat, privacy: Privacy, normal: Normal) -> Flat:
    """The head, plus the clipped difference, plus noise.

    Raises:
        AppError: the update is no number somewhere; nothing is released.
    """
    difference_D = update_D.astype(np.float64) - head_D
    norm = float(np.linalg.norm(difference_D))
    if not math.isfinite(norm):
        raise AppError("training left a value that is no number: nothing can be clipped")

    difference_D *= min(1.0, privacy.clip / norm) if norm else 1.0
    difference_D += privacy.clip * privacy.noise * normal(len(difference_D))
    return (head_D + difference_D).astype(np.float32)


def epsilon(history: Sequence[tuple[float, int]], delta: float) -> float:
    """The ε at this δ of so many updates with such noise, by Opacus' Rényi accountant.

    No amplification by sampling is claimed: every update counts in full.

    Raises:
        ToolMissingError: Opacus is not installed.
    """
    try:
        from opacus.accountants import RDPAccountant
    except ImportError as error:
        raise ToolMissingError(f"--dp needs opacus, which is not installed: {pip_install('dp')}") from error
    if not any(count for _, count in history):
        return 0.0
    accountant = RDPAccountant()
    accountant.history = [(noise, 1.0, count) for noise, count in history if count]
    with warnings.catch_warnings():
        # Very little or very much noise: the bound holds, another order could only be tighter.
        warnings.filterwarnings("ignore", "Optimal order is")
        return float(accountant.get_epsilon(delta))


def seeded_normal(seed: int) -> Normal:
    """Noise that a seed gives again: for simulations, where nothing is to be kept from anybody."""
    return np.random.Generator(np.random.Philox(seed)).standard_normal


def secure_normal(random_bytes: Callable[[int], bytes]) -> Normal:
    """Noise from the system's source of random bytes, by Box and Muller's method."""

    def normal(size: int) -> NDArray[np.float64]:
        words = np.frombuffer(random_bytes(16 * size), "<u8").reshape(2, size)
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # never 0
        radius = np.sqrt(-2 * np.log(uniform[0]))
        return np.asarray(radius * np.cos(2 * np.pi * uniform[1]))

    return normal
