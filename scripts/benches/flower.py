"""Measure a round against Flower's simulation engine and Apple's pfl: scripts/bench flower [--quick] [--json].

Workload A: 20 clients, MNIST CNN (1,663,370 parameters), 300 samples each, batch 32, one epoch, equal weights. Ours:
train, encode, combine, tree of the head. Flower: two actors with one thread each, once with a plain PyTorch client and
once with our own training step. pfl: one process and two. Then the same workload as rounds on anvil, with a process for
each of 24 participants, a committee of 3, and an audit of every round.

Each contender is a process of its own. It plays three rounds by itself, counted from its launch (ours a second time
with an empty cache of compiled code); after that all take turns, round by round. A turn during which others used more
than a tenth of the machine is thrown away and counted. Workload B: `scripts/bench sim`.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from chainfl.errors import OutsideError
from chainfl.learning.datasets import load
from chainfl.report import Bar, Report, bar, narrate, report
from scripts.benches._command import bench_parser, show
from scripts.benches._memory import watching
from scripts.benches._on_chain import Plan, Played, play_on_chain, write_people
from scripts.benches._peers import Peer, peer_python, start, with_ours
from scripts.benches._pfl import pfl_commands
from scripts.benches._quiet import Sample, Samples, judged, sample, told_lines, tree_seconds
from scripts.benches._turns import take_turns

CLIENTS, SAMPLES, BATCH, RATE, SEED = 20, 300, 32, 0.01, 7
COMMITTEE = 3
REQUIREMENTS = ("flwr[simulation]==1.41.0",)
LONGEST = 900
QUIETLY = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

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
data, clients, samples, batch, rate = sys.argv[1], *map(float, sys.argv[2:])
clients, samples = int(clients), int(samples)
held = np.load(data)
x, y = held["x"], held["y"]
jobs = [Job(Samples(x, y, np.arange(k * samples, (k + 1) * samples)), k) for k in range(clients)]
recipe, head = Recipe(rate, int(batch), 1), encode(initial_flat("mnist-cnn", 0), 20)
rows, shares = np.empty((clients, len(head)), np.float32), [0, *equal([True] * clients, TOTAL)]
for round_, line in enumerate(sys.stdin):
    started = time.perf_counter()
    train_many("mnist-cnn", decode(head, 20), jobs, recipe, round_=round_, out_KD=rows)
    updates = [encode(row, 20, out=row.view(np.uint32)) for row in rows]
    head = combine(None, updates, shares)
    root = merkle.root(head)
    print(json.dumps({"answer": {"seconds": time.perf_counter() - started}}), flush=True)
"""

FLOWER = """
import json, os, sys, time
import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what Flower and Ray print is no answer
data, step = sys.argv[1], sys.argv[6]
clients, samples, batch, rate = map(float, sys.argv[2:6])
clients, samples, batch, started = int(clients), int(samples), int(batch), 0.0

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
        global started
        if not sys.stdin.readline():
            import ray
            ray.shutdown()
            os._exit(0)
        started = time.perf_counter()
        return super().configure_train(*args, **kwargs)
    def aggregate_train(self, *args, **kwargs):
        made = super().aggregate_train(*args, **kwargs)
        print(json.dumps({"answer": {"seconds": time.perf_counter() - started}}), file=answers, flush=True)
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
    timed.start(grid=grid, initial_arrays=ArrayRecord(first), num_rounds=10_000)

run_simulation(server_app, client_app, num_supernodes=clients,
    backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}})
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
from scripts.benches._quiet import sample
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
    def turn():
        started = time.perf_counter()
        work()
        return time.perf_counter() - started
    seen = sample(turn, [])
    return seen.seconds, seen.foreign

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


@dataclass(slots=True)
class Contender:
    """What a contender showed: from launch to the end of the third round, its peak memory, and rounds in turn."""

    first_three: Samples = field(default_factory=Samples)
    warm: Samples = field(default_factory=Samples)
    peak_mb: float = 0.0

    def plain(self) -> dict[str, object]:
        """What is reported of it."""
        return {
            "warm": self.warm.plain(),
            "first_three": self.first_three.plain(),
            "peak_mb": round(self.peak_mb),
        }


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when no bar is missed."""
    options = bench_parser(
        "flower",
        "A round against Flower and pfl.",
        quick="ours and Flower, two warm turns, nothing apart",
    ).parse_args(argv)

    found = measure(1, 2, quick=True) if options.quick else measure(3, 8, quick=False)
    return show(found, table, as_json=options.json)


def measure(launches: int, warm: int, *, quick: bool) -> Report:
    """All contenders in turn, parts of a round apart, the round on a chain, and their bars."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = write_data(folder)
        seen = compete(folder, data, launches, warm, quick=quick)
        apart = {} if quick else run_apart(folder, data, 8)
        chain = None if quick else on_chain(folder)

    ratios = ratios_of(seen, apart, chain)
    bars = [made for made, _ in ratios if made is not None]
    if not quick:
        ours, peer = seen["ours"].peak_mb, seen["flower"].peak_mb
        bars.append(bar("flower.memory_ratio", round(ours / peer, 3), "<=", 0.5))

    metrics: dict[str, object] = {
        "clients": CLIENTS,
        "samples": SAMPLES,
        "launches": launches,
        "contenders": {name: each.plain() for name, each in seen.items()},
        "apart": {name: each.plain() for name, each in apart.items()},
        "ratios": [told for _, told in ratios],
    }
    if chain is not None:
        metrics["on_chain"] = {"participants": CLIENTS + COMMITTEE + 1, "audited round": chain.plain()}
    return report("bench-flower", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def compete(folder: Path, data: Path, launches: int, warm: int, *, quick: bool) -> dict[str, Contender]:
    """Each contender by itself from its launch on, then a round of each in turn."""
    commands = commands_of(folder, data, quick=quick)
    seen = {name: Contender() for name in commands}
    for launch in range(1, launches + 1):
        narrate(f"launch {launch} of {launches}")

        with ExitStack() as stack:
            peers = {}
            for name, command in commands.items():
                more = QUIETLY | ({"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=folder)} if "cold" in name else {})
                peers[name] = launched(stack, name, command, more, seen[name])
            peers.pop("ours, cold", None)  # from the second round on it is no other contender than ours
            for name, found in take_turns(peers, warm, 0).items():
                seen[name].warm.kept += found.kept
                seen[name].warm.disturbed += found.disturbed
                seen[name].warm.cpu += found.cpu
    return seen


def commands_of(folder: Path, data: Path, *, quick: bool) -> dict[str, list[str]]:
    """How each contender is started."""
    python = str(peer_python("flower", REQUIREMENTS))
    sizes = [str(value) for value in (CLIENTS, SAMPLES, BATCH, RATE)]
    ours = [sys.executable, "-u", "-c", OURS, str(data), *sizes]
    found = {"ours": ours, "flower": [python, "-u", "-c", FLOWER, str(data), *sizes, "plain"]}
    if quick:
        return found
    to_pfl = [str(data), "mnist-cnn", *(str(value) for value in (CLIENTS, SAMPLES, SAMPLES, BATCH, RATE))]
    return {
        **found,
        "flower, our step": [python, "-u", "-c", FLOWER, str(data), *sizes, "ours"],
        "ours, cold": ours,
        **pfl_commands(folder, to_pfl),
    }


def launched(
    stack: ExitStack, name: str, command: Sequence[str], more: Mapping[str, str], seen: Contender
) -> Peer:
    """Start a contender and let it play three rounds, with nobody beside it."""
    pids: list[int] = []
    peers: list[Peer] = []

    def first_three() -> float:
        started = time.perf_counter()
        peer = stack.enter_context(start(command, **more))
        peers.append(peer)
        pids.append(peer.process.pid)
        with watching(peer.process.pid) as peak:
            for _ in range(3):
                peer.ask()
        seen.peak_mb = max(seen.peak_mb, peak.mb)
        return time.perf_counter() - started

    found = sample(first_three, pids)
    seen.first_three.add(found)
    seen.first_three.cpu.append(tree_seconds(pids[0]))
    narrate(f"{name}: three rounds from the start in {found.seconds:.1f} s, others used {found.foreign:.0%}")
    return peers[0]


def ratios_of(
    seen: Mapping[str, Contender], apart: Mapping[str, Samples], chain: Samples | None
) -> list[tuple[Bar | None, Mapping[str, object]]]:
    """Faster warm and from the start; near a bare loop; scoring against plain PyTorch; what the chain adds."""
    ours = seen["ours"]
    found = [
        judged("flower.warm_ratio", seen["flower"].warm, ours.warm, ">=", 2.0),
        judged("flower.first_three_ratio", seen["flower"].first_three, ours.first_three, ">=", 3.0),
    ]

    found += [
        judged(f"flower.{name} over ours", each.warm, ours.warm, ">=", 1.3 if "our step" in name else 1.0)
        for name, each in seen.items()
        if name.startswith("pfl") or "our step" in name
    ]

    if apart:
        found.append(judged("flower.bare_ratio", apart["train"], apart["bare"], "<=", 1.1))
        found.append(judged("flower.scoring_ratio", apart["plain scoring"], apart["scoring"], ">=", 3.0))
    if chain is not None:
        found.append(judged("flower.chain_over_flower", chain, seen["flower"].warm, "<=", 1.2))
    return found


def on_chain(folder: Path) -> Samples:
    """Rounds with a process for each participant and an audit of each; the Challenge window left out."""
    home = folder / "chain"
    home.mkdir()
    plan = Plan("torch", 3, SAMPLES, 1, CLIENTS + COMMITTEE + 1, COMMITTEE, RATE, BATCH)
    write_people(home / "data.npz", plan)
    played: Played = play_on_chain(home, plan, audited=True)

    found = Samples()
    for line, audit in zip(played.rounds, played.audits, strict=True):
        found.add(Sample(line.seconds + audit, line.foreign))
        narrate(f"round {line.number} on anvil: {line.seconds:.2f} s, its audit {audit:.2f} s")
    return found


def write_data(folder: Path) -> Path:
    """The first samples of the embedded digits, the same for all."""
    dataset = load()
    count = CLIENTS * SAMPLES
    rows = np.random.default_rng(SEED).permutation(len(dataset.y))[:count]
    np.savez(folder / "data.npz", x=dataset.x[rows], y=dataset.y[rows])
    return folder / "data.npz"


def run_apart(folder: Path, data: Path, turns: int) -> dict[str, Samples]:
    """A bare loop, update trees, a committee's scoring: parts of a round, in turn.

    Raises:
        OutsideError: they could not be measured.
    """
    narrate("apart: a bare loop, update trees, and a committee's scoring")
    out = folder / "apart.json"
    sizes = [str(value) for value in (turns, CLIENTS, SAMPLES, BATCH, RATE)]
    command = [sys.executable, "-c", APART, str(data), str(out), *sizes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, env=with_ours())
    if done.returncode:
        raise OutsideError(f"measuring apart failed: {done.stderr.strip().splitlines()[-1]}")

    found = {name: Samples() for name in json.loads(out.read_text())}
    for name, each in json.loads(out.read_text()).items():
        for seconds, foreign in each:
            found[name].add(Sample(seconds, foreign))
    return found


def table(found: Report) -> str:
    """The report for people."""
    contenders, apart, ratios = (found.metrics[name] for name in ("contenders", "apart", "ratios"))
    assert isinstance(contenders, dict)
    assert isinstance(apart, dict)
    assert isinstance(ratios, list)

    lines = [f"{'':20}{'warm s':>10}{'its CPU':>10}{'first 3 s':>10}{'PSS MB':>10}{'disturbed':>10}"]
    for name, each in contenders.items():
        warm, first, thrown = each["warm"], each["first_three"], each["warm"]["disturbed"]
        cpu = "-" if warm["cpu"] is None else f"{warm['cpu']:.2f}"
        lines.append(
            f"{name:20}{_seconds(warm):>10}{cpu:>10}{_seconds(first):>10}{each['peak_mb']:>10}{thrown:>10}"
        )
    lines += [f"{name:20}{_seconds(each):>10}" for name, each in apart.items()]
    lines += told_lines(ratios)
    lines += [
        f"{each.id:32}{each.value:10.2f} {each.op} {each.limit:g}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def _seconds(samples: Mapping[str, object]) -> str:
    """The median; in parentheses that of disturbed turns where there is no other."""
    middle, disturbed = samples["median"], samples["disturbed_median"]
    if isinstance(middle, float):
        return f"{middle:.3f}"
    return f"({disturbed:.3f})" if isinstance(disturbed, float) else "-"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
