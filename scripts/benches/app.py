"""Measure what a worker with an app costs over the same loop by hand: scripts/bench app [--quick] [--json].

Both train the vision template on the same samples with one thread, turn and turn about, and read the model out at the
end. What is compared is CPU time, which other work on the machine does not lengthen as it does the time on the wall.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from chainfl.learning.app import App, flatten, load, load_app
from chainfl.learning.calls import Context
from chainfl.learning.learner import Flat
from chainfl.learning.samples import first
from chainfl.learning.trainer import Trainer
from chainfl.report import Report, bar, narrate, report
from scripts.benches._command import bench_parser, plain_table, show

TEMPLATE = Path(__file__).resolve().parents[2] / "chainfl" / "templates" / "vision" / "app.py"
SEED = 7
SAMPLES = 2400
Worker = Callable[[Flat, int], Flat]


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    options = bench_parser("app", "An app's worker beside a loop by hand.", quick="fewer turns").parse_args(
        argv
    )
    found = measure(turns=5 if options.quick else 15)
    return show(found, plain_table, as_json=options.json)


def measure(turns: int) -> Report:
    """CPU seconds of both, turn and turn about."""
    started = time.perf_counter()
    torch.set_num_threads(1)
    app = load_app(str(TEMPLATE))
    samples = app.data(None)
    train_on, held_out = first(samples[0], SAMPLES), samples[1]
    trainer = Trainer(app, train_on, held_out, score_samples=300, master_seed=SEED, threads=1)
    workers: dict[str, Worker] = {"app": trainer.train, "by hand": _by_hand(app, train_on)}

    head_D = app.initial()
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in workers}
    for name in workers:
        workers[name](head_D, 0)  # the first call loads what torch needs
    for turn in range(1, turns + 1):
        narrate(f"turn {turn} of {turns}")
        for name in sorted(workers, reverse=turn % 2 == 0):
            seen[name].append(_timed(workers[name], head_D, turn))

    cpu = {name: median(each[0] for each in times) for name, times in seen.items()}
    wall = {name: median(each[1] for each in times) for name, times in seen.items()}
    metrics: dict[str, Any] = {"samples": SAMPLES, "parameters": len(head_D), "turns": turns}
    for name in workers:
        metrics |= {f"{name}, cpu seconds": round(cpu[name], 4), f"{name}, seconds": round(wall[name], 4)}
    limit = bar("app.worker_ratio", round(cpu["app"] / cpu["by hand"], 3), "<=", 1.05)
    return report("bench-app", metrics, [limit], seed=SEED, seconds=time.perf_counter() - started)


def _by_hand(app: App, train_on: Any) -> Worker:
    """What somebody would write: a model, its parameters from the head, the loop, its parameters read out."""
    network = app.build()
    loop = app.functions["train"]

    def work(head_D: Flat, round_: int) -> Flat:
        torch.manual_seed(SEED + round_)
        load(app.tensors(network), head_D)
        network.train()
        loop(
            network,
            train_on,
            Context.seeded(torch.device("cpu"), SEED + round_, round_, app.config, lambda _: None),
        )
        return flatten(app.tensors(network), np.empty_like(head_D))

    return work


def _timed(work: Worker, head_D: Flat, round_: int) -> tuple[float, float]:
    """CPU seconds of this process, and seconds on the wall."""
    started = time.process_time(), time.perf_counter()
    work(head_D, round_)
    return time.process_time() - started[0], time.perf_counter() - started[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
