"""A validator opens what stands on the ledger, whatever else it has sealed."""

from dataclasses import replace

import pytest

from chainfl.errors import ProtocolError
from chainfl.roles.validator import commit_scores, reveal_scores
from chainfl.sim.network import Network, scoring, training
from chainfl.types import Phase, Rule
from tests.sim.network import network


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
