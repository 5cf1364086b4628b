"""Measure a round with node processes on anvil: scripts/bench round [--trainer torch|none|both] [--quick] [--json].

With torch: 12 participants, a committee of 3 and the MNIST CNN, 2,000 samples x 4 local epochs each, on anvil with one
process per participant; then the same rounds played again in memory from the chain's trace. Samples come from `mnist`
where CHAINFL_DATA has it, each participant's its own; else from the embedded subset, drawn with overlap. With none:
updates that learn nothing, so that what is left is the price of chain, store, trees and waiting.

A round counts from the opening of its draw to its end. The Challenge window, which always runs its full length, and
the start of processes do not count.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
from websockets.sync.client import connect

from chainfl.audit.verify import Verdict
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.codec.text import ETHER
from chainfl.devnet.processes import (
    Devnet,
    Person,
    enrol,
    make_keys,
    open_task,
    start_anvil,
    start_node,
    stop,
)
from chainfl.errors import DataMissingError, LedgerError
from chainfl.learning.datasets import load
from chainfl.ports import BlobStore
from chainfl.protocol import events
from chainfl.report import Bar, Report, bar, narrate, report
from chainfl.sim.dealing import ReplayParticipant
from chainfl.sim.replay import read_trace, replay
from chainfl.store.directory import DirectoryStore
from chainfl.types import Id, Phase
from chainfl.workflows.audit import audit, trace_task
from chainfl.workflows.sponsor import Terms
from scripts.benches._command import bench_parser, show
from scripts.benches._quiet import Sample, Samples, busy_seconds, judged, sample, told_lines

T = TypeVar("T")

PARTICIPANTS, COMMITTEE, EPOCHS, SAMPLES = 12, 3, 4, 2_000
HELD_OUT = 222
"""A tenth of what a participant owns is held out, so that it trains on 2,000 of 2,222."""
SEED = 7
WINDOW = 20
LONGEST = 1_800.0
MOST_OVER_REPLAY, MOST_BARE_SECONDS = 1.15, 3.5


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played."""

    trainer: str
    rounds: int
    samples: int
    epochs: int
    people: int = PARTICIPANTS
    committee: int = COMMITTEE
    rate: float = 0.05
    batch: int = 32


@dataclass(slots=True)
class Played:
    """What was seen of rounds on a chain: when their phases were, every step of a node, seconds of each audit."""

    rounds: list["Timeline"]
    steps: list[Mapping[str, object]]
    audits: list[float]


@dataclass(slots=True)
class Timeline:
    """When the phases of one round began and ended, in seconds of the wall clock."""

    number: int
    opened: float
    entered: dict[str, float] = field(default_factory=dict)
    ended: float = 0.0
    deadline: int = 0
    cpu_opened: float = 0.0
    cpu_proposed: float = 0.0
    foreign: float = 0.0
    """The part of all cores that others used up to the proposal."""

    @property
    def cpu_seconds(self) -> float:
        """What all processes computed up to the proposal; a busy machine hardly changes it."""
        return self.cpu_proposed - self.cpu_opened

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase; of Challenge only what came after its window."""
        names = [*self.entered, "end"]
        times = [*self.entered.values(), self.ended]
        spans = {
            name: after - before
            for name, before, after in zip(names, times, times[1:], strict=False)
            if name != "challenge"
        }
        return spans | {"settle": max(0.0, self.ended - self.deadline)}

    @property
    def seconds(self) -> float:
        """The round without its Challenge window."""
        return sum(self.phases.values())


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


def write_people(path: Path, plan: Plan) -> str:
    """Everybody's samples in one file that names their owners; answers where they are from."""
    own = plan.samples + round(plan.samples * HELD_OUT / SAMPLES)
    rng = np.random.default_rng(SEED)
    try:
        data = load("mnist", os.environ.get("CHAINFL_DATA"))
        overlap = False
    except DataMissingError:
        data = load("mnist-embedded", None)
        overlap = True

    if overlap:
        rows = np.concatenate([rng.permutation(len(data.y))[:own] for _ in range(plan.people)])
    else:
        rows = rng.permutation(len(data.y))[: own * plan.people]

    np.savez(
        path,
        x=data.x[rows],
        y=data.y[rows],
        x_test=data.x_test[:100],
        y_test=data.y_test[:100],
        client=np.repeat(np.arange(plan.people), own),
    )
    return f"{data.name}, {'drawn with overlap' if overlap else 'no sample twice'}"


# On a chain


def play_on_chain(home: Path, plan: Plan, *, audited: bool = False) -> Played:
    """Rounds with one process per participant; `audited` redoes each of them afterwards.

    Raises:
        LedgerError: an audit finds something wrong.
    """
    people = [Person(f"p{number:02}") for number in range(1, plan.people + 1)]
    terms = Terms(
        rounds=plan.rounds,
        committee_size=plan.committee,
        min_updates=plan.people - plan.committee - 1,
        escrow=plan.rounds * ETHER // 5,
        train_seconds=3_600,
        reveal_seconds=300,
        score_seconds=600,
        tally_seconds=300,
        propose_seconds=300,
        challenge_seconds=WINDOW,
        model="mnist-cnn",
        learning_rate=plan.rate,
        batch=plan.batch,
        local_epochs=plan.epochs,
    )

    more = {"dataset": f"npz:{home / 'data.npz'}", "partition": "client", "trainer": plan.trainer}
    with devnet(home) as net:
        w3 = open_rpc(net.rpc_url)
        keys = make_keys(home, ["sponsor", *(person.name for person in people)])
        created = open_task(net, w3, keys, people, terms, narrate)
        for number, person in enumerate(people):
            start_node(net, person, number, plan.people, "client", SEED, more | {"json-logs": True})

        reader = TaskReader(w3, created.address, net.chain_id, created.block)
        enrol(net, w3, keys, people)
        rounds = list(follow(net.rpc_url, reader, plan.rounds, list(net.processes.values())))
        store = DirectoryStore(home / "store")
        trace = trace_task(reader, store)
        audits = [audit_seconds(reader, store, line.number) for line in rounds] if audited else []

    (home / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    steps = [step for person in people for step in steps_of(home / "logs" / f"{person.name}.log")]
    return Played(rounds, steps, audits)


def audit_seconds(reader: TaskReader, store: BlobStore, number: int) -> float:
    """What redoing a round from chain and blobs takes.

    Raises:
        LedgerError: it finds something wrong.
    """
    started = time.perf_counter()
    for one in audit(reader, store, number):
        if one.verdict is not Verdict.OK:
            raise LedgerError(f"round {number}: the audit finds {one.verdict.value}")
    return time.perf_counter() - started


@contextmanager
def devnet(home: Path) -> Iterator[Devnet]:
    """An anvil of our own; what was started is ended."""
    process, url = start_anvil(home, 1)
    net = Devnet(str(home), url)
    net.started("anvil", process.pid)
    try:
        yield net
    finally:
        stop(net)


def new_blocks(url: str, seconds: float) -> Iterator[None]:
    """Wakes at once, and then at every new block: whoever measures by asking again and again slows what it measures."""
    until = time.monotonic() + seconds
    subscribe = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
    with connect(url.replace("http://", "ws://"), ping_interval=None) as socket:
        socket.send(json.dumps(subscribe))
        try:
            while True:
                socket.recv(until - time.monotonic())
                yield
        except TimeoutError:
            raise LedgerError(f"the rounds take longer than {seconds:.0f} s") from None


def follow(url: str, reader: TaskReader, rounds: int, pids: Sequence[int]) -> Iterator[Timeline]:
    """Stamp the task's events as they come, and yield each round when it has ended."""
    told = 0
    line = Timeline(0, 0.0)
    busy = own = 0.0
    for _ in new_blocks(url, LONGEST):
        reader.refresh()
        now = time.time()
        for event in (logged.event for logged in reader.log[told:]):
            if isinstance(event, events.DrawOpened):
                line = Timeline(event.round, now, {"draw": now}, cpu_opened=cpu_of(pids))
                busy, own = busy_seconds(), line.cpu_opened + time.process_time()
            elif isinstance(event, events.PhaseEntered):
                line.entered[event.phase.name.lower()] = now
                if event.phase is Phase.CHALLENGE:
                    line.deadline, line.cpu_proposed = event.deadline, cpu_of(pids)
                    foreign = busy_seconds() - busy - (line.cpu_proposed + time.process_time() - own)
                    line.foreign = max(0.0, foreign) / ((now - line.opened) * (os.cpu_count() or 1))
            elif isinstance(event, events.RoundEnded):
                line.ended = now
                narrate(
                    f"round {line.number}: {line.seconds:.2f} s, CPU {line.cpu_seconds:.2f} s "
                    f"({_spans(line.phases)})"
                )
                yield line

        told = len(reader.log)
        if line.ended and line.number >= rounds:
            return


def cpu_of(pids: Sequence[int]) -> float:
    """Seconds that these processes have computed, where /proc tells."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def steps_of(log: Path) -> Iterator[Mapping[str, object]]:
    """The steps that a node says it took."""
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith("{") and "causes" in (told := json.loads(line)):
            yield told


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
            lines.append(f"{name} round {one['round']}: {one['seconds']:.2f} s ({_spans(one['phases'])})")
        for number, seconds in enumerate(part.get("rounds_in_memory", ()), 1):
            lines.append(f"{name} round {number} in memory: {seconds:.2f} s")
        if "over_replay" in part:
            lines += told_lines([part["over_replay"]])
        lines.append(f"{'step':16}{'count':>6}{'mean s':>10}{'longest':>10}  mean seconds by cause")
        for kind, step in part["node_steps"].items():
            numbers = f"{step['count']:6}{step['mean_seconds']:10.2f}{step['longest_seconds']:10.2f}"
            lines.append(f"{kind:16}{numbers}  {_spans(step['causes'])}")

        lines.append("")

    lines += [
        f"{each.id:24}{each.value:10.3f}{each.limit:10g}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def _spans(spans: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in spans.items())


def _plain(line: Timeline) -> dict[str, object]:
    phases = {name: round(seconds, 3) for name, seconds in line.phases.items()}
    cpu = round(line.cpu_seconds, 2)
    return {"round": line.number, "seconds": round(line.seconds, 3), "cpu_seconds": cpu, "phases": phases}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
