"""A reorg holds up no transaction behind those that it drops, and makes no liar of an honest endpoint."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from eth_account import Account
from web3 import Web3

from chainfl.chain.keys import LocalSigner
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender, SendSettings
from chainfl.codec.commitments import keccak256
from chainfl.errors import LedgerError
from chainfl.types import Address, Rule
from tests.integration.chain import Devchain, open_task
from tests.integration.lying import Proxy, running
from tests.processes import await_that

TO = Address(b"\x11" * 20)
SENT = 7


@pytest.mark.parametrize("dropped", [1, 2, 3])
def test_a_transaction_behind_dropped_ones_is_mined_long_before_it_is_given_up(
    chain: Devchain, dropped: int
) -> None:
    signer = LocalSigner(Account.from_key(keccak256(b"reorganised %d" % dropped)))
    chain.give(signer.address)
    sender = Sender(chain.w3, signer, chain.chain_id, SendSettings(replace_after=0.5, give_up_after=300))
    for _ in range(dropped):
        sender.send(TO, b"", value=1)
    before = chain.w3.eth.get_balance(Web3.to_checksum_address(TO))

    # It gets the nonce after the ones mined above, and waits, for no block is made.
    chain.rpc("evm_setAutomine", [False])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sender.send, TO, b"", SENT)
        await_that(lambda: count(chain, signer.address, "pending") == dropped + 1, 60, "it waits to be mined")
        chain.rpc("anvil_reorg", [dropped, []])
        chain.rpc("evm_setAutomine", [True])
        receipt = waiting.result(timeout=60)

    assert receipt["status"] == 1
    assert count(chain, signer.address, "latest") == dropped + 1
    # The dropped transfers are cancelled, not repeated: only whoever sent them knows whether they still hold.
    assert chain.w3.eth.get_balance(Web3.to_checksum_address(TO)) == before - dropped + SENT


def test_a_reorg_between_two_questions_is_no_lie(chain: Devchain) -> None:
    """The reader has seen two empty blocks; when it asks for the events of the second, both are others."""
    task = open_task(chain, Rule.SOFTMAX, rounds=3)
    watching = list[bool]()

    def replace_blocks(method: str, params: Any, answer: Any) -> Any:
        if method != "eth_getLogs" or not watching:
            return answer
        watching.clear()
        chain.rpc("anvil_rollback", [2])
        ledger.leave()
        ledger.enrol()
        return chain.rpc(method, params)

    ledger = next(iter(task.people.values())).ledger
    with running(Proxy(chain.url, replace_blocks)) as proxy:
        reader = TaskReader(open_rpc(proxy.url), task.address, chain.chain_id, task.block)
        chain.rpc("evm_mine", [])
        reader.refresh()
        chain.rpc("evm_mine", [])
        watching.append(True)

        with pytest.raises(
            LedgerError, match=r"went on with another block \d+ while events were read: retrying"
        ):
            reader.refresh()

        assert reader.refresh() == task.reader().refresh()


def count(chain: Devchain, account: Address, block: str) -> int:
    """How many transactions of an account there are."""
    answer = chain.w3.provider.make_request(
        "eth_getTransactionCount",  # type: ignore[arg-type]
        [Web3.to_checksum_address(account), block],
    )
    return int(answer["result"], 16)
