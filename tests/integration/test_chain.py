"""Rounds on a real anvil with the real contracts, read back through events and redone by the audit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from web3 import Web3
from web3.providers import HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from chainfl.audit.verify import Verdict
from chainfl.chain.reader import TaskReader, read_call
from chainfl.chain.rpc import WebSocketRpc, check_chain, open_rpc
from chainfl.codec.records import Layout
from chainfl.errors import InputError, LedgerError, ProtocolError
from chainfl.ports import Floats
from chainfl.protocol import errors
from chainfl.protocol.events import ScoresRevealed, Silent
from chainfl.protocol.views import earnings
from chainfl.roles.participant import Participant
from chainfl.roles.validator import commit_scores
from chainfl.types import Outcome, Phase, Rule
from chainfl.workflows.audit import audit, played_rounds
from tests.integration.chain import Devchain, open_task
from tests.protocol.scene import ETHER
from tests.sim.network import LAYOUT, Judged, Quadratic

Require = Callable[[str], Path]


OFTEN = (Rule.SOFTMAX, Rule.COMMITTEE_NEAR, Rule.FEDROB, Rule.MULTI_KRUM)


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=() if rule in OFTEN else pytest.mark.deep) for rule in Rule]
)
def test_rounds_of_every_rule_are_played_and_audited_on_a_chain(chain: Devchain, rule: Rule) -> None:
    task = open_task(chain, rule)

    task.live(3)

    reader = task.reader()
    audited = list(audit(reader, chain.store))
    assert [one.played.outcome for one in audited] == [Outcome.FINAL, Outcome.FINAL]
    assert [one.verdict for one in audited] == [Verdict.OK, Verdict.OK]


def test_the_state_folded_from_events_is_the_contracts_own(chain: Devchain) -> None:
    task = open_task(chain, Rule.FEDAVG)
    task.live(2)
    read = task.reader().refresh()

    def view(name: str) -> object:
        return read_call(chain.w3, "TrainingTask", task.address, name)[0]

    place = view("place")
    assert isinstance(place, tuple)
    assert place[:4] == (read.round.number, read.round.attempt, read.round.phase, read.round.deadline)
    assert view("headRoot") == read.head_root
    assert view("headBlock") == read.head_block
    assert view("escrow") == read.escrow
    assert view("owed") == read.owed
    assert chain.w3.eth.get_balance(chain.w3.to_checksum_address(task.address)) == read.escrow + read.owed
    assert view("eligible") == read.eligible


def test_a_refusal_of_the_contract_comes_back_in_our_words(chain: Devchain) -> None:
    task = open_task(chain, Rule.MEAN)
    me = next(iter(task.people.values()))

    with pytest.raises(errors.AlreadyEnrolledError):
        me.ledger.enrol()
    with pytest.raises(errors.WrongPhaseError, match="round 1 is in phase"):
        me.ledger.advance(1)
    with pytest.raises(errors.WrongPhaseError):
        me.ledger.commit_update(1, b"\x01" * 32)


def test_workers_committee_and_callers_claim_what_they_earned(chain: Devchain) -> None:
    task = open_task(chain, Rule.SOFTMAX, rounds=1, escrow=ETHER // 5)
    task.live(2)
    ended = task.reader().refresh()

    paid = {
        account: me.ledger.claim([1]) for account, me in task.people.items() if earnings(ended, account) > 0
    }

    assert ended.round.phase is Phase.ENDED
    assert paid == {account: earnings(ended, account) for account in paid}
    assert sum(paid.values()) == ended.owed
    assert task.reader().refresh().owed == 0
    with pytest.raises(errors.RuleError):
        task.people[next(iter(paid))].ledger.claim([1])


def test_a_reorg_takes_back_what_had_been_read(chain: Devchain) -> None:
    task = open_task(chain, Rule.MEDIAN)
    reader, me = task.reader(), next(iter(task.people.values()))
    before = reader.refresh()
    snapshot = chain.rpc("evm_snapshot", [])
    me.ledger.draw()
    drawn = reader.refresh()
    assert drawn.round.phase is Phase.TRAIN

    chain.rpc("evm_revert", [snapshot])
    chain.skip(1)
    chain.skip(1)
    after = reader.refresh()

    assert after.round.phase is Phase.DRAW
    assert after == before


def test_scores_of_updates_that_a_reorg_took_away_are_judged_anew(chain: Devchain) -> None:
    task = open_task(chain, Rule.SOFTMAX, rounds=1, escrow=ETHER // 5)
    watch = task.reader()
    while watch.refresh().round.phase is not Phase.REVEAL:
        task.turn(watch)
    worker = min(watch.task.round.updates)
    snapshot = chain.rpc("evm_snapshot", [])
    while len(watch.refresh().round.scores) < 3:
        task.turn(watch)

    chain.rpc("evm_revert", [snapshot])
    chain.skip(1)
    task.live(2, asleep=frozenset({watch.task.by_id(worker).address}))

    watch.refresh()
    log = [logged.event for logged in watch.log]
    assert {event.id for event in log if isinstance(event, ScoresRevealed)} == set(watch.task.round.committee)
    assert {event.id for event in log if isinstance(event, Silent)} == {worker}


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A trainer in whose scoring something happens."""

    trainer: Quadratic
    happens: Callable[[], None]
    layout: Layout = LAYOUT
    samples: int = 100

    def train(self, head_D: Floats, round_: int) -> Floats:
        """As ever."""
        return self.trainer.train(head_D, round_)

    def score(self, models_KD: Sequence[Floats]) -> list[Judged]:
        """As ever, but later."""
        self.happens()
        return self.trainer.score(models_KD)


def test_scores_are_not_committed_when_a_reorg_changes_the_updates_while_they_are_judged(
    chain: Devchain,
) -> None:
    task = open_task(chain, Rule.SOFTMAX, rounds=1, escrow=ETHER // 5)
    watch = task.reader()
    while watch.refresh().round.phase is not Phase.REVEAL:
        task.turn(watch)
    worker = min(watch.task.round.updates)
    late = watch.task.by_id(worker).address
    committee = frozenset(watch.task.by_id(id_).address for id_ in watch.task.round.committee)
    snapshot = chain.rpc("evm_snapshot", [])
    while watch.refresh().round.phase is not Phase.SCORE:
        task.turn(watch, asleep=committee)

    def reorganise() -> None:
        chain.rpc("evm_revert", [snapshot])
        chain.skip(1)
        while watch.refresh().round.phase is not Phase.SCORE:
            task.turn(watch, asleep=committee | {late})

    me = task.people[min(committee)]
    interrupted = Participant(me.ledger, me.store, Interrupted(Quadratic(1), reorganise), me.journal)
    with pytest.raises(ProtocolError, match="the updates changed while they were judged"):
        commit_scores(interrupted)
    task.live(2, asleep=frozenset({late}))

    watch.refresh()
    log = [logged.event for logged in watch.log]
    assert {event.id for event in log if isinstance(event, ScoresRevealed)} == set(watch.task.round.committee)
    assert {event.id for event in log if isinstance(event, Silent)} == {worker}


def test_an_endpoint_of_another_chain_is_refused(chain: Devchain) -> None:
    with pytest.raises(LedgerError, match="serves chain 31337, but chain 1 is meant"):
        check_chain(chain.w3, 1)


def test_an_endpoint_that_is_away_is_a_ledger_error() -> None:
    with pytest.raises(
        LedgerError, match=r"asking for the chain id: the endpoint 127\.0\.0\.1:9 does not answer"
    ):
        check_chain(open_rpc("http://127.0.0.1:9", timeout=2), None)
    with pytest.raises(InputError, match="give http://"):
        open_rpc("ftp://example.org")


def test_a_websocket_reads_the_same_task(chain: Devchain) -> None:
    task = open_task(chain, Rule.FEDREG)
    task.live(2)
    w3 = open_rpc(chain.url.replace("http://", "ws://"))

    read = TaskReader(w3, task.address, 31337, task.block).refresh()
    assert isinstance(w3.provider, WebSocketRpc)
    w3.provider.close()

    assert read == task.reader().refresh()


def test_an_open_round_is_listed_after_the_settled_ones(chain: Devchain) -> None:
    task = open_task(chain, Rule.FEDROB)
    task.live(2)

    played = played_rounds(task.reader())

    assert [one.outcome for one in played] == [Outcome.FINAL, Outcome.OPEN]


def test_an_event_that_a_reorg_moves_into_blocks_already_read_is_not_missed(chain: Devchain) -> None:
    task = open_task(chain, Rule.MEDIAN, min_updates=4)
    reader, me = task.reader(), next(iter(task.people.values()))
    snapshot = chain.rpc("evm_snapshot", [])
    chain.skip(1)
    chain.skip(1)
    assert reader.refresh().round.phase is Phase.DRAW

    chain.rpc("evm_revert", [snapshot])
    me.ledger.draw()
    chain.skip(1)
    chain.skip(1)

    assert reader.refresh().round.phase is Phase.TRAIN


class Counting(HTTPProvider):
    """An endpoint's client that remembers what it was asked for."""

    asked: ClassVar[list[str]] = []

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Note the request and send it."""
        self.asked.append(method)
        return super().make_request(method, params)


def test_looking_at_an_unchanged_chain_costs_one_request(chain: Devchain) -> None:
    task = open_task(chain, Rule.MEAN, min_updates=4)
    reader = TaskReader(Web3(Counting(chain.url)), task.address, 31337, task.block)
    reader.refresh()
    Counting.asked.clear()

    reader.refresh()
    reader.refresh()

    assert Counting.asked == ["eth_getBlockByNumber"] * 2
