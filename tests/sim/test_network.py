"""A round in memory, with the real roles, records, rules and audit."""

import numpy as np
import pytest

from chainfl.audit.history import rounds
from chainfl.audit.verify import Verdict, check_round
from chainfl.codec.vector import Vector
from chainfl.execution import floats, head_model
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import Convicted, Drawn, TaskCreated
from chainfl.sim.network import Network, play_round
from chainfl.types import Address, Outcome, Phase, Rule
from tests.sim.network import network


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_plays_verified_rounds_and_learns(rule: Rule) -> None:
    net = network(rule)

    played = [play_round(net) for _ in range(4)]

    assert [one.outcome for one in played] == [Outcome.FINAL] * 4
    assert net.task.round.phase is Phase.ENDED
    error = np.abs(floats(head_model(net.store, net.task), net.task) - np.linspace(-1, 1, 200)).max()
    assert error < 0.15


def test_the_same_seed_gives_the_same_models_with_any_number_of_threads() -> None:
    one, two = network(Rule.SOFTMAX), network(Rule.SOFTMAX)
    two.threads = 2

    for _ in range(2):
        play_round(one)
        play_round(two)

    assert one.task.head_root == two.task.head_root
    assert one.task.head_block == two.task.head_block


def tampered(model_D: Vector) -> Vector:
    """The right model with one parameter a step too high."""
    wrong = model_D.copy()
    wrong[123] += 1
    return wrong


def test_a_lying_proposer_is_convicted_and_its_backup_saves_the_round() -> None:
    honest, net = network(Rule.SOFTMAX), network(Rule.SOFTMAX)
    play_round(honest)
    net.liars = {_miner_of_round_one(honest): tampered}

    played = play_round(net)

    assert played.outcome is Outcome.FINAL
    assert played.ended is not None
    assert played.ended.attempt == 2
    assert any(isinstance(event, Convicted) for _, event in net.chain.world.log)
    assert net.task.head_root == honest.task.head_root


def _miner_of_round_one(net: Network) -> Address:
    drawn = next(event for _, event in net.chain.world.log if isinstance(event, Drawn))
    return net.task.by_id(drawn.proposers[0]).address


def test_the_audit_redoes_every_round_from_events_and_blobs() -> None:
    net = network(Rule.COMMITTEE_NEAR)
    for _ in range(3):
        play_round(net)
    task = net.task
    created = task.at_creation()
    kept = (net.chain.world.registry_address, task.address)
    log = [
        LoggedEvent(event, 0)
        for emitter, event in net.chain.world.log
        if emitter in kept and not isinstance(event, TaskCreated)
    ]

    history = list(rounds(created, log))

    assert [one.number for one in history] == [1, 2, 3, 4]
    for one in history[:3]:
        findings = list(check_round(one, net.store, net.chain.mix_hash))
        assert [f.number for f in findings] == list(range(1, 12))
        assert {f.verdict for f in findings} == {Verdict.OK}
