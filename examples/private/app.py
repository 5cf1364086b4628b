"""Private training: few parameters, so that noise which hides a whole update leaves something to learn.

chainfl simulate --app examples/private --participants 24 --committee 3 --rounds 6 --dp clip=1.0,noise=1.1,delta=1e-5
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

TRUTH = torch.tensor([2.0, -1.0, 0.5, 1.5, -2.0])
SAMPLES = 4000


@dataclass
class Config:
    """What a sponsor may set."""

    rate: float = 0.1
    steps: int = 30


config = Config()


def model():
    """A linear model from zero: the noise of a round grows with the square root of the number of parameters."""
    layer = nn.Linear(len(TRUTH), 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def data(where):
    """Measurements that a hidden rule explains but for some noise of their own."""
    del where
    x = torch.randn(SAMPLES, len(TRUTH))
    y = x @ TRUTH + 1 + 0.5 * torch.randn(SAMPLES)
    return (x[400:], y[400:]), (x[:400], y[:400])


def train(model, samples, ctx):
    """Gradient descent on all samples: a smooth step in the right direction, for its length is clipped anyway."""
    x, y = (each.to(ctx.device) for each in samples)
    optimiser = torch.optim.SGD(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.steps):
        loss = functional.mse_loss(model(x).squeeze(1), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """The mean squared error."""
    x, y = (each.to(ctx.device) for each in samples)
    return functional.mse_loss(model(x).squeeze(1), y)
