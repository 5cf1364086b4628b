"""The watcher: redo every proposal, and convict those who proposed or attested a wrong one."""

import logging
import secrets
import threading
import time
from dataclasses import dataclass, field

from chainfl.audit.challenge import Lie, find_lie, note_lie
from chainfl.blobs import within
from chainfl.errors import ChainflError, ProtocolError, StoreError, VerificationError
from chainfl.ports import BlobStore, Ledger
from chainfl.protocol.state import Proposal, Task
from chainfl.types import Digest, Phase

_LONGEST_PAUSE = 30.0
_LONGEST_LOOK = 60.0
"""Seconds that one look may wait for bytes; who takes part waits no longer than the window is open."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Case:
    """A proposal under suspicion: what was found so far, and when to try again."""

    proposal: tuple[int, int, Proposal]
    pause: float
    lie: Lie | None = None
    salt: Digest = field(default_factory=lambda: secrets.token_bytes(32))
    is_closed: bool = False
    look_at: float = 0.0
    _said: str = ""

    def postpone(self, why: ChainflError | None = None) -> None:
        """Look again after a pause that grows; the reason is logged once."""
        if why is not None and str(why) != self._said:
            self._said = str(why)
            _log.warning("round %d.%d: cannot be redone yet: %s", *self.proposal[:2], why)
        self.look_at = time.monotonic() + self.pause
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)


class Watcher:
    """Redoes each proposal. Anyone can be one; it needs no stake and no data.

    What cannot be had or sent now is tried again for as long as the proposal can be challenged: bytes may come late,
    and that may be on purpose.
    """

    def __init__(self, ledger: Ledger, store: BlobStore, first_pause: float = 1.0) -> None:
        """No proposal was redone yet. `first_pause` is how long to wait before a second try, in seconds."""
        self._ledger = ledger
        self._store = store
        self._first_pause = first_pause
        self._case: _Case | None = None

    def look(self, task: Task) -> bool:
        """Check the standing proposal, and prove it wrong if it is. True when something was sent.

        Raises:
            LedgerError: the proof could not be sent; try again.
            ProtocolError: the contract does not take it, mostly because another watcher was faster.
        """
        case = self._standing(task)
        if case is None or case.is_closed or time.monotonic() < case.look_at:
            return False

        # A lie that was found stays found: only the sending is tried again.
        try:
            if case.lie is None and not self._finds_lie(task, case):
                return False
            self._convict(task, case)
        except (StoreError, VerificationError) as error:
            # A store that hangs must not make a participant late for its own part in the round.
            case.postpone(error)
            case.is_closed = self._has_duties(task)
            return False
        except ProtocolError:
            # Mostly somebody else was faster: the lie is proven, and that is what matters.
            case.is_closed = True
            raise

        # If the proposal stands again after a pause, a reorg has undone the proof.
        case.postpone()
        return True

    def _standing(self, task: Task) -> _Case | None:
        """The case of the standing proposal; none where there is none, or it is our own or attested by us."""
        round_ = task.round
        account = task.accounts.get(self._ledger.me)
        if round_.phase is not Phase.CHALLENGE or round_.proposal is None:
            return None

        # Who proposes or attests has redone it.
        if account is not None and (round_.proposer == account.id or round_.votes.get(account.id)):
            return None

        proposal = (round_.number, round_.attempt, round_.proposal)
        if self._case is None or self._case.proposal != proposal:
            self._case = _Case(proposal, self._first_pause)
        return self._case

    def _has_duties(self, task: Task) -> bool:
        account = task.accounts.get(self._ledger.me)
        return account is not None and account.id in (*task.round.committee, *task.round.turns)

    def _look_until(self, task: Task) -> float:
        """When a try gives up: the next round may give a participant something to do."""
        left = float(max(1, task.round.deadline - self._ledger.now()))
        takes_part = self._ledger.me in task.accounts
        return time.monotonic() + (min(left, _LONGEST_LOOK) if takes_part else _LONGEST_LOOK)

    def _finds_lie(self, task: Task, case: _Case) -> bool:
        case.lie = lie = find_lie(within(self._store, self._look_until(task)), task)
        if lie is None:
            _log.debug("round %d.%d: the proposal is right", *case.proposal[:2])

            # A right proposal stays right: it is not redone at every poll.
            case.is_closed = True
            return False
        _log.warning(
            "round %d.%d: parameter %d is %d, redoing gives %d",
            lie.round, lie.attempt, lie.position, lie.found, lie.expected,
        )  # fmt: skip
        return True

    def _convict(self, task: Task, case: _Case) -> None:
        """Note the finding, then show it a block later."""
        lie = case.lie
        assert lie is not None

        # Shown without a note, a proof could be copied by whoever orders transactions, and the finder's part with it.
        note_lie(self._ledger, task, lie, case.salt)
        self._ledger.prove(lie.round, lie.attempt, lie.position, lie.evidence, case.salt)
        _log.warning("round %d.%d: convicted", lie.round, lie.attempt)


def watch_task(watcher: Watcher, ledger: Ledger, stop: threading.Event, poll_seconds: float) -> None:
    """Look until the task has ended or the process is stopped; failures outside are waited out."""
    while not stop.is_set():
        try:
            task = ledger.task()
            if task.round.phase is Phase.ENDED:
                _log.info("round %d: the task has ended", task.round.number)
                return
            watcher.look(task)

        # A watcher that ends protects nobody: whatever fails is logged and tried again.
        except ChainflError as error:
            _log.warning("%s; retrying", error)
        stop.wait(poll_seconds)
