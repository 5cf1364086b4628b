"""A node that is stopped finishes its step, and says whether it still has a commitment to open."""

import logging
import threading
from collections.abc import Callable

import pytest

from chainfl.chain.ledger import ChainLedger
from chainfl.node.loop import serve
from chainfl.node.wiring import Node
from chainfl.roles.turn import Duty
from chainfl.types import Rule
from tests.integration.chain import ChainTask, Devchain, open_task
from tests.processes import await_that


def stopped_when(task: ChainTask, number: int, condition: Callable[[], bool]) -> None:
    """Let one participant serve until the condition holds, then tell it to stop."""
    me, stop = list(task.people.values())[number - 1], threading.Event()
    assert isinstance(me.ledger, ChainLedger)
    node = Node(me, me.ledger, lambda *_: None)
    thread = threading.Thread(
        target=serve, args=(node, Duty.WORK, stop), kwargs={"poll_seconds": 0.1, "watch": False}
    )
    thread.start()
    try:
        await_that(condition, 30, "the time to stop")
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def test_a_node_that_stops_says_whether_a_commitment_is_open(
    chain: Devchain, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "chainfl")
    task = open_task(chain, Rule.SOFTMAX)
    next(iter(task.people.values())).ledger.draw()
    watch = task.reader()
    drawn = watch.refresh().round.drawn
    assert drawn is not None
    idle = drawn.proposers[0]
    worker = drawn.proposers[1]  # a backup trains

    stopped_when(task, idle, lambda: True)
    calm = caplog.text
    stopped_when(task, worker, lambda: worker in watch.refresh().round.updates)

    assert "round 1: stopped\n" in calm
    warning = (
        "round 1: stopped with an unopened commitment: start again before the phase ends, or stake is slashed"
    )
    assert warning in caplog.text
