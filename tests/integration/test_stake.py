"""What an account does with its stake and its pay, by command: put in, look, claim, take out."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chainfl.chain.abi import functions
from chainfl.chain.keys import address_of, new_key, unlock
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.send import Sender, checksum
from chainfl.cli import run
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import CHAIN_ID, fund
from chainfl.roles.participant import Participant
from chainfl.sim.memory import MemoryJournal
from chainfl.types import Rule
from tests.integration.chain import ChainTask, Devchain, open_task
from tests.protocol.scene import ETHER
from tests.sim.network import Quadratic

FEW = 6
"""One fewer than a draw needs, so that it waits for the guest."""


@dataclass(slots=True)
class Guest:
    """An account that acts by command."""

    chain: Devchain
    task: ChainTask
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def does(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run `chainfl stake …` for this account; its JSON."""
        named = ["--task", checksum(self.task.address), "--rpc-url", self.chain.url, "--json"]
        named += ["--keystore", str(self.folder / "key.json")]
        if words[0] != "show":
            named += ["--password-file", str(self.folder / "password")]
        self.capsys.readouterr()
        assert run(["stake", *words, *named]) == code
        answer: dict[str, dict[str, Any]] = json.loads(self.capsys.readouterr().out)
        return answer["metrics"] if code == 0 else answer["error"]

    def takes_part(self) -> None:
        """From now on the account plays like the others."""
        sender = Sender(self.chain.w3, unlock(self.folder / "key.json", "secret"), CHAIN_ID)
        ledger = ChainLedger(self.chain.w3, sender, self.task.reader(), self.task.address)
        journal = MemoryJournal(keccak256(b"guest"))
        self.task.people[sender.address] = Participant(ledger, self.chain.store, Quadratic(42), journal)

    def balance(self) -> int:
        """What the account has outside."""
        return self.chain.w3.eth.get_balance(checksum(address_of(self.folder / "key.json")))


@pytest.fixture
def guest(chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Guest:
    (tmp_path / "password").write_text("secret\n")
    account = new_key(tmp_path / "key.json", "secret", iterations=2)
    fund(chain.w3, account, 100 * ETHER)
    return Guest(chain, open_task(chain, Rule.SOFTMAX, FEW, rounds=4), tmp_path, capsys)


def test_a_guest_stakes_works_claims_and_takes_everything_out_again(guest: Guest) -> None:
    stranger = guest.does("show")
    added = guest.does("add", "5", "--enrol")
    guest.takes_part()
    guest.task.live(4)

    worked = guest.does("show")
    before = guest.balance()
    claimed = guest.does("claim")

    assert (stranger["id"], stranger["enrolled"], stranger["bonded_wei"]) == (None, False, "0")
    assert added["bonded_wei"] == worked["bonded_wei"] == str(5 * ETHER)
    assert (worked["enrolled"], worked["requests"]) == (True, [])
    assert claimed["claimed_wei"] == worked["earned_wei"] != "0"
    assert before < guest.balance() <= before + int(claimed["claimed_wei"])
    assert guest.does("show")["earned_wei"] == "0"
    assert "nothing" in guest.does("claim", code=3)["message"]

    part = guest.does("remove", "1.5")
    rest = guest.does("remove", "all")
    early = guest.does("release")
    waiting = guest.does("show")["requests"]

    assert (part["request"], part["bonded_wei"], part["worth_wei"]) == (
        0,
        "3500000000000000000",
        str(15 * ETHER // 10),
    )
    assert (rest["request"], rest["bonded_wei"]) == (1, "0")
    assert (early["released"], early["withdrawn_wei"]) == ([], "0")
    assert [(each["request"], each["worth_wei"]) for each in waiting] == [
        (0, part["worth_wei"]),
        (1, rest["worth_wei"]),
    ]
    assert early["next_release_at"] == min(each["release_at"] for each in waiting)
    refused = guest.does("release", "0", code=3)["message"]
    assert refused.startswith("request 0 can be released from 20")
    assert refused.endswith("s: run this again then")
    assert "request 7 is not waiting (these are: 0, 1)" in guest.does("release", "7", code=2)["message"]

    guest.task.live(5)
    guest.chain.skip(max(0, rest["release_at"] - int(guest.chain.w3.eth.get_block("latest")["timestamp"])))
    out = guest.does("release")

    assert out["released"] == [0, 1]
    assert out["withdrawn_wei"] == str(5 * ETHER)
    assert guest.does("show")["requests"] == []


def test_whose_stake_is_asked_for_and_amounts_are_read_before_anything_is_opened(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAINFL_KEYSTORE", raising=False)
    where = ["--task", checksum(guest.task.address), "--rpc-url", guest.chain.url]

    assert run(["stake", "show", *where]) == 2
    assert "whose stake?" in guest.capsys.readouterr().err
    assert run(["stake", "show", *where, "--account", checksum(next(iter(guest.task.people)))]) == 0
    assert "in draws from round" in guest.capsys.readouterr().out
    assert guest.does("add", "five", code=2)["message"].startswith("'five' is not an amount")


def test_stake_below_the_minimum_is_taken_with_a_warning_that_says_what_is_missing(guest: Guest) -> None:
    where = ["--task", checksum(guest.task.address), "--rpc-url", guest.chain.url]
    key = ["--keystore", str(guest.folder / "key.json"), "--password-file", str(guest.folder / "password")]

    assert run(["stake", "add", "0.25", *where, *key]) == 0

    said = guest.capsys.readouterr()
    assert "bonded: 0.250000 ETH" in said.out
    assert "warning: below the task's minimum stake" in said.err
    assert "add 0.650000 ETH more" in said.err


def test_an_audit_without_a_settled_round_is_no_success(guest: Guest) -> None:
    where = ["--task", checksum(guest.task.address), "--rpc-url", guest.chain.url]

    assert run(["audit", "verify", *where, "--store", f"dir:{guest.folder / 'store'}"]) == 1

    assert "no round of this task is settled yet: nothing was audited" in guest.capsys.readouterr().out


def test_no_stake_is_added_to_a_task_that_has_ended(guest: Guest) -> None:
    sponsor = guest.chain.sender("sponsor")
    sponsor.send(guest.task.address, functions("TrainingTask")["abandon"].call_data())

    assert "this task has ended" in guest.does("add", "1", code=3)["message"]
