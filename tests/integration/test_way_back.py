"""A task on a chain that lost its head for a round: nodes go back, and audit and bundle tell the same of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chainfl.audit.verify import Verdict
from chainfl.chain.reader import TaskReader
from chainfl.devnet.processes import CHAIN_ID
from chainfl.protocol import events
from chainfl.protocol.views import voters
from chainfl.roles.turn import Duty, next_step
from chainfl.store.directory import DirectoryStore
from chainfl.types import Phase, Rule
from chainfl.workflows.audit import audit
from chainfl.workflows.bundle import export_bundle, verify_bundle
from tests.integration.chain import ChainTask, devchain, open_task
from tests.roles.test_way_back import NOWHERE

pytestmark = pytest.mark.slow
LEFT = 25
"""Seconds of a phase that are left when a step is late."""


def play_until(task: ChainTask, reader: TaskReader, phase: Phase, *, late: bool = False) -> None:
    """Everybody takes steps until a phase has come; `late`: with so little time left that nobody asks again."""
    while (state := reader.refresh()).round.phase is not phase:
        now = int(task.chain.w3.eth.get_block("latest")["timestamp"])
        if late and state.round.deadline - now > LEFT:
            task.chain.skip(state.round.deadline - LEFT - now)
            continue
        steps = ((me, next_step(me, me.ledger.task(), now, Duty.ALL)) for me in task.people.values())
        me, step = next(((me, step) for me, step in steps if step is not None), (None, None))
        if me is None or step is None:
            task.chain.skip(max(1, state.round.deadline - now))
        else:
            step.take(me)


def capture(task: ChainTask, reader: TaskReader) -> None:
    """A proposer posts a root without bytes, and the whole committee attests it."""
    play_until(task, reader, Phase.PROPOSE)
    read = reader.task
    number, proposer = read.round.number, read.by_id(read.round.proposer).address
    task.people[proposer].ledger.propose(number, 1, NOWHERE, NOWHERE, ())
    read = reader.refresh()
    assert read.round.proposal is not None
    for id_ in voters(read.round, read.round.proposer):
        member = task.people[read.by_id(id_).address].ledger
        member.vote(number, 1, NOWHERE, NOWHERE, read.round.proposal.shares_digest, True)
    task.chain.skip(read.config.challenge_seconds + 1)
    task.people[proposer].ledger.advance(number)


def test_audit_and_bundle_tell_of_a_head_that_was_lost(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    store = DirectoryStore(tmp_path / "store")
    with devchain(tmp_path / "chain") as chain:
        task = open_task(chain, Rule.SOFTMAX, participants=7, store=store, rounds=6)
        reader = task.reader()
        task.live(2)
        good = reader.refresh().head_root
        capture(task, reader)
        assert reader.refresh().head_root == NOWHERE
        next(iter(task.people.values())).ledger.draw()
        play_until(task, reader, Phase.DRAW, late=True)
        assert reader.refresh().head_root == good
        task.live(5)

        audited = {one.played.number: one.verdict for one in audit(reader, store)}
        done = export_bundle(
            chain.w3, CHAIN_ID, task.address, store, tmp_path / "task.car", from_block=task.block
        )
        told = verify_bundle(tmp_path / "task.car", done.subject.hash)

    dropped = [e.event for e in reader.log if isinstance(e.event, events.HeadDropped)]
    assert dropped == [events.HeadDropped(3, NOWHERE, NOWHERE)]
    assert list(audited.values()) == [Verdict.OK, Verdict.MISMATCH, Verdict.OK, Verdict.OK]
    assert {one.played.number: one.verdict for one in told.rounds} == audited
