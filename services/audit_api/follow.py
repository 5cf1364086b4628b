"""Keeps the index in step with the chain: one thread reads, folds and writes; a reorg draws the task's line anew."""

import hashlib
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from chainfl.audit.history import PlayedRound
from chainfl.errors import ChainflError
from services.audit_api.index import Index
from services.audit_api.lines import Row, TaskLine, fingerprint
from services.audit_api.live import Change, Hub
from services.audit_api.source import EventSource, TaskLog
from services.audit_api.words import hex_of, phase_name

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 30.0

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """How well the chain is heard."""

    block_number: int = 0
    revision: int = 0
    is_ready: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of the index that is not what the chain's events give."""

    where: str
    expected: str
    found: str


@dataclass(slots=True)
class _Followed:
    """A task's line, and the digests of the rows that the index should hold for it."""

    line: TaskLine
    digests: dict[Key, tuple[int | None, bytes]]


class Follower:
    """Reads the source, writes the index, tells the hub."""

    def __init__(self, source: EventSource, index: Index, hub: Hub) -> None:
        """Nothing is read yet; what the index holds from before is served until then."""
        self._source, self._index, self._hub = source, index, hub
        self._followed: dict[str, _Followed] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.standing = Standing()

    @property
    def chain_id(self) -> int:
        """The chain that is followed."""
        return self._source.chain_id

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
        pause = poll_seconds
        while not self._stop.is_set():
            pause = poll_seconds if self.try_step() else min(2 * pause, _LONGEST_PAUSE)
            self._stop.wait(pause)

    def try_step(self) -> bool:
        """One step; a failure outside is remembered and waited out."""
        try:
            self.step()
        except ChainflError as error:
            now = self.standing
            self.standing = Standing(now.block_number, now.revision, now.is_ready, str(error))
            _log.warning("%s; looking again", error)
            return False
        return True

    def step(self) -> None:
        """Read what is new and bring the index in line with it."""
        snapshot = self._source.refresh()
        revision = self.standing.revision
        changes = list[Change]()
        with self._lock:
            gone = set(self._followed) - {hex_of(address) for address in snapshot.tasks}
            for name in gone:
                del self._followed[name]
            for address, log in snapshot.tasks.items():
                change = self._follow(hex_of(address), log, revision + len(changes) + 1)
                if change is not None:
                    changes.append(change)
            if gone or not self.standing.is_ready:
                self._index.keep_only(list(self._followed))
        self.standing = Standing(snapshot.block_number, revision + len(changes), True)
        for change in changes:
            self._hub.publish(change)

    def _follow(self, name: str, log: TaskLog, revision: int) -> Change | None:
        followed = self._followed.get(name)
        anew = followed is None or not followed.line.is_continued_by(log)
        if anew or followed is None:
            followed = self._followed[name] = _Followed(TaskLine(log), {})
        line = followed.line
        fresh = log.events[len(line.events) :]
        if not fresh and not anew:
            return None
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
        """A round as the chain tells it, and its fingerprint."""
        with self._lock:
            followed = self._followed.get(task)
            played = followed.line.round(number) if followed else None
        return (played, fingerprint(played)) if played is not None else None

    def changed_rows(self, task: str, round_: int | None = None) -> Iterator[Difference]:
        """What the index holds about a task (with a round: about it, or about none) that its events do not give."""
        with self._lock:
            followed = self._followed[task]
            expected = {
                k: d for k, (n, d) in followed.digests.items() if round_ is None or n in (round_, None)
            }
            missing, wrong = set(expected), dict[Key, Row]()
            for row in self._index.rows(task, round_):
                key = (row.kind, row.number)
                missing.discard(key)
                if expected.get(key) != _digest(row):
                    wrong[key] = row
            if not wrong and not missing:
                return
            line, log = followed.line, tuple(followed.line.events)
        again = TaskLine(TaskLog(line.created, line.created_block, ()))
        right = {(row.kind, row.number): row for row in again.extend(log)}
        for key in sorted(missing | wrong.keys()):
            yield from _name_differences(key, right.get(key), wrong.get(key))

    def check_index(self) -> Iterator[Difference]:
        """Everything in the index that the chain's events do not give, and every verdict that somebody else wrote."""
        with self._lock:
            known = list(self._followed)
        for task in known:
            yield from self.changed_rows(task)
        for task in self._index.tasks():
            if task not in known:
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
