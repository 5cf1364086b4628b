"""Measure the simulator against Apple's pfl and bare loops: scripts/bench sim [--quick] [--json].

Workload B: 50 of 1,000 clients a round, 50 samples each, batches of 10, one epoch; the small dense network and the
MNIST CNN. Contenders play rounds in turn, one after the other; a turn during which others used the machine is thrown
away and counted. Ours is the whole round: draw, training, encoding, scores of a committee of three, shares, model.
Beside bare loops it plays rule mean, which does the same work: they score nothing.
Populations: a round with 20 workers of 100,000 participants against the same of 1,000, and what setting them up costs.
Memory: two rounds of the MNIST CNN with 128 of 1,000 clients, ours under rule mean, and pfl's.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from chainfl.report import Bar, Report, bar, narrate, report
from scripts.benches._command import bench_parser, plain_table, show
from scripts.benches._memory import watching
from scripts.benches._peers import start
from scripts.benches._pfl import pfl_commands
from scripts.benches._quiet import Samples, judged
from scripts.benches._turns import take_turns

SEED = 7
CLIENTS, EACH, DRAWN, BATCH, RATE = 1_000, 50, 50, 10, 0.1
CROWD, FEW, WORKERS = 100_000, 1_000, 20
MANY = 128
"""Clients of the round whose memory is looked at."""
MOST_HELD_MB = 929
"""What pfl held in two processes when the bar was set, 2026-11-18."""
MOST_SECONDS, MOST_MB = 10.0, 1_000.0

OURS = """
import json, resource, sys, time
from chainfl.learning.recipe import Recipe
from chainfl.sim.experiment import Experiment
from chainfl.sim.run import play
from chainfl.sim.simulation import set_up
data, model, people, drawn, batch, rate, rule = sys.argv[1:]
experiment = Experiment(dataset="npz:" + data, model=model, participants=int(people), committee=3, rounds=10_000,
    max_updates=int(drawn), recipe=Recipe(float(rate), int(batch), 1), stakes="equal", test_samples=1, rule=rule)
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
                _ratio(bars, f"sim.{model}.over_bare", found["chainfl, mean"], found["bare"], 1.25),
            ]

        crowd = CROWD // 20 if quick else CROWD
        metrics["population"] = population(Path(folder), crowd, turns, bars)
        if not quick:
            metrics["memory"] = memory(Path(folder), bars)
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
    sizes = [str(value) for value in (DRAWN, EACH, BATCH, RATE)]
    commands = {
        "chainfl": our_command(data, model, CLIENTS, DRAWN),
        "chainfl, mean": our_command(data, model, CLIENTS, DRAWN, "mean"),
        "bare": [sys.executable, "-u", "-c", BARE, str(data), model, *sizes],
        **pfl_commands(folder, _to_pfl(data, model, DRAWN)),
    }

    with ExitStack() as stack:
        peers = {name: stack.enter_context(start(command)) for name, command in commands.items()}
        return take_turns(peers, turns)


def population(folder: Path, crowd: int, turns: int, bars: list[Bar]) -> dict[str, object]:
    """A round of few and of many participants in turn, and what setting up the many costs."""
    data = write_data(folder / "crowd.npz", 2 * crowd)
    few = write_data(folder / "few.npz", 2 * FEW)

    with ExitStack() as stack:
        peers = {
            "few": stack.enter_context(start(our_command(few, "mnist-mlp-small", FEW, WORKERS))),
            "many": stack.enter_context(start(our_command(data, "mnist-mlp-small", crowd, WORKERS))),
        }
        found = take_turns(peers, turns)
        cost = peers["many"].ask()

    bars += [
        bar("sim.set_up_cpu_seconds", round(float(cost["set_up"]), 2), "<=", MOST_SECONDS),
        bar("sim.peak_mb", round(float(cost["peak_mb"]), 0), "<=", MOST_MB),
    ]
    ratio = _ratio(bars, "sim.population_ratio", found["many"], found["few"], 1.3)
    return {"participants": crowd, **{name: each.plain() for name, each in found.items()}, "ratio": ratio}


def memory(folder: Path, bars: list[Bar]) -> dict[str, object]:
    """The most that each holds in two rounds of many clients of the large network."""
    data = write_data(folder / "clients.npz", CLIENTS * EACH)
    commands = {
        "chainfl": our_command(data, "mnist-cnn", CLIENTS, MANY, "mean"),
        **pfl_commands(folder, _to_pfl(data, "mnist-cnn", MANY)),
    }

    peaks = {}
    for name, command in commands.items():
        with start(command) as peer, watching(peer.process.pid) as peak:
            for _ in range(2):
                peer.ask()
        peaks[name] = round(peak.mb)
        narrate(f"{name}: {peak.mb:.0f} MB with {MANY} clients a round")

    bars.append(bar("sim.memory_mb", peaks["chainfl"], "<=", MOST_HELD_MB))
    return {"clients": MANY, "mb": peaks}


def our_command(data: Path, model: str, people: int, drawn: int, rule: str = "softmax") -> list[str]:
    """The simulator, a round for each line."""
    numbers = [str(value) for value in (people, drawn, BATCH, RATE)]
    return [sys.executable, "-u", "-c", OURS, str(data), model, *numbers, rule]


def _to_pfl(data: Path, model: str, drawn: int) -> list[str]:
    """What pfl gets: a tenth of each client's samples is not trained on, as it is held out with us."""
    return [str(data), model, *(str(value) for value in (drawn, EACH, EACH * 9 // 10, BATCH, RATE))]


def write_data(path: Path, count: int) -> Path:
    """Random pictures: what is learned does not matter here."""
    rng = np.random.default_rng(SEED)
    x = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, count)
    np.savez(path, x=x, y=y, x_test=x[:10], y_test=y[:10])
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
