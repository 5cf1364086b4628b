"""A language model: a small causal transformer over the bytes of a text."""

import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import chainfl

LENGTH = 24


@dataclass
class Config:
    """What a sponsor may set."""

    rate: float = 3e-3
    batch: int = 16
    epochs: int = 1


config = Config()


class Transformer(nn.Module):
    """Bytes and places, one layer of attention that looks back only, scores of the next byte."""

    def __init__(self, width=32):
        super().__init__()
        self.letters = nn.Embedding(256, width)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.answer = nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, x):
        """Scores of the next byte at every place."""
        return self.answer(self.layer(self.letters(x) + self.places, src_mask=self.mask))


def model():
    """The task's first model."""
    return Transformer()


def data(where):
    """Pieces of a text file, every tenth held out; without one, sums written as text."""
    if where:
        text = Path(where).read_text(encoding="utf-8")
    else:
        rng = random.Random(3)
        pairs = ((rng.randrange(10), rng.randrange(10)) for _ in range(1500))
        text = " ".join(f"{a} and {b} are {a + b}." for a, b in pairs)
    letters = torch.tensor(list(text.encode()))
    pieces = letters[: len(letters) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    is_held = torch.arange(len(pieces)) % 10 == 0
    return pieces[~is_held], pieces[is_held]


def loss_of(model, pieces):
    """The mean loss of every byte that comes next."""
    return functional.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())


def train(model, samples, ctx):
    """AdamW, a few pieces at a time."""
    samples = samples.to(ctx.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.epochs):
        for rows in torch.randperm(len(samples), generator=ctx.generator).split(ctx.config.batch):
            loss = loss_of(model, samples[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """Nats a byte, and bits for the log."""
    loss = loss_of(model, samples.to(ctx.device)).item()
    return chainfl.Score(loss, metrics={"bits a byte": loss / 0.6931})
