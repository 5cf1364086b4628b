"""Characters: a small recurrent network that learns to go on with a text. The loss is in nats a character."""

import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import chainfl

LETTERS = " abcdefghijklmnopqrstuvwxyz.,;:!?'-\n"
LENGTH = 32  # characters of a sample


@dataclass
class Config:
    """What a sponsor may set: --app-config rate=0.005,epochs=2."""

    rate: float = 5e-3
    epochs: int = 1
    batch: int = 16


config = Config()


class NextLetter(nn.Module):
    """Embedding, GRU, and a score for each letter that may come next."""

    def __init__(self, width=48):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 16)
        self.memory = nn.GRU(16, width, batch_first=True)
        self.answer = nn.Linear(width, len(LETTERS))

    def forward(self, letters):
        """Scores of the next letter, at every place."""
        return self.answer(self.memory(self.embedding(letters))[0])


def model():
    """The task's first model, as built here."""
    return NextLetter()


def data(where):
    """Pieces of a text file: most to train on, every tenth held out; without one, sentences that are made up."""
    text = Path(where).read_text(encoding="utf-8") if where else made_up()
    known = [LETTERS.index(letter) for letter in text.lower() if letter in LETTERS]
    pieces = torch.tensor(known[: len(known) // (LENGTH + 1) * (LENGTH + 1)]).view(-1, LENGTH + 1)
    is_held = torch.arange(len(pieces)) % 10 == 0
    return pieces[~is_held], pieces[is_held]


def made_up(sentences=1000):
    """A text to start with."""
    rng = random.Random(7)
    who, does, what = (
        ("the miner", "a worker", "one of us"),
        ("trains", "finds", "shows"),
        ("a model", "the head"),
    )
    return "".join(f"{rng.choice(who)} {rng.choice(does)} {rng.choice(what)}. " for _ in range(sentences))


def loss_of(model, pieces, ctx):
    """The mean loss of every letter that comes next."""
    pieces = pieces.to(ctx.device)
    answers = model(pieces[:, :-1])
    return functional.cross_entropy(answers.flatten(0, 1), pieces[:, 1:].flatten())


def train(model, samples, ctx):
    """From the head to an update. torch, numpy and random are seeded; what is returned is for logs."""
    optimiser = torch.optim.Adam(model.parameters(), lr=ctx.config.rate)
    for _ in range(ctx.config.epochs):
        for rows in torch.randperm(len(samples), generator=ctx.generator).split(ctx.config.batch):
            loss = loss_of(model, samples[rows], ctx)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
    return {"train loss": loss.item()}


def score(model, samples, ctx):
    """The mean loss, less is better; bits a character for the log. In eval mode and without gradients."""
    loss = loss_of(model, samples, ctx).item()
    return chainfl.Score(loss, metrics={"bits a character": loss / 0.6931})
