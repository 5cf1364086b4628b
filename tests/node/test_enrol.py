"""A node that is told to enrol does so once, and says what is missing."""

import pytest

from chainfl.errors import InputError
from chainfl.node.wiring import enrol_once
from chainfl.sim.memory import MemoryLedger
from chainfl.types import Rule
from tests.protocol.scene import ETHER, STRANGER
from tests.sim.network import network


def test_enrolling_without_stake_is_refused_with_what_to_do() -> None:
    ledger = network(Rule.SOFTMAX).ledger

    with pytest.raises(InputError, match=r"cannot enrol: .*; add to it with: chainfl stake add AMOUNT"):
        enrol_once(ledger)

    assert STRANGER not in ledger.task().accounts


def test_whoever_takes_part_is_not_enrolled_again() -> None:
    net = network(Rule.SOFTMAX)
    chain, task = net.chain, net.ledger.task().address
    chain.world.allocate(chain.call(STRANGER), task, ETHER, ETHER)
    newcomer = MemoryLedger(chain, task, STRANGER)

    enrol_once(newcomer)
    account = newcomer.task().accounts[STRANGER]
    enrol_once(newcomer)

    assert account.is_enrolled
    assert newcomer.task().accounts[STRANGER] == account


def test_whoever_left_is_enrolled_again() -> None:
    net = network(Rule.SOFTMAX)
    somebody = next(iter(net.participants.values())).ledger
    somebody.leave()

    enrol_once(somebody)

    assert somebody.task().accounts[somebody.me].is_enrolled
