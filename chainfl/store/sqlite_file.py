"""A SQLite file of one node: made with its tables where it is new, shared by the threads of one process."""

import sqlite3
from pathlib import Path


def open_sqlite(path: Path, schema: str, **pragmas: str | int) -> sqlite3.Connection:
    """The file with write-ahead logging, so that a node that is killed leaves a whole one behind.

    Raises:
        sqlite3.Error: the file is none of SQLite's, or in use by another program.
        OSError: its folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, check_same_thread=False, timeout=10)

    # Before the log's mode: a page size counts for a file that is still empty.
    for name, value in pragmas.items():
        db.execute(f"pragma {name} = {value}")
    db.execute("pragma journal_mode = wal")

    db.executescript(schema)
    return db
