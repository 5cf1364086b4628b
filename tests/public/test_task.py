"""A task on a real chain, read and audited from Python."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chainfl
from chainfl.cli.app import run
from chainfl.devnet.processes import CHAIN_ID
from chainfl.errors import InputError, LedgerError
from tests.audit.scene import History, history


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[History]:
    """Round 1 is right, round 2 a lie that was let through, round 3 stands in Challenge."""
    require("anvil")
    with history(tmp_path_factory.mktemp("history")) as built:
        yield built


@pytest.fixture
def task(played: History) -> chainfl.Task:
    return chainfl.Task.open(played.chain.url, played.address, store=played.store)


def test_a_task_shows_where_it_stands(played: History, task: chainfl.Task) -> None:
    assert task.address == played.address
    assert (task.chain_id, task.rule, task.round, task.phase) == (CHAIN_ID, "softmax", 3, "challenge")
    assert len(task.participants) == 7
    assert repr(task) == f"<Task {played.address} on chain {CHAIN_ID}: round 3, challenge>"


def test_settled_rounds_have_shares_by_account(task: chainfl.Task) -> None:
    first, second = task.rounds()

    assert (first.number, first.outcome, second.outcome) == (1, "final", "final")
    assert sum(first.shares.values()) == pytest.approx(1, abs=1e-6)
    assert first.shares.keys() <= set(task.participants) - set(first.committee)
    assert second.model_root == task.head_root
    assert first.head_loss is not None
    assert 0.1 < first.head_loss < 10  # cross-entropy of ten classes, not its fixed-point integer


def test_the_audit_tells_the_right_round_from_the_lie(task: chainfl.Task) -> None:
    first, second = task.audit()
    (alone,) = task.audit(2)

    assert first.is_ok
    assert not second.is_ok
    assert [each.check for each in second.findings if not each.is_ok] != []
    assert alone == second


def test_the_model_comes_out_by_tensor_and_as_a_file_that_verifies(
    task: chainfl.Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = task.tensors(1)
    out = task.export(tmp_path / "model.safetensors", 1)

    assert run(["model", "verify", str(out), "--json"]) == 0
    assert task.rounds()[0].model_root.removeprefix("0x") in capsys.readouterr().out
    assert all(values.dtype.name == "float32" for values in tensors.values())


def test_without_a_store_it_can_be_read_and_not_audited(played: History) -> None:
    bare = chainfl.Task.open([played.chain.url], played.address)

    assert len(bare.rounds()) == 2
    with pytest.raises(InputError, match="open it with store="):
        bare.audit()


def test_a_round_that_is_not_settled_is_refused(task: chainfl.Task) -> None:
    with pytest.raises(InputError, match="round 3 of this task is not settled"):
        task.audit(3)


def test_what_is_no_address_and_a_chain_that_is_away_are_errors_of_their_kind() -> None:
    with pytest.raises(InputError):
        chainfl.Task.open("http://127.0.0.1:9", "0x12")
    with pytest.raises(LedgerError):
        chainfl.Task.open("http://127.0.0.1:9", "0x" + "11" * 20)
