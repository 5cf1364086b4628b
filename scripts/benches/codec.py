"""Measure the codec and combining against plain memory and hashing: scripts/bench codec [--quick] [--json].

Every ratio compares two things that took turns in the same run, so that a busy machine slows both; it is the median
of the turns' ratios. The yardsticks: `hashlib.sha256` over the same bytes in one piece, a memory copy between two
arrays of the size that goes in and out, and `np.max` over the same 20 arrays (rows of one array, result in place).
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from chainfl.codec import merkle, vector
from chainfl.protocol import combine as rules
from chainfl.protocol.shares import equal, rank_shares
from chainfl.protocol.terms import default_terms
from chainfl.report import Bar, Report, bar, narrate, report
from scripts.benches._command import bench_parser, show

D = 1_663_370
K = 20
SCALE = 20
SEED = 7
MODEL_BYTES = 4 * D

Task = Callable[[], object]
Times = Mapping[str, list[float]]

FIRST_USE = """
import time
started = time.perf_counter()
import numpy as np
from chainfl.codec import merkle, vector
from chainfl.protocol import combine as rules
u = vector.encode(np.zeros(100, np.float32), 20)
vector.decode(u, 20)
merkle.root(u)
rules.combine(u, [u], [rules.TOTAL, 0])
rules.combine_ranks(u, [u], [0, rules.TOTAL])
rules.squared_distances(u, [u])
print(time.perf_counter() - started)
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A model that is made slice by slice, as if it came from a store."""

    seed: int

    def __len__(self) -> int:
        return D

    def __getitem__(self, part: slice, /) -> NDArray[np.uint32]:
        rng = np.random.default_rng((self.seed, part.start))
        drawn: NDArray[np.uint32] = rng.integers(0, 2**32, part.stop - part.start, np.uint32)
        return drawn


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    options = bench_parser(
        "codec", "Speed of canonical values.", quick="fewer turns; under a minute"
    ).parse_args(argv)

    found = measure(turns=11 if options.quick else 31)
    return show(found, table, as_json=options.json)


def measure(turns: int) -> Report:
    """All numbers and their bars."""
    started = time.perf_counter()
    narrate("first use: compiling into an empty cache")
    first, again = first_use_seconds()
    updates_KD = np.random.default_rng(SEED).integers(0, 2**32, (K, D), np.uint32)

    narrate(f"trees, encoding and decoding at d = {D:,}, {turns} turns")
    times = dict(take_turns(codec_tasks(), turns))
    narrate(f"combining {K} models, {turns} turns")
    times |= take_turns(combine_tasks(updates_KD), turns)
    narrate("rules on ranks, distances, and the plain paths without numba, 5 turns")
    times |= take_turns(rule_tasks(updates_KD), 5)
    with without_numba():
        times |= take_turns(plain_tasks(updates_KD), 5)
    peak = combine_peak_bytes()
    allowed = 2 * MODEL_BYTES + K * 4 * rules.CHUNK

    ratios = {
        "codec.tree_ratio": (ratio(times, "tree", "flat sha256"), 4),
        "codec.encode_ratio": (ratio(times, "encode", "copy"), 3),
        "codec.decode_ratio": (ratio(times, "decode", "copy"), 3),
        "codec.combine_ratio": (ratio(times, "combine", "np.max"), 2),
        "codec.combine_memory_ratio": (peak / allowed, 1),
        "codec.first_use_seconds": (first, 20),
    }
    bars: list[Bar] = [bar(name, round(value, 3), "<=", limit) for name, (value, limit) in ratios.items()]
    metrics = {
        "d": D,
        "k": K,
        "turns": turns,
        "milliseconds": {name: round(1e3 * median(each), 3) for name, each in times.items()},
        "bytes_per_second": {name: round(_bytes_read(name) / median(each)) for name, each in times.items()},
        "combine_peak_bytes": peak,
        "combine_allowed_bytes": allowed,
        "cached_use_seconds": round(again, 3),
        "plain_tree_ratio": round(median(times["tree, plain"]) / median(times["flat sha256"]), 3),
    }
    return report("bench-codec", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def codec_tasks() -> dict[str, Task]:
    """One model: its flat hash and its tree; a copy, and the ways to and from floats."""
    x = np.random.default_rng(SEED).normal(size=D).astype(np.float32)
    u = vector.encode(x, SCALE)
    data = vector.to_bytes(vector.encode(x, SCALE))
    x_out = np.empty_like(x)
    u_out = np.empty_like(u)
    copied = np.empty_like(x)

    return {
        "flat sha256": lambda: hashlib.sha256(data).digest(),
        "tree": lambda: merkle.root(u),
        "tree from bytes": lambda: merkle.root_from_bytes(data, D),
        "copy": lambda: np.copyto(copied, x),
        "encode": lambda: vector.encode(x, SCALE, out=u_out),
        "decode": lambda: vector.decode(u, SCALE, out=x_out),
        "to bytes": lambda: vector.to_bytes(u),
        "from bytes": lambda: vector.from_bytes(data, D, out=u_out),
    }


def combine_tasks(updates_KD: NDArray[np.uint32]) -> dict[str, Task]:
    """K models: the greatest of each parameter, and their combination, from integers and from canonical bytes."""
    updates = list(updates_KD)
    out = np.empty(D, np.uint32)
    in_bytes = list(updates_KD.astype(">u4"))
    shares = equal_shares()
    return {
        "np.max": lambda: np.max(updates_KD, axis=0, out=out),
        "combine": lambda: rules.combine(None, updates, shares, out=out),
        "combine from bytes": lambda: rules.combine(None, in_bytes, shares, out=out),
    }


def rule_tasks(updates_KD: NDArray[np.uint32]) -> dict[str, Task]:
    """Rules that sort or compare K models; distances also between models as near as a round's are."""
    updates = list(updates_KD)
    out = np.empty(D, np.uint32)
    near = list(2**31 + (updates_KD >> np.uint32(12)))
    on_median = [0, *rank_shares(K, default_terms("median", D, 3, K))]
    on_middle = [0, *rank_shares(K, default_terms("fedrob:b=2", D, 3, K))]
    return {
        "median": lambda: rules.combine_ranks(None, updates, on_median, out=out),
        "trimmed mean": lambda: rules.combine_ranks(None, updates, on_middle, out=out),
        "pairwise distances": lambda: rules.pairwise_squared_distances(near),
        "pairwise distances, far": lambda: rules.pairwise_squared_distances(updates),
    }


def plain_tasks(updates_KD: NDArray[np.uint32]) -> dict[str, Task]:
    """The same work without numba."""
    codec = codec_tasks()
    combining = combine_tasks(updates_KD)
    tasks = {name: codec[name] for name in ("tree", "encode", "decode")} | {"combine": combining["combine"]}
    return {f"{name}, plain": task for name, task in tasks.items()}


def take_turns(tasks: Mapping[str, Task], turns: int) -> dict[str, list[float]]:
    """Seconds of each task in each turn; every task runs once before the clock starts."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(turns):
        for name, task in tasks.items():
            started = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - started)
    return times


def ratio(times: Times, name: str, yardstick: str) -> float:
    """The median over turns of one task's time by the other's in the same turn."""
    return median(a / b for a, b in zip(times[name], times[yardstick], strict=True))


def combine_peak_bytes() -> int:
    """The most memory that combining K streamed models holds at once, the result included."""
    updates = [Drawn(seed) for seed in range(K)]
    shares = equal_shares()
    rules.combine(None, updates, shares)  # what loading the kernels takes is not part of it
    tracemalloc.start()
    try:
        rules.combine(None, updates, shares)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def equal_shares() -> list[int]:
    """Nothing for the head, equal shares for K updates, the remainder on the first."""
    return [0, *equal([True] * K, rules.TOTAL)]


def first_use_seconds() -> tuple[float, float]:
    """How long a process needs until every kernel has run: with an empty cache, and again with what it left."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "CHAINFL_NO_NUMBA": "0"}
        command = [sys.executable, "-c", FIRST_USE]
        first, again = (
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
            for _ in range(2)
        )
    return float(first.stdout), float(again.stdout)


@contextmanager
def without_numba() -> Iterator[None]:
    """Take the plain paths inside the block."""
    before = os.environ.get("CHAINFL_NO_NUMBA")
    os.environ["CHAINFL_NO_NUMBA"] = "1"
    try:
        yield
    finally:
        os.environ.pop("CHAINFL_NO_NUMBA")
        if before is not None:
            os.environ["CHAINFL_NO_NUMBA"] = before


def table(found: Report) -> str:
    """The report for people."""
    milliseconds = found.metrics["milliseconds"]
    rates = found.metrics["bytes_per_second"]
    assert isinstance(milliseconds, dict)
    assert isinstance(rates, dict)
    lines = [f"{'':28}{'ms':>10}{'GB/s':>10}"]
    lines += [f"{name:28}{milliseconds[name]:10.2f}{rates[name] / 1e9:10.2f}" for name in milliseconds]
    lines += ["", f"{'bar':28}{'value':>10}{'limit':>10}"]
    lines += [
        f"{each.id:28}{each.value:10.2f}{each.limit:10g}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    rest = {name: value for name, value in found.metrics.items() if not isinstance(value, dict)}
    return "\n".join([*lines, "", json.dumps(rest)]) + "\n"


def _bytes_read(name: str) -> int:
    models = K if name.startswith(("np.max", "combine", "median", "trimmed", "pairwise")) else 1
    return models * MODEL_BYTES


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
