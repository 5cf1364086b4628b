"""A vision model of one's own: residual blocks with batch norm, turned pictures, a rate that falls with the rounds."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import chainfl
from chainfl.learning.datasets import load


@dataclass
class Config:
    """What a sponsor may set."""

    rate: float = 0.02
    batch: int = 32
    smoothing: float = 0.05


config = Config()


class Block(nn.Module):
    """Two convolutions beside the way around them."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width, momentum=0.3)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        """x and what the block adds to it."""
        return functional.relu(x + self.second(functional.relu(self.norm(self.first(x)))))


class Turned(Dataset):
    """Digits, in training each turned by one pixel up, down, left or right; random numbers are torch's own."""

    def __init__(self, rows, is_training):
        digits = load("mnist-embedded")
        self.x = torch.tensor(digits.x[rows]).float()[:, None] / 255
        self.y = torch.tensor(digits.y[rows])
        self.is_training = is_training

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        x = self.x[row]
        if self.is_training:
            x = x.roll(int(torch.randint(-1, 2, ())), dims=int(torch.randint(1, 3, ())))
        return x, self.y[row]


def model():
    """Stem, two blocks, mean over the picture."""
    stem = [nn.Conv2d(1, 12, 4, stride=4), nn.ReLU()]
    return nn.Sequential(
        *stem, Block(12), Block(12), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 10)
    )


def data(where):
    """The digits that come with chainfl."""
    del where
    return Turned(slice(400, 3000), True), Turned(slice(0, 400), False)


def train(model, samples, ctx):
    """SGD with Nesterov's momentum; the rate falls from round to round."""
    rate = ctx.config.rate * 0.98**ctx.round
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True)
    total = 0.0
    loader = DataLoader(samples, ctx.config.batch, shuffle=True, generator=ctx.generator)
    for x, y in loader:
        answers = model(x.to(ctx.device))
        loss = functional.cross_entropy(answers, y.to(ctx.device), label_smoothing=ctx.config.smoothing)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item()
    return {"train loss": total / len(loader)}


def score(model, samples, ctx):
    """Cross-entropy and correct answers."""
    x, y = next(iter(DataLoader(samples, len(samples))))
    answers = model(x.to(ctx.device)).cpu()
    correct = int((answers.argmax(1) == y).sum())
    return chainfl.Score(functional.cross_entropy(answers, y).item(), correct, len(y))
