"""What is sealed is on disk before anything is sent, and stays until its round is over."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from chainfl.errors import StoreError
from chainfl.node.journal import SqliteJournal
from chainfl.ports import SealedScores, SealedUpdate
from chainfl.types import Address

TASK, ME, OTHER = (Address(bytes([number]) * 20) for number in (7, 1, 2))
FIRST = SealedScores(b"\x01" * 32, b"\x02" * 32, b"scores")
SECOND = SealedScores(b"\x03" * 32, b"\x04" * 32, b"other scores")


def journal(folder: Path, account: Address = ME) -> SqliteJournal:
    """The account's journal in this folder."""
    return SqliteJournal(folder / "journal.sqlite", 1, TASK, account)


def test_scores_sealed_twice_in_a_round_are_both_there_after_a_restart(tmp_path: Path) -> None:
    journal(tmp_path).keep_scores(3, FIRST)
    journal(tmp_path).keep_scores(3, SECOND)

    assert list(journal(tmp_path).scores(3)) == [FIRST, SECOND]
    assert list(journal(tmp_path).scores(4)) == []
    assert list(journal(tmp_path, OTHER).scores(3)) == []


def test_an_update_is_there_after_a_restart_and_is_never_replaced(tmp_path: Path) -> None:
    values = np.arange(5, dtype=np.uint32)
    sealed = SealedUpdate(b"\x01" * 32, b"\x02" * 32, b"\x03" * 32, b"\x04" * 32, 100, values)
    journal(tmp_path).keep_update(3, sealed)

    with pytest.raises(StoreError):
        journal(tmp_path).keep_update(3, sealed)

    found = journal(tmp_path).update(3)
    assert found is not None
    assert (found.digest, found.salt, found.root, found.cid, found.samples) == (
        *(bytes([number]) * 32 for number in (1, 2, 3, 4)),
        100,
    )
    assert found.update.tolist() == values.tolist()


def test_rounds_that_are_over_are_forgotten(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    for round_ in (1, 2, 3):
        kept.keep_scores(round_, FIRST)

    kept.forget_before(3)

    assert [len(kept.scores(round_)) for round_ in (1, 2, 3)] == [0, 0, 1]


def test_a_file_that_is_damaged_later_is_a_named_error_in_every_read(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    with sqlite3.connect(tmp_path / "journal.sqlite") as other:
        for table in ("note", "sealed_update", "sealed_scores"):
            other.execute(f"drop table {table}")

    for read in (lambda: kept.noted("threads"), lambda: kept.update(3), lambda: kept.scores(3)):
        with pytest.raises(StoreError, match=r"journal .*journal\.sqlite"):
            read()
