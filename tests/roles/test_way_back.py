"""A head that nobody can get, made by a captured committee: the shipped roles go back to the one before it."""

import pytest

from chainfl.audit.verify import Verdict, check_round
from chainfl.codec.scores import UNAVAILABLE
from chainfl.errors import StoreError
from chainfl.protocol import events
from chainfl.protocol.tally import decoded_scores
from chainfl.protocol.views import voters
from chainfl.roles.worker import starting_model
from chainfl.sim.network import Network, play_round, training
from chainfl.types import Digest, Outcome, Phase, Rule
from tests.sim.network import network

NOWHERE = Digest(b"\x66" * 32)
"""A root, and a block, whose bytes nobody has."""


def capture(net: Network) -> None:
    """Play a round whose proposer posts a root without bytes, which the whole committee attests."""
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    net.play(Phase.SCORE, net.commit_scores, list(net.task.round.committee))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    round_ = net.task.round
    proposer = net.participants[net.task.by_id(round_.proposer).address].ledger
    proposer.propose(round_.number, 1, NOWHERE, NOWHERE, ())
    proposal = net.task.round.proposal
    assert proposal is not None
    for id_ in voters(net.task.round, round_.proposer):
        member = net.participants[net.task.by_id(id_).address].ledger
        member.vote(round_.number, 1, NOWHERE, NOWHERE, proposal.shares_digest, True)
    net.wait()
    net.ledger.advance(round_.number)


def go_late(net: Network) -> None:
    """Move the clock to where there is no time left to ask again."""
    net.chain.now = net.task.round.deadline - 10


def lose_head(net: Network) -> None:
    """The round after: workers train from the older head, validators say that there is none."""
    net.ledger.draw()
    go_late(net)
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    go_late(net)
    net.play(Phase.SCORE, net.commit_scores, list(net.task.round.committee))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.COMMITTEE_NEAR, Rule.FEDROB])
def test_a_head_that_nobody_can_get_is_dropped_and_the_task_goes_on(rule: Rule) -> None:
    net = network(rule, rounds=6)
    play_round(net)
    good = net.task.head_root, net.task.head_block
    capture(net)
    assert net.task.head_root == NOWHERE

    before, first = net.task, len(net.chain.world.log)
    lose_head(net)

    assert (net.task.head_root, net.task.head_block) == good
    assert net.task.older_head is None
    assert net.task.voids == (2, 3)
    told = [event for _, event in net.chain.world.log[first:]]
    assert events.HeadDropped(3, NOWHERE, NOWHERE) in told
    played = net.played(before, first)
    assert played.outcome is Outcome.VOID
    findings = list(check_round(played, net.store, net.chain.mix_hash))
    assert {f.check for f in findings if f.verdict is not Verdict.OK} <= {"update roots", "scores"}
    assert findings[-1].check == "head"
    assert findings[-1].is_ok
    assert sum(event.slashed for event in told if isinstance(event, events.Silent)) == 0

    # And the round after that plays as if nothing had been.
    assert play_round(net).outcome is Outcome.FINAL


def test_entry_0_of_a_validator_without_the_head_says_none_and_the_updates_are_still_judged() -> None:
    net = network(Rule.SOFTMAX, rounds=6)
    play_round(net)
    capture(net)
    net.ledger.draw()
    go_late(net)
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    go_late(net)
    net.play(Phase.SCORE, net.commit_scores, list(net.task.round.committee))
    net.reveal_scores(list(net.task.round.committee))

    for scores in net.task.round.scores.values():
        assert scores.revealed is not None
        head, *entries = decoded_scores(net.task, scores.revealed)
        assert head is None
        assert all(entry is not None and entry < UNAVAILABLE for entry in entries)


def test_while_there_is_time_a_worker_asks_again_for_the_head() -> None:
    net = network(Rule.SOFTMAX, rounds=6)
    play_round(net)
    capture(net)
    net.ledger.draw()
    worker = net.participants[net.task.by_id(training(net.task)[0]).address]

    with pytest.raises(StoreError):
        starting_model(worker, net.task)


def test_without_an_older_head_there_is_nothing_to_go_back_to() -> None:
    net = network(Rule.SOFTMAX, rounds=6)
    net.ledger.draw()
    go_late(net)
    worker = net.participants[net.task.by_id(training(net.task)[0]).address]
    hidden = net.store._blobs.copy()  # type: ignore[attr-defined]
    net.store._blobs.clear()  # type: ignore[attr-defined]

    with pytest.raises(StoreError):
        starting_model(worker, net.task)

    net.store._blobs.update(hidden)  # type: ignore[attr-defined]
    assert starting_model(worker, net.task).size
