"""Bytes that some get and others do not: nobody honest is slashed, no phase is missed, the scores are honest."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from chainfl.blobs import get_model, name_model, put_record
from chainfl.chain.contracts import bonded_stake
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.codec.scores import loss_score
from chainfl.execution import floats
from chainfl.node.loop import serve
from chainfl.node.wiring import Node as WiredNode
from chainfl.ports import BlobStore
from chainfl.protocol import events
from chainfl.protocol.state import Task
from chainfl.protocol.views import voters
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty
from chainfl.roles.validator import commit_scores, vote
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, scoring, training
from chainfl.types import Address, Id, Outcome, Phase, Rule
from tests.integration.chain import ChainTask, Devchain, open_task
from tests.integration.test_crashes import pass_window
from tests.processes import await_that
from tests.protocol.scene import ETHER
from tests.roles.test_budget import at_work, entries, update_cid
from tests.roles.test_turn import live
from tests.sim.network import LAYOUT, network
from tests.store.hostile_daemon import HostileDaemon, Spells, garbage, hidden, hostile_daemon
from tests.store.ipfs_node import Node, ipfs_node
from tests.store.test_ipfs import Answer, endless, hang, trickle

LEFT = 8
"""Seconds that are left of Score when validators begin: half of them may be waited."""


def in_reveal() -> Network:
    """The second round of a task with six workers, all committed."""
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    for account in net.participants:  # who enrolled while the first draw was open takes part from now on
        net.ledger.apply_change(account)
    live(net, 2)
    if net.task.round.phase is Phase.DRAW:
        net.ledger.draw()
    idle = [id_ for id_ in training(net.task) if id_ not in net.task.round.updates]
    net.play(Phase.TRAIN, net.commit_updates, idle)
    return net


def seat(net: Network, ids: Iterable[Id], store: BlobStore) -> None:
    """These participants use this store from now on."""
    for account in (net.task.by_id(id_).address for id_ in ids):
        net.participants[account] = replace(net.participants[account], store=store)


def me_of(net: Network, id_: Id) -> Participant:
    return net.participants[net.task.by_id(id_).address]


def judge_in_time(net: Network) -> None:
    """Every validator scores, with little time left, and has committed before it is over."""
    net.chain.now = net.task.round.deadline - LEFT
    committee, started = scoring(net.task), time.monotonic()
    at_work(commit_scores, [me_of(net, id_) for id_ in committee])
    assert time.monotonic() - started < LEFT
    assert set(net.task.round.scores) == set(committee)
    net.leave()


def finish(net: Network, proposer_store: BlobStore) -> None:
    """The rest of the round; everybody who votes does so with little time left."""
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    seat(net, [net.task.round.proposer], proposer_store)
    net.propose([net.task.round.proposer])
    net.chain.now = net.task.round.deadline - LEFT
    everybody = voters(net.task.round, net.task.round.proposer)
    at_work(vote, [me_of(net, id_) for id_ in everybody])
    assert set(net.task.round.votes) == set(everybody)
    net.leave()


def expect_honest_scores(net: Network, missing: dict[Id, set[int]]) -> None:
    """Every entry is the validator's own loss of that update, but for those that it cannot have."""
    order, config = net.task.round.order, net.task.config
    models = []
    for index, id_ in enumerate(order):
        root = net.task.round.revealed(id_).root
        model_D = get_model(net.store, update_cid(net, index), config.dimension, root=root)
        models.append(floats(model_D, net.task))
    for id_ in scoring(net.task):
        me = me_of(net, id_)
        losses = [loss_score(each.loss) for each in me.trainer.score(models)]
        expected = [None if i in missing.get(id_, set()) else loss for i, loss in enumerate(losses)]
        assert entries(net, me)[1:] == expected


def silent(log: Iterable[object]) -> list[tuple[Id, Phase]]:
    """Who missed what was asked of it, and in which phase: a worker whose bytes a majority could not get, in Tally."""
    return [(event.id, event.phase) for event in log if isinstance(event, events.Silent)]


def slashed(log: Iterable[object]) -> set[Address]:
    """Who lost stake."""
    return {event.account for event in log if isinstance(event, events.Slashed)}


# Real daemons: who is connected to whom decides who gets what


@contextmanager
def daemons(program: Path, home: Path, names: Sequence[str]) -> Iterator[list[Node]]:
    with ExitStack() as stack:
        yield [stack.enter_context(ipfs_node(program, home / name)) for name in names]


@pytest.mark.slow
def test_what_one_validator_gets_from_a_selective_worker_the_others_get_from_it(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    net = in_reveal()
    assert isinstance(net.store, MemoryStore)
    committee = net.task.round.committee
    selective, dangling, *honest = sorted(net.task.round.updates)

    with daemons(require("ipfs"), tmp_path, ("hostile", "first", "common")) as (hostile, first, common):
        for cid, data in net.store._blobs.items():
            common.store.put(data, cid.codec)
        first.connect(common)
        hostile.connect(first)  # and to nobody else
        seat(net, honest, common.store)
        seat(net, committee[1:], common.store)
        seat(net, committee[:1], first.store)

        net.reveal_updates(honest)
        seat(net, [selective], hostile.store)
        net.reveal_updates([selective])
        reveal_without_bytes(net, dangling, common.store)
        net.play(Phase.REVEAL, net.reveal_updates, ())
        judge_in_time(net)

        place = net.task.round.order.index(dangling)
        for index, id_ in enumerate(net.task.round.order):
            copy_model(net, me_of(net, id_), update_cid(net, index))
        expect_honest_scores(net, {id_: {place} for id_ in committee})
        before, number = len(net.chain.world.log), net.task.round.number
        finish(net, common.store)

    ended = [e for _, e in net.chain.world.log[before:] if isinstance(e, events.RoundEnded)]
    assert [(e.round, e.outcome) for e in ended] == [(number, Outcome.FINAL)]
    log = [event for _, event in net.chain.world.log]
    assert slashed(log) == {net.task.by_id(dangling).address}
    assert silent(log) == [(dangling, Phase.TALLY)]


def reveal_without_bytes(net: Network, id_: Id, store: BlobStore) -> None:
    """A worker publishes its model's node and none of the chunks that it names."""
    me = me_of(net, id_)
    sealed = me.journal.update(net.task.round.number)
    assert sealed is not None
    named = name_model(sealed.update, net.task.config.scale, LAYOUT)
    put_record(store, named.node)
    me.ledger.reveal_update(net.task.round.number, sealed.root, sealed.cid, sealed.samples, sealed.salt)


def copy_model(net: Network, me: Participant, cid: Cid) -> None:
    """What a worker sealed, into the store of the test, which looks at everything."""
    sealed = me.journal.update(net.task.round.number)
    assert sealed is not None
    named = name_model(sealed.update, net.task.config.scale, LAYOUT)
    assert named.cid == cid
    net.store.put(named.data, Codec.RAW)
    put_record(net.store, named.node)


# A hostile daemon for each validator: the same worker serves one, hides from another, keeps the third waiting


@contextmanager
def a_daemon_each(net: Network, spells: dict[Id, Spells]) -> Iterator[dict[Id, HostileDaemon]]:
    """Every participant named here sits at a daemon of its own, all over the same blobs."""
    assert isinstance(net.store, MemoryStore)
    with ExitStack() as stack:
        made = {}
        for id_, each in spells.items():
            store, made[id_] = stack.enter_context(hostile_daemon(net.store, each))
            seat(net, [id_], store)
        yield made


def late(served: threading.Event) -> Answer:
    """Say nothing until told to, then serve."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        server = handler.server
        assert isinstance(server, HostileDaemon)
        served.wait(LEFT)
        server.spells.clear()
        server.answer(handler)

    return answer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one_way", "another"),
    [(hang, trickle), (hidden, endless), (endless, garbage)],
    ids=lambda answer: answer.__name__,
)
def test_a_worker_who_serves_whom_it_likes_changes_no_honest_number(one_way: Answer, another: Answer) -> None:
    net = in_reveal()
    net.play(Phase.REVEAL, net.reveal_updates, sorted(net.task.round.updates))
    one, two, three = net.task.round.committee
    is_time = threading.Event()
    few, most = update_cid(net, 0), update_cid(net, 1)
    hider = net.task.round.order[0]
    spells: dict[Id, Spells] = {
        one: {few: one_way, most: another},  # gets neither
        two: {few: one_way},
        three: {most: late(is_time)},  # gets both, one of them late
    }

    with a_daemon_each(net, spells):
        threading.Timer(1.0, is_time.set).start()
        judge_in_time(net)
        expect_honest_scores(net, {one: {0, 1}, two: {0}})
        before, number = len(net.chain.world.log), net.task.round.number
        net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
        tallied = net.task.round.tally
        assert tallied is not None
        assert tallied.included == (False, True, *[True] * (len(tallied.included) - 2))
        finish(net, net.store)

    log = [event for _, event in net.chain.world.log]
    (ended,) = (e for _, e in net.chain.world.log[before:] if isinstance(e, events.RoundEnded))
    assert (ended.round, ended.outcome) == (number, Outcome.FINAL)
    assert slashed(log) == {net.task.by_id(hider).address}
    assert silent(log) == [(hider, Phase.TALLY)]


# Whole nodes on a chain


class Hiding(MemoryStore):
    """Names what it is given and keeps it from everybody."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._shared = store

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """What others have."""
        return self._shared.get(cid, max_bytes)

    def put(self, data: Octets, codec: Codec) -> Cid:
        """The name alone."""
        return Cid.of(data, codec)

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Nothing to keep."""
        del cid, with_links


@pytest.mark.slow
def test_nodes_commit_in_time_beside_workers_who_hide_and_the_round_ends_well(chain: Devchain) -> None:
    task = open_task(chain, Rule.SOFTMAX, participants=9, score_seconds=12, train_seconds=120)
    anyone = next(iter(task.people.values())).ledger
    anyone.task()
    anyone.draw()
    for account in task.people:  # who enrolled while the first draw was open takes part from now on
        anyone.apply_change(account)
    task.live(2)
    reader = task.reader()
    if anyone.task().round.phase is Phase.DRAW:
        anyone.draw()
    drawn = reader.refresh().round.drawn
    assert drawn is not None
    workers = [id_ for id_ in training(reader.task) if id_ not in drawn.proposers]
    hiders = {reader.task.by_id(id_).address for id_ in workers[:2]}

    stop, swept = threading.Event(), list[tuple[Address, int]]()
    with hostile_daemon(chain.store, {}) as (store, _):
        threads = [
            threading.Thread(target=serve, args=(node, Duty.ALL, stop), kwargs={"poll_seconds": 0.2})
            for node in nodes(task, chain.store, store, hiders, swept)
        ]
        for each in threads:
            each.start()
        try:
            await_that(lambda: has_ended(chain, reader, 2), 100, "the end of round 2")
        finally:
            stop.set()
            for each in threads:
                each.join(30)

    assert set(swept) >= {(account, 2) for account in task.people}  # all let go of old pins, once a round
    assert len(swept) == len(set(swept))
    log = [logged.event for logged in reader.log]
    assert [(e.round, e.outcome) for e in log if isinstance(e, events.RoundEnded)][1] == (2, Outcome.FINAL)
    registry = chain.deployment.registry_address
    stakes = {who: bonded_stake(chain.w3, registry, task.address, who) for who in task.people}
    assert {who for who, stake in stakes.items() if stake < ETHER} == hiders
    assert silent(log) == [(id_, Phase.TALLY) for id_ in workers[:2]]
    (tallied,) = (e for e in log if isinstance(e, events.Tallied) and e.round == 2)
    revealed = [e.id for e in log if isinstance(e, events.UpdateRevealed) and e.round == 2]
    assert len(revealed) - tallied.included.bit_count() == len(hiders)


def nodes(
    task: ChainTask,
    shared: MemoryStore,
    store: BlobStore,
    hiders: set[Address],
    swept: list[tuple[Address, int]],
) -> Iterator[WiredNode]:
    """Everybody as a node at this store; hiders at one of their own."""

    def sweep(account: Address, task: Task) -> int:
        swept.append((account, task.round.number))
        return 0

    for account, me in task.people.items():
        assert isinstance(me.ledger, ChainLedger)
        own = Hiding(shared) if account in hiders else store
        yield WiredNode(replace(me, store=own), me.ledger, lambda *_: None, partial(sweep, account))


def has_ended(chain: Devchain, reader: TaskReader, number: int) -> bool:
    """Whether a round is over; what is left of a challenge window is passed over once everybody has voted."""
    round_ = reader.refresh().round
    pass_window(chain, round_)
    return round_.number > number
