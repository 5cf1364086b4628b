"""Who is paid what: worked by hand, and never more than there is (docs/protocol.md section 9)."""

import itertools
from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.protocol.events import RoundEnded
from chainfl.protocol.rewards import PAID_CALLS, Budget, committee_pay, deviation, round_budget
from chainfl.protocol.views import internal_updates
from chainfl.types import TOTAL, WAD, Outcome, Phase, Rule
from tests.protocol.scene import ETHER, Scene, config, scene

BUDGET = round_budget(ETHER // 2, config())


def credited(played: Scene) -> int:
    """What all who were credited at once may claim."""
    return sum(played.task.credits.values())


def test_a_budget_is_split_after_the_callers_fees() -> None:
    terms = config(rounds=3, caller_fee=5, workers_part=6 * WAD // 10, committee_part=3 * WAD // 10)

    assert round_budget(1000, terms) == Budget(163, 81, 29)
    assert PAID_CALLS * 5 + 163 + 81 + 29 == 1000 // 3


@given(st.integers(0, 10**24), st.integers(1, 10**6), st.integers(0, WAD), st.data())
def test_all_rounds_together_never_cost_more_than_the_escrow(
    escrow: int, rounds: int, workers: int, data: st.DataObject
) -> None:
    fee = data.draw(st.integers(0, escrow // rounds // PAID_CALLS))
    committee = data.draw(st.integers(0, WAD - workers))
    terms = config(rounds=rounds, caller_fee=fee, workers_part=workers, committee_part=committee)

    budget = round_budget(escrow, terms)

    assert min(budget.workers, budget.committee, budget.miner) >= 0
    assert rounds * (budget.workers + budget.committee + budget.miner + PAID_CALLS * fee) <= escrow


def test_a_deviation_is_the_mean_of_capped_gaps_and_an_update_not_vouched_for_counts_the_cap() -> None:
    assert deviation([3, None, 500, 0], 100) == (3 + 100 + 100 + 0) // 4


@pytest.mark.parametrize(
    ("deviations", "amount", "pay"),
    [
        ([], 100, []),
        ([7], 100, [100]),
        ([0, 0, 0], 100, [33, 33, 33]),
        ([1, 2, 3], 120, [50, 40, 30]),
        ([0, 0, 10], 100, [50, 50, 0]),
        ([5, 5], 101, [50, 50]),
    ],
)
def test_the_nearer_to_the_statistic_the_more(deviations: list[int], amount: int, pay: list[int]) -> None:
    assert committee_pay(deviations, amount) == pay


@given(st.lists(st.integers(0, 2**128), max_size=45), st.integers(0, 10**24))
def test_a_committee_is_never_paid_more_than_its_part(deviations: list[int], amount: int) -> None:
    pay = committee_pay(deviations, amount)

    assert sum(pay) <= amount
    assert sum(pay) > amount - max(1, len(pay)) or not pay
    assert all(part >= 0 for part in pay)
    nearer = sorted(zip(deviations, pay, strict=True))
    assert all(a[1] >= b[1] for a, b in itertools.pairwise(nearer))


# Whole rounds


@pytest.mark.parametrize("rule", Rule)
def test_a_final_round_pays_workers_by_shares_and_credits_committee_miner_and_callers(rule: Rule) -> None:
    played = scene(config(rule), stakes=(1,) * 10)
    played.to(Phase.CHALLENGE)
    round_, shares = played.task.round, played.task.round.tally
    assert shares is not None
    are_own = internal_updates(round_)

    played.play_round()

    pay = played.task.pays[1]
    unpaid = 0
    if rule.is_on_ranks:
        assert set(pay.workers.values()) == {1}
    else:
        used = round_.posted.shares or shares.shares
        unpaid = -(-BUDGET.workers * sum(compress(used[1:], are_own)) // pay.whole)
        if not rule.is_attested:
            assert sum(pay.workers.values()) == TOTAL - used[0]
    miner = played.who(round_.proposer)
    assert played.task.credits[miner] >= BUDGET.miner
    owed_to_workers = sum(BUDGET.workers * part // pay.whole for part in pay.workers.values())
    assert played.task.owed == credited(played) + owed_to_workers
    assert BUDGET.workers - unpaid - len(pay.workers) <= owed_to_workers <= BUDGET.workers - unpaid + 1
    assert not set(pay.workers) & {id_ for id_, is_own in zip(round_.order, are_own, strict=True) if is_own}


def test_a_worker_claims_its_share_of_the_workers_part_once() -> None:
    played = scene()
    played.play_round()
    id_, part = next(iter(played.task.pays[1].workers.items()))
    worker = played.who(id_)
    credit = played.task.credits.get(worker, 0)

    got = played.world.claim(played.call(worker), played.task_address, [1])

    assert got == BUDGET.workers * part // TOTAL + credit


def test_a_committee_that_agrees_is_paid_equally_and_one_that_strays_less() -> None:
    played = scene(config(Rule.MEAN), stakes=(1,) * 9)
    played.to(Phase.SCORE)
    members = played.committee()
    for member in members:
        scores = played.scores_of(member)
        played.commit_scores(member, scores if member != members[0] else scores[:8] + bytes([0b110]))
    played.advance()
    for member in members:
        scores = played.scores_of(member)
        played.reveal_scores(member, scores if member != members[0] else scores[:8] + bytes([0b110]))
    played.tally()
    played.play_round()

    # One update of three not vouched for: dev = devCap / 3; S is that alone, so the stray gets nothing of n = 3.
    assert played.task.credits.get(members[0], 0) == 0
    assert {played.task.credits[m] for m in members[1:]} == {BUDGET.committee // 2}


def test_who_keeps_silent_in_challenge_is_not_paid_for_its_scores() -> None:
    played = scene(stakes=(1,) * 9)
    played.to(Phase.CHALLENGE)
    silent, *voting = played.committee()
    for member in voting:
        played.vote(member)

    played.run_out()
    played.advance()

    assert played.number == 2
    assert silent not in played.task.credits
    assert sum(played.task.credits.get(member, 0) for member in voting) == BUDGET.committee


def test_a_void_without_a_majority_of_reveals_pays_no_worker_and_validators_a_plain_part() -> None:
    played = scene(stakes=(1,) * 9)
    played.to(Phase.SCORE)
    member = played.committee()[0]
    played.commit_scores(member)
    played.run_out()
    played.advance()
    played.reveal_scores(member)
    played.tally()

    assert played.task.voids == (1,)
    assert played.task.pays[1].workers == {}
    assert played.task.credits[member] == BUDGET.committee // 3


def test_a_void_after_the_tally_pays_by_shares_and_nobody_for_mining() -> None:
    played = scene(stakes=(1,) * 9)
    played.to(Phase.PROPOSE)
    tallied = played.task.round.tally
    assert tallied is not None
    miner = played.who(played.task.round.proposer)
    for _ in range(3):
        played.run_out()
        played.advance()

    assert played.task.voids == (1,)
    assert tuple(played.task.pays[1].workers.values()) == tallied.shares[1:]
    assert miner not in played.task.credits
    ended = next(e for _, e in played.world.log if isinstance(e, RoundEnded))
    assert (ended.outcome, ended.miner_paid) == (Outcome.VOID, 0)


def test_a_void_before_the_tally_pays_only_the_callers() -> None:
    played = scene(stakes=(1,) * 9)
    played.to(Phase.TRAIN)
    for _ in range(2):
        played.run_out()
        played.advance()

    assert played.task.voids == (1,)
    assert played.task.pays == {}
    assert credited(played) == 2 * played.task.config.caller_fee
