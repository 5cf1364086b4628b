"""The loop of a node: read the ledger, take the one step that the round asks for, look again.

A refusal is logged and the loop goes on; when chain or store fail it tries again with growing pauses. A restarted node
reads its place from the ledger, for it keeps no truth of its own.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from chainfl.errors import (
    ChainflError,
    InputError,
    LedgerLieError,
    OutsideError,
    ProtocolError,
    StoreError,
    VerificationError,
)
from chainfl.node.status import Status
from chainfl.node.timing import Clock, timed
from chainfl.node.watcher import Watcher
from chainfl.node.wiring import Node
from chainfl.protocol.state import Task
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, Step, next_step
from chainfl.types import Phase

NOWHERE = (-1, -1, -1)
T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_STORE_PAUSE = 2.0
"""The longest pause when a store fails: a step asks again for bytes as long as there is time to act on them."""
_QUICKEST, _SLOWING = 0.1, 1.5
"""After something happened the pause is this part of the longest, and grows by this factor while nothing does."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TurnOrder:
    """Who goes first when anyone may: whoever acted last, then one after the other, so that most never collide."""

    gap_seconds: float
    _seen: tuple[int, int, int, str] | None = None
    _since: float = field(default_factory=time.monotonic)

    def is_my_turn(self, me: Participant, task: Task, step: Step, acted_last: bool) -> bool:
        """Whether my own action came last, or it has been long enough that those before me have not acted."""
        place = (task.round.number, task.round.attempt, int(task.round.phase), step.name)
        if place != self._seen:
            self._seen, self._since = place, time.monotonic()
        account = task.accounts.get(me.ledger.me)
        count = max(1, len(task.addresses))
        number = account.id if account is not None else count
        rank = (number + task.round.number * 7 + int(task.round.phase)) % count
        return acted_last or time.monotonic() - self._since >= (0.5 + rank) * self.gap_seconds


@dataclass(slots=True)
class LogOnce:
    """Says what is wrong once, not at every try, and once that it is over."""

    _said: str = ""

    def say(self, text: str) -> None:
        """Complain, if this is new."""
        if text != self._said:
            _log.warning("%s", text)
        self._said = text

    def settle(self) -> None:
        """All is well again."""
        if self._said:
            _log.info("going on")
        self._said = ""


def persist(look: Callable[[], T], stop: threading.Event, shown: Status) -> T | None:
    """What `look` finds, once neighbours are as they should be: chain, store, the sponsor's promises.

    A hostile or absent neighbour does not end the process; None when it is told to stop.
    """
    log_once = LogOnce()
    pause = _FIRST_PAUSE
    while not stop.is_set():
        try:
            found = look()
            log_once.settle()
            return found
        except (OutsideError, VerificationError) as error:
            shown.failed(error)
            log_once.say(f"{error}; looking again until told to stop")
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    return None


def _place(task: Task) -> tuple[int, int, int]:
    return task.round.number, task.round.attempt, int(task.round.phase)


def serve(
    node: Node,
    duty: Duty,
    stop: threading.Event,
    *,
    poll_seconds: float,
    watch: bool = True,
    status: Status | None = None,
) -> None:
    """Take part until the task has ended or the process is told to stop; `poll_seconds` is the longest pause."""
    clock = Clock()
    node = replace(node, participant=timed(node.participant, clock))
    me = node.participant
    pause = poll_seconds
    turn_order = TurnOrder(poll_seconds)
    watcher = Watcher(me.ledger, me.store) if watch else None
    shown = status or Status()
    joined = 0
    seen = -1
    log_once = LogOnce()
    barred = NOWHERE
    swept = 0
    while not stop.is_set():
        try:
            task = me.ledger.task()
            if len(node.ledger.reader.log) != seen:
                seen = len(node.ledger.reader.log)
                pause = _QUICKEST * poll_seconds
            if task.round.phase is Phase.ENDED:
                _log.info("round %d: the task has ended", task.round.number)
                return
            shown.saw(task)
            shown.heard(node.ledger.reader.endpoints())
            if _place(task) == barred:
                stop.wait(poll_seconds)
                continue
            joined = _join(me, task, joined)
            if _take_turn(node, task, duty, turn_order, shown, clock) or (
                watcher is not None and watcher.look(task)
            ):
                log_once.settle()
                continue
            if swept != task.round.number:  # once a round, when there is nothing else to do
                swept = task.round.number
                _let_go(node, task)
            pause = min(max(_SLOWING * pause, _QUICKEST * poll_seconds), poll_seconds)
        except ProtocolError as error:
            _log.info("not taken: %s", error)
            shown.refused()
            pause = poll_seconds
        except (OutsideError, LedgerLieError) as error:
            shown.failed(error)
            longest = _STORE_PAUSE if isinstance(error, StoreError) else _LONGEST_PAUSE
            pause = min(max(2 * pause, poll_seconds), longest)
            log_once.say(f"{error}; trying again")
        except InputError as error:  # what this participant has does not fit, and will not in this phase
            barred = _place(node.ledger.reader.task)
            log_once.say(f"{error}; sitting out this phase")
        except ChainflError as error:
            pause = _LONGEST_PAUSE
            log_once.say(f"{error}; trying again")
        stop.wait(pause)
    _take_leave(me, node.ledger.reader.task)


def _take_leave(me: Participant, task: Task) -> None:
    """The last line of a node that was told to stop: whether it still has to open a commitment."""
    account = task.accounts.get(me.ledger.me)
    round_ = task.round
    update = round_.updates.get(account.id) if account is not None else None
    scores = round_.scores.get(account.id) if account is not None else None
    sealed = (update is not None and update.revealed is None) or (
        scores is not None and scores.revealed is None
    )
    if sealed and round_.phase in (Phase.TRAIN, Phase.REVEAL, Phase.SCORE, Phase.TALLY):
        _log.warning(
            "round %d: told to stop with a commitment to open: start again soon, or it costs stake",
            round_.number,
        )
    else:
        _log.info("round %d: told to stop", round_.number)


def _let_go(node: Node, task: Task) -> None:
    count = node.let_go(task)
    if count:
        _log.info("round %d: unpinned %d blobs of rounds that nobody can challenge", task.round.number, count)


def _join(me: Participant, task: Task, joined: int) -> int:
    """Bring a queued enrolment into the tree once the open draw is done; tried once a round."""
    account = task.accounts.get(me.ledger.me)
    round_ = task.round
    is_waiting = account is not None and account.is_enrolled and account.weight == 0
    if not is_waiting or joined == round_.number or round_.phase is Phase.DRAW:
        return joined
    _log.info("round %d: joining from the next round on", round_.number)
    me.ledger.apply_change(me.ledger.me)
    return round_.number


def _take_turn(
    node: Node, task: Task, duty: Duty, turn_order: TurnOrder, shown: Status, clock: Clock
) -> bool:
    me = node.participant
    step = next_step(me, task, node.ledger.now(), duty, node.alter(task.round.number, task.round.attempt))
    if step is None:
        return False
    if step.is_shared and not turn_order.is_my_turn(me, task, step, node.ledger.acted_last()):
        return False
    where = f"round {task.round.number}.{task.round.attempt} {task.round.phase.name.title()}"
    started = time.monotonic()
    _log.info("%s: %s", where, step.name)
    clock.take(0.0)
    with shown.at_work(step.name):
        step.take(me)
    seconds = time.monotonic() - started
    causes = clock.take(seconds)
    _log.info(
        "%s: %s: done in %.2f s (%s)", where, step.name, seconds, _most(causes),
        extra={"facts": _facts(task, step, seconds, causes)},
    )  # fmt: skip
    shown.took(step.name, seconds, causes)
    me.journal.forget_before(task.round.number)
    return True


def _most(causes: Mapping[str, float]) -> str:
    """What took time, most first; what took next to none is left out."""
    told = sorted(causes.items(), key=lambda item: -item[1])
    return ", ".join(f"{cause} {seconds:.2f}" for cause, seconds in told if seconds >= 0.005) or "no time"


def _facts(task: Task, step: Step, seconds: float, causes: Mapping[str, float]) -> dict[str, object]:
    """The step for machines: what JSON logs hold besides the message."""
    return {
        "round": task.round.number,
        "attempt": task.round.attempt,
        "phase": task.round.phase.name.lower(),
        "step": step.name,
        "seconds": round(seconds, 6),
        "causes": {cause: round(spent, 6) for cause, spent in causes.items()},
    }
