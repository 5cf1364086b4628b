"""Somebody else's bytes never make a node late: whatever they do, it commits, votes and gives up in time."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from chainfl.blobs import get_record
from chainfl.codec.cid import Cid
from chainfl.codec.records import BlockNode, ModelNode
from chainfl.errors import ProtocolError, StoreError
from chainfl.protocol.tally import decoded_scores
from chainfl.protocol.views import voters
from chainfl.roles.budget import has_time, io_budget
from chainfl.roles.miner import propose
from chainfl.roles.participant import Participant
from chainfl.roles.validator import commit_scores, vote
from chainfl.roles.worker import starting_model
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, scoring, training
from chainfl.types import Id, Phase, Rule
from tests.sim.network import network
from tests.store.hostile_daemon import HOSTILE, Spells, hidden, hostile_daemon
from tests.store.test_ipfs import Answer, hang

pytestmark = pytest.mark.slow
LEFT = 5
"""Seconds that are left of a phase when a step begins: half of them may be waited."""


def in_score(rule: Rule = Rule.SOFTMAX) -> Network:
    """A round whose updates are revealed."""
    net = network(rule)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    return net


def in_challenge() -> Network:
    """A round with a right proposal that nobody has voted on."""
    net = in_score()
    net.play(Phase.SCORE, net.commit_scores, scoring(net.task))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    net.propose([net.task.round.proposer])
    return net


@contextmanager
def short_of_time(net: Network, spells: Spells) -> Iterator[Callable[[Id], Participant]]:
    """The chain's clock runs from shortly before the deadline on; participants sit at a daemon under these spells."""
    assert isinstance(net.store, MemoryStore)
    net.chain.now = net.task.round.deadline - LEFT
    began, over = (net.chain.now, time.monotonic()), threading.Event()

    def tick() -> None:
        while not over.wait(0.02):
            net.chain.now = began[0] + int(time.monotonic() - began[1])

    clock = threading.Thread(target=tick)
    clock.start()
    try:
        with hostile_daemon(net.store, spells) as (store, _):
            yield lambda id_: replace(net.participants[net.task.by_id(id_).address], store=store)
    finally:
        over.set()
        clock.join()


def at_work(step: Callable[[Participant], None], everybody: Sequence[Participant]) -> None:
    """All take the step at the same time; the first failure is raised."""
    failures = list[Exception]()

    def take(me: Participant) -> None:
        try:
            step(me)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=take, args=(me,)) for me in everybody]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if failures:
        raise failures[0]


def update_cid(net: Network, index: int) -> Cid:
    """The name of an update's node."""
    cid = net.task.round.revealed(net.task.round.order[index]).cid
    return Cid.dag_cbor(cid)


def chunk_of(net: Network, node: Cid) -> Cid:
    """The name of a model's first chunk."""
    return get_record(net.store, node, ModelNode).chunks[0]


def entries(net: Network, me: Participant) -> list[int | None]:
    """What a validator has sealed: the head's score, then one for each update."""
    (sealed,) = me.journal.scores(net.task.round.number)
    return decoded_scores(net.task, sealed.scores)


@pytest.mark.parametrize("part", ["node", "chunk"])
@pytest.mark.parametrize("how", HOSTILE)
def test_bytes_that_do_not_come_cost_their_worker_the_entry_and_nobody_its_commitment(
    how: str, part: str
) -> None:
    net = in_score()
    nodes = [update_cid(net, index) for index in (0, 2)]
    spells = dict.fromkeys(nodes if part == "node" else [chunk_of(net, node) for node in nodes], HOSTILE[how])

    with short_of_time(net, spells) as participant:
        committee = [participant(id_) for id_ in scoring(net.task)]
        at_work(commit_scores, committee)

    assert set(net.task.round.scores) == set(net.task.round.committee)
    for me in committee:
        head, *judged = entries(net, me)
        assert head is not None
        assert [entry is None for entry in judged] == [index in (0, 2) for index in range(len(judged))]


def test_many_names_that_nobody_has_do_not_keep_the_others_from_being_fetched() -> None:
    net = in_score()
    count = len(net.task.round.order)
    spells: Spells = {update_cid(net, index): hidden for index in range(count - 1)}

    with short_of_time(net, spells) as participant:
        me = participant(scoring(net.task)[0])
        commit_scores(me)

    assert [entry is None for entry in entries(net, me)] == [False, *[True] * (count - 1), False]


@pytest.mark.parametrize(
    ("rule", "how"), [(Rule.SOFTMAX, "hangs"), (Rule.COMMITTEE_NEAR, "hidden"), (Rule.MEAN, "hidden")]
)
def test_a_head_that_nobody_has_is_said_to_be_none_and_the_updates_are_judged(rule: Rule, how: str) -> None:
    net = in_score(rule)
    head = Cid.dag_cbor(net.task.config.first_model)

    with short_of_time(net, {head: HOSTILE[how]}) as participant:
        me = participant(scoring(net.task)[0])
        commit_scores(me)

    first, *judged = entries(net, me)
    assert first is None
    assert None not in judged


def test_a_head_that_is_missing_is_asked_for_again_while_there_is_time() -> None:
    net = in_score()
    assert isinstance(net.store, MemoryStore)
    head = Cid.dag_cbor(net.task.config.first_model)
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]
    del net.store._blobs[head]

    with pytest.raises(StoreError):
        commit_scores(me)

    assert me.journal.scores(1) == ()


@pytest.mark.parametrize("how", ["hangs", "garbage"])
def test_a_daemon_that_answers_nothing_right_costs_no_commitment(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    net = in_score()
    everything = [Cid.dag_cbor(net.task.config.first_model)]
    everything += [update_cid(net, index) for index in range(len(net.task.round.order))]

    with (
        short_of_time(net, dict.fromkeys(everything, HOSTILE[how])) as participant,
        caplog.at_level(logging.WARNING),
    ):
        me = participant(scoring(net.task)[0])
        commit_scores(me)

    assert set(entries(net, me)) == {None}
    reason = {"hangs": "not found in time", "garbage": "wrong bytes"}[how]
    assert len([line for line in caplog.messages if f"is unavailable: {reason}: " in line]) == len(everything)


def test_the_log_tells_a_failing_store_of_our_own_from_a_worker_that_hides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = in_score()
    chunk = chunk_of(net, update_cid(net, 1))
    spells: Spells = {update_cid(net, 0): hidden, chunk: HOSTILE["garbage"]}

    with short_of_time(net, spells) as participant, caplog.at_level(logging.WARNING):
        commit_scores(participant(scoring(net.task)[0]))

    one, other = net.task.round.order[:2]
    assert f"round 1: the update of participant {one} is unavailable: not found in time: " in caplog.text
    assert f"round 1: the update of participant {other} is unavailable: our own store fails: " in caplog.text


@pytest.mark.parametrize(
    ("part", "how"),
    [
        ("record", "hidden"),
        ("record", "trickles"),
        ("model", "hangs"),
        ("chunk", "hidden"),
        ("chunk", "endless"),
        ("chunk", "garbage"),
    ],
)
def test_a_proposal_that_cannot_be_fetched_is_objected_to_in_time(how: str, part: str) -> None:
    net = in_challenge()
    proposal = net.task.round.proposal
    assert proposal is not None
    record = Cid.dag_cbor(proposal.block)
    model = get_record(net.store, record, BlockNode).model
    name = {"record": record, "model": model, "chunk": chunk_of(net, model)}[part]
    everybody = voters(net.task.round, net.task.round.proposer)

    with short_of_time(net, {name: HOSTILE[how]}) as participant:
        at_work(vote, [participant(id_) for id_ in everybody])

    assert net.task.round.votes == dict.fromkeys(everybody, False)


def test_a_proposal_whose_parts_a_worker_hides_again_is_voted_on_in_time() -> None:
    net = in_challenge()
    everybody = voters(net.task.round, net.task.round.proposer)

    with short_of_time(net, {update_cid(net, 0): hang}) as participant:
        at_work(vote, [participant(id_) for id_ in everybody])

    assert set(net.task.round.votes) == set(everybody)


@pytest.mark.parametrize("answer", [hidden, hang])
def test_a_worker_gives_up_on_the_head_while_there_is_time_to_train(answer: Answer) -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    head = Cid.dag_cbor(net.task.config.first_model)

    with short_of_time(net, {head: answer}) as participant:
        me = participant(training(net.task)[0])
        with pytest.raises(StoreError):
            starting_model(me, net.task)
        assert net.task.round.deadline - net.chain.now >= LEFT // 2 - 1


def test_measured_scoring_time_is_left_after_waiting() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]

    before = time.monotonic()
    whole = io_budget(me, net.task).fetch - before
    left = io_budget(me, net.task, 12.0).fetch - before

    assert whole == pytest.approx(40, abs=1)  # a third of Score is left for sending
    assert left == pytest.approx(28, abs=1)
    commit_scores(me)
    assert me.pace.score > 0


def test_a_short_phase_is_waited_for_by_half_and_a_spent_one_not_at_all() -> None:
    net = in_score()
    me = net.participants[net.task.by_id(scoring(net.task)[0]).address]
    net.chain.now = net.task.round.deadline - 4
    assert not has_time(me, net.task)

    budget = io_budget(me, net.task)
    assert budget.fetch - time.monotonic() == pytest.approx(2, abs=0.5)
    assert budget.read - budget.fetch == pytest.approx(1, abs=0.1)

    net.chain.now = net.task.round.deadline + 4
    assert io_budget(me, net.task).read <= time.monotonic()


def test_a_round_that_moved_on_since_the_step_was_chosen_is_refused_in_words() -> None:
    net = network(Rule.SOFTMAX)
    me = next(iter(net.participants.values()))

    with pytest.raises(ProtocolError, match="the scores are not tallied"):
        propose(me)
    with pytest.raises(ProtocolError, match="nothing is proposed"):
        vote(me)
    assert not has_time(me, net.task)
