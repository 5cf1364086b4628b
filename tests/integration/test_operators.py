"""A key that holds no money plays for a cold one's stake, on a real chain and by command."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chainfl.audit.verify import Verdict
from chainfl.chain.keys import new_key, unlock
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.send import Sender, checksum
from chainfl.cli import run
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import CHAIN_ID, fund
from chainfl.errors import InputError
from chainfl.node.wiring import enrol_once
from chainfl.protocol.errors import NothingToClaimError
from chainfl.protocol.views import earnings
from chainfl.roles.participant import Participant
from chainfl.sim.memory import MemoryJournal
from chainfl.types import Address, Rule
from chainfl.workflows.audit import audit
from tests.integration.chain import ChainTask, Devchain, open_task
from tests.protocol.scene import ETHER
from tests.sim.network import Quadratic

FEW = 6
"""One fewer than a draw needs, so that it waits for the owner."""


@dataclass(slots=True)
class Stand:
    """A task, a cold key with stake, and a hot one with ether for gas."""

    chain: Devchain
    task: ChainTask
    folder: Path
    cold: Address
    hot: Address
    capsys: pytest.CaptureFixture[str]

    def owner(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Run `chainfl stake …` with the cold key; its JSON."""
        named = ["--task", checksum(self.task.address), "--rpc-url", self.chain.url, "--json"]
        named += ["--keystore", str(self.folder / "cold.json")]
        if words[-1] != "show":
            named += ["--password-file", str(self.folder / "password")]
        self.capsys.readouterr()
        assert run(["stake", *words, *named]) == code
        answer: dict[str, dict[str, Any]] = json.loads(self.capsys.readouterr().out)
        return answer["metrics"] if code == 0 else answer["error"]

    def ledger(self) -> ChainLedger:
        """The task as the hot key acts on it."""
        sender = Sender(self.chain.w3, unlock(self.folder / "hot.json", "secret"), CHAIN_ID)
        return ChainLedger(self.chain.w3, sender, self.task.reader(), self.task.address, self.cold)


@pytest.fixture
def stand(chain: Devchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Stand:
    (tmp_path / "password").write_text("secret\n")
    cold, hot = (new_key(tmp_path / f"{name}.json", "secret", iterations=2) for name in ("cold", "hot"))
    for account in (cold, hot):
        fund(chain.w3, account, 100 * ETHER)
    task = open_task(chain, Rule.SOFTMAX, FEW, rounds=4)
    return Stand(chain, task, tmp_path, cold, hot, capsys)


def test_an_operator_plays_rounds_for_its_owner_who_claims(stand: Stand) -> None:
    stand.owner("add", "5")
    ledger = stand.ledger()
    with pytest.raises(InputError, match="has not named this key as its operator"):
        enrol_once(ledger)

    named = stand.owner("operator", "set", checksum(stand.hot))
    waiting = stand.owner("operator", "show")
    enrol_once(ledger)
    enrol_once(ledger)
    acting = stand.owner("operator", "show")
    journal = MemoryJournal(keccak256(b"hot"))
    stand.task.people[stand.cold] = Participant(ledger, stand.chain.store, Quadratic(42), journal)
    stand.task.live(3)

    assert named["operator"] == waiting["operator"] == acting["operator"] == "0x" + stand.hot.hex()
    assert (waiting["acts_from_round"], acting["acts_from_round"]) == (None, 1)
    reader = stand.task.reader()
    now = reader.refresh()
    assert [one.verdict for one in audit(reader, stand.chain.store)] == [Verdict.OK] * 2
    assert stand.hot not in now.accounts
    assert now.accounts[stand.cold].is_enrolled
    assert earnings(now, stand.cold) > 0
    assert earnings(now, stand.hot) == 0
    with pytest.raises(NothingToClaimError):
        ledger.claim(sorted(now.pays))
    assert int(stand.owner("claim")["claimed_wei"]) > 0

    dismissed = stand.owner("operator", "set", "none")
    assert dismissed["operator"] is None
    assert stand.owner("operator", "show")["operator"] is None
    assert stand.owner("operator", "set", checksum(stand.cold), code=2)["message"].startswith("you act")
