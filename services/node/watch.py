"""The watcher: redo every proposal, and convict whoever stands behind a wrong one."""

import logging
import secrets
import threading

from chainfl.audit.challenge import Lie, find_lie, note_lie
from chainfl.errors import ChainflError, StoreError, VerificationError
from chainfl.ports import BlobStore, Ledger
from chainfl.protocol.state import Task
from chainfl.types import Phase

_log = logging.getLogger(__name__)


class Watcher:
    """Looks at each proposal once. Anyone can be one; it needs no stake and no data."""

    def __init__(self, ledger: Ledger, store: BlobStore) -> None:
        """Nothing has been looked at yet."""
        self._ledger, self._store = ledger, store
        self._looked: tuple[int, int] | None = None

    def look(self, task: Task) -> bool:
        """Check the standing proposal if it is new; prove it wrong if it is. True when something was sent."""
        place = (task.round.number, task.round.attempt)
        if task.round.phase is not Phase.CHALLENGE or self._looked == place:
            return False
        account = task.accounts.get(self._ledger.me)
        if account is not None and task.round.votes.get(account.id):
            return False  # who attests has redone it
        try:
            lie = find_lie(self._store, task)
        except (StoreError, VerificationError) as error:
            _log.warning("round %d.%d: cannot be redone: %s", *place, error)
            self._looked = place
            return False
        self._looked = place
        if lie is None:
            _log.debug("round %d.%d: the proposal is right", *place)
            return False
        self._convict(task, lie)
        return True

    def _convict(self, task: Task, lie: Lie) -> None:
        """Note the finding, then show it a block later."""
        _log.warning(
            "round %d.%d: parameter %d is %d, redoing gives %d",
            lie.round, lie.attempt, lie.position, lie.found, lie.expected,
        )  # fmt: skip
        salt = secrets.token_bytes(32)
        note_lie(self._ledger, task, lie, salt)
        self._ledger.prove(lie.round, lie.attempt, lie.position, lie.evidence, salt)
        _log.warning("round %d.%d: convicted", lie.round, lie.attempt)


def watch_task(watcher: Watcher, ledger: Ledger, stop: threading.Event, poll_seconds: float) -> None:
    """Look until the task has ended or the process is told to stop; failures outside are waited out."""
    while not stop.is_set():
        try:
            task = ledger.task()
            if task.round.phase is Phase.ENDED:
                _log.info("round %d: the task has ended", task.round.number)
                return
            watcher.look(task)
        except ChainflError as error:
            _log.warning("%s; looking again", error)
        stop.wait(poll_seconds)
