"""Measure what proving an exported model costs over its tree alone: scripts/bench model [--quick] [--json].

The file has 6.65 MB, as of the papers' network for digits. What is compared is the least CPU time of many turns, taken
turn and turn about: other work on the machine adds to both only by what it takes from their caches.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chainfl.audit.provenance import Origin, statement_of
from chainfl.codec import merkle
from chainfl.codec.model_file import About, ModelFile, write_model_file
from chainfl.codec.records import Layout, Tensor
from chainfl.codec.vector import Vector
from chainfl.report import Report, bar, narrate, report
from chainfl.workflows.model import ExportedModel, statement_path, verify_model, write_export
from scripts.benches._command import bench_parser, plain_table, show

SEED = 7
SCALE = 20
LAYOUT = Layout(
    (
        Tensor("conv1.bias", (32,)),
        Tensor("conv1.weight", (32, 1, 5, 5)),
        Tensor("conv2.bias", (64,)),
        Tensor("conv2.weight", (64, 32, 5, 5)),
        Tensor("fc1.bias", (512,)),
        Tensor("fc1.weight", (512, 3136)),
        Tensor("fc2.bias", (10,)),
        Tensor("fc2.weight", (10, 512)),
    )
)


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    options = bench_parser("model", "Proving a model file beside its tree.", quick="fewer turns").parse_args(
        argv
    )
    found = measure(turns=15 if options.quick else 101)
    return show(found, plain_table, as_json=options.json)


def measure(turns: int) -> Report:
    """CPU seconds of the tree, and of `model verify` of the same parameters with and without a statement."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        plain = Path(home, "plain.safetensors")
        stated = Path(home, "stated.safetensors")
        u_D = _export(stated)
        plain.write_bytes(stated.read_bytes())
        assert statement_path(stated).exists()

        narrate(f"{LAYOUT.d:,} parameters, {turns} turns")
        cpu = _take_turns(
            {
                "tree": lambda: merkle.root(u_D),
                "verify": lambda: verify_model(stated),
                "verify without statement": lambda: verify_model(plain),
            },
            turns,
        )
        size = stated.stat().st_size

    metrics: dict[str, Any] = {"parameters": LAYOUT.d, "bytes": size, "turns": turns}
    metrics |= {f"{name}, cpu milliseconds": round(1e3 * each, 2) for name, each in cpu.items()}
    bars = [
        bar("model.verify_ratio", round(cpu["verify"] / cpu["tree"], 3), "<=", 2),
        bar("model.verify_alone_ratio", round(cpu["verify without statement"] / cpu["tree"], 3), "<=", 2),
    ]
    return report("bench-model", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def _export(out: Path) -> Vector:
    """A file with its statement beside it, as `chainfl model export` writes both."""
    steps = np.random.default_rng(SEED).integers(-(2**18), 2**18, LAYOUT.d)
    u_D = (steps + 2**31).astype(np.uint32)
    file = ModelFile(u_D, LAYOUT, About(1, bytes(20), 9, merkle.root(u_D), SCALE))
    data = write_model_file(u_D, LAYOUT, file.about)
    statement = statement_of(out.name, data, file, Origin("softmax", None, None, ()))
    write_export(ExportedModel(data, file, statement), out)
    return u_D


def _take_turns(works: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """The least CPU seconds of each; a first turn that loads the kernels is not counted."""
    seen: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            started = time.process_time()
            work()
            if turn:
                seen[name].append(time.process_time() - started)
    return {name: min(each) for name, each in seen.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
