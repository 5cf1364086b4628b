"""Apps as strangers write them: what PyTorch can do beyond a classifier works, or is refused in one line."""

import re
from pathlib import Path

import numpy as np
import pytest

from chainfl.errors import AppError
from chainfl.learning.app import App, load_app
from chainfl.learning.check import NOTE, OK, WRONG, Trial, check_app
from chainfl.learning.samples import count, take
from chainfl.learning.trainer import Trainer

HEAD = """
import random
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset


def labelled(rows=60):
    x = torch.randn(rows, 4)
    return x, (x.sum(1) > 0).long()


def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def data(where):
    x, y = labelled()
    return (x[10:], y[10:]), (x[:10], y[:10])
"""

LOOP = """

def train(model, samples, ctx):
    optimiser = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], 0.1)
    for _ in range(3):
        loss = functional.cross_entropy(model(samples[0]).float(), samples[1])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def score(model, samples, ctx):
    return functional.cross_entropy(model(samples[0]).float(), samples[1]).item()
"""

TWO_OPTIMISERS = """

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.maker, self.critic = nn.Linear(2, 2), nn.Linear(2, 1)


def model():
    return Pair()


def data(where):
    x = torch.randn(60, 2) * 0.3 + 1
    return x[10:], x[:10]


def train(model, samples, ctx):
    makes, criticises = (torch.optim.Adam(each.parameters(), 0.01) for each in (model.maker, model.critic))
    judge = nn.BCEWithLogitsLoss()
    for rows in torch.randperm(len(samples), generator=ctx.generator).split(16):
        made, yes, no = model.maker(torch.randn(len(rows), 2)), torch.ones(len(rows), 1), torch.zeros(len(rows), 1)
        loss = judge(model.critic(samples[rows]), yes) + judge(model.critic(made.detach()), no)
        criticises.zero_grad()
        loss.backward()
        criticises.step()
        fooled = judge(model.critic(made), yes)
        makes.zero_grad()
        fooled.backward()
        makes.step()
    return {"critic": loss, "maker": fooled}


def score(model, samples, ctx):
    made = model.maker(torch.randn(40, 2, generator=ctx.generator))
    return (made.mean(0) - samples.mean(0)).abs().sum()
"""

INTEGERS = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(10) % 5)
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("phase", torch.ones(3, dtype=torch.complex64))
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.words, self.out = nn.Embedding(5, 4), nn.Linear(4, 2)

    def forward(self, x):
        if self.training:
            self.steps += 1
        return self.out(self.words(self.table[x]) * self.scale) / (1 + self.steps)


def model():
    return Net()


def data(where):
    x = torch.arange(60) % 10
    return (x[10:], x[10:] % 2), (x[:10], x[:10] % 2)
"""

PACKED = """
from torch.nn.utils.rnn import pack_sequence


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, sequences):
        _, (last, _) = self.cells(pack_sequence(sequences, enforce_sorted=False))
        return self.out(last[0])


def model():
    return Net()


def data(where):
    pairs = [(torch.randn(random.randint(2, 8), 3), row % 2) for row in range(60)]
    return pairs[10:], pairs[:10]


def loss_of(model, samples):
    return functional.cross_entropy(model([x for x, _ in samples]), torch.tensor([y for _, y in samples]))


def train(model, samples, ctx):
    optimiser = torch.optim.AdamW(model.parameters(), 0.01)
    loss_of(model, samples).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()


def score(model, samples, ctx):
    return loss_of(model, samples)
"""

COLUMNS = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, inputs, labels):
        logits = self.out(inputs)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits}


def model():
    return Net()


def data(where):
    x, y = labelled()
    return {"inputs": x[10:], "labels": y[10:]}, {"inputs": x[:10], "labels": y[:10]}


def train(model, samples, ctx):
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    model(**samples)["loss"].backward()
    optimiser.step()


def score(model, samples, ctx):
    return model(**samples)["loss"]
"""

AUGMENTED = """

class Noisy(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.x[row] + 0.1 * torch.randn(4) + random.gauss(0, 0.01) + float(np.random.rand()), self.y[row]


def data(where):
    x, y = labelled()
    return Noisy(x[10:], y[10:]), Noisy(x[:10], y[:10])


def train(model, samples, ctx):
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in DataLoader(samples, 16, shuffle=True, generator=ctx.generator, num_workers=WORKERS):
        functional.cross_entropy(model(x), y).backward()
        optimiser.step()


def score(model, samples, ctx):
    x, y = next(iter(DataLoader(samples, 10)))
    return functional.cross_entropy(model(x), y).item()
"""

SOLVED = """

def train(model, samples, ctx):
    x, y = samples
    with torch.no_grad():
        hidden = model[1](model[0](x)).numpy()
    found = np.linalg.lstsq(hidden, np.eye(2)[y.numpy()], rcond=None)[0]
    model[2].weight.data = torch.tensor(found.T, dtype=torch.float32)


def score(model, samples, ctx):
    return functional.cross_entropy(model(samples[0]), samples[1]).item()
"""

NEWTON = """

def train(model, samples, ctx):
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def again():
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(samples[0]), samples[1])
        loss.backward()
        return loss

    optimiser.step(again)
"""

BESIDE = """

WIDTHS = [int(word) for word in (Path(__file__).parent / "widths.txt").read_text().split()]


def model():
    return nn.Sequential(nn.Linear(4, WIDTHS[0]), nn.ReLU(), nn.Linear(WIDTHS[0], WIDTHS[1]))
"""

STREAM = """

class Stream(IterableDataset):
    def __iter__(self):
        for row in range(50):
            yield torch.ones(4) * row / 50, row % 2


def data(where):
    return Stream(), Stream()
"""

NET = "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))"


def built(how: str, more: str = LOOP) -> str:
    """An app whose `model` is this expression of NET, the usual one."""
    return f"{HEAD}\n\ndef model():\n    return {how.replace('NET', NET)}\n{more}"


GRAPH = """

class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("links", torch.eye(9).to_sparse()PERSISTENT)
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x) * self.links.sum()


def model():
    return Graph()
"""

WORKING = {
    "a sparse buffer that is not trained": HEAD + GRAPH.replace("PERSISTENT", ", persistent=False") + LOOP,
    "a sparse buffer beside what is chosen": HEAD
    + GRAPH.replace("PERSISTENT", "")
    + "\n\ndef parameters(model):\n    return model.layer.named_parameters()\n"
    + LOOP,
    "two optimisers": HEAD + TWO_OPTIMISERS,
    "integer, complex and scalar tensors": HEAD + INTEGERS + LOOP,
    "packed sequences": HEAD + PACKED,
    "columns by name": HEAD + COLUMNS,
    "random augmentation": HEAD + AUGMENTED.replace("WORKERS", "0"),
    "a loader with workers": HEAD + AUGMENTED.replace("WORKERS", "2"),
    "compiled": built("torch.compile(NET, backend='aot_eager')"),
    "in half": built("NET.half()").replace("model(samples[0])", "model(samples[0].half())"),
    "in bfloat16": built("NET.bfloat16()").replace("model(samples[0])", "model(samples[0].bfloat16())"),
    "in doubles": built("NET.double()").replace("model(samples[0])", "model(samples[0].double())"),
    "mixed precision": (HEAD + LOOP).replace(
        "        loss = ",
        "        with torch.autocast(ctx.device.type, torch.bfloat16):\n            loss = ",
    ),
    "parametrized": built("nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)))"),
    "an average of models": built("torch.optim.swa_utils.AveragedModel(NET)"),
    "values put in place of others": HEAD + SOLVED,
    "a closure": HEAD + NEWTON,
    "a file beside it": HEAD + BESIDE + LOOP,
    "samples without a length": HEAD + STREAM,
}


def load(folder: Path, text: str) -> App:
    (folder / "app.py").write_text(text)
    (folder / "widths.txt").write_text("6 2\n")
    return load_app(str(folder))


@pytest.mark.parametrize("what", WORKING)
def test_what_pytorch_can_do_works_and_the_same_seed_gives_the_same_bits(what: str, tmp_path: Path) -> None:
    app = load(tmp_path, WORKING[what])
    samples = app.data(None)
    trainer = Trainer(app, *samples, score_samples=10, master_seed=3, threads=1)
    head_D = app.initial()

    update_D = trainer.train(head_D, 1)
    again_D = trainer.train(head_D, 1)
    scores = trainer.score([head_D, update_D])

    assert update_D.tobytes() == again_D.tobytes() != head_D.tobytes()
    assert scores[1] == trainer.score([update_D])[0]

    findings = list(check_app(app, Trial()))
    assert [each for each in findings if each.verdict == WRONG] == []
    assert findings[-1].check == "update"


def test_columns_by_name_are_counted_and_cut_as_one(tmp_path: Path) -> None:
    columns, _ = load(tmp_path, HEAD + COLUMNS).data(None)
    few = take(columns, np.array([3, 5]))
    assert count(columns) == 50
    assert count(few) == 2
    assert few["inputs"].tolist() == columns["inputs"][[3, 5]].tolist()


REFUSED = {
    "a lazy layer": (
        built("nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 2))"),
        "0.(bias|weight) has no values yet: .*called once on an example",
    ),
    "no values": (built("NET.to('meta')"), "0.weight has no values yet"),
    "a complex weight": (
        built("nn.Linear(4, 2, dtype=torch.complex64)"),
        r"(bias|weight) is complex, .*view_as_complex",
    ),
    "a sparse buffer": (
        HEAD + GRAPH.replace("PERSISTENT", "") + LOOP,
        "links is sparse, .*registered with persistent=False",
    ),
    "samples that are used up": (
        HEAD.replace("return (x[10:], y[10:])", "return zip(x[10:], y[10:])"),
        "a zip of samples to train on, which is empty after its first use: give a Dataset",
    ),
    "an output of several": (
        (HEAD + COLUMNS).replace('return model(**samples)["loss"]\n', "return model(**samples)\n"),
        r"score\(\) returns a dict",
    ),
    "another file of its own": (
        HEAD + "\nimport helper_beside_it\n",
        "an app is one file, or an installed package",
    ),
    "a sample that cannot be read": (
        (HEAD + AUGMENTED).replace("return self.x[row] +", "return open('none.png') or"),
        r"app.py:\d+: reading its samples: FileNotFoundError",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_one_line_that_says_why(what: str, tmp_path: Path) -> None:
    text, says = REFUSED[what]
    try:
        found = list(check_app(load(tmp_path, text), Trial()))[-1]
        said, is_wrong = found.text, found.verdict == WRONG
    except AppError as error:
        said, is_wrong = str(error), True
    assert is_wrong
    assert "app.py" in said
    assert "\n" not in said
    assert re.search(says, said), said


def test_samples_that_draw_from_a_generator_of_their_own_are_noted_not_blamed(tmp_path: Path) -> None:
    own = AUGMENTED.replace("WORKERS", "0").replace("torch.randn(4)", "torch.randn(4, generator=OWN)")
    app = load(tmp_path, HEAD + "\nOWN = torch.Generator()\n" + own)
    found = {each.check: each for each in check_app(app, Trial())}
    assert found["samples"].verdict == NOTE
    assert "draw from torch, numpy or random" in found["samples"].text
    assert found["train again"].verdict == NOTE
    assert found["frozen"].verdict == OK
