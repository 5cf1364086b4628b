"""A node that kills itself at planned places, so that a test can see it come back.

Run as a process of its own: `python -m tests.integration.crashing_node PLAN.json`. The plan names chain, task, key and
blob store, and the list of places still to crash at; a place is struck off the list before the process dies there. It
may also name a folder that all share, with a file for each place: whoever gets there first removes the file and dies.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eth_account import Account

from chainfl.chain.abi import as_address
from chainfl.chain.keys import LocalSigner
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender, SendSettings
from chainfl.logs import set_up_logs
from chainfl.node.journal import SqliteJournal
from chainfl.node.loop import persist, serve
from chainfl.node.status import Status
from chainfl.node.wiring import READY, Node
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty
from chainfl.store.address import open_store
from tests.sim.network import Quadratic

ACTIONS = ("commit_update", "reveal_update", "commit_scores", "reveal_scores", "propose", "vote")
MOST_DEATHS = 2
JOURNALLED = {"keep_update": "commit_update", "keep_scores": "commit_scores"}


class Crashes:
    """The places still to crash at, kept in the plan's file."""

    def __init__(self, file: Path) -> None:
        """Read the plan."""
        self._file = file
        self.plan = json.loads(file.read_text())
        self.sending = ""
        self.round = 0

    def at(self, place: str) -> None:
        """Die here, if the plan says so (in any round, or in this one), having struck the place off."""
        named = next(
            (each for each in (place, f"{self.round} {place}") if each in self.plan["crashes"]), None
        )
        if named is not None:
            self.plan["crashes"].remove(named)
        elif not self._is_mine(place):
            return
        self.plan["crashed"].append(place)
        draft = self._file.with_suffix(".part")
        draft.write_text(json.dumps(self.plan))
        draft.replace(self._file)
        logging.getLogger("chainfl").warning("dying at %s", place)
        os.kill(os.getpid(), signal.SIGKILL)

    def _is_mine(self, place: str) -> bool:
        """Whether this process is the first of all to get to a shared place; nobody dies often in a round."""
        fallen: dict[str, int] = self.plan.setdefault("fallen", {})
        if "shared" not in self.plan or fallen.get(str(self.round), 0) >= MOST_DEATHS:
            return False
        try:
            (Path(self.plan["shared"]) / place).unlink()
        except FileNotFoundError:
            return False
        fallen[str(self.round)] = fallen.get(str(self.round), 0) + 1
        return True


class CrashingJournal:
    """A journal that dies before or after it has written."""

    def __init__(self, journal: SqliteJournal, crashes: Crashes) -> None:
        """Stand in front of a real journal."""
        self._journal, self._crashes = journal, crashes

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._journal, name)
        return self._around(name, real) if name in JOURNALLED else real

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            self._crashes.round = values[0]
            self._crashes.at(f"{JOURNALLED[name]}: before journal")
            answer = real(*values)
            self._crashes.at(f"{JOURNALLED[name]}: after journal")
            return answer

        return call


class CrashingLedger(ChainLedger):
    """A ledger that dies before or after a receipt."""

    crashes: Crashes

    def __getattribute__(self, name: str) -> Any:
        real = super().__getattribute__(name)
        if name not in ACTIONS:
            return real
        crashes: Crashes = super().__getattribute__("crashes")

        def call(*values: Any) -> Any:
            crashes.round = values[0]
            crashes.at(f"{name}: before send")
            crashes.sending = name
            answer = real(*values)
            crashes.sending = ""
            crashes.at(f"{name}: after receipt")
            return answer

        return call


def wire(crashes: Crashes) -> Node:
    """A node as the plan describes it, on a chain and a store that answer."""
    plan = crashes.plan
    w3 = open_rpc(plan["rpc_url"])
    signer = LocalSigner(Account.from_key(Path(plan["secret_file"]).read_bytes()))
    confirmations = plan.get("confirmations", 0)
    sender = Sender(
        w3, signer, plan["chain_id"], SendSettings(confirmations, plan.get("replace_after", 30.0))
    )
    broadcast = w3.eth.send_raw_transaction

    def send_and_die(raw: bytes) -> Any:
        sent = broadcast(raw)
        crashes.at(f"{crashes.sending}: after send")
        return sent

    w3.eth.send_raw_transaction = send_and_die  # type: ignore[method-assign,assignment]
    task = as_address(plan["task"])
    reader = TaskReader(w3, task, plan["chain_id"], plan["from_block"], confirmations)
    owner = as_address(plan["owner"]) if plan.get("owner") else None
    ledger = CrashingLedger(w3, sender, reader, task, owner)
    ledger.crashes = crashes
    journal = SqliteJournal(Path(plan["home"]) / "journal.sqlite", plan["chain_id"], task, signer.address)
    store = open_store(plan["store"])
    participant = Participant(ledger, store, Quadratic(plan["seed"]), CrashingJournal(journal, crashes))
    return Node(participant, ledger, lambda *_: None)


def main(file: Path) -> None:
    """Take part until the task ends, or until a planned death."""
    crashes, stop = Crashes(file), threading.Event()
    set_up_logs(as_json=False)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    node = persist(lambda: wire(crashes), stop, Status())
    if node is not None:
        (Path(crashes.plan["home"]) / READY).touch()
        serve(node, Duty(crashes.plan.get("duty", Duty.ALL.value)), stop, poll_seconds=0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
