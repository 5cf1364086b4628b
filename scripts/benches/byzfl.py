"""Measure the robust rules against ByzFL on the same numbers: scripts/bench byzfl [--quick] [--json].

ByzFL runs in its own environment, on a memory map of the same float32 updates, with numpy arrays and with torch
tensors; the faster of the two counts. Ours work on the integers that those floats encode to, and are exact. Both take
turns in one run; a cell is the median over turns of the peer's time by ours.
"""

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from chainfl.codec.vector import Vector, encode
from chainfl.learning.compute import cores
from chainfl.protocol import combine as rules
from chainfl.protocol.shares import equal, krum, rank_shares
from chainfl.protocol.terms import default_terms
from chainfl.report import Bar, Report, bar, narrate, report
from scripts.benches._command import bench_parser, show
from scripts.benches._peers import Peer, peer_python, start_peer

D = 1_663_370
SEED = 7
SCALE = 20
REQUIREMENTS = ("byzfl==0.0.11",)
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

    cells: dict[str, dict[str, float]] = {}
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

    metrics = {"d": d, "counts": list(counts), "turns": turns, "cells": cells}
    return report("bench-byzfl", metrics, bars_of(cells), seed=SEED, seconds=time.perf_counter() - started)


def bars_of(cells: Mapping[str, Mapping[str, float]]) -> list[Bar]:
    """Six times in the geometric mean for median and trimmed mean, half as fast again for Krum, faster everywhere."""
    ratios = {name: each["ratio"] for name, each in cells.items()}
    on_ranks = [ratio for name, ratio in ratios.items() if name.startswith(("median", "trimmed"))]
    by_distance = [ratio for name, ratio in ratios.items() if "krum" in name]
    return [
        bar("byzfl.ranks_geometric_mean", round(_geometric_mean(on_ranks), 3), ">=", 6),
        bar("byzfl.krum_geometric_mean", round(_geometric_mean(by_distance), 3), ">=", 1.5),
        bar("byzfl.slowest_cell", round(min(ratios.values()), 3), ">", 1),
    ]


def updates(count: int, d: int) -> NDArray[np.float32]:
    """Updates around a head, as a round has them."""
    rng = np.random.default_rng(SEED)
    head_D = rng.normal(scale=0.05, size=d).astype(np.float32)
    rows_KD = rng.standard_normal((count, d), dtype=np.float32)
    rows_KD *= np.float32(0.01)
    rows_KD += head_D
    return rows_KD


def cell(peer: Peer, rule: str, updates_KD: Sequence[Vector], turns: int) -> dict[str, float]:
    """One rule at one K: ours and both of the peer's back ends in turn, after one turn to warm up."""
    count = len(updates_KD)
    tolerated = count // 5
    ours = our_rule(rule, updates_KD, tolerated)

    times: dict[str, list[float]] = {"ours": [], "numpy": [], "torch": []}
    for _ in range(turns + 1):
        started = time.perf_counter()
        ours()
        times["ours"].append(time.perf_counter() - started)
        for backend in ("numpy", "torch"):
            times[backend].append(float(peer.ask(rule=rule, f=tolerated, k=count, backend=backend)))

    # The first turn warmed up and does not count.
    ratio = median(
        min(a, b) / own
        for own, a, b in list(zip(times["ours"], times["numpy"], times["torch"], strict=True))[1:]
    )
    return {
        "ratio": round(ratio, 3),
        **{f"{name}_ms": round(1e3 * median(each[1:]), 3) for name, each in times.items()},
    }


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
    cells = found.metrics["cells"]
    assert isinstance(cells, dict)
    lines = [f"{'':20}{'ours ms':>10}{'numpy ms':>10}{'torch ms':>10}{'times':>8}"]
    lines += [
        f"{name:20}{each['ours_ms']:10.1f}{each['numpy_ms']:10.1f}{each['torch_ms']:10.1f}{each['ratio']:8.2f}"
        for name, each in cells.items()
    ]
    lines += [
        f"{each.id:32}{each.value:10.2f} {each.op} {each.limit:g}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
