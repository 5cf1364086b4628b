"""The list of pins, in SQLite beside the journal. Losing it costs no stake: pins that nobody lists stay for ever."""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chainfl.codec.cid import Cid
from chainfl.errors import StoreError
from chainfl.store.sqlite_file import open_sqlite
from chainfl.types import Address

_SCHEMA = """
create table if not exists pin (
  chain integer, task blob, account blob, cid text,
  round integer not null, is_made integer not null, is_ours integer not null,
  primary key (chain, task, account, cid)
) without rowid;
create index if not exists pin_of_cid on pin (cid);
"""
_MINE = "where chain = ? and task = ? and account = ?"


class SqlitePinBook:
    """The pins that one account has made in one task, each with the round that needed it last."""

    def __init__(self, path: Path, chain_id: int, task: Address, account: Address) -> None:
        """Open the file, or make it.

        Raises:
            StoreError: the file cannot be opened or is no list of pins.
        """
        self._path = path
        self._key = (chain_id, task, account)
        self._lock = threading.Lock()

        try:
            # `normal`: safe from a crash of ours, and no wait for the disk.
            self._db = open_sqlite(path, _SCHEMA, synchronous="normal")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"list of pins {path}: {error}; remove this file, or name another home"
            ) from error

    def has_pin(self, cid: Cid) -> bool:
        """Whether a pin of this name is listed here."""
        return bool(self._run(f"select 1 from pin {_MINE} and cid = ?", (*self._key, str(cid))))

    def begin_pin(self, round_: int, cid: Cid, *, is_ours: bool) -> None:
        """List a pin that is about to be made; one that is listed stays as it is."""
        values = (*self._key, str(cid), round_, False, is_ours)
        self._run("insert or ignore into pin values (?, ?, ?, ?, ?, ?, ?)", values)

    def keep_pin(self, round_: int, cid: Cid) -> None:
        """A listed pin is made, and needed in this round."""
        self._run(
            f"update pin set is_made = 1, round = max(round, ?) {_MINE} and cid = ? "
            "and (not is_made or round < ?)",
            (round_, *self._key, str(cid), round_),
        )

    def old_pins(self, oldest: int, running: int) -> Sequence[Cid]:
        """Pins needed last before the oldest round that is kept, and those that were never made before the running."""
        found = self._run(
            f"select cid from pin {_MINE} and (round < ? or (not is_made and round < ?)) order by round, cid",
            (*self._key, oldest, running),
        )
        return [Cid.parse(cid) for (cid,) in found]

    def is_last_pin(self, cid: Cid) -> bool:
        """Whether a pin that goes is to be undone: we made it, and no other task or account in this file needs it."""
        rows = self._run("select chain, task, account, is_ours from pin where cid = ?", (str(cid),))
        return len(rows) == 1 and tuple(rows[0][:3]) == self._key and bool(rows[0][3])

    def drop_pin(self, cid: Cid) -> None:
        """Take a pin off the list; another task or account in this file that needs it inherits it."""
        name = str(cid)
        mine = self._run(f"select is_ours from pin {_MINE} and cid = ?", (*self._key, name))
        self._run(f"delete from pin {_MINE} and cid = ?", (*self._key, name))
        if mine and mine[0][0]:
            self._run("update pin set is_ours = 1 where cid = ?", (name,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _run(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                with self._db:
                    return self._db.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise StoreError(f"list of pins {self._path}: {error}") from error
