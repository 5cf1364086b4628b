"""Measure the simulator against Apple's pfl and bare loops: scripts/bench sim [--quick] [--json].

Workload B: 50 of 1,000 clients a round, 50 samples each, batches of 10, one epoch; the small dense network and the
MNIST CNN. Contenders play rounds in turn, one after the other; a turn during which others used the machine is thrown
away and counted. Ours is the whole round: draw, training, encoding, scores of a committee of three, shares, model.
Populations: a round with 20 workers of 100,000 participants against the same of 1,000, and what setting them up costs.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from chainfl.report import Bar, Report, bar, narrate, report
from scripts.benches._command import bench_parser, plain_table, show
from scripts.benches._peers import ROOT, Peer, peer_python
from scripts.benches._quiet import Samples, judged, sample

SEED = 7
REQUIREMENTS = ("pfl==0.6.0",)
CLIENTS, EACH, DRAWN, BATCH, RATE = 1_000, 50, 50, 10, 0.1
CROWD, FEW, WORKERS = 100_000, 1_000, 20
MOST_SECONDS, MOST_MB = 10.0, 1_000.0

OURS = """
import json, resource, sys, time
from chainfl.learning.recipe import Recipe
from chainfl.sim.experiment import Experiment
from chainfl.sim.run import play
from chainfl.sim.simulation import set_up
data, model, people, drawn, batch, rate = sys.argv[1:]
experiment = Experiment(dataset="npz:" + data, model=model, participants=int(people), committee=3, rounds=10_000,
    max_updates=int(drawn), recipe=Recipe(float(rate), int(batch), 1), stakes="equal", test_samples=1)
started = time.process_time()
rounds = play(set_up(experiment), [])
ready = time.process_time() - started
for line in sys.stdin:
    one = next(rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"answer": {"seconds": one.seconds, "set_up": ready, "peak_mb": peak}}), flush=True)
"""

BARE = """
import json, sys, time
import numpy as np
from chainfl.learning.builtin import BuiltIn, LearningSpec
from chainfl.learning.dataset import Samples
from chainfl.learning.forked import Forked, shared_rows
from chainfl.learning.train import Job, Recipe
data, model, drawn, each, batch, rate = sys.argv[1:]
held, drawn, each = np.load(data), int(drawn), int(each)
x, y = held["x"], held["y"]
app = BuiltIn(LearningSpec(model, "bare", Recipe(float(rate), int(batch), 1)))
head, rng = app.initial(), np.random.default_rng(1)
rows = shared_rows(drawn, len(head))
jobs = [Job(Samples(x, y, np.arange(k * each, k * each + each * 9 // 10)), k) for k in range(len(y) // each)]
processes = Forked.start(app, rows, jobs, 1)
for line in sys.stdin:
    started = time.perf_counter()
    processes.train(head, [jobs[k] for k in rng.permutation(len(jobs))[:drawn]], 1)
    head = rows.mean(0)
    print(json.dumps({"answer": {"seconds": time.perf_counter() - started}}), flush=True)
processes.end()
"""

PFL = """
import json, os, sys, time
import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what pfl prints is no answer
torch.set_num_threads(1)
torch.manual_seed(0)
data, model, drawn, each, batch, rate = sys.argv[1:]
held, drawn, each, used = np.load(data), int(drawn), int(each), int(each) * 9 // 10
x, y = held["x"].astype(np.float32)[:, None] / 255, held["y"]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        dense = [nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10)]
        convolved = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10)]
        self.net = nn.Sequential(*(dense if "mlp" in model else convolved))
    def forward(self, x):
        return self.net(x)
    def loss(self, x, y, eval=False):
        return nn.functional.cross_entropy(self(x), y)
    @torch.no_grad()
    def metrics(self, x, y, eval=False):
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}

class Turns(TrainingProcessCallback):
    def on_train_begin(self, *, model):
        self.wait()
        return Metrics()
    def wait(self):
        if os.environ.get("RANK", "0") == "0" and not sys.stdin.readline():
            os._exit(0)
        self.started = time.perf_counter()
    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps({"answer": {"seconds": time.perf_counter() - self.started}}), file=answers, flush=True)
        self.wait()
        return False, Metrics()

def client(k):
    at = slice(k * each, k * each + used)
    return Dataset(raw_data=[torch.from_numpy(x[at]), torch.from_numpy(y[at])], user_id=str(k))

rng, net = np.random.default_rng(1), Net()
users = FederatedDataset(client, lambda: int(rng.integers(len(y) // each)))
learned = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0))
FederatedAveraging().run(
    NNAlgorithmParams(central_num_iterations=10_000, evaluation_frequency=10**9, train_cohort_size=drawn,
        val_cohort_size=None),
    SimulatedBackend(training_data=users, val_data=None, postprocessors=[]), learned,
    NNTrainHyperParams(local_num_epochs=1, local_learning_rate=float(rate), local_batch_size=int(batch)),
    NNEvalHyperParams(local_batch_size=None), callbacks=[Turns()])
"""


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when no bar is missed."""
    options = bench_parser(
        "sim", "The simulator against pfl and bare loops.", quick="no CNN, 5,000 participants, five turns"
    ).parse_args(argv)

    found = measure(turns=5, quick=True) if options.quick else measure(turns=25, quick=False)
    return show(found, plain_table, as_json=options.json)


def measure(*, turns: int, quick: bool) -> Report:
    """Workload B for each model, then populations."""
    started = time.perf_counter()
    metrics: dict[str, object] = {"turns": turns}
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as folder:
        for model, least in (("mnist-mlp-small", 1.0), *(() if quick else (("mnist-cnn", 1.3),))):
            found = workload(Path(folder), model, turns)
            metrics[model] = {name: each.plain() for name, each in found.items()}
            metrics[f"{model} ratios"] = [
                *_best_pfl(model, found, least, bars),
                _ratio(bars, f"sim.{model}.over_bare", found["chainfl"], found["bare"], 1.25),
            ]
        crowd = CROWD // 20 if quick else CROWD
        metrics["population"] = population(Path(folder), crowd, turns, bars)
    return report("bench-sim", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def _best_pfl(
    model: str, found: Mapping[str, Samples], least: float, bars: list[Bar]
) -> list[Mapping[str, object]]:
    """Each setting of pfl against ours."""
    told = []
    for name in ("pfl, one process", "pfl, two processes"):
        made, about = judged(f"sim.{model}.{name}", found[name], found["chainfl"], ">=", least)
        bars += [made] if made else []
        told.append(about)
    return told


def _ratio(bars: list[Bar], name: str, above: Samples, below: Samples, limit: float) -> Mapping[str, object]:
    made, about = judged(name, above, below, "<=", limit)
    bars += [made] if made else []
    return about


def workload(folder: Path, model: str, turns: int) -> dict[str, Samples]:
    """Rounds of every contender in turn, after two that warm up."""
    data = write_data(folder / "clients.npz", CLIENTS * EACH)
    python = peer_python("pfl", REQUIREMENTS)
    sizes = [str(value) for value in (DRAWN, EACH, BATCH, RATE)]

    torchrun = [str(python), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = folder / "contender.py"
    script.write_text(PFL)
    ours = [str(data), model, str(CLIENTS), str(DRAWN), str(BATCH), str(RATE)]

    commands = {
        "chainfl": [sys.executable, "-u", "-c", OURS, *ours],
        "bare": [sys.executable, "-u", "-c", BARE, str(data), model, *sizes],
        "pfl, one process": [str(python), "-u", str(script), str(data), model, *sizes],
        "pfl, two processes": [*torchrun, str(script), str(data), model, *sizes],
    }

    with ExitStack() as stack:
        peers = {name: stack.enter_context(start(command)) for name, command in commands.items()}
        return take_turns(peers, turns)


def take_turns(peers: Mapping[str, Peer], turns: int) -> dict[str, Samples]:
    """A round of each, again and again; the first two are not counted."""
    found = {name: Samples() for name in peers}
    for turn in range(turns + 2):
        for name, peer in peers.items():
            one = sample(_round_of(peer), [peer.process.pid])
            if turn >= 2:
                found[name].add(one)
        narrate(f"turn {turn + 1} of {turns + 2}")
    return found


def _round_of(peer: Peer) -> Callable[[], float]:
    return lambda: float(peer.ask()["seconds"])


def population(folder: Path, crowd: int, turns: int, bars: list[Bar]) -> dict[str, object]:
    """A round of few and of many participants in turn, and what setting up the many costs."""
    data = write_data(folder / "crowd.npz", 2 * crowd)
    few = write_data(folder / "few.npz", 2 * FEW)
    more = ["mnist-mlp-small", str(WORKERS), str(BATCH), str(RATE)]

    def command(path: Path, people: int) -> list[str]:
        return [sys.executable, "-u", "-c", OURS, str(path), more[0], str(people), *more[1:]]

    with ExitStack() as stack:
        peers = {
            "few": stack.enter_context(start(command(few, FEW))),
            "many": stack.enter_context(start(command(data, crowd))),
        }
        found = take_turns(peers, turns)
        cost = peers["many"].ask()
    bars += [
        bar("sim.set_up_cpu_seconds", round(float(cost["set_up"]), 2), "<=", MOST_SECONDS),
        bar("sim.peak_mb", round(float(cost["peak_mb"]), 0), "<=", MOST_MB),
    ]
    ratio = _ratio(bars, "sim.population_ratio", found["many"], found["few"], 1.3)
    return {"participants": crowd, **{name: each.plain() for name, each in found.items()}, "ratio": ratio}


def write_data(path: Path, count: int) -> Path:
    """Random pictures: what is learned does not matter here."""
    rng = np.random.default_rng(SEED)
    x = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, count)
    np.savez(path, x=x, y=y, x_test=x[:10], y_test=y[:10])
    return path


def start(command: list[str]) -> Peer:
    """A contender that answers a line for each round it is asked for."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    return Peer(process)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
