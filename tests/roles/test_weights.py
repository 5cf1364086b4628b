"""Attested shares by the real roles: they are redone from the bytes by whoever votes, watches or audits."""

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
import pytest

from chainfl.audit.challenge import find_lie
from chainfl.audit.history import rounds
from chainfl.audit.verify import Verdict, check_round
from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec.cid import Cid
from chainfl.codec.vector import Vector
from chainfl.errors import VerificationError
from chainfl.execution import attested_shares, block_record, fetch, model_by, next_model, right_shares
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import TaskCreated
from chainfl.protocol.shares import krum
from chainfl.protocol.varsel import WHOLE, varsel_shares, varsel_weights
from chainfl.protocol.views import internal_updates, voters
from chainfl.roles.validator import vote
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, scoring, training
from chainfl.types import Phase, Rule
from tests.protocol.scene import vector
from tests.protocol.test_survivors import judged
from tests.protocol.varsel_cases import plain_distances
from tests.sim.network import LAYOUT, network

FIRST_OUTSIDER = 3
"""Its place in a round's order: after the three internals."""


def tallied(hidden: int | None = None) -> Network:
    """A round before its proposal; nobody has the bytes of one update, if any is hidden."""
    net = network(Rule.VARSEL, participants=12)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    if hidden is not None:
        assert isinstance(net.store, MemoryStore)
        shown = net.task.round.revealed(net.task.round.order[hidden])
        del net.store._blobs[Cid.dag_cbor(shown.cid)]
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    return net


def favouring(net: Network, weights: Mapping[int, int]) -> tuple[int, ...]:
    """Shares of the right form in which updates at these places have these weights, and other outsiders none."""
    internals = internal_updates(net.task.round)
    weighed = [WHOLE if is_own else weights.get(i, 0) for i, is_own in enumerate(internals)]
    return (0, *varsel_shares(weighed, internals))


def propose(
    net: Network, shares: Sequence[int], model_D: Vector, recorded: Sequence[int] | None = None
) -> None:
    """The proposer stores and posts this model, with a record that fits, or one of other shares."""
    task = net.task
    miner = task.by_id(task.round.proposer).address
    named = name_model(model_D, task.config.scale, LAYOUT)
    put_model(net.store, named)
    block = put_record(net.store, block_record(net.store, task, miner, named.cid, recorded or shares))
    round_ = task.round
    ledger = net.participants[miner].ledger
    ledger.propose(round_.number, round_.attempt, named.node.root, block.digest, shares)


def votes(net: Network) -> list[bool]:
    """What the committee says of the proposal when it is too late to ask again."""
    net.chain.now = net.task.round.deadline - 5
    for id_ in voters(net.task.round, net.task.round.proposer):
        vote(net.participants[net.task.by_id(id_).address])
    return list(net.task.round.votes.values())


def test_the_shares_of_a_round_are_those_that_its_bytes_give() -> None:
    net = tallied()
    round_ = net.task.round
    updates = [
        fetch(net.store, net.task, Cid.dag_cbor(round_.revealed(id_).cid), round_.revealed(id_).root)
        for id_ in round_.order
    ]
    internals = [True] * FIRST_OUTSIDER + [False] * (len(updates) - FIRST_OUTSIDER)
    weights = varsel_weights(plain_distances(np.array(updates)), internals, net.task.config.budget)

    shares = right_shares(net.store, net.task)

    assert shares == (0, *varsel_shares(weights, internals))
    assert any(0 < weight < WHOLE for weight in weights)


def test_an_update_that_does_not_count_has_no_weight_and_shifts_no_other() -> None:
    net = tallied(FIRST_OUTSIDER)
    included = net.task.round.decided.included

    shares, model_D = next_model(net.store, net.task)
    propose(net, shares, model_D)

    assert [i for i, counts in enumerate(included) if not counts] == [FIRST_OUTSIDER]
    assert shares[1 + FIRST_OUTSIDER] == 0
    assert all(compress(shares[1:], internal_updates(net.task.round)))
    assert votes(net) == [True] * 3


def test_krum_chooses_among_the_updates_that_count() -> None:
    task = judged(Rule.KRUM).task
    counted = task.round.decided.included
    included = [vector(seed) for seed in range(sum(counted))]
    assert counted == (True,) * len(included) + (False,)

    _, *parts = attested_shares(task, included)

    chosen = krum(plain_distances(np.array(included)), task.config.tolerated, 1)
    assert [part > 0 for part in parts] == [*chosen, False]


def test_weights_that_favour_an_accomplice_are_objected_to_and_are_no_lie_that_can_be_proven() -> None:
    net = tallied()
    shares = favouring(net, {FIRST_OUTSIDER: WHOLE})
    assert shares != right_shares(net.store, net.task)
    propose(net, shares, model_by(net.store, net.task, shares))

    assert votes(net) == [False] * 3
    with pytest.raises(VerificationError, match="posted shares are judged by vote, not by proof"):
        find_lie(net.store, net.task)


def test_wrong_weights_are_objected_to_even_over_the_right_model_and_record() -> None:
    net = tallied()
    right = right_shares(net.store, net.task)
    posted = favouring(net, {FIRST_OUTSIDER: WHOLE})
    assert posted != right

    propose(net, posted, model_by(net.store, net.task, right), recorded=right)

    assert votes(net) == [False] * 3


def test_a_wrong_model_is_a_lie_whatever_weights_were_posted() -> None:
    net = tallied()
    shares = favouring(net, {FIRST_OUTSIDER: WHOLE})
    model_D = model_by(net.store, net.task, shares)
    model_D[5] += 1
    propose(net, shares, model_D)

    lie = find_lie(net.store, net.task)

    assert lie is not None
    assert (lie.position, lie.found - lie.expected) == (5, 1)


def test_an_audit_finds_wrong_weights_that_a_colluding_majority_attested() -> None:
    net = tallied()
    shares = favouring(net, {FIRST_OUTSIDER: WHOLE})
    propose(net, shares, model_by(net.store, net.task, shares))
    task = net.task
    proposal = task.round.posted
    named = (proposal.model_root, proposal.block, proposal.shares_digest)
    for id_ in task.round.committee:
        ledger = net.participants[task.by_id(id_).address].ledger
        ledger.vote(task.round.number, task.round.attempt, *named, True)
    net.chain.now = task.round.deadline
    net.ledger.advance(task.round.number)

    log = [LoggedEvent(event, 0) for emitter, event in net.chain.world.log if emitter == task.address]
    log = [each for each in log if not isinstance(each.event, TaskCreated)]
    played = next(rounds(net.task.at_creation(), log))
    found = {each.check: each.verdict for each in check_round(played, net.store, net.chain.mix_hash)}

    assert found.pop("shares") is Verdict.MISMATCH
    assert set(found.values()) == {Verdict.OK}
