"""Keeps the index in step with the chain: one thread reads, folds and writes; after a reorg it rewrites.

Nothing that the chain, its endpoint or one task can bring forth ends the thread. What fails is remembered with its
reason, shown by `/health`, and tried again after a pause: a task whose events do not fold is read again from its start.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from chainfl.api.convert import phase_name
from chainfl.api.index import Index
from chainfl.api.indexer import Row, TaskLine, fingerprint
from chainfl.api.live import Change, Hub
from chainfl.api.source import EventSource, Snapshot, TaskLog
from chainfl.audit.history import PlayedRound
from chainfl.codec.text import from_hex, hex_of
from chainfl.errors import ChainflError, StoreError
from chainfl.logs import one_line, traced
from chainfl.types import Address

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 30.0
_LONGEST_TASK_PAUSE = 600.0
_REREAD_PART = 10
"""A task that took so long to read anew is left alone for this many times as long: others are to be followed too."""

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """How well the chain is followed.

    `current` is when the index last agreed with the chain's head, `stepping` when the running step began, both on
    the monotonic clock.
    """

    block_number: int = 0
    revision: int = 0
    is_ready: bool = False
    trouble: str = ""
    newest: int = 0
    newest_time: int = 0
    skipped: int = 0
    current: float = 0.0
    stepping: float | None = None

    @property
    def behind(self) -> int:
        """Blocks that count and are not read yet."""
        return max(0, self.newest - self.block_number)


@dataclass(frozen=True, slots=True)
class Unread:
    """A task that cannot be read now: why, since when, how often it was tried, and when it is tried again."""

    reason: str
    since: float
    attempts: int
    again: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of the index that is not what the chain's events give."""

    where: str
    expected: str
    found: str


@dataclass(slots=True)
class _Followed:
    """A task's line, the log it was drawn from, and the digests of the rows that the index should hold for it."""

    line: TaskLine
    log: TaskLog
    digests: dict[Key, tuple[int | None, bytes]]


class Follower:
    """Reads the source, writes the index, notifies the hub."""

    def __init__(self, source: EventSource, index: Index, hub: Hub) -> None:
        """Nothing is read yet; what the index holds from before is served until then."""
        self._source = source
        self._index = index
        self._hub = hub
        self._followed: dict[str, _Followed] = {}
        self._unread: Mapping[str, Unread] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.standing = Standing(current=time.monotonic())

    @property
    def chain_id(self) -> int:
        """The chain that is followed."""
        return self._source.chain_id

    @property
    def is_alive(self) -> bool:
        """Whether the thread that follows the chain runs; one that was never started has not died."""
        return self._thread is None or self._thread.is_alive()

    @property
    def unread(self) -> Mapping[str, Unread]:
        """The tasks that cannot be read now; a value that does not change, so that nobody waits for the lock."""
        return self._unread

    # The loop

    def start(self, poll_seconds: float) -> None:
        """Follow in a thread of its own."""
        self._thread = threading.Thread(target=self._run, args=(poll_seconds,), name="follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=30)

    def _run(self, poll_seconds: float) -> None:
        # Who starts the thread may have taken the first step itself.
        standing = self.standing
        is_current = standing.is_ready and not standing.behind and not standing.trouble
        pause = poll_seconds if is_current else 0.0
        while not self._stop.wait(pause):
            if not self.try_step():
                pause = min(2 * max(pause, poll_seconds), _LONGEST_PAUSE)
            elif self.standing.behind:
                pause = 0.0  # a long way to go: straight on
            else:
                pause = poll_seconds

    def try_step(self) -> bool:
        """One step; whatever fails is remembered and waited out."""
        self.standing = replace(self.standing, stepping=time.monotonic())
        try:
            self.step()
        except Exception as error:
            # The edge of the loop: it must live on, whatever this was.
            self.standing = replace(self.standing, trouble=one_line(error), stepping=None)
            where = "" if isinstance(error, ChainflError) else f"\n{traced(error)}"
            _log.warning("%s; retrying%s", one_line(error), where)
            return False
        return True

    def step(self) -> None:
        """Read what is new and bring the index in line with it."""
        retried = self._reread_due()
        snapshot = self._source.refresh()

        # Revisions count changes, so that a browser that was away knows whether it missed any.
        before = self.standing
        changes = list[Change]()
        try:
            self._drop_gone(snapshot)
            for address, log in snapshot.tasks.items():
                change = self._try_follow(address, log, snapshot, retried, before.revision + len(changes) + 1)
                if change is not None:
                    changes.append(change)
            self._note_uncreated(snapshot, retried)
        finally:
            # Even where the index failed half-way, what it holds by then is told.
            self.standing = replace(before, revision=before.revision + len(changes))
            for change in changes:
                self._hub.publish(change)
        self._arrive(snapshot)

    def _arrive(self, snapshot: Snapshot) -> None:
        """The index agrees with the snapshot."""
        is_current = snapshot.behind == 0

        # Rows of a former chain, kept from before a restart, go only once all that is on this one is known.
        if is_current and not self.standing.is_ready:
            self._index.keep_only({hex_of(each) for each in (*snapshot.tasks, *snapshot.unreadable)})

        now = time.monotonic()
        self.standing = replace(
            self.standing,
            block_number=snapshot.block_number,
            newest=max(snapshot.newest, snapshot.block_number),
            newest_time=snapshot.newest_time,
            skipped=snapshot.skipped,
            is_ready=self.standing.is_ready or is_current,
            trouble="",
            stepping=None,
            current=now if is_current else self.standing.current,
        )

    def _drop_gone(self, snapshot: Snapshot) -> None:
        """Forget tasks whose creation was undone."""
        # What cannot be read exists all the same: its rows stay.
        known = {hex_of(address) for address in (*snapshot.tasks, *snapshot.unreadable)}
        gone = (self._followed.keys() | self._unread.keys()) - known
        with self._lock:
            for name in gone:
                self._followed.pop(name, None)
        if gone:
            self._read_again(gone)
            self._index.forget(gone)

    def _try_follow(
        self, address: Address, log: TaskLog, snapshot: Snapshot, retried: frozenset[str], revision: int
    ) -> Change | None:
        """Bring one task in line; what fails with it stays with it."""
        name = hex_of(address)
        unread = self._unread.get(name)
        if address in snapshot.unreadable:
            self._note(name, snapshot.unreadable[address], is_new_try=unread is None or name in retried)
            return None

        # Its turn has not come: asking at every step would slow down the tasks that can be read.
        if unread is not None and name not in retried:
            return None

        try:
            with self._lock:
                change = self._follow(name, log, revision, anew=unread is not None)
        except Exception as error:
            # Half of the events may be in the line by now: it is drawn anew when the task is tried again.
            with self._lock:
                self._followed.pop(name, None)
            # The index failed, not the task: all tasks wait for it.
            if isinstance(error, StoreError):
                raise
            self._note(name, f"its events do not fold: {one_line(error)}", is_new_try=True)
            _log.warning("task %s cannot be read; retrying\n%s", name, traced(error))
            return None

        if unread is not None:
            self._read_again((name,))
            _log.info("task %s can be read again", name)
        return change

    def _note_uncreated(self, snapshot: Snapshot, retried: frozenset[str]) -> None:
        """Tasks that have no log yet, for their terms cannot be read."""
        for address in snapshot.unreadable.keys() - snapshot.tasks.keys():
            name = hex_of(address)
            is_new_try = name not in self._unread or name in retried
            self._note(name, snapshot.unreadable[address], is_new_try=is_new_try)

    def _read_again(self, names: Iterable[str]) -> None:
        """Nothing is wrong with these any more."""
        gone = frozenset(names)
        self._unread = {name: unread for name, unread in self._unread.items() if name not in gone}

    def _note(self, name: str, reason: str, *, is_new_try: bool) -> None:
        """Remember that a task cannot be read; after each try the pause before the next one is longer."""
        before = self._unread.get(name)
        if before is not None and not is_new_try:
            self._unread = {**self._unread, name: replace(before, reason=reason)}
            return

        now = time.monotonic()
        if before is None:
            # The first try anew comes with the next step, for most troubles are over by then.
            noted = Unread(reason, time.time(), 1, now)
        else:
            pause = min(2.0 ** min(before.attempts, 16), _LONGEST_TASK_PAUSE)
            noted = Unread(reason, before.since, before.attempts + 1, max(now + pause, before.again))
        self._unread = {**self._unread, name: noted}

    def _reread_due(self) -> frozenset[str]:
        """Have the source read anew what could not be read, where its pause is over; returns the tasks' names."""
        started = time.monotonic()
        due = frozenset(name for name, unread in self._unread.items() if unread.again <= started)
        if not due:
            return due

        try:
            self._source.reread([Address(from_hex(name)) for name in due])
        except Exception as error:
            for name in due:
                self._note(name, f"reading it again fails: {one_line(error)}", is_new_try=True)
            due = frozenset()

        # A rest in proportion to what it took, so that tasks that cannot be read do not slow down the others.
        now = time.monotonic()
        rested = now + _REREAD_PART * (now - started)
        self._unread = {
            name: replace(unread, again=rested) if name in due else unread
            for name, unread in self._unread.items()
        }
        return due

    def _follow(self, name: str, log: TaskLog, revision: int, *, anew: bool) -> Change | None:
        # The source hands out the same log until something is new: nothing to compare then.
        followed = self._followed.get(name)
        if followed is not None and followed.log is log and not anew:
            return None

        # A line is only ever extended: after a reorg that touches it, another one is drawn.
        anew = anew or followed is None or not followed.line.is_continued_by(log)
        if anew or followed is None:
            followed = self._followed[name] = _Followed(TaskLine(log), log, {})
        line = followed.line
        followed.log = log

        fresh = log.events[len(line.events) :]
        if not fresh and not anew:
            return None

        # Rounds before the running one are over and cannot change, unless everything is new.
        first_round = 1 if anew else line.now.round.number
        rows = line.extend(fresh)
        followed.digests |= {(row.kind, row.number): (row.round, _digest(row)) for row in rows}
        self._index.write(name, rows, anew=anew)

        round_ = line.now.round
        return Change(
            revision, name, line.created.task_id, first_round, round_.number, phase_name(round_.phase)
        )

    # For audits

    def round(self, task: str, number: int) -> tuple[PlayedRound, str] | None:
        """A round as the chain's events give it, and its fingerprint."""
        with self._lock:
            followed = self._followed.get(task)
            played = followed.line.round(number) if followed else None
        return (played, fingerprint(played)) if played is not None else None

    def changed_rows(self, task: str, round_: int | None = None) -> Iterator[Difference]:
        """What the index holds about a task (with a round: about it, or about none) that its events do not give."""
        with self._lock:
            followed = self._followed.get(task)
            if followed is None:
                return  # nothing to compare with: it cannot be read now, or was undone meanwhile
            expected = {
                k: d for k, (n, d) in followed.digests.items() if round_ is None or n in (round_, None)
            }

            missing = set(expected)
            wrong = dict[Key, Row]()
            for row in self._index.rows(task, round_):
                key = (row.kind, row.number)
                missing.discard(key)
                if expected.get(key) != _digest(row):
                    wrong[key] = row
            if not wrong and not missing:
                return

            line = followed.line
            log = tuple(followed.line.events)

        # Folding again takes long, and nobody else waits for it: the lock is free by now.
        again = TaskLine(TaskLog(line.created, line.created_block, ()))
        right = {(row.kind, row.number): row for row in again.extend(log)}
        for key in sorted(missing | wrong.keys()):
            yield from _name_differences(key, right.get(key), wrong.get(key))

    def check_index(self) -> Iterator[Difference]:
        """Everything in the index that the chain's events do not give, and every verdict that another program wrote."""
        with self._lock:
            known = list(self._followed)
        unread = self._unread
        for task in known:
            yield from self.changed_rows(task)
        for task in self._index.tasks():
            # What is kept of a task that cannot be read is from before, and cannot be compared.
            if task not in known and task not in unread:
                yield Difference(f"task {task}", "no such task", "rows of it")
        for task, number, verdict in self._index.forged_audits():
            yield Difference(f"verdict on round {number} of {task}", "what this service found", verdict)


def _digest(row: Row) -> bytes:
    return hashlib.sha256(
        repr((row.kind, row.number, row.round, row.account, row.name, row.document)).encode()
    ).digest()


def _name_differences(key: Key, right: Row | None, kept: Row | None) -> Iterator[Difference]:
    """Every field that differs, with its path."""
    what = f"{key[0]} {key[1]}"
    if right is None or kept is None:
        yield Difference(what, "a row" if right else "no such row", kept.document if kept else "nothing")
        return

    for column in ("round", "account", "name"):
        if getattr(right, column) != getattr(kept, column):
            yield Difference(f"{what}: {column}", str(getattr(right, column)), str(getattr(kept, column)))

    # Documents are compared as data, so that the path of the value is named and not only the row.
    if right.document == kept.document:
        return
    try:
        found = list(differences(json.loads(right.document), json.loads(kept.document)))
    except (ValueError, TypeError, RecursionError):
        found = []

    for path, expected, is_ in found:
        where = f"{what}: {path}" if path else what
        yield Difference(where, json.dumps(expected), json.dumps(is_))
    if not found:  # no JSON, or the same values written in another way
        yield Difference(what, right.document, str(kept.document))


def differences(expected: object, found: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Every place where two JSON values differ, by path."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for name in expected:
            yield from differences(expected[name], found[name], f"{path}.{name}" if path else name)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif expected != found:
        yield path, expected, found
