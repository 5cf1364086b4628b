"""`chainfl task admit`: the root of a list, and the proofs that `enrolAdmitted` takes as they are."""

import json
from pathlib import Path

import pytest

from chainfl.chain.abi import functions
from chainfl.cli import run
from chainfl.codec.text import hex_of
from chainfl.protocol.admission import Admission, is_listed
from chainfl.types import Role
from tests.protocol.scene import address


def account(number: int) -> str:
    return hex_of(address(number))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Six accounts, of which two are internals."""
    lines = [f"{account(number)} {'internal' if number < 3 else 'participant'}" for number in range(1, 7)]
    path = tmp_path / "members.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_proof_is_one_text_that_the_contract_takes(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "proofs.json"

    assert run(["task", "admit", str(file), "--account", account(1), "--proofs", str(written), "--json"]) == 0

    told = json.loads(capsys.readouterr().out)["metrics"]
    proof = bytes.fromhex(told["proof"].removeprefix("0x"))
    assert (told["participants"], told["internals"], told["role"]) == (4, 2, "internal")
    assert len(proof) % 20 == 0
    root = bytes.fromhex(told["root"].removeprefix("0x"))
    assert is_listed(root, address(1), Admission(Role.INTERNAL, proof))
    assert proof in functions("TrainingTask")["enrolAdmitted"].call_data(address(1), Role.INTERNAL, proof)
    every = json.loads(written.read_text())
    assert every["root"] == told["root"]
    assert every["proofs"][account(1)] == {"role": "internal", "proof": told["proof"]}
    assert len(every["proofs"]) == 6


def test_people_read_a_line_for_each_value(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["task", "admit", str(file), "--account", account(6)]) == 0

    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["root", "participants", "internals", "account", "role", "proof"]
    assert lines["role"] == "participant"
    assert lines["proof"].startswith("0x")


def test_an_account_that_the_list_does_not_name_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["task", "admit", str(file), "--account", account(9)]) == 2

    assert f"does not name {account(9)}" in capsys.readouterr().err
