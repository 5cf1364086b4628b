"""A node's time by cause: calls side by side count once, and a store with a limit is timed as well."""

import time

import pytest

from chainfl.blobs import within
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.commitments import keccak256
from chainfl.errors import StoreTimeoutError
from chainfl.node.timing import OWN, SCORING, STORE, Clock, timed
from chainfl.roles.participant import Participant
from chainfl.sim.memory import MemoryJournal, MemoryLedger
from chainfl.store import IpfsStore
from chainfl.types import Rule
from tests.sim.network import Quadratic, network
from tests.store.test_ipfs import daemon, hang


def participant(store: IpfsStore) -> Participant:
    net = network(Rule.SOFTMAX)
    account = next(iter(net.participants))
    ledger = MemoryLedger(net.chain, net.ledger.address, account)
    return Participant(ledger, store, Quadratic(1), MemoryJournal(keccak256(b"timing")))


def test_calls_side_by_side_count_once() -> None:
    clock = Clock(iter((1.0, 2.0, 5.0, 7.0, 20.0, 21.0)).__next__)

    # The store from 1 on, scoring from 2 to 5, more of the store inside.
    with clock.on(STORE), clock.on(SCORING), clock.on(STORE), clock.on(STORE):
        pass
    with clock.on(STORE):
        pass

    assert clock.take(10.0) == {STORE: 7.0, SCORING: 3.0, OWN: 0.0}
    assert clock.take(2.0) == {OWN: 2.0}


def test_a_store_with_a_limit_is_timed_as_well() -> None:
    clock = Clock()
    with daemon(hang) as (store, _):
        me = timed(participant(store), clock)
        limited = within(me.store, time.monotonic() + 0.2)

        with pytest.raises(StoreTimeoutError):
            limited.get(Cid.of(b"anything", Codec.RAW), 10)
        spent = clock.take(1.0)

    assert 0.05 <= spent[STORE] < 0.4
