"""A node under --dp: each update is counted before it can leave, and the account outlives the process."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chainfl.codec.records import Layout, Tensor
from chainfl.errors import InputError
from chainfl.node.journal import SqliteJournal
from chainfl.node.learning import Untrained
from chainfl.node.privacy import NOTE, private, spent_in
from chainfl.node.status import Status
from chainfl.types import Address

TASK, ACCOUNT, OTHER = (Address(bytes([number]) * 20) for number in (1, 2, 3))
HEAD_D = np.zeros(5000, np.float32)


@pytest.fixture(autouse=True)
def _accountant(require_extra: Callable[[str], None]) -> None:
    require_extra("dp")


def journal(home: Path) -> SqliteJournal:
    return SqliteJournal(home / "journal.sqlite", 1, TASK, ACCOUNT)


def test_every_update_is_noised_anew_and_the_account_grows_over_restarts(tmp_path: Path) -> None:
    inner = Untrained(Layout((Tensor("w", (5000,)),)), 0)
    seen = list[float]()

    first = private(inner, "clip=1,noise=1.1,delta=1e-5", journal(tmp_path), seen.append)
    one_D = first.train(HEAD_D, 1)
    other_D = first.train(HEAD_D, 1)
    again = private(inner, "clip=1,noise=2,delta=1e-5", journal(tmp_path), seen.append)
    again.train(HEAD_D, 2)

    assert float(one_D.std()) == pytest.approx(1.1, rel=0.1)
    assert not np.array_equal(one_D, other_D)
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[2] == seen[3], "what was spent before the restart is shown after it"

    spent = spent_in(tmp_path, 1, TASK, [OTHER, ACCOUNT])
    assert spent is not None
    assert (spent.updates, spent.history, spent.epsilon) == (3, ((1.1, 2), (2.0, 1)), seen[-1])
    assert spent_in(tmp_path, 1, TASK, [OTHER]) is None
    assert spent_in(tmp_path / "nowhere", 1, TASK, [ACCOUNT]) is None


def test_a_model_with_running_variances_is_refused_before_it_trains(tmp_path: Path) -> None:
    inner = Untrained(Layout((Tensor("norm.running_var", (5,)),)), 0)
    with pytest.raises(InputError, match=r"noise makes norm.running_var negative.*GroupNorm"):
        private(inner, "clip=1,noise=1.1,delta=1e-5", journal(tmp_path), lambda _: None)


def test_an_update_that_cannot_be_counted_does_not_leave(tmp_path: Path) -> None:
    inner = Untrained(Layout((Tensor("w", (5000,)),)), 0)
    book = journal(tmp_path)
    trainer = private(inner, "clip=1,noise=1.1,delta=1e-5", book, lambda _: None)
    book.close()

    with pytest.raises(Exception, match="closed"):
        trainer.train(HEAD_D, 1)


def test_the_metric_says_what_was_spent(tmp_path: Path) -> None:
    book = journal(tmp_path)
    book.note(NOTE, json.dumps({"epsilon": 3.5, "delta": 1e-5, "history": [[1.1, 1]]}))
    status = Status()

    private(Untrained(Layout((Tensor("w", (8,)),)), 0), "clip=1,noise=1.1,delta=1e-5", book, status.spent)

    assert status.registry.get_sample_value("chainfl_privacy_epsilon") == 3.5
