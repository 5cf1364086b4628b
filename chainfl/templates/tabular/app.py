"""Numbers in a table: regression with a small network. Less is better: the loss is the mean squared error."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import chainfl


@dataclass
class Config:
    """What a sponsor may set: --app-config rate=0.01,epochs=5."""

    rate: float = 1e-2
    epochs: int = 3
    batch: int = 64


config = Config()


def model():
    """The task's first model, as built here."""
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.BatchNorm1d(32), nn.Linear(32, 1))


def data(where):
    """A pair of tensors, x with 8 columns and y, to train on, and another held out; `where` is a CSV file, y last."""
    table = np.loadtxt(where, delimiter=",", skiprows=1) if where else made_up()
    x, y = torch.tensor(table[:, :-1]).float(), torch.tensor(table[:, -1:]).float()
    held = len(y) // 10
    return (x[held:], y[held:]), (x[:held], y[:held])


def made_up(rows=4000):
    """A table to start with: the last column is a curved function of the others, with noise."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, 8))
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.5 * x[:, 3] + 0.1 * rng.normal(size=rows)
    return np.column_stack((x, y))


def train(model, samples, ctx):
    """From the head to an update. torch, numpy and random are seeded; what is returned is for logs."""
    x, y = (each.to(ctx.device) for each in samples)
    optimiser = torch.optim.Adam(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.epochs):
        for rows in torch.randperm(len(x), generator=ctx.generator).split(ctx.config.batch):
            if len(rows) == 1:  # a batch norm needs two
                continue
            loss = functional.mse_loss(model(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """The mean squared error; what else is told is for logs and plots. In eval mode and without gradients."""
    x, y = (each.to(ctx.device) for each in samples)
    answers = model(x)
    mean_error = functional.l1_loss(answers, y).item()
    return chainfl.Score(functional.mse_loss(answers, y).item(), metrics={"mean error": mean_error})
