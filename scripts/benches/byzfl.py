"""Measure the robust rules against ByzFL on the same numbers: scripts/bench byzfl [--quick] [--json].

ByzFL runs in its own environment, on a memory map of the same float32 updates, with numpy arrays and with torch
tensors; the faster of the two counts. Ours work on the integers that those floats encode to, and are exact. Both take
turns in one run; a cell is the peer's median by ours. A turn during which others used the machine does not count.
"""

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import Vector, encode
from chainfl.learning.compute import cores
from chainfl.protocol import combine as rules
from chainfl.protocol.shares import equal, krum, rank_shares
from chainfl.protocol.terms import default_terms
from chainfl.report import Bar, Op, Report, narrate, report
from scripts.benches._command import bench_parser, show
from scripts.benches._peers import Peer, peer_python, start_peer
from scripts.benches._quiet import Sample, Samples, decided, ratio_of, told_lines, watched

D = 1_663_370
SEED = 7
SCALE = 20
REQUIREMENTS = ("byzfl==0.0.11",)
Spread: TypeAlias = tuple[float, float, float]
RULES = ("median", "trimmed", "krum", "multi-krum")

PEER = """
import json, sys, time, types
from pathlib import Path
import numpy as np
import torch
byzfl = types.ModuleType("byzfl")  # its own __init__ wants torchvision, which aggregation does not need
byzfl.__path__ = [str(next(Path(p) / "byzfl" for p in sys.path if (Path(p) / "byzfl" / "aggregators").is_dir()))]
sys.modules["byzfl"] = byzfl
from byzfl.aggregators import Krum, Median, MultiKrum, TrMean
torch.set_num_threads(int(sys.argv[1]))
made = {"median": lambda f: Median(), "trimmed": lambda f: TrMean(f), "krum": lambda f: Krum(f),
        "multi-krum": lambda f: MultiKrum(f)}
held = {}
for line in sys.stdin:
    try:
        asked = json.loads(line)
        if "load" in asked:
            held = {"numpy": np.load(asked["load"])}
            held["torch"] = torch.from_numpy(held["numpy"])
            answer = list(held["numpy"].shape)
        else:
            rule = made[asked["rule"]](asked["f"])
            rows = held[asked["backend"]][: asked["k"]]
            started = time.perf_counter()
            found = rule(rows)
            answer = time.perf_counter() - started
        print(json.dumps({"answer": answer}))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    options = bench_parser(
        "byzfl", "Robust rules against ByzFL.", quick="a tenth of the parameters, 20 updates, 3 turns"
    ).parse_args(argv)

    found = measure(D // 10, (20,), 3) if options.quick else measure(D, (20, 40, 100), 5)
    return show(found, table, as_json=options.json)


def measure(d: int, counts: Sequence[int], turns: int) -> Report:
    """All cells and their bars."""
    started = time.perf_counter()
    python = peer_python("byzfl", REQUIREMENTS, alone=True)
    threads = str(cores())
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}

    cells: dict[str, Cell] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        start_peer(python, PEER, threads, environment=environment) as peer,
    ):
        floats_KD = updates(max(counts), d)
        path = Path(folder) / "updates.npy"
        np.save(path, floats_KD)
        ours_KD = [encode(row, SCALE) for row in floats_KD]
        del floats_KD
        peer.ask(load=str(path))

        for count in counts:
            for rule in RULES:
                narrate(f"{rule}, K = {count}, d = {d:,}, {turns} turns")
                cells[f"{rule} K={count}"] = cell(peer, rule, ours_KD[:count], turns)

    ratios = ratios_of(cells)
    metrics = {
        "d": d,
        "counts": list(counts),
        "turns": turns,
        "cells": {name: each.plain() for name, each in cells.items()},
        "ratios": [told for _, told in ratios],
    }
    bars = [made for made, _ in ratios if made is not None]
    return report("bench-byzfl", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


@dataclass(slots=True)
class Cell:
    """One rule at one K: seconds of ours and of both of the peer's back ends."""

    ours: Samples = field(default_factory=Samples)
    numpy: Samples = field(default_factory=Samples)
    torch: Samples = field(default_factory=Samples)

    def ratio(self) -> Spread | None:
        """The faster back end's time by ours, low, middle and high; None without a quiet turn."""
        if not self.ours.kept:
            return None
        return min(ratio_of(self.numpy, self.ours), ratio_of(self.torch, self.ours), key=lambda each: each[1])

    def plain(self) -> dict[str, object]:
        """What is reported of it."""
        times = {"ours": self.ours, "numpy": self.numpy, "torch": self.torch}
        ratio = self.ratio()
        return {
            "ratio": None if ratio is None else round(ratio[1], 3),
            **{f"{name}_seconds": each.plain() for name, each in times.items()},
        }


def ratios_of(cells: Mapping[str, Cell]) -> list[tuple[Bar | None, Mapping[str, object]]]:
    """Six times in the geometric mean for median and trimmed mean, half as fast again for Krum, faster everywhere."""
    seen = {name: each.ratio() for name, each in cells.items()}
    on_ranks = [each for name, each in seen.items() if name.startswith(("median", "trimmed"))]
    by_distance = [each for name, each in seen.items() if "krum" in name]
    return [
        _judged("byzfl.ranks_geometric_mean", on_ranks, _geometric_mean, ">=", 6),
        _judged("byzfl.krum_geometric_mean", by_distance, _geometric_mean, ">=", 1.5),
        _judged("byzfl.slowest_cell", list(seen.values()), min, ">", 1),
    ]


def _judged(
    name: str,
    ratios: Sequence[Spread | None],
    summed: Callable[[Sequence[float]], float],
    op: Op,
    limit: float,
) -> tuple[Bar | None, Mapping[str, object]]:
    found = [each for each in ratios if each is not None]
    if len(found) < len(ratios):
        return None, {"id": name, "verdict": "undecided", "why": "every turn of a cell was disturbed"}
    low, middle, high = (summed(each) for each in zip(*found, strict=True))
    return decided(name, low, middle, high, op, limit)


def updates(count: int, d: int) -> NDArray[np.float32]:
    """Updates around a head, as a round has them."""
    rng = np.random.default_rng(SEED)
    head_D = rng.normal(scale=0.05, size=d).astype(np.float32)
    rows_KD = rng.standard_normal((count, d), dtype=np.float32)
    rows_KD *= np.float32(0.01)
    rows_KD += head_D
    return rows_KD


def cell(peer: Peer, rule: str, updates_KD: Sequence[Vector], turns: int) -> Cell:
    """One rule at one K: ours and both of the peer's back ends in turn, after one turn to warm up."""
    count = len(updates_KD)
    tolerated = count // 5
    ours = our_rule(rule, updates_KD, tolerated)

    def turn() -> tuple[float, float, float]:
        started = time.perf_counter()
        ours()
        seconds = time.perf_counter() - started
        numpy, torch = (
            float(peer.ask(rule=rule, f=tolerated, k=count, backend=backend))
            for backend in ("numpy", "torch")
        )
        return seconds, numpy, torch

    # All three are looked at together: one of them alone is shorter than the system's clock of computing can tell.
    found = Cell()
    turn()
    for _ in range(turns):
        times, foreign = watched(turn, [peer.process.pid])
        for samples, seconds in zip((found.ours, found.numpy, found.torch), times, strict=True):
            samples.add(Sample(seconds, foreign))
    return found


def our_rule(rule: str, updates_KD: Sequence[Vector], tolerated: int) -> Callable[[], object]:
    """What a miner does for this rule, from vectors to the next model."""
    count = len(updates_KD)
    if rule in ("median", "trimmed"):
        text = "median" if rule == "median" else f"fedrob:b={tolerated}"
        shares = [0, *rank_shares(count, default_terms(text, D, 3, count))]
        return lambda: rules.combine_ranks(None, updates_KD, shares)

    def by_distance() -> object:
        chosen = krum(
            rules.pairwise_squared_distances(updates_KD),
            tolerated,
            1 if rule == "krum" else count - tolerated,
        )
        return rules.combine(None, updates_KD, [0, *equal(chosen, rules.TOTAL)])

    return by_distance


def table(found: Report) -> str:
    """The report for people."""
    cells, ratios = found.metrics["cells"], found.metrics["ratios"]
    assert isinstance(cells, dict)
    assert isinstance(ratios, list)
    lines = [f"{'':20}{'ours ms':>10}{'numpy ms':>10}{'torch ms':>10}{'times':>8}{'disturbed':>10}"]
    for name, each in cells.items():
        times = [each[f"{which}_seconds"]["median"] for which in ("ours", "numpy", "torch")]
        shown = "".join(
            f"{1e3 * seconds:10.1f}" if seconds is not None else f"{'-':>10}" for seconds in times
        )
        ratio = f"{each['ratio']:8.2f}" if each["ratio"] is not None else f"{'-':>8}"
        lines.append(f"{name:20}{shown}{ratio}{each['ours_seconds']['disturbed']:10}")
    return "\n".join([*lines, *told_lines(ratios)]) + "\n"


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
