"""Measure VaRSeL's weights over the most updates of a round: scripts/bench varsel [--quick] [--json].

128 updates of 1,663,370 parameters, five of them internal: distances, weights and shares, once for updates as near to
each other as those of a round, once for updates all over the range. Medians of the turns.
"""

import sys
import time
from collections.abc import Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from chainfl.protocol.combine import pairwise_squared_distances
from chainfl.protocol.varsel import varsel_shares, varsel_weights
from chainfl.report import Report, bar, narrate, report
from scripts.benches._command import bench_parser, plain_table, show

D, K, INTERNALS, BUDGET = 1_663_370, 128, 5, 10
SECONDS = 3.0
SEED = 7
REACH = {"near": 2**12, "far": 2**31 - 1}
"""How far the parameters of an update lie from zero: a round's are within some thousands of steps of each other."""


def updates_within(reach: int) -> list[NDArray[np.uint32]]:
    """Updates whose parameters are drawn from this far around zero."""
    rng = np.random.default_rng((SEED, reach))
    return [(rng.integers(-reach, reach, D, np.int64) + 2**31).astype(np.uint32) for _ in range(K)]


def seconds_of(updates: list[NDArray[np.uint32]], turns: int) -> tuple[list[float], list[float]]:
    """Of each turn the time of the distances, and of all; a turn before the first warms up."""
    internals = [k < INTERNALS for k in range(K)]
    alone, whole = [], []
    for turn in range(turns + 1):
        begun = time.perf_counter()
        distances = pairwise_squared_distances(updates)
        between = time.perf_counter()
        varsel_shares(varsel_weights(distances, internals, BUDGET), internals)
        if turn:
            alone.append(between - begun)
            whole.append(time.perf_counter() - begun)
    return alone, whole


def measure(turns: int) -> Report:
    """Both kinds of updates, held against the bar."""
    started = time.perf_counter()
    metrics: dict[str, object] = {"updates": K, "parameters": D, "turns": turns}
    bars = []
    for name, reach in REACH.items():
        narrate(f"{K} updates of {D:,} parameters, {name}")
        alone, whole = seconds_of(updates_within(reach), turns)
        metrics[f"{name}: distances (s)"] = round(median(alone), 3)
        metrics[f"{name}: all (s)"] = round(median(whole), 3)
        bars.append(bar(f"varsel.{name}", round(median(whole), 3), "<=", SECONDS))
    return report("bench-varsel", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def main(argv: Sequence[str]) -> int:
    """Run the command; answers its exit code."""
    options = bench_parser("varsel", __doc__ or "", quick="one turn").parse_args(argv)
    return show(measure(1 if options.quick else 5), plain_table, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
