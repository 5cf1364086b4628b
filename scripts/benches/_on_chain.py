"""Rounds on an anvil of our own with a process for each participant: when each phase was, and who computed."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

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
from chainfl.report import narrate
from chainfl.store.directory import DirectoryStore
from chainfl.types import Phase
from chainfl.workflows.audit import audit, trace_task
from chainfl.workflows.sponsor import Terms
from scripts.benches._quiet import busy_seconds

PARTICIPANTS, COMMITTEE, SAMPLES = 12, 3, 2_000
HELD_OUT = 222
"""A tenth of what a participant owns is held out, so that it trains on 2,000 of 2,222."""
SEED = 7
WINDOW = 20
LONGEST = 1_800.0


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
        if audited:
            await_end(net, people)
        audits = [audit_seconds(reader, store, line.number) for line in rounds] if audited else []

    (home / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    steps = [step for person in people for step in steps_of(home / "logs" / f"{person.name}.log")]
    return Played(rounds, steps, audits)


def await_end(net: Devnet, people: Sequence[Person], seconds: float = 120) -> None:
    """Wait until the nodes have left the ended task: each may still be redoing the last proposal, as any watcher does.

    Raises:
        LedgerError: they do not leave.
    """
    until = time.monotonic() + seconds
    while any(net.runs(person.name) for person in people):
        if time.monotonic() > until:
            raise LedgerError(f"nodes still run {seconds:.0f} s after the end of their task")
        time.sleep(0.1)


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
                    f"({spans(line.phases)})"
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


def spans(each: Mapping[str, float]) -> str:
    """Seconds by name, for people."""
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in each.items())
