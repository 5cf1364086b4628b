"""The journal: what a participant has sealed and not yet revealed, in SQLite, on disk before anything is sent.

Losing it costs a slash, so every write is synchronous. It holds salts and updates, never keys.
"""

import secrets
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainfl.errors import StoreError, StoreFullError
from chainfl.ports import SealedScores, SealedUpdate
from chainfl.store.sqlite_file import open_sqlite
from chainfl.types import Address, Digest, Phase

_SCHEMA = """
create table if not exists sealed_update (
  chain integer, task blob, account blob, round integer,
  digest blob not null, salt blob not null, root blob not null, cid blob not null, samples integer not null,
  data blob not null, primary key (chain, task, account, round)
) without rowid;
create table if not exists sealed_scores (
  chain integer, task blob, account blob, round integer,
  digest blob, salt blob not null, scores blob not null, primary key (chain, task, account, round, digest)
) without rowid;
create table if not exists note (
  chain integer, task blob, account blob, name text, value text not null, primary key (chain, task, account, name)
) without rowid;
"""
_MINE = "where chain = ? and task = ? and account = ?"


class SqliteJournal:
    """The sealed updates and scores of one account in one task."""

    def __init__(self, path: Path, chain_id: int, task: Address, account: Address) -> None:
        """Open the file, or make it.

        Raises:
            StoreError: the file cannot be opened or is no journal.
        """
        self._path = path
        self._key = (chain_id, task, account)
        self._lock = threading.Lock()

        try:
            # A model is megabytes: large pages are four times as fast as those of 4096 bytes. `full`: what is sealed
            # is on the disk before its commitment is sent, also when the power goes.
            self._db = open_sqlite(path, _SCHEMA, page_size=65536, synchronous="full")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"journal {path}: {error}; name another file, or repair this one") from error

    def update(self, round_: int) -> SealedUpdate | None:
        """What was sealed for this round, if anything."""
        rows = self._all("select digest, salt, root, cid, samples, data from sealed_update", round_)
        if not rows:
            return None
        digest, salt, root, cid, samples, data = rows[0]
        return SealedUpdate(digest, salt, root, cid, samples, np.frombuffer(data, "<u4").astype(np.uint32))

    def keep_update(self, round_: int, sealed: SealedUpdate) -> None:
        """Write it down for good."""
        data = sealed.update.astype("<u4").tobytes()
        values = (sealed.digest, sealed.salt, sealed.root, sealed.cid, sealed.samples, data)
        self._write(
            "insert into sealed_update values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*self._key, round_, *values)
        )

    def scores(self, round_: int) -> Sequence[SealedScores]:
        """What was sealed for this round: more than once where a reorg changed what there was to judge."""
        return [
            SealedScores(*row) for row in self._all("select digest, salt, scores from sealed_scores", round_)
        ]

    def keep_scores(self, round_: int, sealed: SealedScores) -> None:
        """Write it down for good, beside what was sealed before: a reorg can bring that back."""
        values = (sealed.digest, sealed.salt, sealed.scores)
        self._write("insert into sealed_scores values (?, ?, ?, ?, ?, ?, ?)", (*self._key, round_, *values))

    def note(self, name: str, value: str) -> None:
        """Write down a fact about this node that a replay needs, such as torch's threads; the newest counts."""
        self._write("insert or replace into note values (?, ?, ?, ?, ?)", (*self._key, name, value))

    def noted(self, name: str) -> str | None:
        """The fact of this name, if there is one."""
        rows = self._read(f"select value from note {_MINE} and name = ?", (*self._key, name))
        return str(rows[0][0]) if rows else None

    def forget_before(self, round_: int) -> None:
        """Delete rounds that are over."""
        for table in ("sealed_update", "sealed_scores"):
            self._write(f"delete from {table} {_MINE} and round < ?", (*self._key, round_))

    def salt(self, round_: int, phase: Phase) -> Digest:
        """A fresh secret; the round and the phase do not enter it."""
        del round_, phase
        return secrets.token_bytes(32)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _all(self, query: str, round_: int) -> list[tuple[Any, ...]]:
        return self._read(f"{query} {_MINE} and round = ?", (*self._key, round_))

    def _read(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise StoreError(f"journal {self._path}: {error}") from error

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        with self._lock:
            try:
                with self._db:
                    self._db.execute(statement, values)
            except sqlite3.OperationalError as error:
                # SQLite tells a full disk in words only; it is the one failure that an operator can mend at once.
                if "full" in str(error):
                    raise StoreFullError(
                        f"journal {self._path}: the disk is full; nothing was written"
                    ) from error

                raise StoreError(
                    f"journal {self._path}: {error}; nothing was written: is the disk full, or a file too large?"
                ) from error
            except sqlite3.Error as error:
                raise StoreError(f"journal {self._path}: {error}") from error
