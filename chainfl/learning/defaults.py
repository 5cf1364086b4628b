"""What an app does that brings no `train` or `score` of its own: a classifier's SGD and cross-entropy.

Its samples are pairs of an input and a class number, in anything that a DataLoader takes. A config may have `rate`,
`batch`, `epochs` and `momentum`.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from chainfl.errors import AppError
from chainfl.learning.calls import Context
from chainfl.learning.score import Score

RATE: Final = 0.05
BATCH: Final = 32
MOMENTUM: Final = 0.9
SCORED_AT_ONCE: Final = 256


def train(model: nn.Module, samples: Any, ctx: Context) -> dict[str, float]:
    """SGD on cross-entropy; answers the mean loss."""
    rate = getattr(ctx.config, "rate", RATE)
    momentum = getattr(ctx.config, "momentum", MOMENTUM)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.SGD(trained, lr=rate, momentum=momentum)
    loader = _loader(samples, getattr(ctx.config, "batch", BATCH), shuffle=True, generator=ctx.generator)

    total = steps = 0.0
    for _ in range(getattr(ctx.config, "epochs", 1)):
        for pair in loader:
            x, y = _pair(pair, ctx)
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            total += loss.item()
            steps += 1

    return {"train loss": total / max(1.0, steps)}


def score(model: nn.Module, samples: Any, ctx: Context) -> Score:
    """Mean cross-entropy and correct answers."""
    loss, correct, seen = 0.0, 0, 0
    for pair in _loader(samples, SCORED_AT_ONCE):
        x, y = _pair(pair, ctx)
        answers = model(x).double()
        loss += functional.cross_entropy(answers, y, reduction="sum").item()
        correct += int((answers.argmax(1) == y).sum())
        seen += len(y)
    return Score(loss / max(1, seen), correct, seen)


def _loader(samples: Any, batch: int, **options: Any) -> Any:
    """Batches of anything: a DataLoader stays as it is, tensors side by side become pairs."""
    if isinstance(samples, DataLoader):
        return samples
    if isinstance(samples, tuple):
        samples = torch.utils.data.TensorDataset(*(torch.as_tensor(each) for each in samples))
    if isinstance(samples, IterableDataset):
        options.pop("shuffle", None)  # it comes in the order that it has
    return DataLoader(samples, batch, **options)


def _pair(pair: Any, ctx: Context) -> tuple[Tensor, Tensor]:
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(p, Tensor) for p in pair)
    if not is_pair or pair[1].is_floating_point() or pair[1].ndim != 1:
        raise AppError(
            "the app brings no train() or score() of its own, and the default takes pairs of an input and a class "
            "number: write them, or give such samples"
        )
    return pair[0].to(ctx.device), pair[1].to(ctx.device)
