"""A watcher convicts whoever lies, however late the bytes come and however often sending fails."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from chainfl.codec.cid import Cid
from chainfl.codec.vector import Vector
from chainfl.errors import BlobNotFoundError, LedgerError
from chainfl.ports import BlobStore
from chainfl.protocol.errors import WrongPhaseError
from chainfl.protocol.events import Convicted, LieProven
from chainfl.protocol.proof import Evidence
from chainfl.sim.memory import MemoryLedger, MemoryStore
from chainfl.sim.network import Network, scoring, training
from chainfl.types import Address, Digest, Phase, Rule
from services.node.watch import Watcher
from tests.sim.network import network
from tests.store.flaky import Flaky

FINDER = Address(b"\xf1" * 20)


def lie(model_D: Vector) -> Vector:
    """One parameter, one step too high."""
    wrong = model_D.copy()
    wrong[7] += 1
    return wrong


def in_challenge(*, lies: bool) -> Network:
    """A round with a proposal that stands, nobody having voted."""
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
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
    return Unsteady(net.chain, net.ledger.address, FINDER, list(lost))


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
