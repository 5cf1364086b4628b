"""Measure a round's learning against Flower's simulation engine: scripts/bench flower [--quick] [--json].

20 clients, MNIST CNN (1,663,370 parameters), 300 samples each, batch 32, one epoch, equal weights. Ours: train, encode,
combine, tree of the head. Flower: two actors with one thread each, once with a plain PyTorch client and once with our
own training step. Each contender is a process of its own; they take turns; memory is the peak PSS of its whole tree.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil  # type: ignore[import-untyped]

from chainfl.errors import OutsideError
from chainfl.learning.datasets import load
from chainfl.report import Bar, Report, bar, narrate, report
from scripts.benches._command import bench_parser, show
from scripts.benches._peers import ROOT, peer_python

CLIENTS, SAMPLES, BATCH, RATE, SEED = 20, 300, 32, 0.01, 7
REQUIREMENTS = ("flwr[simulation]==1.41.0",)
LONGEST = 900

OURS = """
import json, sys, time
import numpy as np
from chainfl.codec import merkle
from chainfl.codec.vector import decode, encode
from chainfl.learning.dataset import Samples
from chainfl.learning.models import initial_flat
from chainfl.learning.train import Job, Recipe, train_many
from chainfl.protocol.combine import TOTAL, combine
from chainfl.protocol.shares import equal
data, out, rounds, clients, samples, batch, rate = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
clients, samples = int(clients), int(samples)
held = np.load(data)
x, y = held["x"], held["y"]
jobs = [Job(Samples(x, y, np.arange(k * samples, (k + 1) * samples)), k) for k in range(clients)]
recipe, head = Recipe(rate, int(batch), 1), encode(initial_flat("mnist-cnn", 0), 20)
rows, shares, times = np.empty((clients, len(head)), np.float32), [0, *equal([True] * clients, TOTAL)], []
for round_ in range(int(rounds)):
    started = time.time()
    train_many("mnist-cnn", decode(head, 20), jobs, recipe, round_=round_, out_KD=rows)
    updates = [encode(row, 20, out=row.view(np.uint32)) for row in rows]
    head = combine(None, updates, shares)
    root = merkle.root(head)
    times.append([started, time.time()])
open(out, "w").write(json.dumps({"times": times, "root": root.hex()}))
"""

FLOWER = """
import json, sys, time
import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
data, out, step = sys.argv[1], sys.argv[2], sys.argv[8]
rounds, clients, samples, batch, rate = map(float, sys.argv[3:8])
clients, samples, batch, times = int(clients), int(samples), int(batch), []

def plain_net():
    from torch import nn
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))

client_app = ClientApp()

@client_app.train()
def train(msg: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    held = np.load(data)
    at = int(context.node_config["partition-id"]) * samples
    arrays = msg.content["arrays"].to_numpy_ndarrays()
    if step == "ours":
        from chainfl.learning.dataset import Samples
        from chainfl.learning.train import Recipe, train as train_ours
        own = Samples(held["x"], held["y"], np.arange(at, at + samples))
        new = [train_ours("mnist-cnn", arrays[0], own, Recipe(rate, batch, 1), at)]
    else:
        net = plain_net()
        net.load_state_dict({k: torch.from_numpy(v) for k, v in zip(net.state_dict(), arrays)})
        x = torch.from_numpy(held["x"][at:at + samples]).float().div(255).unsqueeze(1)
        y = torch.from_numpy(held["y"][at:at + samples])
        sgd, order = torch.optim.SGD(net.parameters(), lr=rate), torch.randperm(samples)
        for start in range(0, samples, batch):
            rows = order[start:start + batch]
            sgd.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            sgd.step()
        new = [v.numpy() for v in net.state_dict().values()]
    reply = RecordDict({"arrays": ArrayRecord(new), "metrics": MetricRecord({"num-examples": samples})})
    return Message(content=reply, reply_to=msg)

class Timed(FedAvg):
    def configure_train(self, *args, **kwargs):
        times.append([time.time()])
        return super().configure_train(*args, **kwargs)
    def aggregate_train(self, *args, **kwargs):
        made = super().aggregate_train(*args, **kwargs)
        times[-1].append(time.time())
        return made

server_app = ServerApp()

@server_app.main()
def main(grid: Grid, context: Context) -> None:
    if step == "ours":
        from chainfl.learning.models import initial_flat
        first = [initial_flat("mnist-cnn", 0)]
    else:
        first = [v.numpy() for v in plain_net().state_dict().values()]
    timed = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    timed.start(grid=grid, initial_arrays=ArrayRecord(first), num_rounds=int(rounds))

run_simulation(server_app, client_app, num_supernodes=clients,
    backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}})
open(out, "w").write(json.dumps({"times": times}))
"""

APART = """
import json, sys, time
import numpy as np
import torch
from chainfl.codec import merkle
from chainfl.codec.vector import encode
from chainfl.learning.compute import batch_of, borrowed, side_by_side
from chainfl.learning.dataset import Samples
from chainfl.learning.evaluate import score_many
from chainfl.learning.models import Dense, initial_flat, load_flat, spec_of
from chainfl.learning.train import Job, Recipe, batches, train_many
data, out, turns, clients, samples, batch, rate = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
clients, samples = int(clients), int(samples)
held = np.load(data)
x, y = held["x"], held["y"]
sets = [Samples(x, y, np.arange(k * samples, (k + 1) * samples)) for k in range(clients)]
jobs, recipe, head = [Job(s, k) for k, s in enumerate(sets)], Recipe(rate, int(batch), 1), initial_flat("mnist-cnn", 0)
rows, spec, place = np.empty((clients, len(head)), np.float32), spec_of("mnist-cnn"), torch.device("cpu")

def bare(k):
    with borrowed("mnist-cnn", place) as net:
        load_flat(net, head)
        net.train()
        dense = [module for module in net.modules() if isinstance(module, Dense)]
        moved = {id(module.weight) for module in dense}
        weights = [weight for weight in net.parameters() if id(weight) not in moved]
        for module in dense:
            module.rate = rate
        for own in batches(sets[k].rows, recipe, k):
            images, labels = batch_of(spec, sets[k], own, place)
            found = torch.autograd.grad(torch.nn.functional.cross_entropy(net(images), labels), weights)
            with torch.no_grad():
                for weight, slope in zip(weights, found):
                    weight.sub_(slope, alpha=rate)
        for module in dense:
            module.rate = None

def plain_scores(nets):
    for s in sets[:5]:
        pictures = torch.from_numpy(s.x[s.rows]).float().div(255).unsqueeze(1)
        for net in nets:
            with torch.inference_mode():
                torch.nn.functional.cross_entropy(net(pictures), torch.from_numpy(s.y[s.rows]))

def plain_net():
    from torch import nn
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10)).eval()

def clock(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started

nets = [plain_net() for _ in range(clients)]
times = {name: [] for name in ("train", "bare", "trees", "scoring", "plain scoring")}
for turn in range(int(turns) + 1):
    found = {"train": clock(lambda: train_many("mnist-cnn", head, jobs, recipe, out_KD=rows)),
        "bare": clock(lambda: side_by_side([lambda k=k: bare(k) for k in range(clients)]))}
    vectors = [encode(row, 20) for row in rows]
    found["trees"] = clock(lambda: [merkle.root(u) for u in vectors])
    found["scoring"] = clock(lambda: score_many("mnist-cnn", rows, sets[:5]))
    torch.set_num_threads(2)
    found["plain scoring"] = clock(lambda: plain_scores(nets))
    torch.set_num_threads(1)
    if turn:
        for name, seconds in found.items():
            times[name].append(seconds)
open(out, "w").write(json.dumps(times))
"""


@dataclass(frozen=True, slots=True)
class Contender:
    """What one process showed: seconds of each round, from launch to the end of the third, and its peak memory."""

    rounds: tuple[float, ...]
    first_three: float
    peak_mb: float


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    options = bench_parser(
        "flower", "A round's learning against Flower.", quick="one turn of three rounds"
    ).parse_args(argv)

    found = measure(rounds=3, turns=1) if options.quick else measure(rounds=6, turns=3)
    return show(found, table, as_json=options.json)


def measure(rounds: int, turns: int) -> Report:
    """All contenders in turn, and their bars."""
    started = time.perf_counter()
    python = peer_python("flower", REQUIREMENTS)
    seen: dict[str, list[Contender]] = {"ours": [], "flower": [], "flower, our step": []}

    with tempfile.TemporaryDirectory() as folder:
        data = write_data(Path(folder))
        out = Path(folder) / "out.json"
        sizes = [str(value) for value in (CLIENTS, SAMPLES, BATCH, RATE)]
        for turn in range(1, turns + 1):
            narrate(f"turn {turn} of {turns}: {rounds} rounds of ours, of Flower, of Flower with our step")
            here = [sys.executable, "-c", OURS, str(data), str(out), str(rounds), *sizes]
            seen["ours"].append(contend(here, out))
            for name, step in (("flower", "plain"), ("flower, our step", "ours")):
                there = [str(python), "-c", FLOWER, str(data), str(out), str(rounds), *sizes, step]
                seen[name].append(contend(there, out))

        narrate("apart: a bare loop, update trees, and a committee's scoring")
        apart = run_apart([sys.executable, "-c", APART, str(data), str(out), str(max(2, turns)), *sizes], out)

    metrics = {
        "clients": CLIENTS,
        "samples": SAMPLES,
        "turns": turns,
        "contenders": {name: summed(each) for name, each in seen.items()},
        "apart_seconds": {name: round(median(each), 4) for name, each in apart.items()},
    }
    return report(
        "bench-flower", metrics, bars_of(seen, apart), seed=SEED, seconds=time.perf_counter() - started
    )


def bars_of(seen: Mapping[str, Sequence[Contender]], apart: Mapping[str, Sequence[float]]) -> list[Bar]:
    """Faster warm and from the start, in half of the memory; near a bare loop; scoring twice as fast as plain."""

    def ratio(name: str, what: str) -> float:
        pairs = zip(seen[name], seen["ours"], strict=True)
        return median(_value(peer, what) / _value(own, what) for peer, own in pairs)

    def apart_ratio(one: str, other: str) -> float:
        return median(a / b for a, b in zip(apart[one], apart[other], strict=True))

    return [
        bar("flower.warm_ratio", round(ratio("flower", "warm"), 3), ">=", 1.8),
        bar("flower.warm_ratio_our_step", round(ratio("flower, our step", "warm"), 3), ">=", 1.3),
        bar("flower.first_three_ratio", round(ratio("flower", "first_three"), 3), ">=", 2.5),
        bar("flower.memory_ratio", round(1 / ratio("flower", "peak_mb"), 3), "<=", 0.5),
        bar("flower.bare_ratio", round(apart_ratio("train", "bare"), 3), "<=", 1.1),
        bar("flower.scoring_ratio", round(apart_ratio("plain scoring", "scoring"), 3), ">=", 2),
    ]


def write_data(folder: Path) -> Path:
    """The first samples of the embedded digits, the same for all."""
    dataset = load()
    count = CLIENTS * SAMPLES
    rows = np.random.default_rng(SEED).permutation(len(dataset.y))[:count]
    np.savez(folder / "data.npz", x=dataset.x[rows], y=dataset.y[rows])
    return folder / "data.npz"


def contend(command: Sequence[str], out: Path) -> Contender:
    """Run one contender to its end, looking at its memory meanwhile.

    Raises:
        OutsideError: it did not end well, or takes too long.
    """
    out.unlink(missing_ok=True)
    launched = time.time()
    peak = 0.0
    environment = {
        **os.environ,
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "PYTHONPATH": str(ROOT),
    }

    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )

    while True:
        try:
            _, said = process.communicate(timeout=0.25)
            break
        except subprocess.TimeoutExpired:
            peak = max(peak, tree_pss(process.pid))
            if time.time() - launched > LONGEST:
                process.kill()
                raise OutsideError(f"a contender did not end within {LONGEST} s") from None

    if process.returncode or not out.exists():
        last = (said.strip() or "no reason given").splitlines()[-1]
        raise OutsideError(f"a contender ended with {process.returncode}: {last}")
    times = json.loads(out.read_text())["times"]
    return Contender(tuple(end - start for start, end in times), times[2][1] - launched, peak / 2**20)


def run_apart(command: Sequence[str], out: Path) -> dict[str, list[float]]:
    """What is reported apart."""
    out.unlink(missing_ok=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode:
        raise OutsideError(f"measuring apart failed: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, list[float]] = json.loads(out.read_text())
    return found


def tree_pss(pid: int) -> float:
    """Proportional memory of a process and all its descendants, in bytes."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        for each in (root, *root.children(recursive=True)):
            try:
                total += each.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
    except psutil.NoSuchProcess:
        return 0.0
    return total


def summed(each: Sequence[Contender]) -> dict[str, float]:
    """A contender's medians over the turns."""
    return {
        what: round(median(_value(one, what) for one in each), 3)
        for what in ("warm", "first", "first_three", "peak_mb")
    }


def table(found: Report) -> str:
    """The report for people."""
    contenders = found.metrics["contenders"]
    apart = found.metrics["apart_seconds"]
    assert isinstance(contenders, dict)
    assert isinstance(apart, dict)

    lines = [f"{'':20}{'warm s':>10}{'first s':>10}{'first 3 s':>10}{'PSS MB':>10}"]
    lines += [
        f"{name:20}{each['warm']:10.2f}{each['first']:10.2f}{each['first_three']:10.2f}{each['peak_mb']:10.0f}"
        for name, each in contenders.items()
    ]
    lines += [f"{name:20}{seconds:10.3f}" for name, seconds in apart.items()]
    lines += [
        f"{each.id:32}{each.value:10.2f} {each.op} {each.limit:g}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def _value(one: Contender, what: str) -> float:
    if what == "warm":
        return median(one.rounds[1:])
    return one.rounds[0] if what == "first" else float(getattr(one, what))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
