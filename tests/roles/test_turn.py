"""Participants who only ever ask "what is my next step?" play whole rounds together."""

from dataclasses import replace

import pytest

from chainfl.blobs import get_record
from chainfl.codec.cid import Cid
from chainfl.codec.records import BlockNode
from chainfl.codec.scores import ONE, ScoreKind, decode_scores
from chainfl.ports import SealedScores
from chainfl.protocol.events import Proposed, ScoresRevealed, UpdateRevealed
from chainfl.protocol.state import Task
from chainfl.roles.turn import Duty, Step, next_step
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network
from chainfl.types import Address, Digest, Outcome, Phase, Rule
from tests.sim.network import D, Quadratic, network

Seen = tuple[Address, str]


def live(net: Network, until_round: int, asleep: frozenset[Address] = frozenset()) -> list[Seen]:
    """Let everybody awake take steps in turn, and the clock run out when nobody can."""
    taken: list[Seen] = []
    while net.task.round.number < until_round and net.task.round.phase is not Phase.ENDED:
        acted = False
        for account, me in net.participants.items():
            step = _step(net, account) if account not in asleep else None
            if step is not None:
                step.take(me)
                taken.append((account, step.name))
                acted = True
        if not acted:
            net.wait()
    return taken


def _step(net: Network, account: Address) -> Step | None:
    return next_step(net.participants[account], net.task, net.chain.now, Duty.ALL)


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.COMMITTEE_NEAR, Rule.FEDROB, Rule.KRUM, Rule.VARSEL])
def test_nodes_that_follow_their_next_step_finish_rounds(rule: Rule) -> None:
    net = network(rule)

    taken = live(net, 3)

    assert net.task.round.number == 3
    assert net.task.voids == ()
    assert not any(name == "vote" and taken.count((who, name)) > 2 for who, name in taken)


def test_a_sleeping_validator_is_slashed_and_the_round_goes_on() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    asleep = net.task.by_id(net.task.round.committee[0]).address

    live(net, 2, frozenset({asleep}))

    assert net.task.round.number == 2
    assert _stake(net, asleep) < 10**18
    awake = [account for account in net.participants if account != asleep]
    assert {_stake(net, account) for account in awake} == {10**18}


def test_a_sleeping_miner_is_replaced_by_its_backup() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    drawn = net.task.round.drawn
    assert drawn is not None
    asleep = net.task.by_id(drawn.proposers[0]).address

    live(net, 2, frozenset({asleep}))

    assert _outcomes(net.task) == [Outcome.FINAL]
    assert _stake(net, asleep) < 10**18


def test_a_restarted_worker_commits_what_its_journal_holds() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    worker = next(
        a for a in net.participants if (s := _step(net, a)) is not None and s.name == "commit update"
    )
    me = net.participants[worker]
    step = _step(net, worker)
    assert step is not None
    step.take(me)
    sealed = me.journal.update(1)

    live(net, 2)

    assert sealed is not None
    assert any(sealed.root == update.root for update in _revealed(net))


def test_who_holds_more_samples_than_may_count_reveals_as_many_as_may() -> None:
    net = network(Rule.SOFTMAX)
    most = net.task.config.max_samples
    for account, me in net.participants.items():
        net.participants[account] = replace(me, trainer=Quadratic(account[-1], samples=most + 1))

    live(net, 2)

    assert net.task.voids == ()
    assert {update.samples for update in _revealed(net)} == {most}
    assert {_stake(net, account) for account in net.participants} == {10**18}


class Pins(MemoryStore):
    """What one participant pins in the first round of the blobs that all share."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        assert isinstance(net.store, MemoryStore)
        self._blobs = net.store._blobs
        self._net = net
        self.cids: set[Cid] = set()

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Note it, and pin it."""
        if self._net.task.round.number == 1:
            self.cids.add(cid)
        super().pin(cid, with_links=with_links)


def test_a_worker_keeps_its_update_and_a_miner_the_model_that_it_proposes() -> None:
    net = network(Rule.SOFTMAX)
    pins = {account: Pins(net) for account in net.participants}
    for account, me in net.participants.items():
        net.participants[account] = replace(me, store=pins[account])

    live(net, 2)

    (proposed,) = [event for _, event in net.chain.world.log if isinstance(event, Proposed)]
    record = get_record(net.store, Cid.dag_cbor(proposed.block), BlockNode)
    assert {Cid.dag_cbor(proposed.block), record.model} <= pins[net.task.by_id(proposed.id).address].cids
    for update in _revealed(net):
        assert Cid.dag_cbor(update.cid) in pins[net.task.by_id(update.id).address].cids


def test_scores_that_were_sealed_for_updates_of_another_branch_are_not_committed_to() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    before_the_reorg = SealedScores(Digest(b"\x0d" * 32), Digest(b"\x0e" * 32), bytes(16))
    for id_ in net.task.round.committee:
        net.participants[net.task.by_id(id_).address].journal.keep_scores(1, before_the_reorg)

    live(net, 2)

    assert _outcomes(net.task) == [Outcome.FINAL]
    assert {_stake(net, account) for account in net.participants} == {10**18}


def test_a_deadline_ends_what_one_does_oneself_and_leaves_what_anybody_may_do() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    deadline = net.task.round.deadline

    def names(now: int) -> set[str]:
        steps = [next_step(me, net.task, now, Duty.ALL) for me in net.participants.values()]
        return {step.name for step in steps if step}

    assert "commit update" in names(deadline - 1)
    assert names(deadline) == {"leave Train"}


def test_a_record_tells_of_the_void_rounds_before_it() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, [])
    assert (net.task.round.number, net.task.voids) == (2, (1,))

    live(net, 3)

    (proposed,) = [event for _, event in net.chain.world.log if isinstance(event, Proposed)]
    record = get_record(net.store, Cid.dag_cbor(proposed.block), BlockNode)
    assert (record.round, record.voids) == (2, (1,))


def test_the_rule_by_accuracy_is_played_by_accuracy() -> None:
    net = network(Rule.SOFTMAX_ACCURACY)

    live(net, 2)

    # A miss of one of D coordinates is that part of the whole; a loss would be any number.
    told = [event.scores for _, event in net.chain.world.log if isinstance(event, ScoresRevealed)]
    read = [decode_scores(ScoreKind.LOSS, scores, len(scores) // 8 - 1) for scores in told]
    assert read
    assert all(0 < scores.head <= ONE and scores.head % (ONE // D) == 0 for scores in read)
    assert all(entry % (ONE // D) == 0 for scores in read for entry in scores.entries)


def test_a_validator_that_only_validates_does_not_train() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()

    steps = [next_step(me, net.task, net.chain.now, Duty.VALIDATE) for me in net.participants.values()]

    assert steps == [None] * len(steps)


def _stake(net: Network, account: Address) -> int:
    return net.chain.world.registry.allocation(net.task.address, account).bonded


def _outcomes(task: Task) -> list[Outcome]:
    return [Outcome.FINAL] * (task.round.number - 1 - len(task.voids)) + [Outcome.VOID] * len(task.voids)


def _revealed(net: Network) -> list[UpdateRevealed]:
    return [event for _, event in net.chain.world.log if isinstance(event, UpdateRevealed)]
