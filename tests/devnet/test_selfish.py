"""The selfish story without a chain: what the simulator finds on its data, and that it says so either way."""

import pytest

from chainfl.cli import run
from chainfl.devnet.selfish import HONEST, INTERNALS, POISONING, SOFTMAX, compare, deal, findings
from chainfl.devnet.story import Story
from chainfl.node.settings import NodeSettings
from chainfl.node.wiring import _lie
from chainfl.protocol.events import TaskCreated
from chainfl.roles.miner import propose
from tests.roles.test_weights import tallied, votes


def test_averaging_is_ruined_and_the_internals_softmax_far_above_the_others_in_every_deal() -> None:
    found = compare(6, range(3))

    for local, averaging, varsel, softmax in zip(*found.values(), strict=True):
        assert averaging < local - 0.1
        assert local < varsel < local + 0.1
        assert softmax > varsel + 0.05
    assert all(line.endswith("in 3 of 3 deals") for line in findings(found))


def test_an_order_that_is_not_the_expected_one_is_counted_as_it_is() -> None:
    found = {
        "local training": [0.5, 0.5],
        "plain averaging": [0.4, 0.6],
        "VaRSeL": [0.4, 0.4],
        SOFTMAX: [0.7, 0.3],
    }

    assert findings(found) == [
        "plain averaging falls below local training in 1 of 2 deals",
        "VaRSeL is above local training in 0 of 2 deals",
        "the internals' softmax is above all of them in 1 of 2 deals",
    ]


def test_wrong_weights_find_no_quorum_and_the_story_says_so() -> None:
    net = tallied()
    proposer = net.task.by_id(net.task.round.proposer).address
    propose(net.participants[proposer], _lie(NodeSettings.model_construct(lie_in_round=1), net.task))
    assert votes(net) == [False] * 3
    net.leave()
    assert _lie(NodeSettings.model_construct(lie_in_round=1), net.task) is None
    propose(net.participants[net.task.by_id(net.task.round.proposer).address])
    assert votes(net) == [True] * 3
    net.leave()

    lines = list[str]()
    names: dict[bytes, str] = {account: account.hex() for account in net.participants}
    names[proposer] = "ivo"
    story = Story(net.task.at_creation(), names, frozenset(), lines.append)
    for emitter, event in net.chain.world.log:
        if emitter == net.task.address and not isinstance(event, TaskCreated):
            story.take(event, 1)

    (facts,) = story.rounds
    assert (facts.outcome, facts.attempts, facts.attested) == ("final", 2, [0, 3])
    assert (facts.refused, facts.convicted) == (["ivo"], [])
    assert "  quorum     0 of 3 attested what was proposed, no quorum" in lines
    wrong, right = (line for line in lines if line.startswith("  shares "))
    assert wrong != right
    assert 0.99 < sum(facts.shares.values()) <= 1


def test_internals_hold_little_of_everything_and_some_outsiders_two_digits() -> None:
    dealt = deal(0)
    labels = [dealt.y[dealt.groups["client"] == client] for client in range(12)]

    digits = [len(set(each.tolist())) for each in labels]
    assert [len(each) for each in labels[: len(INTERNALS)]] == [20] * 3
    assert digits[3 : 3 + len(HONEST)] == [10, 10, 10, 2, 2]
    assert digits[-len(POISONING) :] == [10] * 4


def test_another_rule_in_the_selfish_story_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--story", "selfish", "--rule", "krum"]) == 2

    assert "--story selfish is played by softmax or varsel" in capsys.readouterr().err
