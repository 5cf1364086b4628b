"""Regression of quantiles: how late will a parcel be, at best, usually and at worst? The loss is the pinball loss."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import chainfl

QUANTILES = (0.1, 0.5, 0.9)


@dataclass
class Config:
    """What a sponsor may set."""

    rate: float = 0.01
    steps: int = 60
    batch: int = 64


config = Config()


class Quantiles(nn.Module):
    """A network behind a scale that is learned from the data; the scale is a buffer, so it is shared too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))
        self.register_buffer("spread", torch.ones(5))
        self.layers = nn.Sequential(nn.Linear(5, 24), nn.SiLU(), nn.Linear(24, len(QUANTILES)))

    def forward(self, x):
        """One number for each quantile."""
        return self.layers((x - self.mean) / self.spread)


def model():
    """The task's first model."""
    return Quantiles()


def data(where):
    """A NumPy file with six columns, the last one to be foretold; without one, parcels that are made up."""
    table = np.load(where) if where else parcels()
    table = torch.tensor(table).float()
    return table[300:], table[:300]


def parcels(rows=3000):
    """Distance, weight, hour, rain, day of the week; the delay grows with distance and rain, and so does its spread."""
    rng = np.random.default_rng(11)
    distance, rain = rng.gamma(2, 40, rows), rng.random(rows)
    others = rng.random((rows, 3)) * (30, 24, 7)
    delay = 0.05 * distance + 4 * rain + rng.exponential(0.5 + 3 * rain)
    return np.column_stack((distance, others[:, 0], others[:, 1], rain, others[:, 2], delay))


def pinball(answers, y):
    """Being too low costs q, being too high 1 - q."""
    error = y[:, None] - answers
    q = torch.tensor(QUANTILES, device=answers.device)
    return torch.maximum(q * error, (q - 1) * error).mean()


def train(model, samples, ctx):
    """Adam over batches drawn at random."""
    samples = samples.to(ctx.device)
    model.mean.lerp_(samples[:, :-1].mean(0), 0.5)
    model.spread.lerp_(samples[:, :-1].std(0), 0.5)
    optimiser = torch.optim.Adam(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.steps):
        batch = samples[torch.randint(len(samples), (ctx.config.batch,), generator=ctx.generator)]
        loss = pinball(model(batch[:, :-1]), batch[:, -1])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """The pinball loss, and how often the truth lies between the outer quantiles."""
    samples = samples.to(ctx.device)
    answers, y = model(samples[:, :-1]), samples[:, -1]
    inside = ((y > answers[:, 0]) & (y < answers[:, 2])).float().mean().item()
    return chainfl.Score(pinball(answers, y).item(), metrics={"inside": inside})
