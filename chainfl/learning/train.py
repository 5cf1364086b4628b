"""Training: from a head and private samples to an update. The simulator and the node call this one function.

The result depends on model, head, samples, recipe, seed and round alone: it has the same bits alone, beside
other trainings, and in another process of the same machine. Shapes: K clients, D parameters.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from chainfl.errors import LengthError
from chainfl.learning.compute import batch_of, borrowed, check_fits, gathered, pick_device, side_by_side
from chainfl.learning.dataset import Rows, Samples
from chainfl.learning.dense import dense_layers, train_dense
from chainfl.learning.learner import Job as Job
from chainfl.learning.models import (
    Dense,
    Flat,
    flatten_into,
    floating_tensors,
    gather_tensors,
    load_flat,
    load_tensors,
)
from chainfl.learning.recipe import Recipe as Recipe


def train(
    model: str,
    head_D: Flat,
    samples: Samples,
    recipe: Recipe,
    seed: int,
    *,
    round_: int = 0,
    device: str = "cpu",
    out_D: Flat | None = None,
    losses: list[Tensor] | None = None,
) -> Flat:
    """The update: the head after local training, written to `out_D` if given; each step's loss is added to `losses`.

    Raises:
        InputError: samples and model do not fit.
        LengthError: the head does not have the model's length.
    """
    spec = check_fits(model, samples)
    place = pick_device(device)
    with borrowed(model, place) as network:
        tensors = floating_tensors(network)
        load_tensors(tensors, head_D)
        taken = batches(samples.rows, recipe, seed)

        # Networks of dense layers alone need no graph; the written-out steps give the same bits.
        layers = dense_layers(network) if recipe.is_plain else None
        if layers is not None:
            train_dense(layers, gathered(spec, samples, taken, place), recipe.rate(round_), losses)
            return gather_tensors(tensors, out_D)

        network.train()
        with _steps(network, recipe, recipe.rate(round_)) as step:
            for rows in taken:
                x, y = batch_of(spec, samples, rows, place)
                loss = functional.cross_entropy(network(x), y)
                step(loss)
                if losses is not None:
                    losses.append(loss.detach())
        return gather_tensors(tensors, out_D)


def train_many(
    model: str,
    head_D: Flat,
    jobs: Sequence[Job],
    recipe: Recipe,
    *,
    round_: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    out_KD: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Every client's update, in the order of the jobs; the same bits for any number of threads.

    Clients share the head, the data and the models they train in; only one row of the result is theirs. Those
    with most samples start first, so that the threads end together.

    Raises:
        LengthError: `out_KD` is not of KxD.
    """
    updates_KD = np.empty((len(jobs), len(head_D)), np.float32) if out_KD is None else out_KD
    if updates_KD.shape != (len(jobs), len(head_D)):
        raise LengthError(
            f"the result has {list(updates_KD.shape)} places for {len(jobs)} x {len(head_D)} numbers"
        )

    longest_first = sorted(range(len(jobs)), key=lambda k: -len(jobs[k].samples))

    work = [
        partial(
            train,
            model,
            head_D,
            jobs[k].samples,
            recipe,
            jobs[k].seed,
            round_=round_,
            device=device,
            out_D=updates_KD[k],
        )
        for k in longest_first
    ]
    side_by_side(work, threads)
    return updates_KD


def batches(rows: Rows, recipe: Recipe, seed: int) -> Iterator[Rows]:
    """The rows of each step: every epoch in a new order drawn from `seed`, cut into batches."""
    rng = np.random.Generator(np.random.Philox(seed))
    steps_an_epoch = -(-len(rows) // recipe.batch)
    remaining = recipe.local_steps or recipe.local_epochs * steps_an_epoch
    while remaining > 0:
        order = rows[rng.permutation(len(rows))]
        # Whole epochs, but the last one may end early: `local_steps` counts batches.
        for start in range(0, len(rows), recipe.batch)[:remaining]:
            yield order[start : start + recipe.batch]
        remaining -= steps_an_epoch


def gradient(model: str, flat_D: Flat, samples: Samples, *, chunk: int = 128, device: str = "cpu") -> Flat:
    """The gradient of the mean loss over all samples at `flat_D` (VaRSeL's ∇l, exact up to rounding)."""
    spec = check_fits(model, samples)
    place = pick_device(device)

    with borrowed(model, place) as network:
        load_flat(network, flat_D)
        network.eval()
        parameters = list(network.parameters())
        total = [torch.zeros_like(parameter) for parameter in parameters]

        for start in range(0, len(samples), chunk):
            x, y = batch_of(spec, samples, samples.rows[start : start + chunk], place)
            # A sum over the chunk by all samples: chunks of different sizes add up to the mean.
            loss = functional.cross_entropy(network(x), y, reduction="sum") / len(samples)
            for sum_, part in zip(total, torch.autograd.grad(loss, parameters), strict=True):
                sum_.add_(part)

        # Written into the network itself, so that the gradient is flattened in the same order as the parameters.
        with torch.no_grad():
            for tensor in network.state_dict().values():
                tensor.zero_() if tensor.is_floating_point() else None
            for parameter, sum_ in zip(parameters, total, strict=True):
                parameter.copy_(sum_)
        return flatten_into(network, None)


@contextmanager
def _steps(network: nn.Module, recipe: Recipe, rate: float) -> Iterator["_Step"]:
    """Steps of SGD; in plain SGD the dense layers take theirs by themselves."""
    own = [module for module in network.modules() if isinstance(module, Dense)] if recipe.is_plain else []
    moved = {id(module.weight) for module in own}
    for module in own:
        module.rate = rate
    try:
        yield _Step([each for each in network.parameters() if id(each) not in moved], recipe, rate)
    finally:
        for module in own:
            module.rate = None


class _Step:
    """One SGD step at a time; holds the momentum and, for FedProx, the head it must stay near."""

    __slots__ = ("head", "momentum", "parameters", "proximal", "rate", "speed")

    def __init__(self, parameters: list[nn.Parameter], recipe: Recipe, rate: float) -> None:
        self.parameters = parameters
        self.rate = rate
        self.momentum = recipe.momentum
        self.proximal = recipe.proximal
        self.head = [parameter.detach().clone() for parameter in self.parameters] if self.proximal else []
        self.speed: list[Tensor] = []

    def __call__(self, loss: Tensor) -> None:
        gradients = list(
            torch.autograd.grad(loss, self.parameters, allow_unused=True, materialize_grads=True)
        )
        with torch.no_grad():
            # FedProx: the slope of half the squared distance to the head.
            for k, head in enumerate(self.head):
                gradients[k] = gradients[k].add(self.parameters[k] - head, alpha=self.proximal)
            if self.momentum:
                gradients = self._with_momentum(gradients)
            for parameter, direction in zip(self.parameters, gradients, strict=True):
                parameter.add_(direction, alpha=-self.rate)

    def _with_momentum(self, gradients: list[Tensor]) -> list[Tensor]:
        if not self.speed:
            self.speed = [gradient.clone() for gradient in gradients]
        else:
            for speed, part in zip(self.speed, gradients, strict=True):
                speed.mul_(self.momentum).add_(part)
        return self.speed
