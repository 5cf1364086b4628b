"""Another client than anvil, over a WebSocket: the contracts go in, and a round is played and audited."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from web3.types import Wei

from chainfl.audit.verify import Verdict
from chainfl.chain.deploy import FACTORY, Deployment, deploy
from chainfl.chain.reader import read_call
from chainfl.chain.rpc import WebSocketRpc, open_rpc
from chainfl.chain.send import checksum
from chainfl.roles.turn import Duty, next_step
from chainfl.sim.memory import MemoryStore
from chainfl.types import Address, Phase, Rule
from chainfl.workflows.audit import audit
from tests.integration.chain import Devchain, expect_seed_of_the_header, geth, open_task
from tests.processes import await_that
from tests.protocol.scene import ETHER

Require = Callable[[str], Path]


class Gethchain(Devchain):
    """A chain whose first account is rich; nothing on it is made by a cheat."""

    def give(self, account: Address) -> None:
        """A payment like any other."""
        if self.w3.eth.get_balance(checksum(account)) >= 10 * ETHER:
            return
        paid = self.w3.eth.send_transaction(
            {"from": self.w3.eth.accounts[0], "to": checksum(account), "value": Wei(20 * ETHER)}
        )
        self.w3.eth.wait_for_transaction_receipt(paid, timeout=30)


@contextmanager
def gethchain(program: Path, home: Path) -> Iterator[Gethchain]:
    """The contracts on a geth of one's own."""
    with geth(program, home, websocket=True) as url:
        w3 = open_rpc(url)
        chain_id = w3.eth.chain_id
        chain = Gethchain(w3, url, Deployment(chain_id, "", 1), MemoryStore(), 0, chain_id)
        told = list[str]()
        chain.deployment = deploy(w3, chain.sender("deployer"), home / "geth.json", 1, chain_id, told.append)
        yield chain
        assert isinstance(w3.provider, WebSocketRpc)
        w3.provider.close()


def test_geth_takes_the_contracts_too(tmp_path: Path, require: Require) -> None:
    with gethchain(require("geth"), tmp_path) as chain:
        count = read_call(chain.w3, FACTORY, chain.deployment.factory_address, "taskCount")

    assert count == (0,)


@pytest.mark.deep
def test_on_geth_the_seed_is_that_of_the_header_by_an_independent_formula(
    tmp_path: Path, require: Require
) -> None:
    with gethchain(require("geth"), tmp_path) as chain:
        expect_seed_of_the_header(open_task(chain, Rule.SOFTMAX, 7))


@pytest.mark.deep
def test_a_round_on_geth_is_played_and_audited(tmp_path: Path, require: Require) -> None:
    with gethchain(require("geth"), tmp_path) as chain:
        task = open_task(chain, Rule.SOFTMAX, 7, rounds=1, escrow=ETHER // 5, challenge_seconds=5)
        reader = task.reader()

        def is_over() -> bool:
            for me in task.people.values():
                step = next_step(me, me.ledger.task(), me.ledger.now(), Duty.ALL)
                if step is not None:
                    step.take(me)
            return reader.refresh().round.phase is Phase.ENDED

        await_that(is_over, 240, "the end of the task")

        assert [one.verdict for one in audit(reader, chain.store)] == [Verdict.OK]
