"""Measure a round with node processes on anvil: scripts/bench round [--trainer torch|none|both] [--quick] [--json].

With torch: 12 participants, a committee of 3 and the MNIST CNN, 2,000 samples x 4 local epochs each, on anvil with one
process per participant; then the same rounds played again in memory from the chain's trace. Samples come from `mnist`
where CHAINFL_DATA has it, each participant's its own; else from the embedded subset, drawn with overlap. With none:
updates that learn nothing, so that what is left is the price of chain, store, trees and waiting.

A round counts from the opening of its draw to its end. The Challenge window, which always runs its full length, and
the start of processes do not count.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from chainfl.errors import LedgerError
from chainfl.report import Bar, Report, bar, narrate, report
from chainfl.sim.dealing import ReplayParticipant
from chainfl.sim.replay import read_trace, replay
from chainfl.types import Id
from scripts.benches._command import bench_parser, show
from scripts.benches._on_chain import (
    PARTICIPANTS,
    SAMPLES,
    SEED,
    Plan,
    Timeline,
    play_on_chain,
    spans,
    write_people,
)
from scripts.benches._quiet import Sample, Samples, judged, sample, told_lines

T = TypeVar("T")

EPOCHS = 4
MOST_OVER_REPLAY, MOST_BARE_SECONDS = 1.15, 3.5


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    known = bench_parser("round", "The cost of a real round.", quick="200 samples and one epoch; says less")
    known.add_argument("--trainer", choices=("torch", "none", "both"), default="both")
    options = known.parse_args(argv)

    found = measure(options.trainer, quick=options.quick)
    return show(found, table, as_json=options.json)


def measure(trainer: str, *, quick: bool) -> Report:
    """Play rounds on a chain, and again in memory."""
    started = time.perf_counter()
    metrics = dict[str, object]()
    bars = []
    if trainer in ("torch", "both"):
        learning, made = measure_learning(
            Plan("torch", 3, SAMPLES // 10 if quick else SAMPLES, 1 if quick else EPOCHS)
        )
        metrics["torch"] = learning
        bars += [made] if made is not None else []
    if trainer in ("none", "both"):
        bare = measure_bare(Plan("none", 3, SAMPLES // 10, 1))
        metrics["none"] = bare
        bars.append(bar("round.bare_seconds", float(str(bare["median_seconds"])), "<=", MOST_BARE_SECONDS))
    return report("bench-round", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def measure_learning(plan: Plan) -> tuple[dict[str, object], Bar | None]:
    """Rounds with real training, and their replay; no bar where others used the machine or the spread crosses it."""
    with tempfile.TemporaryDirectory(prefix="chainfl-bench-") as place:
        home = Path(place)
        source = write_people(home / "data.npz", plan)
        played = play_on_chain(home, plan)
        computed = time.process_time()
        replayed = play_again(home)
        computed = time.process_time() - computed

    # The middle one of each: a machine's speed differs from minute to minute, and a round takes half of one.
    chain, memory = Samples(), Samples()
    for line in played.rounds:
        chain.add(Sample(line.seconds, line.foreign))
    for one in replayed:
        memory.add(one)
    made, told = judged("round.over_replay", chain, memory, "<=", MOST_OVER_REPLAY)
    return {
        **asdict(plan),
        "data": source,
        "rounds_on_chain": [_plain(one) for one in played.rounds],
        "rounds_in_memory": [round(one.seconds, 3) for one in replayed],
        "over_replay": told,
        "cpu_over_replay": round(sum(one.cpu_seconds for one in played.rounds) / computed, 4),
        "node_steps": summed(played.steps),
    }, made


def measure_bare(plan: Plan) -> dict[str, object]:
    """Rounds without learning."""
    with tempfile.TemporaryDirectory(prefix="chainfl-bench-") as place:
        write_people(Path(place) / "data.npz", plan)
        played = play_on_chain(Path(place), plan)
    return {
        **asdict(plan),
        "rounds_on_chain": [_plain(one) for one in played.rounds],
        "median_seconds": round(median(one.seconds for one in played.rounds), 3),
        "node_steps": summed(played.steps),
    }


def summed(steps: Sequence[Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """By kind of step: how often, the mean and longest seconds, and the mean seconds by cause."""
    kinds: dict[str, list[Mapping[str, object]]] = {}
    for step in steps:
        kinds.setdefault(str(step["step"]), []).append(step)
    return {kind: _summed(taken) for kind, taken in kinds.items()}


def _summed(taken: Sequence[Mapping[str, object]]) -> dict[str, object]:
    seconds = [float(str(step["seconds"])) for step in taken]
    causes: dict[str, float] = {}
    for step in taken:
        spent = step["causes"]
        assert isinstance(spent, dict)
        for cause, each in spent.items():
            causes[cause] = causes.get(cause, 0.0) + each / len(taken)
    return {
        "count": len(taken),
        "mean_seconds": round(sum(seconds) / len(seconds), 3),
        "longest_seconds": round(max(seconds), 3),
        "causes": {cause: round(each, 3) for cause, each in causes.items()},
    }


# In memory


def play_again(home: Path) -> list[Sample]:
    """Each round in the simulator, its preparation not counted."""
    told = read_trace(home / "trace.json")

    described = {
        Id(number + 1): ReplayParticipant(
            number, PARTICIPANTS, "client", SEED, SEED, dataset=f"npz:{home / 'data.npz'}"
        )
        for number in range(PARTICIPANTS)
    }
    _, prepared = _timed_answer(lambda: list(replay(replace(told, rounds=[]), described)))
    replayed = replay(told, described)
    found = []
    for number in range(1, len(told.rounds) + 1):

        def turn(number: int = number) -> float:
            one, seconds = _timed_answer(lambda: next(replayed))
            if not one.same:
                raise LedgerError(f"round {one.round}: the replay gives another model than the chain")
            return seconds - prepared if number == 1 else seconds

        found.append(sample(turn, []))
        narrate(f"round {number} in memory: {found[-1].seconds:.2f} s")
    return found


def _timed_answer(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - started


# For people


def table(found: Report) -> str:
    """The report for people."""
    lines = []
    for name, part in found.metrics.items():
        assert isinstance(part, dict)
        for one in part["rounds_on_chain"]:
            lines.append(f"{name} round {one['round']}: {one['seconds']:.2f} s ({spans(one['phases'])})")
        for number, seconds in enumerate(part.get("rounds_in_memory", ()), 1):
            lines.append(f"{name} round {number} in memory: {seconds:.2f} s")
        if "over_replay" in part:
            lines += told_lines([part["over_replay"]])
        lines.append(f"{'step':16}{'count':>6}{'mean s':>10}{'longest':>10}  mean seconds by cause")
        for kind, step in part["node_steps"].items():
            numbers = f"{step['count']:6}{step['mean_seconds']:10.2f}{step['longest_seconds']:10.2f}"
            lines.append(f"{kind:16}{numbers}  {spans(step['causes'])}")

        lines.append("")

    lines += [
        f"{each.id:24}{each.value:10.3f}{each.limit:10g}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def _plain(line: Timeline) -> dict[str, object]:
    phases = {name: round(seconds, 3) for name, seconds in line.phases.items()}
    cpu = round(line.cpu_seconds, 2)
    return {"round": line.number, "seconds": round(line.seconds, 3), "cpu_seconds": cpu, "phases": phases}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
