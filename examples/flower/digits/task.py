"""The model, one client's part of the digits, and how they are trained and tested; nothing here knows of Flower."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from chainfl.learning.datasets import load

HELD_OUT = 0.2


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 5, stride=2)
        self.fc = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x):
        """Scores of the ten digits."""
        x = functional.relu(self.norm(self.conv1(x)))
        return self.fc(functional.relu(self.conv2(x)).flatten(1))


def load_data(partition_id, num_partitions, batch_size):
    """Loaders of one partition: what it trains on, what it holds out."""
    digits = load("mnist-embedded")
    rows = torch.arange(len(digits.x))[partition_id::num_partitions]
    x = torch.tensor(digits.x)[rows].float()[:, None] / 255
    y = torch.tensor(digits.y)[rows].long()
    held = int(len(rows) * HELD_OUT)
    trained = DataLoader(TensorDataset(x[held:], y[held:]), batch_size, shuffle=True)
    return trained, DataLoader(TensorDataset(x[:held], y[:held]), 256)


def train(net, loader, epochs, rate, device):
    """Adam on cross-entropy; the mean loss."""
    net.to(device).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    total = 0.0
    for _ in range(epochs):
        for x, y in loader:
            loss = functional.cross_entropy(net(x.to(device)), y.to(device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item()
    return total / (epochs * len(loader))


def test(net, loader, device):
    """The mean loss, and which part is named correctly."""
    net.to(device).eval()
    loss, correct, seen = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            answers = net(x.to(device)).cpu()
            loss += functional.cross_entropy(answers, y, reduction="sum").item()
            correct += int((answers.argmax(1) == y).sum())
            seen += len(y)
    return loss / seen, correct / seen
