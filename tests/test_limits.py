"""A task that is too large is refused from its terms alone, and an audit keeps no more than it is allowed."""

from dataclasses import replace

import pytest

from chainfl.blobs import name_model, put_model
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.codec.records import Layout, Tensor
from chainfl.codec.vector import encode
from chainfl.errors import BlobNotFoundError, ModelTooLargeError
from chainfl.execution import FetchOnce
from chainfl.limits import DEFAULT_LIMITS, Limits, check_size, step_bytes
from chainfl.node.wiring import check_task
from chainfl.protocol.terms import Floors, check_config
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import play_round
from chainfl.types import Digest, Rule
from chainfl.workflows.audit import audit_round
from tests.protocol.scene import config
from tests.sim.network import D, network

LARGEST = 2**32 - 1


class Counting(MemoryStore):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name, counted."""
        self.asked += 1
        return super().get(cid, max_bytes)


def test_what_the_factory_takes_is_not_what_a_node_takes() -> None:
    terms = replace(config(), dimension=LARGEST, depth=merkle.depth(LARGEST), max_updates=100, caller_fee=0)
    check_config(terms, 0, Floors(1))

    with pytest.raises(
        ModelTooLargeError,
        match="the task's models have 4294967295 parameters, more than the 134217728 allowed here: "
        "leave it alone, or raise --max-parameters",
    ):
        check_size(terms, DEFAULT_LIMITS)


def test_memory_is_counted_for_as_many_updates_as_there_may_be_or_were() -> None:
    terms = replace(config(), dimension=1 << 20, max_updates=8)
    limits = Limits(memory=step_bytes(1 << 20, 8) - 1)

    with pytest.raises(
        ModelTooLargeError, match="8 updates of 1048576 parameters take 48 MiB of memory, more than the 48"
    ):
        check_size(terms, limits)
    check_size(terms, limits, updates=7)
    check_size(terms, Limits(memory=step_bytes(1 << 20, 8)))
    check_size(terms, Limits(parameters=1 << 20))


def test_a_node_refuses_before_it_asks_for_anything() -> None:
    net, store = network(Rule.SOFTMAX), Counting()

    with pytest.raises(ModelTooLargeError):
        check_task(store, net.task, Limits(parameters=D - 1))
    assert store.asked == 0

    with pytest.raises(BlobNotFoundError):
        check_task(store, net.task, Limits(parameters=D))


def test_an_audit_refuses_before_it_asks_for_anything() -> None:
    net, empty = network(Rule.SOFTMAX), Counting()
    played = play_round(net)

    with pytest.raises(ModelTooLargeError):
        audit_round(played, empty, net.chain.mix_hash, Limits(parameters=D - 1))
    assert empty.asked == 0

    audited = audit_round(played, net.store, net.chain.mix_hash, Limits(parameters=D))
    assert all(finding.is_ok for finding in audited.findings)


def test_an_audit_keeps_the_models_used_last_while_they_fit() -> None:
    net, store = network(Rule.SOFTMAX), Counting()
    layout = Layout((Tensor("w", (D,)),))
    named = [name_model(encode([float(n)] * D, 20), 20, layout) for n in range(3)]
    for each in named:
        put_model(store, each)
    get = FetchOnce(most_bytes=2 * 4 * D)

    def reads(*wanted: int) -> int:
        before = store.asked
        for number in wanted:
            model = named[number]
            found = get(store, net.task, model.cid, Digest(model.node.root))
            assert found.tobytes() == model.data
        return store.asked - before

    once = reads(0)
    assert once == 2  # a node and its chunk
    assert reads(1, 0, 1) == once
    assert reads(2) == once
    assert reads(1, 2, 1) == 0
    assert reads(0) == once
    assert reads(2) == once
