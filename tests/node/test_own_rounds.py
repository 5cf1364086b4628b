"""What a node tells of each settled round: its share, its pay, its scores, what its training told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest
from prometheus_client import generate_latest

from chainfl.audit.history import PlayedRound
from chainfl.codec.scores import ONE
from chainfl.learning.datasets import load
from chainfl.learning.trainer import LearningSpec, Trainer
from chainfl.node.own_rounds import OwnRound, RoundFollower, own_round
from chainfl.node.status import Status
from chainfl.node.tracks import kept_going
from chainfl.protocol.tally import decoded_scores
from chainfl.protocol.views import earnings, revealed_by
from chainfl.sim.network import Network, play_round
from chainfl.types import Address, Outcome, Rule
from tests.audit.scene import History, history
from tests.sim.network import network


def play(net: Network, rounds: int) -> list[PlayedRound]:
    return [play_round(net) for _ in range(rounds)]


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.MEDIAN, Rule.KRUM, Rule.COMMITTEE_NEAR])
def test_what_a_round_says_of_pay_is_what_the_account_may_claim(rule: Rule) -> None:
    net = network(rule)
    before = {account: earnings(net.task, account) for account in net.participants}

    played = play(net, 3)

    told = {account: sum(own_round(one, account).pay for one in played) for account in net.participants}
    assert told == {account: earnings(net.task, account) - before[account] for account in net.participants}
    assert sum(told.values()) > 0


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.MEDIAN])
def test_shares_of_all_are_the_model_and_roles_are_those_drawn(rule: Rule) -> None:
    net = network(rule)

    (played,) = play(net, 1)

    own = [own_round(played, account) for account in net.participants]
    task = played.standing()
    assert sum(each.share for each in own) == pytest.approx(1)
    assert [each.roles for each in own].count(("validator",)) == task.config.committee_size
    assert {each.share > 0 for each in own if each.roles == ("worker",)} == {True}
    assert sum("miner" in each.roles for each in own) == 1


def test_an_update_is_scored_as_a_majority_posted_and_only_a_validator_gave_a_score() -> None:
    net = network(Rule.SOFTMAX)

    first, second = play(net, 2)

    own = [own_round(second, account) for account in net.participants]
    earlier = own_round(first, next(iter(net.participants)))
    assert all((each.own_score is not None) == ("worker" in each.roles) for each in own)
    assert all((each.given_score is not None) == ("validator" in each.roles) for each in own)
    given = [each.given_score for each in own if each.given_score is not None]
    assert own[0].head_score == pytest.approx(median(given), rel=1e-6)
    assert earlier.head_score is not None
    assert all(each.head_score is not None and each.head_score < earlier.head_score for each in own)
    assert all(each.own_score < earlier.head_score for each in own if each.own_score is not None)


def test_what_an_internal_posts_for_its_own_update_is_not_its_score() -> None:
    net = network(Rule.SOFTMAX, internals=3)

    (played,) = play(net, 1)

    task = played.standing()
    first, *others = task.round.committee
    place = 1 + task.round.order.index(first)
    given = [decoded_scores(task, shown)[place] for id_ in others if (shown := revealed_by(task.round, id_))]
    own = own_round(played, task.by_id(first).address)
    assert own.roles == ("worker", "validator")
    assert own.own_score == median([loss for loss in given if loss is not None]) / ONE
    assert own.pay == earnings(net.task, task.by_id(first).address) > 0


def test_training_is_told_of_those_that_trained_and_a_stranger_has_nothing() -> None:
    net = network(Rule.SOFTMAX)

    (played,) = play(net, 1)

    own = [own_round(played, account, {"train loss": 0.5}) for account in net.participants]
    stranger = own_round(played, Address(b"x" * 20), {"train loss": 0.5})
    assert all(bool(each.training) == ("worker" in each.roles) for each in own)
    assert (stranger.roles, stranger.share, stranger.pay, stranger.training) == ((), 0.0, 0, {})


def test_a_round_without_a_model_has_no_shares() -> None:
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    before = net.task
    first = len(net.chain.world.log)
    while net.task.round.number == before.round.number:
        net.wait()
        net.leave()

    played = net.played(before, first)

    assert played.outcome is Outcome.VOID
    assert {own_round(played, account).share for account in net.participants} == {0.0}
    assert str(own_round(played, next(iter(net.participants)))).startswith("void as ")


OWN = OwnRound(3, "final", ("worker",), 0.25, 10**15, 0.7, 0.5, None, {"train loss": 0.4})


def test_the_line_in_the_log_has_what_people_look_for() -> None:
    assert str(OWN) == (
        "final as worker, train loss 0.4, head's score 0.7, own score 0.5, share 25.00%, pay 0.001000 ETH"
    )


def test_metrics_have_the_last_round_and_the_sum_of_pay() -> None:
    status = Status()

    status.settled(OWN)
    status.settled(OWN)

    shown = generate_latest(status.registry).decode()
    assert 'chainfl_own_round{what="share"} 0.25' in shown
    assert 'chainfl_own_round{what="given_score"} NaN' in shown
    assert 'chainfl_training{what="train loss"} 0.4' in shown
    assert "chainfl_round_pay_wei 1e+15" in shown
    assert "chainfl_earned_wei_total 2e+15" in shown


def test_a_built_in_model_tells_the_loss_of_its_training_and_it_falls() -> None:
    dataset = load("mnist-embedded")
    rows = dataset.train().rows[:300]
    trainer = Trainer.of_rows(LearningSpec("mnist-mlp-small", "mnist-embedded"), dataset, rows, master_seed=1)
    head_D = trainer.initial()

    losses = []
    for round_ in (1, 2, 3):
        head_D = trainer.train(head_D, round_)
        losses.append(trainer.metrics["train loss"])

    assert losses == sorted(losses, reverse=True)
    assert 1 < losses[0] < 3  # ten classes, untrained: about ln 10


def test_a_tracker_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def fails(round_: int, facts: object) -> None:
        raise OSError(f"disk full in round {round_} of {facts}")

    kept_going(fails)(3, {})

    assert "round 3: not tracked: disk full in round 3" in caplog.text


@pytest.fixture(scope="module")
def on_chain(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[History]:
    """Two rounds are settled on a chain, a third is open."""
    require("anvil")
    with history(tmp_path_factory.mktemp("history")) as built:
        yield built


@pytest.mark.slow
def test_a_follower_tells_each_round_once_and_not_those_before_it_came(on_chain: History) -> None:
    reader = on_chain.task.reader()
    early = RoundFollower(reader)
    reader.refresh()
    late = RoundFollower(reader)

    told = [played.number for played in early.settled()]
    again = early.settled()
    late_told = late.settled()

    # As in a reorg: the reader drops what is gone, and reads what stands instead.
    events = reader.log
    reader.log = events[: len(events) // 2]
    lost = early.settled()
    reader.log = events
    found = early.settled()

    assert (told, again, late_told, lost, found) == ([1, 2], [], [], [], [])
