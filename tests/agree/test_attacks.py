"""The attacks that the rules survive (tests/protocol/test_attacks.py), on the contracts' bytecode at the same time."""

from typing import cast

import pytest
from pyrevm import AccountInfo

from chainfl.chain.abi import functions
from chainfl.codec.commitments import keccak256
from tests.agree import mirror
from tests.agree.evm import text
from tests.agree.mirror import Mirror
from tests.protocol import test_admission as admission
from tests.protocol import test_appointed as appointed
from tests.protocol import test_attacks as attacks
from tests.protocol import test_attacks_on_availability as availability
from tests.protocol import test_attacks_on_operators as operators
from tests.protocol import test_attacks_on_weights as weights
from tests.protocol import test_prices as prices
from tests.protocol.scene import STRANGER, header_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes of this module's tests act on rules and bytecode."""
    for module in (admission, appointed, attacks, availability, operators):
        monkeypatch.setattr(module, "scene", mirror.scene)
        monkeypatch.setattr(module, "address", mirror.address)


for _module in (admission, appointed, attacks, availability, operators, prices, weights):
    globals().update({name: test for name, test in vars(_module).items() if name.startswith("test_")})


def _thief(task: bytes) -> bytes:
    """Code that passes calls on to the task, and answers ether by claiming again, refused or not."""
    claim = keccak256(b"claim(uint64[])")[:4]
    again = "63" + claim.hex() + "60e01b5f52" + "6020600452" + "5f602452" + "5f5f60445f5f335af1" + "00"
    pass_on = "5b365f5f37" + "5f5f365f5f" + "73" + task.hex() + "5af1" + "00"
    return bytes.fromhex(f"3660{4 + len(again) // 2:02x}57" + again + pass_on)


def test_a_claimer_that_re_enters_is_paid_once() -> None:
    played = attacks.crowd()
    task, thief, chain = played.task_address, mirror.address(1000), cast(Mirror, played.world).twin.chain
    chain.evm.insert_account_info(text(thief), AccountInfo(code=_thief(task)))
    at = played.task.round.draw_block
    played.block = max(played.block, at)
    call, header = played.call(STRANGER), header_of(at)
    chain.keep_hash(at, keccak256(header))
    chain.at(call.block_number, call.now)
    chain.send(STRANGER, thief, functions("TrainingTask")["draw"].call_data(header))
    fee, balance = played.task.config.caller_fee, chain.balance(task)
    owed = chain.read("TrainingTask", task, "owed")
    assert chain.read("TrainingTask", task, "creditOf", text(thief), []) == fee
    assert owed > 10 * fee

    chain.send(STRANGER, thief, functions("TrainingTask")["claim"].call_data([]))

    assert chain.balance(thief) == fee
    assert chain.balance(task) == balance - fee
    assert chain.read("TrainingTask", task, "owed") == owed - fee
