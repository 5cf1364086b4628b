"""An endpoint that answers with anything at all ends no node and no command: one line each, and on it goes."""

import random
import threading
import time
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest
from eth_account.typed_transactions import TypedTransaction  # type: ignore[attr-defined]
from hexbytes import HexBytes

from chainfl.chain.contracts import bonded_stake
from chainfl.chain.fees import FeeCaps
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender, SendSettings, checksum
from chainfl.cli.app import run
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.codec.commitments import keccak256
from chainfl.errors import ChainflError, LedgerError, LedgerLieError
from chainfl.node.loop import serve
from chainfl.node.status import Status
from chainfl.node.wiring import Node
from chainfl.ports import BlobStore
from chainfl.protocol import events
from chainfl.protocol.views import voters
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, next_step
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import training
from chainfl.store.ipfs import IpfsSettings
from chainfl.types import Address, Outcome, Phase, Rule
from tests.integration.chain import ChainTask, Devchain, open_task
from tests.integration.corrupt import WAYS, Corrupt
from tests.integration.lying import KEY, Proxy, running, truth
from tests.integration.test_selective_serving import Hiding
from tests.processes import await_that
from tests.protocol.scene import ETHER
from tests.store.hostile_daemon import Spells, hostile_daemon
from tests.store.test_ipfs import trickle

TIMEOUT = 1.0
SLOW = ("trickle", "endless", "many")
REQUESTS = 500
"""How many answers a node gets from an endpoint of which one in twelve is corrupted."""
PATIENT: dict[str, Any] = {
    f"{name}_seconds": 600 for name in ("train", "reveal", "score", "tally", "propose", "challenge")
}
"""Phases that no busy machine makes a node miss."""
SCORE_SECONDS = 120
"""Half of it is waited for a daemon that never ends: default limits give up twice meanwhile."""


@pytest.fixture(scope="module")
def task(chain: Devchain) -> ChainTask:
    """A task whose first round has been drawn, and one update committed."""
    made = open_task(chain, Rule.SOFTMAX, rounds=3)
    first, *others = made.people.values()
    first.ledger.draw()
    for me in others:
        step = next_step(me, me.ledger.task(), me.ledger.now(), Duty.WORK)
        if step is not None:
            step.take(me)
            return made
    raise AssertionError("nobody works")


# Each way by itself


@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_answered_it_is_a_line_that_names_the_endpoint_and_no_key(
    chain: Devchain, task: ChainTask, way: str
) -> None:
    """The task is read again and again, one answer of each reading corrupted; in the end it is what it is."""
    truth_told = task.reader().refresh()
    proxy, rng = Corrupt(chain.url, 1, 1), random.Random(way)
    proxy.respond = lambda handler, _, answer: _once(proxy, way, rng, handler, answer)  # type: ignore[method-assign,assignment]
    proxy.is_on = True
    with running(proxy):
        w3, failed = open_rpc(proxy.url, timeout=TIMEOUT), list[ChainflError]()
        for skip in range(0, 12, 5 if way in SLOW else 1):
            proxy.asked, _turn[0] = 0, skip
            started = time.monotonic()
            try:
                reader = TaskReader(w3, task.address, chain.chain_id, task.block)
                reader.refresh()
            except (LedgerError, LedgerLieError) as error:
                failed.append(error)
                assert time.monotonic() - started < 10 * TIMEOUT
        _turn[0] = -1
        reader = TaskReader(w3, task.address, chain.chain_id, task.block)
        read = reader.refresh()

    assert proxy.seen[way] > 0
    for line in map(str, failed):
        assert len(line) < 1000
        assert line.isprintable()
        assert KEY not in line
    assert read == truth_told


_turn = [-1]


def _once(proxy: Corrupt, way: str, rng: random.Random, handler: Any, answer: dict[str, Any]) -> None:
    """Corrupt this one answer of a reading."""
    if proxy.asked - 1 == _turn[0]:
        proxy.seen[way] += 1
        WAYS[way](proxy, handler, answer, rng)
    else:
        proxy.say(handler, answer)


def test_a_head_far_away_does_not_keep_a_reader_busy_for_ever(chain: Devchain, task: ChainTask) -> None:
    far, spans = 10**15, [0]

    def lie(method: str, params: Any, answer: Any) -> Any:
        spans[0] += method == "eth_getLogs"
        if method == "eth_getBlockByNumber" and spans[0] < 10:
            number = far if params[0] == "latest" else int(params[0], 16)
            return {**newest, "number": hex(number)}
        return [] if method == "eth_getLogs" and answer is None else answer

    newest: Any = chain.rpc("eth_getBlockByNumber", ["latest", False])
    with running(Proxy(chain.url, truth)) as proxy:
        reader = TaskReader(open_rpc(proxy.url), task.address, chain.chain_id, task.block)
        proxy.lie = lie
        with pytest.raises(LedgerError, match=r"reported block 10{15}, now its newest is \d+: retrying"):
            reader.refresh()

        assert reader.refresh() == task.reader().refresh()
    assert 10 < spans[0] < 100


# A node among corrupted answers


def _node(chain: Devchain, task: ChainTask, proxy: Proxy, who: Address) -> tuple[Node, FeeCaps]:
    """Somebody of the task, whose every request goes through the proxy."""
    me, caps = task.people[who], FeeCaps()
    w3 = open_rpc(proxy.url, timeout=TIMEOUT)
    signer = me.ledger._sender._signer  # type: ignore[attr-defined]
    sender = Sender(w3, signer, chain.chain_id, SendSettings(caps=caps, replace_after=2))
    reader = TaskReader(w3, task.address, chain.chain_id, task.block)
    ledger = ChainLedger(w3, sender, reader, task.address)
    return Node(Participant(ledger, me.store, me.trainer, me.journal), ledger, lambda *_: None), caps


def test_a_node_among_corrupted_answers_misses_nothing_and_stays_up(
    chain: Devchain, caplog: pytest.LogCaptureFixture
) -> None:
    task = open_task(chain, Rule.SOFTMAX_ACCURACY, rounds=40, **PATIENT)
    victim = next(iter(task.people))
    proxy = Corrupt(chain.url, 4, 12)
    with running(proxy):
        caps = _play_beside(task, victim, proxy, REQUESTS)

    assert len(proxy.seen) > len(WAYS) // 2, proxy.seen
    _expect_nothing_missed(task, victim, proxy, caps)
    assert KEY not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.slow
def test_a_validator_between_a_hostile_daemon_and_a_hostile_endpoint_misses_nothing(chain: Devchain) -> None:
    """With the default limits of an IPFS store: one update's name nobody has, another's bytes trickle for ever."""
    task = open_task(
        chain, Rule.SOFTMAX, participants=10, rounds=40, **(PATIENT | {"score_seconds": SCORE_SECONDS})
    )
    anyone = next(iter(task.people.values())).ledger
    anyone.task()
    anyone.draw()
    for account in task.people:  # who enrolled while the first draw was open takes part from now on
        anyone.apply_change(account)
    task.live(2)
    if anyone.task().round.phase is Phase.DRAW:
        anyone.draw()
    drawn = anyone.task().round.drawn
    assert drawn is not None
    victim = anyone.task().by_id(drawn.committee[0]).address
    workers = [id_ for id_ in training(anyone.task()) if id_ not in drawn.proposers]
    hidden, trickling = (anyone.task().by_id(id_).address for id_ in workers[:2])

    spells: Spells = {}
    proxy = Corrupt(chain.url, 5, 12)
    with hostile_daemon(chain.store, spells, IpfsSettings()) as (store, _), running(proxy):
        _reseat(task, hidden, Hiding(chain.store))
        _reseat(task, trickling, Spoiling(chain.store, spells))
        _reseat(task, victim, store)
        caps = _play_beside(task, victim, proxy, REQUESTS // 2, until_round=3)

    assert sum(proxy.seen.values()) > 5, proxy.seen
    _expect_nothing_missed(task, victim, proxy, caps)
    reader = task.reader()
    reader.refresh()
    (tallied,) = (e.event for e in reader.log if isinstance(e.event, events.Tallied) and e.event.round == 2)
    revealed = [e for e in reader.log if isinstance(e.event, events.UpdateRevealed) and e.event.round == 2]
    assert len(revealed) - tallied.included.bit_count() == 2
    registry = chain.deployment.registry_address
    stakes = {who: bonded_stake(chain.w3, registry, task.address, who) for who in task.people}
    assert {who for who, stake in stakes.items() if stake < ETHER} == {hidden, trickling}


class Spoiling(Hiding):
    """Names what it is given; whoever asks a daemon for it gets bytes that trickle for ever."""

    def __init__(self, store: MemoryStore, spells: Spells) -> None:
        super().__init__(store)
        self._spells = spells

    def put(self, data: Octets, codec: Codec) -> Cid:
        """The name alone, and the spell on it."""
        cid = super().put(data, codec)
        self._spells[cid] = trickle
        return cid


def _reseat(task: ChainTask, who: Address, store: BlobStore) -> None:
    """This participant uses this store from now on."""
    task.people[who] = replace(task.people[who], store=store)


def _play_beside(
    task: ChainTask, victim: Address, proxy: Corrupt, requests: int, until_round: int = 2
) -> FeeCaps:
    """One node gets corrupted answers while all others play; it stays up, and is well when they end."""
    stop, status = threading.Event(), Status()
    node, caps = _node(task.chain, task, proxy, victim)
    reader, ended, turns = task.reader(), list[BaseException | None](), count()

    def is_over() -> bool:
        # A chain that makes blocks on demand has a clock only while somebody asks for them: now and then is enough.
        if next(turns) % 10 == 0:
            task.chain.rpc("evm_mine", [])
        return bool(ended) or (proxy.asked >= requests and reader.refresh().round.number >= until_round)

    thread = threading.Thread(target=_serve, args=(node, stop, status, ended))
    proxy.is_on = True
    thread.start()
    try:
        _others_play(task, victim, is_over, thread)
        proxy.is_on = False
        await_that(lambda: status.health()[0], 30, "a node that reads again")
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join(60)
    assert ended == [None]
    return caps


def _expect_nothing_missed(task: ChainTask, victim: Address, proxy: Corrupt, caps: FeeCaps) -> None:
    """All rounds are Final, the node was never silent, and it signed nothing above its caps."""
    reader = task.reader()
    now = reader.refresh()
    log, id_ = [one.event for one in reader.log], now.accounts[victim].id
    assert now.round.number >= 2
    assert [e for e in log if isinstance(e, events.Silent | events.Convicted) and e.id == id_] == []
    assert {e.outcome for e in log if isinstance(e, events.RoundEnded)} == {Outcome.FINAL}
    for raw in proxy.sent:
        signed = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        assert signed["maxFeePerGas"] <= caps.max_fee
        assert signed["maxPriorityFeePerGas"] <= caps.max_priority_fee
        assert signed["gas"] <= 2**24


def test_an_endpoint_that_hides_what_a_node_did_has_it_pay_for_few_refusals(chain: Devchain) -> None:
    """It would commit again as often as it looks; each time it is refused it waits twice as long."""
    task = open_task(chain, Rule.SOFTMAX, rounds=3)
    first, *_ = task.people.values()
    first.ledger.draw()
    worker = next(who for who, me in task.people.items() if _is_to_commit(me))
    hidden = "0x" + keccak256(b"UpdateCommitted(uint64,uint32,bytes32)").hex()
    tries, poll = list[float](), 0.05

    def hide(method: str, _: Any, answer: Any) -> Any:
        if method == "eth_sendRawTransaction":
            tries.append(time.monotonic())
        if method == "eth_getLogs" and answer:
            return [log for log in answer if log["topics"][0] != hidden]
        return answer

    with running(Proxy(chain.url, hide)) as proxy:
        node, _ = _node(chain, task, proxy, worker)
        stop, status, ended = threading.Event(), Status(), list[BaseException | None]()
        thread = threading.Thread(target=_serve, args=(node, stop, status, ended, poll))
        thread.start()
        try:
            await_that(lambda: len(tries) == 8, 60, "eight times the same commitment")
        finally:
            stop.set()
            thread.join(60)

    pauses = [after - before for before, after in pairwise(tries)]
    assert ended == [None]
    assert all(pause >= poll * 2**number for number, pause in enumerate(pauses[1:])), pauses


def _is_to_commit(me: Participant) -> bool:
    step = next_step(me, me.ledger.task(), me.ledger.now(), Duty.WORK)
    return step is not None and not step.is_shared


def _serve(
    node: Node, stop: threading.Event, status: Status, ended: list[BaseException | None], poll: float = 0.1
) -> None:
    try:
        serve(node, Duty.ALL, stop, poll_seconds=poll, status=status)
        ended.append(None)
    except BaseException as error:
        ended.append(error)
        raise


def _others_play(task: ChainTask, victim: Address, is_over: Any, thread: threading.Thread) -> None:
    """Everybody else acts at once through the honest endpoint; the clock runs on when all have voted."""
    watch, chain = task.reader(), task.chain
    others = [me for account, me in task.people.items() if account != victim]

    def turn() -> bool:
        for me in others:
            now = int(chain.w3.eth.get_block("latest")["timestamp"])
            seen = me.ledger.task()
            # Updates are hidden here, proposals are not: who hides its update may be drawn as a later round's proposer.
            actor = replace(me, store=chain.store) if seen.round.phase is Phase.PROPOSE else me
            step = next_step(actor, seen, now, Duty.ALL)
            if step is not None and not step.is_shared:
                step.take(actor)
            elif step is not None:
                _try(actor, step)
        state = watch.refresh()
        # Whoever votes before the proposal of this turn votes in the next one.
        is_challenge = state.round.phase is Phase.CHALLENGE
        if is_challenge and set(voters(state.round, state.round.proposer)) <= state.round.votes.keys():
            chain.skip(max(1, state.round.deadline - int(chain.w3.eth.get_block("latest")["timestamp"])))
        return bool(is_over()) or not thread.is_alive()

    await_that(turn, 300, "so many requests")


def _try(me: Participant, step: Any) -> None:
    try:
        step.take(me)
    except ChainflError:
        assert me.ledger.task() is not None  # somebody else was faster


# Commands


@pytest.mark.parametrize("seed", range(6))
def test_commands_end_with_a_line_and_never_with_a_defect(
    chain: Devchain, task: ChainTask, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    account = checksum(Address(keccak256(b"nobody")[:20]))
    factory = chain.deployment.factory
    codes = []
    proxy = Corrupt(chain.url, seed, 4)
    with running(proxy):
        proxy.is_on = True
        where = ["--rpc-url", proxy.url, "--chain-id", str(chain.chain_id)]
        shown = ["--task", checksum(task.address), "--from-block", str(task.block)]
        for command in (
            ["task", "show", *where, *shown],
            ["task", "list", *where, "--factory", factory],
            ["stake", "show", *where, *shown, "--account", account],
            ["task", "trace", *where, *shown],
        ):
            codes.append(run(command))
    said = capsys.readouterr().err

    assert proxy.seen
    assert set(codes) <= {0, 3, 4, 5}
    assert KEY not in said


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits twenty seconds here."""
    monkeypatch.setattr("chainfl.chain.rpc.TIMEOUT_SECONDS", TIMEOUT)
