"""Networks of dense layers alone, their steps of plain SGD and answers written out: torch's bits without its graph.

With small layers nine tenths of a step are torch's bookkeeping, not arithmetic. The operations are those that autograd
would call, in its order, on the same memory; `tests/learning/test_dense.py` compares every bit.
"""

from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from chainfl.learning.models import DenseNet

_ATEN: Final = torch.ops.aten


def dense_layers(network: nn.Module) -> list[nn.Linear] | None:
    """The layers of a network of dense layers and nothing else; None for any other network."""
    if not isinstance(network, DenseNet):
        return None
    return [module for module in network.dense if isinstance(module, nn.Linear)]


def dense_views(layers: list[nn.Linear]) -> list[tuple[Tensor, Tensor]]:
    """Each layer's bias and its weight as a product takes it: views, which follow what is loaded later."""
    return [(layer.bias, layer.weight.t()) for layer in layers]


def dense_answers(views: list[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """What the network answers: the same bits as its own, without the calls between modules."""
    taken = x.flatten(1)
    for bias, weight in views[:-1]:
        taken = torch.addmm(bias, taken, weight).relu_()
    bias, weight = views[-1]
    return torch.addmm(bias, taken, weight)


@torch.no_grad()
def train_dense(
    layers: list[nn.Linear],
    batches: Iterable[tuple[Tensor, Tensor]],
    rate: float,
    losses: list[Tensor] | None = None,
) -> None:
    """A step of plain SGD on the mean cross-entropy for each batch of samples and labels, in place.

    Each step's loss is added to `losses`, where they are asked for.
    """
    weights = [(layer.weight.data, layer.bias.data) for layer in layers]
    for x, y in batches:
        _step(weights, x.flatten(1), y, rate, losses)


def _step(
    weights: list[tuple[Tensor, Tensor]], x: Tensor, y: Tensor, rate: float, losses: list[Tensor] | None
) -> None:
    inputs = [x]
    for weight, bias in weights[:-1]:
        inputs.append(torch.addmm(bias, inputs[-1], weight.t()).relu_())
    weight, bias = weights[-1]
    logs = torch.log_softmax(torch.addmm(bias, inputs[-1], weight.t()), 1)
    slopes = _slopes_of_loss(logs, y)
    if losses is not None:
        losses.append(functional.nll_loss(logs, y))

    for (weight, bias), taken in zip(reversed(weights), reversed(inputs), strict=True):
        # The slopes of what came in are needed before the weight moves.
        before = None if taken is x else _ATEN.threshold_backward(slopes @ weight, taken, 0)
        weight.addmm_(slopes.t(), taken, alpha=-rate)
        bias.add_(slopes.sum(0), alpha=-rate)
        if before is not None:
            slopes = before


def _slopes_of_loss(logs: Tensor, y: Tensor) -> Tensor:
    """What autograd gives for the mean cross-entropy, from the logarithms of the softmax."""
    of_logs = torch.zeros_like(logs)
    of_logs.scatter_(1, y.unsqueeze(1), -1 / len(y))
    slopes: Tensor = _ATEN._log_softmax_backward_data(of_logs, logs, 1, logs.dtype)
    return slopes
