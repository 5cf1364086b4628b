"""The loop of a node: read the ledger, take the one step that the round requires, read again.

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
from chainfl.node.own_rounds import RoundFollower, own_round
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
    """Who goes first when anyone may act: the one that acted last, then one after the other, so that few collide."""

    gap_seconds: float
    _seen: tuple[int, int, int, str] | None = None
    _since: float = field(default_factory=time.monotonic)

    def is_my_turn(self, me: Participant, task: Task, step: Step, acted_last: bool) -> bool:
        """Whether my own action came last, or it has been long enough that those before me have not acted."""
        place = (task.round.number, task.round.attempt, int(task.round.phase), step.name)
        if place != self._seen:
            self._seen = place
            self._since = time.monotonic()

        # The order differs from round to round and from phase to phase, so that nobody pays all the gas.
        account = task.accounts.get(me.ledger.me)
        count = max(1, len(task.addresses))
        number = account.id if account is not None else count
        rank = (number + task.round.number * 7 + int(task.round.phase)) % count
        return acted_last or time.monotonic() - self._since >= (0.5 + rank) * self.gap_seconds


@dataclass(slots=True)
class LogOnce:
    """Logs a failure once, not at every try, and once that it is over."""

    _said: str = ""

    def say(self, text: str) -> None:
        """Log it, if this is new."""
        if text != self._said:
            _log.warning("%s", text)
        self._said = text

    def settle(self) -> None:
        """All is well again."""
        if self._said:
            _log.info("going on")
        self._said = ""


def persist(look: Callable[[], T], stop: threading.Event, shown: Status) -> T | None:
    """What `look` returns, tried again until chain, store and manifest can be used.

    A hostile or absent neighbour does not end the process; None when it is stopped.
    """
    log_once = LogOnce()
    pause = _FIRST_PAUSE
    while not stop.is_set():
        try:
            found = look()
            log_once.settle()
            return found
        except (OutsideError, VerificationError) as error:
            # What does not add up may come from one bad neighbour; the next look may reach another.
            shown.failed(error)
            log_once.say(f"{error}; retrying until stopped")
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
    """Take part until the task has ended or the process is stopped; `poll_seconds` is the longest pause."""
    # Every call of chain and store is timed, so that the log can say what a slow step waited for.
    clock = Clock()
    node = replace(node, participant=timed(node.participant, clock))
    me = node.participant
    pause = poll_seconds
    turn_order = TurnOrder(poll_seconds)
    watcher = Watcher(me.ledger, me.store) if watch else None
    shown = status or Status()
    rounds = RoundFollower(node.ledger.reader)

    # What was done or tried last, so that it is done once: a round's number, a count of events, a phase's place.
    joined = 0
    swept = 0
    seen = -1
    barred = NOWHERE
    log_once = LogOnce()

    while not stop.is_set():
        try:
            task = me.ledger.task()

            # Events come in bursts: look again soon after one.
            if len(node.ledger.reader.log) != seen:
                seen = len(node.ledger.reader.log)
                pause = _QUICKEST * poll_seconds

            _tell_settled(node, rounds, shown)
            if task.round.phase is Phase.ENDED:
                _log.info("round %d: the task has ended", task.round.number)
                return

            shown.saw(task)
            shown.heard(node.ledger.reader.endpoints())

            # What failed for lack of data fails again until the phase is over.
            if _place(task) == barred:
                stop.wait(poll_seconds)
                continue

            # A step may have made the next one possible: after one, look again without a pause.
            joined = _join(me, task, joined)
            if _take_turn(node, task, duty, turn_order, shown, clock) or (
                watcher is not None and watcher.look(task)
            ):
                log_once.settle()
                continue

            # Sweeping may wait, a step may not: once a round, when there is nothing else to do.
            if swept != task.round.number:
                swept = task.round.number
                _let_go(node, task)

            pause = min(max(_SLOWING * pause, _QUICKEST * poll_seconds), poll_seconds)
        except ProtocolError as error:
            # Somebody was quicker, or the phase ended meanwhile: the next look shows what holds now. An endpoint that
            # hides what was done already would have it sent for ever, and each refusal costs gas: pauses grow.
            _log.info("not taken: %s", error)
            shown.refused()
            pause = min(max(2 * pause, poll_seconds), _LONGEST_PAUSE)
        except (OutsideError, LedgerLieError) as error:
            # Stores are asked again sooner than chains: bytes that come late in a phase can still be acted on.
            shown.failed(error)
            longest = _STORE_PAUSE if isinstance(error, StoreError) else _LONGEST_PAUSE
            pause = min(max(2 * pause, poll_seconds), longest)
            log_once.say(f"{error}; trying again")
        except InputError as error:
            # What this participant has does not fit, and will not in this phase.
            barred = _place(node.ledger.reader.task)
            log_once.say(f"{error}; no step is taken in this phase")
        except ChainflError as error:
            # Whatever else it is, leaving would cost stake for certain; trying again costs a pause.
            pause = _LONGEST_PAUSE
            log_once.say(f"{error}; trying again")
        stop.wait(pause)
    _take_leave(me, node.ledger.reader.task)


def _tell_settled(node: Node, rounds: RoundFollower, shown: Status) -> None:
    """Log, count and track what each round that was settled meanwhile was for this account."""
    me = node.participant
    for played in rounds.settled():
        own = own_round(played, me.ledger.me, getattr(me.trainer, "metrics", {}))
        _log.info("round %d: settled: %s", own.round, own, extra={"facts": own.as_plain()})
        shown.settled(own)
        node.record(own.round, own.as_plain())


def _take_leave(me: Participant, task: Task) -> None:
    """The last line of a node that was stopped: whether it still has to open a commitment."""
    account = task.accounts.get(me.ledger.me)
    round_ = task.round
    update = round_.updates.get(account.id) if account is not None else None
    scores = round_.scores.get(account.id) if account is not None else None

    # A commitment that is not opened costs stake, and only this journal can open it.
    sealed = (update is not None and update.revealed is None) or (
        scores is not None and scores.revealed is None
    )

    # Later phases have slashed the account already, or the round is over.
    if sealed and round_.phase in (Phase.TRAIN, Phase.REVEAL, Phase.SCORE, Phase.TALLY):
        _log.warning(
            "round %d: stopped with an unopened commitment: start again before the phase ends, or stake is slashed",
            round_.number,
        )
    else:
        _log.info("round %d: stopped", round_.number)


def _let_go(node: Node, task: Task) -> None:
    count = node.let_go(task)
    if count:
        _log.info(
            "round %d: unpinned %d blobs of rounds that can no longer be challenged", task.round.number, count
        )


def _join(me: Participant, task: Task, joined: int) -> int:
    """Bring a queued enrolment into the tree once the open draw is done; tried once a round."""
    account = task.accounts.get(me.ledger.me)
    round_ = task.round

    # An open draw counts weights: who enrols during it is queued, and somebody has to apply that afterwards.
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
    step = next_step(me, task, node.ledger.now(), duty, node.alter(task))
    if step is None:
        return False

    # What anyone may do is paid once and refused to all others: mostly one should try.
    if step.is_shared and not turn_order.is_my_turn(me, task, step, node.ledger.acted_last()):
        return False

    where = f"round {task.round.number}.{task.round.attempt} {task.round.phase.name.title()}"
    started = time.monotonic()
    _log.info("%s: %s", where, step.name)

    # Drops what was measured between steps, so that the causes below are of this step alone.
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

    # Rounds before this one cannot ask for their salts any more.
    me.journal.forget_before(task.round.number)
    return True


def _most(causes: Mapping[str, float]) -> str:
    """What took time, most first; what took next to none is left out."""
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    return ", ".join(f"{cause} {seconds:.2f}" for cause, seconds in ordered if seconds >= 0.005) or "no time"


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
