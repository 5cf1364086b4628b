"""A watcher convicts whoever lies, however late the bytes come and however often sending fails."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec.cid import Cid
from chainfl.codec.vector import Vector
from chainfl.errors import BlobNotFoundError, LedgerError
from chainfl.execution import block_record, model_by, next_model
from chainfl.node.watcher import Watcher
from chainfl.ports import BlobStore
from chainfl.protocol.errors import WrongPhaseError
from chainfl.protocol.events import Convicted, LieProven
from chainfl.protocol.proof import Evidence
from chainfl.protocol.shares import equal
from chainfl.sim.memory import MemoryLedger, MemoryStore
from chainfl.sim.network import Network, scoring, training
from chainfl.types import TOTAL, Address, Digest, Phase, Rule
from tests.sim.network import LAYOUT, network
from tests.store.flaky import Flaky

FINDER = Address(b"\xf1" * 20)


def lie(model_D: Vector) -> Vector:
    """One parameter, one step too high."""
    wrong = model_D.copy()
    wrong[7] += 1
    return wrong


def before_proposal(rule: Rule) -> Network:
    """A round whose scores are tallied."""
    net = network(rule, participants=12)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    return net


def in_challenge(*, lies: bool) -> Network:
    """A round with a proposal that stands, nobody having voted."""
    net = before_proposal(Rule.SOFTMAX)
    if lies:
        net.liars[net.task.by_id(net.task.round.proposer).address] = lie
    net.propose([net.task.round.proposer])
    return net


@dataclass(frozen=True)
class Unsteady(MemoryLedger):
    """An endpoint that loses the first transactions on the way, or the answers to them."""

    lost: list[str] = field(default_factory=list)

    def _lose(self, what: str) -> None:
        if self.lost[:1] == [what]:
            self.lost.pop(0)
            raise LedgerError(f"{what}: the endpoint did not answer in time")

    def note_finding(self, note: Digest) -> None:
        """Note it, perhaps without saying so."""
        self._lose("note")
        super().note_finding(note)
        self._lose("answer to note")

    def prove(self, round_: int, attempt: int, position: int, evidence: Evidence, salt: Digest) -> None:
        """Show it, perhaps."""
        self._lose("proof")
        super().prove(round_, attempt, position, evidence, salt)


def finder(net: Network, *lost: str) -> Unsteady:
    return Unsteady(net.chain, net.ledger.address, FINDER, lost=list(lost))


def events(net: Network, kind: type) -> Sequence[object]:
    return [event for _, event in net.chain.world.log if isinstance(event, kind)]


def watcher_of(ledger: MemoryLedger, store: BlobStore) -> Watcher:
    """One that looks again at once."""
    return Watcher(ledger, store, first_pause=0.0)


def test_a_right_proposal_is_looked_at_and_left_alone() -> None:
    net = in_challenge(lies=False)

    assert not watcher_of(finder(net), net.store).look(net.task)

    assert net.task.round.phase is Phase.CHALLENGE


def test_a_lie_is_noted_and_proven_and_earns_the_finder_its_part() -> None:
    net = in_challenge(lies=True)
    liar = net.task.round.proposer

    assert watcher_of(finder(net), net.store).look(net.task)

    assert [event.id for event in events(net, Convicted) if isinstance(event, Convicted)] == [liar]
    assert [event.finder for event in events(net, LieProven) if isinstance(event, LieProven)] == [FINDER]
    assert net.chain.world.registry.free[FINDER] > 0


def other_shares(net: Network, right: Sequence[int]) -> tuple[int, ...]:
    """Shares that the contract takes and the rule does not give: the same parts, for the last included updates."""
    tallied, kept = net.task.round.tally, right[0]
    assert tallied is not None
    included = [index for index, counts in enumerate(tallied.included) if counts]
    chosen = included[-sum(share > 0 for share in right[1:]) :]
    return (kept, *equal([index in chosen for index in range(len(right) - 1)], TOTAL - kept))


def propose_with(net: Network, shares: tuple[int, ...], model_D: Vector) -> None:
    """The proposer posts this model and these shares."""
    task = net.task
    miner = task.by_id(task.round.proposer).address
    named = name_model(model_D, task.config.scale, LAYOUT)
    put_model(net.store, named)
    block = put_record(net.store, block_record(net.store, task, miner, named.cid, shares))
    round_ = task.round
    net.participants[miner].ledger.propose(
        round_.number, round_.attempt, named.node.root, block.digest, shares
    )


@pytest.mark.parametrize("rule", [Rule.KRUM, Rule.MULTI_KRUM])
def test_a_model_that_fits_no_shares_is_convicted_whatever_shares_were_posted(rule: Rule) -> None:
    net = before_proposal(rule)
    right, model_D = next_model(net.store, net.task)
    shares = other_shares(net, right)
    assert shares != right
    propose_with(net, shares, np.full_like(model_D, 2**31 + 12_345))
    liar = net.task.round.proposer

    assert watcher_of(finder(net), net.store).look(net.task)

    assert [event.id for event in events(net, Convicted) if isinstance(event, Convicted)] == [liar]


def test_an_update_without_a_posted_share_is_not_needed_to_convict() -> None:
    net = before_proposal(Rule.KRUM)
    right, model_D = next_model(net.store, net.task)
    shares = other_shares(net, right)
    assert shares != right
    propose_with(net, shares, model_D)
    assert isinstance(net.store, MemoryStore)
    # Neither posted nor, as the right choice, the very model that is proposed.
    index = next(i for i, both in enumerate(zip(shares[1:], right[1:], strict=True)) if both == (0, 0))
    without = net.task.round.revealed(net.task.round.order[index]).cid
    store = Flaky(net.store, Cid.dag_cbor(without), BlobNotFoundError("hidden again"))

    assert watcher_of(finder(net), store).look(net.task)


def test_other_shares_with_the_model_that_they_make_are_left_to_the_vote(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = before_proposal(Rule.KRUM)
    shares = other_shares(net, next_model(net.store, net.task)[0])
    propose_with(net, shares, model_by(net.store, net.task, shares))

    assert not watcher_of(finder(net), net.store).look(net.task)

    assert "posted shares are judged by vote, not by proof" in caplog.text
    assert events(net, Convicted) == []


@pytest.mark.parametrize(
    "lost", [("note",), ("answer to note",), ("proof",), ("note", "answer to note", "proof")]
)
def test_what_an_endpoint_loses_is_sent_again(lost: tuple[str, ...]) -> None:
    net = in_challenge(lies=True)
    watcher = watcher_of(finder(net, *lost), net.store)

    for _ in lost:
        with pytest.raises(LedgerError):
            watcher.look(net.task)
    assert watcher.look(net.task)

    assert len(events(net, LieProven)) == 1
    assert net.chain.world.registry.free[FINDER] > 0


def test_bytes_that_come_late_convict_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    net = in_challenge(lies=True)
    proposal = net.task.round.proposal
    assert proposal is not None
    assert isinstance(net.store, MemoryStore)
    store = Flaky(net.store, Cid.dag_cbor(proposal.block), BlobNotFoundError("not here yet"))
    watcher = watcher_of(finder(net), store)

    with caplog.at_level(logging.WARNING):
        assert [watcher.look(net.task) for _ in range(3)] == [False] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "round 1.1: cannot be redone yet: not here yet"
    ]
    store.mend()

    assert watcher.look(net.task)


def test_who_has_duties_in_the_round_looks_once_for_a_store_that_hangs_would_make_it_late() -> None:
    net = in_challenge(lies=True)
    proposal = net.task.round.proposal
    assert proposal is not None
    assert isinstance(net.store, MemoryStore)
    store = Flaky(net.store, Cid.dag_cbor(proposal.block), BlobNotFoundError("not here yet"))
    member = net.task.by_id(net.task.round.committee[0]).address
    watcher = watcher_of(MemoryLedger(net.chain, net.ledger.address, member), store)

    assert not watcher.look(net.task)
    store.mend()

    assert not watcher.look(net.task)


def test_nobody_convicts_itself_or_what_it_has_attested() -> None:
    net = in_challenge(lies=True)
    liar = net.task.by_id(net.task.round.proposer).address

    assert not watcher_of(MemoryLedger(net.chain, net.ledger.address, liar), net.store).look(net.task)


def test_who_was_too_late_gives_up_and_looks_at_the_next_proposal() -> None:
    net = in_challenge(lies=True)
    before = net.task
    quick, slow = watcher_of(finder(net), net.store), watcher_of(finder(net), net.store)
    assert quick.look(before)

    with pytest.raises(WrongPhaseError):
        slow.look(before)
    assert not slow.look(before)
    net.liars[net.task.by_id(net.task.round.proposer).address] = lie
    net.propose([net.task.round.proposer])

    assert slow.look(net.task)
    assert len(events(net, Convicted)) == 2


def test_a_proof_that_a_reorg_undid_is_shown_again() -> None:
    net = in_challenge(lies=True)
    before, world = net.task, net.chain.world
    standing = world.tasks[net.ledger.address].draft()
    watcher = watcher_of(finder(net), net.store)
    assert watcher.look(before)
    world.tasks[net.ledger.address] = standing

    assert watcher.look(net.task)

    assert len(events(net, LieProven)) == 2
