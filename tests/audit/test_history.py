"""A task's events cut into rounds: the same at once and as they come, and folded once whoever asks."""

from dataclasses import replace

import pytest

from chainfl.audit.history import PlayedRound, RoundCutter, rounds
from chainfl.audit.verify import Verdict, check_round
from chainfl.ports import LoggedEvent
from chainfl.protocol import events
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task
from chainfl.sim.network import Network, play_round
from chainfl.types import Phase, Rule
from tests.sim.network import network


@pytest.fixture(scope="module")
def net() -> Network:
    made = network(Rule.COMMITTEE_NEAR, rounds=3)
    for _ in range(2):
        play_round(made)
    return made


@pytest.fixture(scope="module")
def created(net: Network) -> Task:
    return net.task.at_creation()


@pytest.fixture(scope="module")
def log(net: Network) -> list[LoggedEvent]:
    mine = (event for emitter, event in net.chain.world.log if emitter == net.task.address)
    return [LoggedEvent(event, number) for number, event in enumerate(mine)]


@pytest.fixture
def first(created: Task, log: list[LoggedEvent]) -> PlayedRound:
    return next(rounds(created, log))


def test_events_as_they_come_are_cut_as_all_at_once(created: Task, log: list[LoggedEvent]) -> None:
    cutter = RoundCutter(created, fold)
    ended = [played for logged in log if (played := cutter.add(logged)) is not None]
    running = cutter.running

    assert [*ended, *([running] if running else [])] == list(rounds(created, log))
    assert [one.number for one in ended] == [1, 2]
    assert running is not None
    assert running.number == 3
    assert sum(len(one.events) for one in (*ended, running)) == len(log)


def test_a_round_is_folded_once_and_an_audit_leaves_that_as_it_was(net: Network, first: PlayedRound) -> None:
    standing = first.standing()

    findings = list(check_round(first, net.store, net.chain.mix_hash))

    assert {finding.verdict for finding in findings} == {Verdict.OK}
    assert first.standing() is standing
    assert standing == replace(first).standing()
    assert standing.round.phase is Phase.CHALLENGE
    assert first.number not in standing.pays


def test_other_events_are_folded_anew(first: PlayedRound) -> None:
    first.standing()
    drawn = next(at for at, one in enumerate(first.events) if isinstance(one.event, events.Drawn))

    shorter = replace(first, events=first.events[: drawn + 1], ended=None)

    assert shorter.standing().round.updates == {}
    assert shorter.standing().round.drawn is not None
    assert shorter.before_draw().round.drawn is None
    assert shorter.before_draw() == first.before_draw()
