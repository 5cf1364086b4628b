"""Whether a device computes as the rest of chainfl expects, and how quickly: `chainfl doctor --device`.

Parameters must come back from the device as they went there. Training and scores may differ from the CPU's in their
last bits, as they may between two machines; by how much is said.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import torch

from chainfl.codec.scores import loss_score
from chainfl.codec.vector import Vector, decode, encode, to_signed
from chainfl.learning.compute import borrowed, pick_device
from chainfl.learning.datasets import load
from chainfl.learning.evaluate import score
from chainfl.learning.models import Flat, flatten, initial_flat, load_flat
from chainfl.learning.recipe import Recipe
from chainfl.learning.train import train

MODEL: Final = "mnist-cnn"
SCALE: Final = 20
TRAINED: Final = 320
SCORED: Final = 600
SEED: Final = 7

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What a device showed. Differences from the CPU are in steps of the fixed-point numbers, 2^-20 each."""

    device: str
    parameters: int
    parameters_come_back: bool
    trained_a_second: float
    scored_a_second: float
    same_parameters: int
    """Of an update trained on the device, those that the CPU's has too."""
    largest_difference: int
    same_score: bool
    score_difference: int
    """In units of 10^-12 of the loss."""


def check_device(name: str) -> SelfCheck:
    """Train and score a small round on the device and on the CPU.

    Raises:
        InputError: there is no such device here.
    """
    place = pick_device(name)
    data = load()
    own = data.rows(np.arange(TRAINED))
    held = data.rows(np.arange(TRAINED, TRAINED + SCORED))
    head_D = initial_flat(MODEL, SEED)
    recipe = Recipe(learning_rate=0.05)

    def update(device: str) -> Flat:
        return train(MODEL, head_D, own, recipe, SEED, device=device)

    update_D, train_seconds = _second(lambda: update(place.type))
    (judged,), score_seconds = _second(lambda: score(MODEL, [update_D], held, threads=1, device=place.type))

    found = encode(update_D, SCALE)
    expected = encode(update("cpu"), SCALE)
    apart_D = np.abs(to_signed(found).astype(np.int64) - to_signed(expected))
    own_score = loss_score(judged.loss)
    cpu_score = loss_score(score(MODEL, [update_D], held, threads=1)[0].loss)

    return SelfCheck(
        place.type,
        len(found),
        _comes_back(found, place),
        round(TRAINED / train_seconds, 1),
        round(SCORED / score_seconds, 1),
        int((apart_D == 0).sum()),
        int(apart_D.max()),
        own_score == cpu_score,
        abs(own_score - cpu_score),
    )


def _comes_back(u_D: Vector, place: torch.device) -> bool:
    """Whether a model's integers are the same after a stay on the device."""
    with borrowed(MODEL, place) as network:
        load_flat(network, decode(u_D, SCALE))
        return bool(np.array_equal(encode(flatten(network), SCALE), u_D))


def _second(work: Callable[[], T]) -> tuple[T, float]:
    """The answer, and the seconds of the second time: the first one loads what the device needs."""
    work()
    started = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - started
