"""The index: documents by task, kind and number in SQLite (WAL); never a truth, rebuilt from events at any time.

One thread at a time writes; every reader thread has a connection of its own that cannot write. Verdicts are sealed
with a key that only the running process has: another program cannot forge one, and a new process has none.
"""

import hashlib
import hmac
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainfl.api.indexer import Row
from chainfl.errors import StoreError

_VERSION = 3
_TABLES = """
CREATE TABLE IF NOT EXISTS rows (
    task TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, round INTEGER, account TEXT, name TEXT,
    document TEXT NOT NULL, PRIMARY KEY (task, kind, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_kind ON rows (kind, number, task);
CREATE INDEX IF NOT EXISTS by_account ON rows (account, kind, task, number) WHERE account IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_round ON rows (task, kind, round, number) WHERE round IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_hash ON rows (name) WHERE kind IN ('transaction', 'record');
CREATE TABLE IF NOT EXISTS audits (
    task TEXT NOT NULL, round INTEGER NOT NULL, fingerprint TEXT NOT NULL, verdict TEXT NOT NULL,
    checks INTEGER NOT NULL, document TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (task, round)
) WITHOUT ROWID;
"""
_COLUMNS = "task, kind, number, round, account, name, document"
_AUDIT = "task, round, fingerprint, verdict, checks, document, seal"
_UPSERT = f"INSERT OR REPLACE INTO rows ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
BUSY_SECONDS = 5.0
MAX_CHUNK = 4 * 2**20
"""Bytes after which a page ends, however few documents these are."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows of a kind are wanted."""

    task: str | None = None
    round: int | None = None
    account: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class KeptAudit:
    """A verdict that was kept."""

    fingerprint: str
    verdict: str
    checks: int
    document: str


class Index:
    """Documents in a file (or in memory shared by this process's threads)."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; one of another version is made anew.

        Raises:
            StoreError: the file cannot be used.
        """
        self._path = path
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        with _failures(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.execute("PRAGMA synchronous=NORMAL")
            (version,) = self._writer.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                self._writer.executescript("DROP TABLE IF EXISTS rows; DROP TABLE IF EXISTS audits;")
            self._writer.executescript(_TABLES + f"DELETE FROM audits; PRAGMA user_version={_VERSION};")

    def close(self) -> None:
        """Close the file. An audit that is still at work may be writing, or reading in a thread of its own.

        A connection that is closed under a running statement takes the process with it: the writer is waited for, and
        each reader goes with its thread.
        """
        self._readers.clear()
        with self._lock:
            self._writer.close()

    # Writing

    def write(self, task: str, rows: Sequence[Row], *, anew: bool = False) -> None:
        """Keep these rows, all or none; `anew` forgets everything about the task first."""
        values = [(task, r.kind, r.number, r.round, r.account, r.name, r.document) for r in rows]
        with self._lock, _failures(self._path), self._writer:
            if anew:
                self._writer.execute("DELETE FROM rows WHERE task = ?", (task,))
            self._writer.executemany(_UPSERT, values)

    def keep_only(self, tasks: Collection[str]) -> None:
        """Forget all other tasks."""
        self.forget(set(self.tasks()) - set(tasks))

    def forget(self, tasks: Collection[str]) -> None:
        """Forget these tasks."""
        with self._lock, _failures(self._path), self._writer:
            self._writer.executemany("DELETE FROM rows WHERE task = ?", [(task,) for task in tasks])

    def keep_audit(self, task: str, round_: int, audit: KeptAudit) -> None:
        """Keep a verdict, sealed."""
        values = (task, round_, audit.fingerprint, audit.verdict, audit.checks, audit.document)
        with self._lock, _failures(self._path), self._writer:
            self._writer.execute(
                f"INSERT OR REPLACE INTO audits ({_AUDIT}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*values, self._seal(values).decode()),
            )

    # Reading

    def document(self, task: str, kind: str, number: int = 0) -> str | None:
        """One document by its key."""
        query = "SELECT document FROM rows WHERE task = ? AND kind = ? AND number = ?"
        found = self._all(query, (task, kind, number))
        return str(found[0][0]) if found else None

    def task_address(self, task_id: int) -> str | None:
        """The address of a task by its number in the factory."""
        found = self._all("SELECT task FROM rows WHERE kind = 'task' AND number = ?", (task_id,))
        return str(found[0][0]) if found else None

    def has_task(self, task: str) -> bool:
        """Whether the index holds this task."""
        return bool(self._all("SELECT 1 FROM rows WHERE task = ? AND kind = 'task'", (task,)))

    def task_count(self) -> int:
        """How many tasks there are."""
        return int(self._all("SELECT count(*) FROM rows WHERE kind = 'task'", ())[0][0])

    def named(self, hash_: str, limit: int) -> list[str]:
        """What has this hash or CID, in any task."""
        query = (
            "SELECT document FROM rows WHERE name = ? AND kind IN ('transaction', 'record') "
            "ORDER BY task, kind, number LIMIT ?"
        )
        return [str(document) for (document,) in self._all(query, (hash_, limit))]

    def page(
        self, kind: str, where: Filter, after: int | None, limit: int, *, newest: bool = False
    ) -> list[tuple[int, str]]:
        """Up to `limit` documents that follow number `after`, with their numbers, oldest or newest first."""
        return self._all(*_page_query(kind, where, after, limit, newest=newest))

    def chunk(
        self, kind: str, where: Filter, after: int | None, limit: int, *, newest: bool = False
    ) -> tuple[list[str], int | None]:
        """A page's documents and the number to go on after; one that gets too long ends early."""
        found = list[tuple[int, str]]()
        size = 0
        with _failures(self._path):
            for number, document in self._reader().execute(
                *_page_query(kind, where, after, limit + 1, newest=newest)
            ):
                size += len(document)
                if len(found) == limit or (found and size > MAX_CHUNK):
                    return [each for _, each in found], found[-1][0]
                found.append((number, document))
        return [each for _, each in found], None

    def rows(self, task: str, round_: int | None = None) -> Iterator[Row]:
        """All rows of a task; with a round, its rows and those that belong to no round."""
        query = "SELECT kind, number, document, round, account, name FROM rows WHERE task = ?"
        values: tuple[object, ...] = (task,)
        if round_ is not None:
            query = f"{query} AND (round = ? OR round IS NULL)"
            values = (task, round_)
        with _failures(self._path):
            for found in self._reader().execute(query, values):
                yield Row(*found)

    def tasks(self) -> list[str]:
        """Every task that some row names."""
        return [str(name) for (name,) in self._all("SELECT DISTINCT task FROM rows", ())]

    def audit(self, task: str, round_: int) -> KeptAudit | None:
        """The verdict that was kept, unless the file was changed since."""
        query = f"SELECT {_AUDIT} FROM audits WHERE task = ? AND round = ?"
        found = self._all(query, (task, round_))
        return KeptAudit(*found[0][2:6]) if found and self._is_sealed(found[0]) else None

    def audits(self, task: str, after: int, limit: int) -> list[tuple[int, str, str, int]]:
        """Rounds that were audited: number, fingerprint, verdict, checks; changed ones are left out."""
        query = f"SELECT {_AUDIT} FROM audits WHERE task = ? AND round > ? ORDER BY round LIMIT ?"
        found = self._all(query, (task, after, limit))
        return [(row[1], row[2], row[3], row[4]) for row in found if self._is_sealed(row)]

    def forged_audits(self) -> list[tuple[str, int, str]]:
        """Verdicts that this process did not write as they stand: task, round, verdict."""
        found = self._all(f"SELECT {_AUDIT} FROM audits ORDER BY task, round", ())
        return [(row[0], row[1], row[3]) for row in found if not self._is_sealed(row)]

    def _is_sealed(self, row: Sequence[object]) -> bool:
        *values, seal = row
        return hmac.compare_digest(self._seal(values), str(seal).encode(errors="replace"))

    def _seal(self, values: Sequence[object]) -> bytes:
        return hmac.new(self._key, repr(tuple(values)).encode(), hashlib.sha256).hexdigest().encode()

    def _all(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with _failures(self._path):
            return self._reader().execute(query, values).fetchall()

    def _reader(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            uri = f"{self._path.resolve().as_uri()}?mode=ro"
            found = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
            found.text_factory = _text
            self._local.connection = found
            self._readers.append(found)
        return found


def _page_query(
    kind: str, where: Filter, after: int | None, limit: int, *, newest: bool
) -> tuple[str, Sequence[object]]:
    conditions = ["kind = ?"]
    values = list[object]((kind,))

    if after is not None:
        conditions.append("number < ?" if newest else "number > ?")
        values.append(after)

    for column in ("task", "round", "account", "name"):
        value = getattr(where, column)
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)

    # Only names of columns and fixed words are put into the text; values travel beside it.
    direction = "DESC" if newest else "ASC"
    query = (
        f"SELECT number, document FROM rows WHERE {' AND '.join(conditions)} "
        f"ORDER BY number {direction}, task LIMIT ?"
    )
    return query, (*values, limit)


def _text(data: bytes) -> str:
    """Text as it is: damaged rows are shown and do not stop a check."""
    return data.decode(errors="replace")


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"the index {path}: {error}; delete the file and it is rebuilt") from error
