"""Endpoints that lie: alone, about what the rules decide; among others, about anything."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from chainfl.chain.ledger import ChainLedger
from chainfl.chain.quorum import AgreedReader, open_endpoints, open_reader, split_urls
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender
from chainfl.cli.app import run
from chainfl.codec.commitments import keccak256
from chainfl.errors import InputError, LedgerError, LedgerLieError
from chainfl.node.loop import serve
from chainfl.node.status import Status
from chainfl.node.wiring import Node
from chainfl.protocol import events
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, next_step
from chainfl.types import Phase, Rule
from tests.integration.chain import ChainTask, Devchain, open_task
from tests.integration.lying import KEY, Lie, Proxy, running, truth
from tests.processes import await_that

SLOT = 64
"""Hex digits of a word."""


def topic_of(signature: str) -> str:
    return "0x" + keccak256(signature.encode()).hex()


PHASE_ENTERED = topic_of("PhaseEntered(uint64,uint8,uint8,uint64)")
UPDATE_COMMITTED = topic_of("UpdateCommitted(uint64,uint32,bytes32)")


@pytest.fixture(scope="module")
def task(chain: Devchain) -> ChainTask:
    """A task in whose second round updates were committed."""
    made = open_task(chain, Rule.SOFTMAX, rounds=6)
    watch = made.reader()
    while (now := watch.refresh()).round.number < 2 or len(now.round.updates) < 2:
        clock = int(chain.w3.eth.get_block("latest")["timestamp"])
        steps = ((me, next_step(me, now, clock, Duty.ALL)) for me in made.people.values())
        me, step = next(((me, step) for me, step in steps if step is not None), (None, None))
        if me is None or step is None:
            chain.skip(max(1, now.round.deadline - clock))
        else:
            step.take(me)
    assert now.round.phase is Phase.TRAIN
    return made


@pytest.fixture
def proxies(chain: Devchain) -> Iterator[list[Proxy]]:
    """Three endpoints of one chain, honest as yet."""
    with ExitStack() as stack:
        yield [stack.enter_context(running(Proxy(chain.url, truth))) for _ in range(3)]


def in_logs(change: Any) -> Lie:
    """A lie about the logs of a task."""

    def lie(method: str, _: Any, answer: Any) -> Any:
        return change(answer) if method == "eth_getLogs" and answer else answer

    return lie


def of_kind(topic: str, change: Any) -> Lie:
    """A lie about the last event of a kind."""

    def in_list(logs: Any) -> Any:
        places = [place for place, log in enumerate(logs) if log["topics"][0] == topic]
        if not places:
            return logs
        changed = change(logs[places[-1]])
        return [*logs[: places[-1]], *([changed] if changed else []), *logs[places[-1] + 1 :]]

    return in_logs(in_list)


def with_word(place: int, value: int) -> Any:
    """Another value in one word of an event's data."""

    def change(log: Any) -> Any:
        at = 2 + SLOT * place
        return {**log, "data": log["data"][:at] + f"{value:064x}" + log["data"][at + SLOT :]}

    return change


# Alone


def test_a_deadline_that_is_not_its_blocks_is_a_lie(
    chain: Devchain, task: ChainTask, proxies: list[Proxy]
) -> None:
    """The rules know no clock, but the block has a time: a false deadline would make a validator late."""
    true = task.reader().refresh().round.deadline
    proxies[0].lie = of_kind(PHASE_ENTERED, with_word(2, true + 600))
    reader = TaskReader(open_rpc(proxies[0].url), task.address, chain.chain_id, task.block)

    with pytest.raises(LedgerLieError, match=f"Train: expected its deadline at {true}, found {true + 600}"):
        reader.refresh()
    proxies[0].lie = truth

    assert reader.refresh() == task.reader().refresh()


def test_a_lie_that_was_believed_for_a_while_is_forgotten_when_it_comes_out(
    chain: Devchain, task: ChainTask, proxies: list[Proxy]
) -> None:
    """A commitment that is left out looks like silence; what follows from it does not."""
    proxies[0].lie = of_kind(UPDATE_COMMITTED, lambda _: None)
    reader = TaskReader(open_rpc(proxies[0].url), task.address, chain.chain_id, task.block)
    misled = reader.refresh()
    proxies[0].lie = truth
    for me in task.people.values():
        step = next_step(me, me.ledger.task(), me.ledger.now(), Duty.ALL)
        if step is not None:
            step.take(me)

    with pytest.raises(LedgerLieError, match=r"events do not add up: round 2, (PhaseEntered|UpdateRevealed)"):
        reader.refresh()

    assert len(misled.round.updates) < len(task.reader().refresh().round.updates)
    assert reader.refresh() == task.reader().refresh()


def test_an_audit_through_a_lying_endpoint_says_so(
    task: ChainTask, proxies: list[Proxy], capsys: pytest.CaptureFixture[str]
) -> None:
    proxies[0].lie = of_kind(topic_of("Voted(uint64,uint8,uint32,bool)"), lambda _: None)
    where = [
        "--rpc-url",
        proxies[0].url,
        "--task",
        "0x" + task.address.hex(),
        "--from-block",
        str(task.block),
    ]

    code = run(["audit", "verify", *where, "--store", "dir:."])

    assert code == 4
    assert "the endpoint's events do not add up: round 1" in capsys.readouterr().err


# Among others


def text_of(proxies: list[Proxy]) -> str:
    return ",".join(proxy.url for proxy in proxies)


def agreed(chain: Devchain, task: ChainTask, proxies: list[Proxy]) -> AgreedReader:
    reader = open_reader(open_endpoints(text_of(proxies), chain.chain_id), task.address, task.block)
    assert isinstance(reader, AgreedReader)
    return reader


def consistent(log: Any) -> Any:
    """Another commitment than the one that was made: no rule can tell."""
    return {**log, "data": "0x" + "5a" * 32}


LIES: dict[str, Lie] = {
    "forged log": of_kind(UPDATE_COMMITTED, consistent),
    "dropped log": of_kind(UPDATE_COMMITTED, lambda _: None),
    "forged deadline": of_kind(PHASE_ENTERED, with_word(2, 2**40)),
    "other hashes": in_logs(lambda logs: [{**log, "blockHash": "0x" + "77" * 32} for log in logs]),
    "other chain": lambda method, _, answer: "0x1" if method == "eth_chainId" else answer,
    "other terms": lambda method, _, answer: (
        answer[:-2] + "01" if method == "eth_call" and len(answer) > 500 else answer
    ),
    "nothing": in_logs(lambda _: []),
}


@pytest.mark.parametrize("liar", range(3))
@pytest.mark.parametrize("name", LIES)
def test_of_three_endpoints_one_may_lie(
    chain: Devchain,
    task: ChainTask,
    proxies: list[Proxy],
    name: str,
    liar: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxies[liar].lie = LIES[name]

    reader = agreed(chain, task, proxies)
    first, second = reader.refresh(), reader.refresh()

    assert first == second == task.reader().refresh()
    states = list(reader.endpoints().values())
    assert sum(state == "ok" for state in states) == 2
    left_out = [line for line in caplog.messages if "is left out" in line]
    assert len(left_out) == 1
    assert f"127.0.0.1:{proxies[liar].server_port}" in left_out[0]
    assert KEY not in caplog.text


def test_an_endpoint_that_tells_the_truth_again_counts_again(
    chain: Devchain, task: ChainTask, proxies: list[Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainfl.chain.quorum._FIRST_PAUSE", 0.05)
    monkeypatch.setattr("chainfl.chain.quorum._LONGEST_PAUSE", 0.05)
    proxies[1].lie = LIES["forged log"]
    reader = agreed(chain, task, proxies)
    assert "its events or blocks differ" in str(reader.endpoints())

    proxies[1].lie = truth

    await_that(lambda: bool(reader.refresh()) and set(reader.endpoints().values()) == {"ok"}, 20, "all agree")


def test_a_majority_that_is_behind_is_believed_and_one_that_is_ahead_is_waited_for(
    chain: Devchain, task: ChainTask, proxies: list[Proxy]
) -> None:
    """Events that only one endpoint has seen may be a lie; a stale endpoint holds nobody up."""
    reader = agreed(chain, task, proxies)
    before = reader.refresh()
    stale = chain.rpc("eth_getBlockByNumber", ["latest", False])

    def behind(method: str, params: Any, answer: Any) -> Any:
        return stale if method == "eth_getBlockByNumber" and params[0] == "latest" else answer

    proxies[0].lie = proxies[1].lie = behind
    me = next(iter(task.people.values()))
    me.ledger.apply_change(me.ledger.me)
    me.ledger.leave() if me.ledger.task().accounts[me.ledger.me].is_enrolled else me.ledger.enrol()
    wants = me.ledger.task().accounts[me.ledger.me].is_enrolled
    alone = reader.refresh()
    proxies[0].lie = truth
    together = reader.refresh()

    assert alone == before
    assert together.accounts[me.ledger.me].is_enrolled is wants
    assert set(reader.endpoints().values()) == {"ok"}
    proxies[1].lie = truth


def test_of_two_endpoints_that_differ_neither_is_believed(
    chain: Devchain, task: ChainTask, proxies: list[Proxy]
) -> None:
    proxies[1].lie = LIES["dropped log"]

    with pytest.raises(LedgerError, match="no 2 of 2 endpoints agree on the task"):
        agreed(chain, task, proxies[:2])


def test_one_of_three_may_be_away_and_two_may_not(
    chain: Devchain, task: ChainTask, proxies: list[Proxy]
) -> None:
    away = "http://127.0.0.1:9/secret"
    one_away = open_endpoints(f"{away},{text_of(proxies[:2])}", chain.chain_id)

    assert open_reader(one_away, task.address, task.block).refresh() == task.reader().refresh()
    with pytest.raises(
        LedgerError, match=r"only 1 of 3 endpoints serve one chain: .* 127\.0\.0\.1:9 does not"
    ):
        open_endpoints(f"{away},{away}2,{text_of(proxies[:1])}", chain.chain_id)


def test_addresses_are_given_once_each() -> None:
    assert split_urls("http://a, http://b,") == ["http://a", "http://b"]
    with pytest.raises(InputError, match="given twice"):
        split_urls("http://a,http://a")
    with pytest.raises(InputError, match="give the address"):
        split_urls(" , ")


def test_commands_take_several_endpoints(
    chain: Devchain, task: ChainTask, proxies: list[Proxy], capsys: pytest.CaptureFixture[str]
) -> None:
    proxies[0].lie = LIES["other chain"]
    where = [part for proxy in proxies for part in ("--rpc-url", proxy.url)]
    shown = ["--task", "0x" + task.address.hex(), "--from-block", str(task.block)]

    code = run(["task", "show", *where, *shown, "--chain-id", str(chain.chain_id)])

    assert code == 0
    assert "softmax" in capsys.readouterr().out


# A node


def test_a_validator_behind_a_liar_and_two_others_votes_as_it_should(
    chain: Devchain, proxies: list[Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    """The first endpoint forges every tally; the node plays a round as if it were not there."""
    made = open_task(chain, Rule.SOFTMAX_ACCURACY, rounds=1, escrow=10**17)
    who, me = next(iter(made.people.items()))
    proxies[0].lie = of_kind(topic_of("Tallied(uint64,uint256,bytes,uint32[],uint256)"), _forged)
    endpoints = open_endpoints(text_of(proxies), chain.chain_id)
    signer = me.ledger._sender._signer  # type: ignore[attr-defined]
    sender = Sender(endpoints.w3, signer, chain.chain_id, others=endpoints.others)
    reader = open_reader(endpoints, made.address, made.block)
    ledger = ChainLedger(endpoints.w3, sender, reader, made.address)
    node = Node(Participant(ledger, me.store, me.trainer, me.journal), ledger, lambda *_: None)
    stop, status = threading.Event(), Status()
    thread = threading.Thread(
        target=serve, args=(node, Duty.ALL, stop), kwargs={"poll_seconds": 0.1, "status": status}
    )
    del made.people[who]
    thread.start()
    try:
        _play(made, who, thread)
    finally:
        stop.set()
        thread.join(60)

    watch = made.reader()
    now = watch.refresh()
    log = [one.event for one in watch.log]
    assert now.round.phase is Phase.ENDED
    assert [e for e in log if isinstance(e, events.Silent | events.Convicted)] == []
    assert all(proxy.sent for proxy in proxies)
    assert KEY not in caplog.text


def _forged(log: Any) -> Any:
    return {**log, "data": log["data"][:-8] + "00000001"}


def _play(task: ChainTask, who: bytes, thread: threading.Thread) -> None:
    """The others act, and the clock runs on when everybody has voted."""
    watch, chain = task.reader(), task.chain

    def turn() -> bool:
        now = int(chain.w3.eth.get_block("latest")["timestamp"])
        for me in task.people.values():
            step = next_step(me, me.ledger.task(), now, Duty.WORK | Duty.VALIDATE | Duty.MINE)
            if step is not None:
                step.take(me)
        state = watch.refresh()
        if state.round.phase is Phase.CHALLENGE and len(state.round.votes) == len(state.round.committee):
            chain.skip(max(1, state.round.deadline - now))
        return state.round.phase is Phase.ENDED or not thread.is_alive()

    assert who
    await_that(turn, 100, "the end of the task")
