"""Handwritten digits: a small convolutional network with dropout, AdamW and shifted pictures."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import chainfl
from chainfl.learning.datasets import load


@dataclass
class Config:
    """What a sponsor may set: --app-config rate=0.003,batch=16."""

    rate: float = 1e-3
    batch: int = 32
    epochs: int = 1


config = Config()


def model():
    """The task's first model, as built here: pretrained weights stay."""
    features = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten()]
    return nn.Sequential(*features, nn.Dropout(0.2), nn.Linear(8 * 7 * 7, 10))


def data(where):
    """This participant's own samples: what it trains on, and what it holds out to judge updates with."""
    digits = load("mnist-embedded")  # they come with chainfl; --dataset mine.npz brings your own
    arrays = np.load(where) if where else {"x": digits.x, "y": digits.y}
    x, y = torch.tensor(arrays["x"]).float()[:, None] / 255, torch.tensor(arrays["y"]).long()
    held = len(y) // 10
    return TensorDataset(x[held:], y[held:]), TensorDataset(x[:held], y[:held])


def train(model, samples, ctx):
    """From the head to an update. torch, numpy and random are seeded; what is returned is for logs."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.epochs):
        for x, y in DataLoader(samples, ctx.config.batch, shuffle=True, generator=ctx.generator):
            shifted = x.roll(torch.randint(-2, 3, (2,)).tolist(), (2, 3))
            loss = functional.cross_entropy(model(shifted.to(ctx.device)), y.to(ctx.device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """The mean loss, less is better; correct answers if there are any. In eval mode and without gradients."""
    x, y = next(iter(DataLoader(samples, len(samples))))
    answers = model(x.to(ctx.device)).cpu()
    correct = int((answers.argmax(1) == y).sum())
    return chainfl.Score(functional.cross_entropy(answers, y).item(), correct, len(y))
