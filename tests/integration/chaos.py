"""Seeded faults for a running task: which, when and against whom follows from a seed; each is one small function.

A fault comes at its round and phase, or as soon after as its target is free, and is undone some seconds later. The
schedule alone decides what is tried; what a lossy link loses and which step a kill hits depends on the machine as well.
"""

import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from chainfl.protocol.state import Task
from chainfl.protocol.views import trains, voters
from chainfl.types import Id, Phase
from tests.integration.chaos_rig import NODES, PHASE_SECONDS, Rig
from tests.integration.links import Link
from tests.integration.test_crashes import PLACES, pass_deadline, pass_window

FAULTS_A_ROUND: Final = 3
REORG_DEPTH: Final = 3
SHORTEST, LONGEST = 0.3, 2.0
BEYOND = 22.0
"""Seconds that outlast the time limit of a call to an endpoint."""
_MOST_SKEW: Final = PHASE_SECONDS // 6
"""With the chain's and a node's clock moved as far as that, more than half of a phase is left."""
_WHOLE: Final = resource.RLIM_INFINITY


class Kind(Enum):
    """What can go wrong. The value says it in the log."""

    NODE_KILL = "kill -9 of the node"
    DEATH = "kill -9 of whichever node comes first to a place in its own code"
    NODE_PAUSE = "the node is stopped"
    NODE_DISK = "the node's disk is full"
    NODE_CLOCK = "the node's clock is moved"
    CHAIN_SLOW = "the node's link to the chain is slow"
    CHAIN_LOSSY = "the node's link to the chain loses connections"
    CHAIN_CUT = "the node's link to the chain is cut"
    CHAIN_HOLE = "the node's link to the chain lets nothing through"
    STORE_SLOW = "the node's link to its daemon is slow"
    STORE_LOSSY = "the node's link to its daemon loses connections"
    STORE_CUT = "the node's link to its daemon is cut"
    STORE_HOLE = "the node's link to its daemon lets nothing through"
    ANVIL_KILL = "kill -9 of the chain's endpoint"
    ANVIL_PAUSE = "the chain's endpoint is stopped"
    REORG = f"the chain's last {REORG_DEPTH} blocks are replaced by empty ones"
    CHAIN_CLOCK = "the chain's clock is moved"
    DAEMON_KILL = "kill -9 of an IPFS daemon"
    DAEMON_PAUSE = "an IPFS daemon is stopped"
    DAEMON_DISK = "an IPFS daemon's disk is full"
    PARTITION = "the two IPFS daemons are cut off from each other"
    ABSENCE = "a node is stopped until the deadline of its duty has passed"


PHASES: Final = (
    Phase.DRAW,
    Phase.TRAIN,
    Phase.REVEAL,
    Phase.SCORE,
    Phase.TALLY,
    Phase.PROPOSE,
    Phase.CHALLENGE,
)
LASTING: Final = (Kind.NODE_PAUSE, Kind.ANVIL_PAUSE, Kind.CHAIN_HOLE)
"""What may outlast a call's time limit. Daemons are away for less: bytes missing for long count as withheld."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: where it comes, against which node, for how long, and how much of it (0 … 1)."""

    round: int
    phase: Phase
    kind: Kind
    node: int
    seconds: float
    amount: float

    def __str__(self) -> str:
        return (
            f"round {self.round} {self.phase.name.title()}: {self.kind.value} "
            f"(node {self.node}, {self.seconds:.2f} s, {self.amount:.3f})"
        )

    @property
    def place(self) -> str:
        """Where a node that kills itself does so."""
        return PLACES[int(self.amount * len(PLACES))]


def schedule(seed: int, rounds: int, longest: float = LONGEST) -> list[Fault]:
    """The faults of a run, a pure function of the seed: kinds are dealt like cards, so that all come equally often."""
    rng = random.Random(seed)
    deck, plan = list[Kind](), list[Fault]()
    for round_ in range(1, rounds + 1):
        dealt = []
        for _ in range(FAULTS_A_ROUND):
            deck = deck or rng.sample(list(Kind), len(Kind))
            kind = deck.pop()
            seconds = rng.uniform(SHORTEST, LONGEST)
            if kind in LASTING and rng.random() < 1 / 8:
                seconds = max(seconds, longest)
            dealt.append(Fault(round_, rng.choice(PHASES), kind, rng.choice(NODES), seconds, rng.random()))
        plan += sorted(dealt, key=lambda fault: fault.phase)
    return plan


# Duties


def duties(task: Task) -> Iterator[tuple[Phase, Id]]:
    """What is still to be done in this phase and, where that is known, in later ones of the round."""
    round_ = task.round
    phase, drawn = round_.phase, round_.drawn
    if drawn is None or phase is Phase.ENDED:
        return
    if phase is Phase.TRAIN:
        for account in task.accounts.values():
            if account.id not in round_.updates and trains(task, account):
                yield Phase.TRAIN, account.id
    if phase in (Phase.TRAIN, Phase.REVEAL):
        yield from ((Phase.REVEAL, id_) for id_, update in round_.updates.items() if update.revealed is None)
    if phase <= Phase.SCORE:
        yield from ((Phase.SCORE, id_) for id_ in round_.committee if id_ not in round_.scores)
    if phase in (Phase.SCORE, Phase.TALLY):
        yield from ((Phase.TALLY, id_) for id_, scores in round_.scores.items() if scores.revealed is None)
    if phase is Phase.PROPOSE:
        yield Phase.PROPOSE, round_.proposer
    if phase <= Phase.TALLY:
        yield Phase.PROPOSE, drawn.proposers[0]
    if phase in (Phase.PROPOSE, Phase.CHALLENGE):
        waited_for = set(voters(round_, round_.proposer)) - set(round_.votes)
        yield from ((Phase.CHALLENGE, id_) for id_ in sorted(waited_for))


@dataclass(frozen=True, slots=True)
class Absence:
    """A node that is stopped until the deadline of one duty has passed, or until it turns out to have done it."""

    round: int
    phase: Phase
    id: Id

    def lasts(self, task: Task) -> bool:
        """Whether the duty is still open."""
        return task.round.number == self.round and (self.phase, self.id) in set(duties(task))

    def is_all_that_lacks(self, task: Task) -> bool:
        """Whether everybody else has done what this phase asks for."""
        open_now = {id_ for phase, id_ in duties(task) if phase is task.round.phase}
        return task.round.phase is self.phase and open_now == {self.id}


# Faults: each function brings one and returns how it is undone; None where it cannot come yet

Undo = Callable[[], None]
Apply = Callable[[Rig, Fault, Task], Undo | None]


def kill_node(rig: Rig, fault: Fault, _: Task) -> Undo:
    """The node dies, and is started again later."""
    rig.nodes.kill(fault.node)
    return lambda: rig.nodes.start(fault.node)


def set_crash(rig: Rig, fault: Fault, _: Task) -> Undo:
    """Whoever comes to this place first, between two lines of a role, removes the file and dies."""
    (rig.places / fault.place).touch()
    return lambda: None


def pause_node(rig: Rig, fault: Fault, _: Task) -> Undo:
    """The node's process stands still."""
    rig.nodes.signal(fault.node, signal.SIGSTOP)
    return lambda: rig.nodes.signal(fault.node, signal.SIGCONT)


def fill_disk_of_node(rig: Rig, fault: Fault, _: Task) -> Undo:
    """No file of the node's process can be written: journal, list of pins, log."""
    pid = rig.nodes.pids[fault.node]
    _limit_files(pid, 0)
    return lambda: _limit_files(pid, _WHOLE)


def move_clock_of_node(rig: Rig, fault: Fault, _: Task) -> Undo:
    """The node's wall clock is up to five minutes before or behind the chain's."""
    skew = round((2 * fault.amount - 1) * _MOST_SKEW)
    clock = rig.nodes.clock(fault.node)
    if not clock.parent.exists():
        return lambda: None
    clock.write_text(str(rig.lead() + skew))
    return lambda: clock.unlink(missing_ok=True)


def kill_anvil(rig: Rig, _: Fault, __: Task) -> Undo:
    """The endpoint dies with what waits in its pool, and comes back with its chain."""
    return rig.kill_anvil()


def pause_anvil(rig: Rig, _: Fault, __: Task) -> Undo:
    """The endpoint stands still: it takes connections and answers nothing."""
    rig.is_chain_away = True
    rig.anvil.process.send_signal(signal.SIGSTOP)

    def go_on() -> None:
        rig.anvil.process.send_signal(signal.SIGCONT)
        rig.is_chain_away = False

    return go_on


def reorganise(rig: Rig, _: Fault, __: Task) -> Undo | None:
    """The last blocks and all their transactions are gone, and with them whatever moved the clock in them."""
    newest = rig.chain.w3.eth.block_number
    if newest - REORG_DEPTH <= max(rig.restarted_at, rig.first_block):
        return None
    rig.stop_mining()
    rig.chain.rpc("anvil_reorg", [rig.chain.w3.eth.block_number - newest + REORG_DEPTH, []])
    rig.chain.rpc("evm_setAutomine", [True])
    return lambda: None


def move_clock_of_chain(rig: Rig, fault: Fault, task: Task) -> Undo | None:
    """The chain's clock jumps by up to five minutes, once a phase."""
    left = task.round.deadline - int(rig.chain.w3.eth.get_block("latest")["timestamp"])
    if left < PHASE_SECONDS - _MOST_SKEW:
        return None
    rig.chain.skip(1 + int(fault.amount * _MOST_SKEW))
    return lambda: None


def kill_daemon(rig: Rig, fault: Fault, _: Task) -> Undo:
    """A daemon dies, and comes back with its blocks and pins."""
    daemon = rig.daemons[fault.node % 2]
    daemon.kill()

    def restart() -> None:
        daemon.start()
        rig.introduce()

    return restart


def pause_daemon(rig: Rig, fault: Fault, _: Task) -> Undo:
    """A daemon stands still."""
    pid = rig.daemons[fault.node % 2].node.pid
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def fill_disk_of_daemon(rig: Rig, fault: Fault, _: Task) -> Undo:
    """A daemon cannot write a block or a pin; one that ends for it is started again when there is room."""
    daemon = rig.daemons[fault.node % 2]
    _limit_files(daemon.node.pid, 0)

    def make_room() -> None:
        _limit_files(daemon.node.pid, _WHOLE)
        if not daemon.is_up():
            daemon.kill()
            daemon.start()
            rig.introduce()

    return make_room


def part_daemons(rig: Rig, _: Fault, __: Task) -> Undo:
    """What is put at one daemon cannot be had at the other."""
    rig.between.cut()

    def join() -> None:
        rig.between.mend()
        rig.introduce()

    return join


def _limit_files(pid: int, size: int) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, _WHOLE))


def slow(link: Link, fault: Fault) -> Undo:
    """Every chunk of bytes comes up to 0.2 s later."""
    link.delay = 0.02 + 0.18 * fault.amount
    return link.mend


def lossy(link: Link, fault: Fault) -> Undo:
    """Of the chunks of bytes up to a third reset their connection."""
    link.rng = random.Random(fault.amount)
    link.loss = 0.05 + 0.25 * fault.amount
    return link.mend


def cut(link: Link, _: Fault) -> Undo:
    """Every connection is reset."""
    link.cut()
    return link.mend


def hole(link: Link, fault: Fault) -> Undo:
    """Nothing arrives; in the end it does, or its connections are reset."""
    link.hold()
    return lambda: link.mend(with_reset=fault.amount < 0.5)


def _on_chain_link(apply: Callable[[Link, Fault], Undo]) -> Apply:
    return lambda rig, fault, _: apply(rig.to_chain[fault.node], fault)


def _on_store_link(apply: Callable[[Link, Fault], Undo]) -> Apply:
    return lambda rig, fault, _: apply(rig.to_store[fault.node], fault)


FAULTS: Final[Mapping[Kind, Apply]] = {
    Kind.NODE_KILL: kill_node,
    Kind.DEATH: set_crash,
    Kind.NODE_PAUSE: pause_node,
    Kind.NODE_DISK: fill_disk_of_node,
    Kind.NODE_CLOCK: move_clock_of_node,
    Kind.CHAIN_SLOW: _on_chain_link(slow),
    Kind.CHAIN_LOSSY: _on_chain_link(lossy),
    Kind.CHAIN_CUT: _on_chain_link(cut),
    Kind.CHAIN_HOLE: _on_chain_link(hole),
    Kind.STORE_SLOW: _on_store_link(slow),
    Kind.STORE_LOSSY: _on_store_link(lossy),
    Kind.STORE_CUT: _on_store_link(cut),
    Kind.STORE_HOLE: _on_store_link(hole),
    Kind.ANVIL_KILL: kill_anvil,
    Kind.ANVIL_PAUSE: pause_anvil,
    Kind.REORG: reorganise,
    Kind.CHAIN_CLOCK: move_clock_of_chain,
    Kind.DAEMON_KILL: kill_daemon,
    Kind.DAEMON_PAUSE: pause_daemon,
    Kind.DAEMON_DISK: fill_disk_of_daemon,
    Kind.PARTITION: part_daemons,
}


def target_of(fault: Fault) -> str:
    """What a fault changes; two faults of one target never overlap."""
    group, _, _ = fault.kind.name.partition("_")
    if fault.kind in (Kind.ANVIL_KILL, Kind.ANVIL_PAUSE, Kind.REORG, Kind.CHAIN_CLOCK):
        return "chain"
    if group in ("DAEMON", "PARTITION"):
        return "daemons"
    if fault.kind is Kind.DEATH:
        return "places"
    return f"node {fault.node}" if group == "NODE" else f"{group.lower()} link {fault.node}"


@dataclass(slots=True)
class Nemesis:
    """Brings the faults of a schedule, undoes them, and lets the chain's clock pass deadlines once all have acted."""

    rig: Rig
    pending: list[Fault]
    said: list[str] = field(default_factory=list)
    came: set[Kind] = field(default_factory=set)
    excused: set[tuple[int, Id]] = field(default_factory=set)
    """Round and id of those who were kept from a duty until its deadline had passed."""
    _active: dict[str, tuple[float, Fault, Undo]] = field(default_factory=dict)
    _absence: Absence | None = None

    def heal(self, *, everything: bool = False) -> None:
        """Undo what has lasted long enough."""
        for target, (until, fault, undo) in list(self._active.items()):
            if everything or time.monotonic() >= until:
                del self._active[target]
                undo()
                self._say(f"over: {fault}")
        if everything and self._absence is not None:
            self._end_absence(self._absence)

    def strike(self, task: Task) -> bool:
        """Bring every fault whose time has come and whose target is free; answers whether the chain still does."""
        now = (task.round.number, task.round.phase)
        for fault in list(self.pending):
            if (fault.round, fault.phase) > now or self.rig.is_chain_away:
                break
            # One that cannot come yet waits.
            if target_of(fault) not in self._active and self._comes(fault, task):
                self.pending.remove(fault)
                self.came.add(fault.kind)
        return not self.rig.is_chain_away

    def pass_time(self, task: Task) -> None:
        """Move the chain's clock to the deadline where nobody is waited for but who is kept away."""
        absence = self._absence
        if absence is not None and not absence.lasts(task):
            self._end_absence(absence)
        elif absence is not None and absence.is_all_that_lacks(task):
            pass_deadline(self.rig.chain, task.round)
        pass_window(self.rig.chain, task.round)

    def _comes(self, fault: Fault, task: Task) -> bool:
        where = f"round {task.round.number}.{task.round.attempt} {task.round.phase.name.title()}"
        if fault.kind is Kind.ABSENCE:
            return self._begin_absence(fault, task, where)
        undo = FAULTS[fault.kind](self.rig, fault, task)
        if undo is None:
            return False
        self._active[target_of(fault)] = (time.monotonic() + fault.seconds, fault, undo)
        self._say(f"{where}: {fault}")
        return True

    def _begin_absence(self, fault: Fault, task: Task, where: str) -> bool:
        """Stop somebody who has a duty and is not under another fault; nobody twice in a row in Train."""
        free = [
            (phase, id_)
            for phase, id_ in duties(task)
            if f"node {id_}" not in self._active and (phase is not Phase.TRAIN or task.by_id(id_).missed == 0)
        ]
        if self._absence is not None or not free:
            return False
        phase, id_ = free[int(fault.amount * len(free))]
        self.rig.nodes.signal(id_, signal.SIGSTOP)
        self._absence = Absence(task.round.number, phase, id_)
        self._active[f"node {id_}"] = (float("inf"), fault, lambda: None)
        self.excused.add((task.round.number, id_))
        self._say(f"{where}: node {id_} is stopped until the deadline of {phase.name.title()} has passed")
        return True

    def _end_absence(self, absence: Absence) -> None:
        self._absence = None
        self._active.pop(f"node {absence.id}", None)
        self.rig.nodes.signal(absence.id, signal.SIGCONT)
        self._say(f"over: the absence of node {absence.id}")

    def _say(self, text: str) -> None:
        self.said.append(f"{time.monotonic():.2f} {text}")
