"""Appointed committees in memory, with the real roles, records, rules and audit."""

import pytest

from chainfl.audit.history import rounds
from chainfl.audit.trace import trace_of
from chainfl.audit.verify import Verdict, check_round
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import TaskCreated
from chainfl.sim.network import play_round
from chainfl.types import Outcome, Rule
from tests.sim.network import network

INTERNALS = 3


@pytest.mark.parametrize(
    "rule", [Rule.SOFTMAX, Rule.SOFTMAX_ACCURACY, Rule.MEAN, Rule.MEDIAN, Rule.MULTI_KRUM]
)
def test_internals_judge_and_train_and_the_audit_finds_every_round_right(rule: Rule) -> None:
    net = network(rule, internals=INTERNALS, rounds=2)
    played = [play_round(net) for _ in range(2)]
    told = [event for address, event in net.chain.world.log if address == net.task.address]
    created = net.task.at_creation()

    history = list(
        rounds(created, [LoggedEvent(event, 1) for event in told if not isinstance(event, TaskCreated)])
    )

    assert [one.outcome for one in played] == [Outcome.FINAL] * 2
    for one in history:
        standing = one.standing()
        assert standing.round.committee == (1, 2, 3)
        assert {1, 2, 3} < set(standing.round.order)
        findings = list(check_round(one, net.store, net.chain.mix_hash))
        assert [finding for finding in findings if finding.verdict is not Verdict.OK] == []
    assert all(id_ > INTERNALS for pay in net.task.pays.values() for id_ in pay.workers)


def test_a_trace_tells_who_is_internal() -> None:
    net = network(Rule.SOFTMAX, internals=INTERNALS, rounds=2)
    for _ in range(2):
        play_round(net)
    told = [event for address, event in net.chain.world.log if address == net.task.address]
    logged = [LoggedEvent(event, 1) for event in told if not isinstance(event, TaskCreated)]

    trace = trace_of(net.task.config, None, rounds(net.task.at_creation(), logged))

    roles = trace["roles"]
    assert isinstance(roles, dict)
    assert {id_ for id_, role in roles.items() if role == 2} == {"1", "2", "3"}
    assert len(roles) == len(net.task.accounts)
