"""A validator opens what stands on the ledger, and blames nobody for a store of its own that fails."""

from dataclasses import replace

import pytest

from chainfl.blobs import name_model
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import worker_payload
from chainfl.errors import BlobNotFoundError, ProtocolError, StoreError, StoreTimeoutError
from chainfl.protocol.actions import seal
from chainfl.protocol.tally import decoded_scores
from chainfl.protocol.views import voters
from chainfl.roles.participant import Participant
from chainfl.roles.validator import commit_scores, reveal_scores, vote
from chainfl.roles.worker import seal_update
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, scoring, training
from chainfl.types import Digest, Id, Phase, Rule
from tests.sim.network import LAYOUT, network
from tests.store.flaky import Flaky


def in_score() -> Network:
    """A round whose updates are revealed."""
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    return net


def test_of_several_sealed_scores_the_committed_ones_are_opened() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]
    commit_scores(me)
    (sealed,) = me.journal.scores(1)
    me.journal.keep_scores(1, replace(sealed, digest=bytes(32), salt=b"\x05" * 32))
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task)[1:])

    reveal_scores(me)

    mine = net.task.round.scores[net.task.accounts[me.ledger.me].id]
    assert mine.revealed == sealed.scores


def test_scores_that_fit_are_not_sealed_twice() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]
    commit_scores(me)

    with pytest.raises(ProtocolError):
        commit_scores(me)

    assert len(me.journal.scores(1)) == 1


def test_without_a_commitment_there_is_nothing_to_open() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]

    with pytest.raises(ProtocolError, match="the journal holds no scores to reveal"):
        reveal_scores(me)


def flaky(net: Network, me: Participant, missing: Cid, failure: StoreError) -> Participant:
    """The participant with such a store of its own, which has the same blobs."""
    assert isinstance(net.store, MemoryStore)
    return replace(me, store=Flaky(net.store, missing, failure))


def first_update(net: Network) -> Cid:
    cid = net.task.round.revealed(net.task.round.order[0]).cid
    return Cid.dag_cbor(cid)


def late(net: Network, left: int) -> None:
    """Let the phase run until so many seconds are left."""
    net.chain.now = net.task.round.deadline - left


def test_an_update_that_cannot_be_found_is_voted_out_at_once() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]

    commit_scores(flaky(net, me, first_update(net), BlobNotFoundError("not here")))

    (sealed,) = me.journal.scores(1)
    assert decoded_scores(net.task, sealed.scores)[1:].count(None) == 1


def test_bytes_of_another_root_are_voted_out_and_stop_no_validator() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    liar = training(net.task)[0]
    me = net.participants[net.task.by_id(liar).address]
    honest = seal_update(me, net.task)
    named = name_model(honest.update, net.task.config.scale, LAYOUT, Digest(b"\x0d" * 32))
    payload = worker_payload(named.node.root, named.cid.digest, honest.samples)
    digest = seal(net.task, Phase.TRAIN, me.ledger.key, payload, honest.salt)
    me.journal.keep_update(1, replace(honest, digest=digest, root=named.node.root, cid=named.cid.digest))

    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))

    stakes = {
        who: net.chain.world.registry.allocation(net.task.address, who).bonded for who in net.participants
    }
    assert [who for who, bonded in stakes.items() if bonded < 10**18] == [me.ledger.me]


def test_a_store_that_fails_is_asked_again_while_there_is_time() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]
    away = flaky(net, me, first_update(net), StoreTimeoutError("the daemon hangs"))

    with pytest.raises(StoreTimeoutError):
        commit_scores(away)
    assert me.journal.scores(1) == ()
    late(net, 20)
    commit_scores(away)

    (sealed,) = me.journal.scores(1)
    assert decoded_scores(net.task, sealed.scores)[1] is None


def test_a_proposal_that_cannot_be_had_is_objected_to_only_when_time_runs_out() -> None:
    net = in_score()
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    net.propose([net.task.round.proposer])
    proposal = net.task.round.proposal
    assert proposal is not None
    patient, punctual = voters(net.task.round, net.task.round.proposer)[:2]
    block = Cid.dag_cbor(proposal.block)

    def act(id_: Id, *, has_it: bool) -> None:
        me = net.participants[net.task.by_id(id_).address]
        vote(me if has_it else flaky(net, me, block, BlobNotFoundError("not here yet")))

    for id_ in (patient, punctual):
        with pytest.raises(BlobNotFoundError):
            act(id_, has_it=False)
    act(patient, has_it=True)
    late(net, 20)
    act(punctual, has_it=False)

    assert net.task.round.votes == {patient: True, punctual: False}
