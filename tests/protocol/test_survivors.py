"""Bugs that no other test found (docs/mutants.md), a scene for each; tests/agree plays them on bytecode too."""

from collections.abc import Sequence

import pytest

from chainfl.codec.commitments import finder_note
from chainfl.codec.merkle import LEAF_PARAMETERS, prove
from chainfl.codec.scores import ScoreKind, Scores, encode_scores, unavailable
from chainfl.protocol import errors
from chainfl.protocol.events import TaskCreated
from chainfl.protocol.fold import fold
from chainfl.protocol.proof import gather
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.shares import equal, head_share
from chainfl.protocol.stake import Allocation, Registry, deallocate, slash
from chainfl.protocol.state import Task
from chainfl.protocol.tally import score_kind
from chainfl.protocol.terms import MAX_WEIGHT, weight_of
from chainfl.protocol.views import claim_of, earnings
from chainfl.types import TOTAL, WAD, Address, Id, Phase, Rule, Slash
from tests.protocol.scene import ETHER, SALT, STRANGER, Scene, address, config, enrol, scene

# Terms


def test_terms_whose_largest_proof_has_the_forbidden_size_are_refused() -> None:
    depth = 22
    terms = {"dimension": LEAF_PARAMETERS << depth, "depth": depth}
    assert (123 + 2) * (256 + 32 * depth) == 120_000

    scene(config(Rule.SOFTMAX, max_updates=122, **terms), stakes=())

    with pytest.raises(errors.BadConfigError, match="proofBytes"):
        scene(config(Rule.SOFTMAX, max_updates=123, **terms), stakes=())


def test_every_phase_runs_as_long_as_its_own_term_says() -> None:
    lengths = (61, 72, 83, 94, 105, 116)
    names = ("train", "reveal", "score", "tally", "propose", "challenge")
    terms = {f"{name}_seconds": each for name, each in zip(names, lengths, strict=True)}
    played = scene(config(Rule.SOFTMAX, **terms))
    phases = (Phase.TRAIN, Phase.REVEAL, Phase.SCORE, Phase.TALLY, Phase.PROPOSE, Phase.CHALLENGE)

    for phase, seconds in zip(phases, lengths, strict=True):
        played.to(phase)

        assert played.task.round.deadline == played.now + seconds


# Stake


def test_a_request_after_a_slash_is_worth_what_was_asked_for() -> None:
    played = scene(stakes=(4,) * 8)
    played.to(Phase.TRAIN)
    slashed = played.workers()[0]
    for worker in played.workers():
        played.commit(worker)
    played.advance()
    for id_ in played.task.round.updates:
        if played.who(id_) != slashed:
            played.reveal(played.who(id_))
    task = played.task_address

    played.world.deallocate(played.call(slashed), task, ETHER)
    played.run_out()
    played.advance()
    number = played.world.deallocate(played.call(slashed), task, ETHER)

    stake = played.world.registry.allocation(task, slashed)
    request = played.world.registry.requests[task, slashed, number]
    assert stake.unbonding == ETHER * 95 // 100 + ETHER
    assert 0 <= ETHER - request.shares * stake.unbonding // stake.shares <= 1


@pytest.mark.parametrize(("left", "generation"), [(1, 0), (0, 1)])
def test_a_pool_closes_when_a_share_is_worth_less_than_two_to_the_minus_32(
    left: int, generation: int
) -> None:
    registry, task, account = Registry(), Address(b"\x7a" * 20), address(1)
    registry.allocations[task, account] = Allocation(bonded=2**32)
    deallocate(registry, account, task, 2**32, now=0, unbonding_seconds=0)
    taken = 2**32 - left

    amount, _ = slash(registry, task, account, Slash.LIE, -(-taken * WAD // 2**32))

    assert amount == taken
    assert registry.allocation(task, account).generation == generation


def test_stake_that_leaves_a_full_tree_takes_its_own_weight_only() -> None:
    played = scene(stakes=(3_000_000, *(1,) * 7))
    played.draw()
    rich, terms = played.task.addresses[0], played.task.config

    played.world.deallocate(played.call(rich), played.task_address, ETHER)

    weight = weight_of(2_999_999 * ETHER, terms)
    assert MAX_WEIGHT - played.task.total_weight < weight
    assert played.task.accounts[rich].weight == weight


def test_a_full_tree_takes_of_a_top_up_what_still_fits() -> None:
    played = scene(stakes=(3_000_000, *(1,) * 7))
    played.draw()
    rich, task = played.task.addresses[0], played.task_address
    others = played.task.total_weight - played.task.accounts[rich].weight

    played.world.allocate(played.call(rich), task, 1_000_000 * ETHER, 1_000_000 * ETHER)

    assert played.task.total_weight == MAX_WEIGHT
    assert played.task.accounts[rich].weight == MAX_WEIGHT - others


def test_a_worker_keeps_its_stake_in_while_its_update_is_under_way() -> None:
    played = scene()
    played.draw()
    round_ = played.task.round
    assert round_.drawn is not None
    drawn = (*round_.committee, *round_.drawn.proposers)
    worker = next(who for who in played.workers() if played.task.accounts[who].id not in drawn)
    played.commit(worker)
    number = played.world.deallocate(played.call(worker), played.task_address, ETHER)

    played.now += played.task.config.longest_round()

    with pytest.raises(errors.StakeLockedError):
        played.world.release(played.call(worker), played.task_address, number)


# Shares that a proposer posts


def judged(rule: Rule, **changes: object) -> Scene:
    """A round of an attested rule before the proposal; the committee vouches for all six updates but the last."""
    played = scene(config(rule, **changes), stakes=(1,) * 10)
    played.to(Phase.TRAIN)
    played.apply_queued()
    played.play_round()
    played.to(Phase.SCORE)
    entries = tuple(int(index != 5) for index in range(len(played.task.round.order)))
    scores = encode_scores(ScoreKind.VOUCH, Scores(10**12, entries))
    for validator in played.committee():
        played.commit_scores(validator, scores)
    played.advance()
    for validator in played.committee():
        played.reveal_scores(validator, scores)
    played.tally()

    assert played.task.round.tally is not None
    assert played.task.round.tally.included == (True,) * 5 + (False,)
    return played


def post(played: Scene, shares: Sequence[int]) -> None:
    """Propose with these shares; which model does not matter."""
    round_ = played.task.round
    miner = played.call(played.who(round_.proposer))
    names = (round_.number, round_.attempt, b"\x0a" * 32, b"\x0b" * 32)
    played.world.propose(miner, played.task_address, *names, tuple(shares))


def test_krum_shares_for_an_update_that_does_not_count_are_refused() -> None:
    played = judged(Rule.KRUM)

    with pytest.raises(errors.BadSharesError):
        post(played, (0, 0, 0, 0, 0, 0, TOTAL))

    post(played, (0, 0, 0, 0, 0, TOTAL, 0))
    assert played.task.round.phase is Phase.CHALLENGE


def test_multi_krum_shares_of_any_other_form_are_refused() -> None:
    played = judged(Rule.MULTI_KRUM, alpha=WAD // 3)
    p_0 = head_share(WAD // 3)
    part, other = equal([True, True], TOTAL - p_0)
    wrong = [
        (p_0, part, 0, 0, 0, 0, other),
        (p_0, part, 0, 0, 0, 0, 0),
        (p_0, part, other, 1, 0, 0, 0),
        (p_0, part - 1, other + 1, 0, 0, 0, 0),
        (p_0, other - 1, part + 1, 0, 0, 0, 0),
        (p_0, *equal([True] * 3 + [False] * 3, TOTAL - p_0)),
        (p_0, *equal([True] + [False] * 5, TOTAL - p_0)),
        (p_0 - 1, part, other, 0, 0, 0, 0),
        (p_0, part, other, 0, 0, 0),
        (0, *equal([True] * 2 + [False] * 4, TOTAL)),
    ]

    for shares in wrong:
        with pytest.raises(errors.BadSharesError):
            post(played, shares)

    post(played, (p_0, 0, part, 0, 0, other, 0))
    assert played.task.round.phase is Phase.CHALLENGE


# What a majority could not get


def on_progress(played: Scene, heads: Sequence[int | None], firsts: Sequence[int | None]) -> None:
    """Score and Tally. Each member says this of the head and of the first update; None for both: it is silent."""
    played.to(Phase.SCORE)
    kind = score_kind(played.task.config.rule)
    usual = {ScoreKind.LOSS: 10**12, ScoreKind.DISTANCE: 10**20, ScoreKind.VOUCH: 1}[kind]
    rest = (usual,) * (len(played.task.round.order) - 1)
    told = {
        member: encode_scores(kind, Scores(head, (usual if first else unavailable(kind), *rest)))
        for member, head, first in zip(played.committee(), heads, firsts, strict=True)
        if head is not None and first is not None
    }
    for member, scores in told.items():
        played.commit_scores(member, scores)
    played.run_out()
    played.advance()
    for member, scores in told.items():
        played.reveal_scores(member, scores)
    played.tally()


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.COMMITTEE_NEAR, Rule.KRUM])
@pytest.mark.parametrize(
    ("firsts", "costs"),
    [((0, 0, 1), True), ((0, 0, None), True), ((0, 1, 1), False), ((0, 1, None), False)],
    ids=["two of three", "all but a silent one", "one of three", "one, and one silent"],
)
def test_bytes_kept_from_a_majority_cost_what_not_revealing_costs(
    rule: Rule, firsts: Sequence[int | None], costs: bool
) -> None:
    played = scene(config(rule), stakes=(1,) * 10)
    played.to(Phase.SCORE)
    first = played.who(played.task.round.order[0])

    on_progress(played, [None if each is None else 10**12 for each in firsts], firsts)

    left = played.world.registry.allocation(played.task_address, first).bonded
    assert left == (ETHER * 95 // 100 if costs else ETHER)
    assert played.task.accounts[first].weight == weight_of(left, played.task.config)
    assert rebuilt(played) == played.task


def test_too_few_updates_are_paid_as_if_they_were_just_enough() -> None:
    played = scene()
    played.to(Phase.SCORE)
    hider, *others = (played.who(id_) for id_ in played.task.round.order)

    on_progress(played, [10**12] * 3, [0, 0, 1])

    part = round_budget(played.task.funded, played.task.config).workers // played.task.config.min_updates
    credit = {who: played.task.credits.get(who, 0) for who in (hider, *others)}
    assert earnings(played.task, hider) == credit[hider]
    assert [earnings(played.task, who) - credit[who] for who in others] == [part, part]


def test_updates_that_nobody_judged_are_not_paid_for() -> None:
    played = scene()

    on_progress(played, [10**12, None, None], [1, None, None])

    assert (played.number, played.task.pays[1].workers) == (2, {})
    assert rebuilt(played) == played.task


def test_a_majority_without_the_head_goes_back_to_the_one_before_once() -> None:
    played = scene(config(rounds=8))
    lost = 2**64 - 1
    played.play_round()
    on_progress(played, [lost, 10**12, 10**12], [1, 1, 1])
    played.play_round()
    on_progress(played, [lost, 10**12, None], [1, 1, None])
    played.play_round()
    before = played.task.older_head
    assert before is not None
    assert list(played.task.voids) == []

    on_progress(played, [lost, lost, 10**12], [1, 1, 1])
    assert (played.number, played.task.head_root, played.task.older_head) == (5, before.root, None)
    assert played.task.voids == (3, 4)
    assert rebuilt(played) == played.task

    on_progress(played, [lost, lost, lost], [1, 1, 1])
    assert played.task.round.phase is Phase.PROPOSE
    assert played.task.head_root == before.root
    played.play_round()
    assert rebuilt(played) == played.task


def test_the_first_head_has_none_before_it_to_go_back_to() -> None:
    played = scene()

    on_progress(played, [2**64 - 1] * 3, [1, 1, 1])

    assert played.task.round.phase is Phase.PROPOSE
    assert played.task.head_root == played.task.config.first_root


# Absence


def miss(played: Scene, lazy: Address) -> bool:
    """Play a round to its Reveal without an update of this account; answers whether it was to train."""
    played.to(Phase.TRAIN)
    workers = played.workers()
    for worker in workers:
        if worker != lazy:
            played.commit(worker)
    played.run_out()
    played.advance()
    return lazy in workers


def note(played: Scene, *ids: int) -> None:
    """Note these accounts as absent."""
    named = [Id(each) for each in ids]
    played.world.note_absent(played.call(STRANGER), played.task_address, played.number, named)


def test_three_absences_in_a_row_put_an_account_out_of_the_draw_and_less_does_not() -> None:
    played = scene(config(rounds=60), stakes=(1,) * 9)
    played.to(Phase.TRAIN)
    played.apply_queued()
    played.play_round()
    lazy = played.task.addresses[0]
    account = played.task.accounts[lazy].id
    expected = [1, 2, 0, 1, 2, 3]
    seen = list[int]()

    while len(seen) < len(expected):
        if expected[len(seen)] == 0:
            played.to(Phase.TRAIN)
            if lazy in played.workers():
                seen.append(0)
            played.play_round()
            continue
        if miss(played, lazy):
            note(played, account)
            seen.append(seen[-1] + 1 if seen else 1)
            assert rebuilt(played) == played.task
        assert played.task.accounts[lazy].missed == (seen[-1] if seen else 0) % 3
        played.play_round()

    assert (played.task.accounts[lazy].is_enrolled, played.task.accounts[lazy].weight) == (False, 0)
    assert seen == expected


def test_only_who_was_to_train_and_did_not_commit_in_time_is_noted_and_once() -> None:
    played = scene(stakes=(1,) * 9)
    played.to(Phase.TRAIN)
    lazy = played.workers()[0]
    absent = played.task.accounts[lazy].id
    with pytest.raises(errors.WrongPhaseError):
        note(played, absent)

    miss(played, lazy)
    assert played.task.round.drawn is not None
    others = (*played.task.round.committee, played.task.round.drawn.proposers[0], *played.task.round.updates)
    for other in (*others, 0, 99):
        with pytest.raises(errors.NotAbsentError):
            note(played, other)
    note(played, absent)
    with pytest.raises(errors.NotAbsentError):
        note(played, absent)


def test_when_train_is_extended_who_keeps_it_waiting_is_noted() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR), stakes=(1,) * 8)
    played.to(Phase.TRAIN)
    played.run_out()
    played.advance()
    member = played.task.round.committee[0]

    with pytest.raises(errors.NotAbsentError):
        note(played, member)
    outside = [
        who for who in played.workers() if played.task.accounts[who].id not in played.task.round.committee
    ]
    note(played, *played.ids(outside))

    assert {played.task.accounts[who].missed for who in outside} == {1}


# Elections


@pytest.mark.parametrize(("early", "stands"), [(1, True), (0, False)])
def test_an_election_is_dropped_when_its_stake_could_have_left(early: int, stands: bool) -> None:
    played = scene(config(Rule.COMMITTEE_NEAR), stakes=(1,) * 8)
    played.to(Phase.PROPOSE)
    elected_at, elected = played.now, played.task.elected
    assert elected is not None
    played.to(Phase.CHALLENGE)
    leavers = [who for who in played.task.addresses if played.task.accounts[who].id not in elected]
    for who in leavers:
        if played.task.accounts[who].is_enrolled:
            played.world.leave(played.call(who), played.task_address)
    played.play_round()
    assert (played.task.round.draw_block, played.task.elected) == (0, elected)
    first = played.who(elected[0])
    assert not played.world.is_locked(played.task_address, first)

    played.now = elected_at + played.task.config.longest_round() - early
    for who in leavers:
        played.world.enrol(played.call(who), played.task_address)

    assert played.task.round.draw_block != 0
    assert played.task.elected == (elected if stands else None)
    assert played.world.is_locked(played.task_address, first) == stands
    assert rebuilt(played) == played.task
    played.draw()
    assert (played.task.round.committee == elected) == stands


# Out of turn


def test_a_proposal_and_a_proof_name_the_attempt_they_are_meant_for() -> None:
    played = scene()
    played.to(Phase.PROPOSE)
    round_, task = played.task.round, played.task_address
    miner = played.who(round_.proposer)

    for attempt in (0, 2):
        with pytest.raises(errors.WrongAttemptError):
            played.world.propose(played.call(miner), task, 1, attempt, b"\x0a" * 32, b"\x0b" * 32, ())

    lie = played.aggregate()
    lie[17] += 1
    played.propose(lie)
    evidence = gather(claim_of(played.task), 17, lambda root, leaf: prove(played.models[root], leaf))
    for attempt in (0, 2):
        with pytest.raises(errors.WrongAttemptError):
            played.world.prove(played.call(STRANGER), task, 1, attempt, 17, evidence, SALT)


def test_who_enrols_in_a_round_works_from_the_next_on() -> None:
    played = scene(stakes=(1,) * 7)
    played.to(Phase.TRAIN)
    enrol(played, address(8), ETHER)

    with pytest.raises(errors.NotWorkerError):
        played.commit(address(8))

    played.play_round()
    played.to(Phase.TRAIN)
    assert played.task.accounts[address(8)].active_from == 2


def test_a_member_that_attested_a_lie_loses_its_turn_to_propose() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR, committee_size=5, min_updates=5), stakes=(1,) * 10)
    played.to(Phase.PROPOSE)
    assert played.task.round.drawn is not None
    line = played.task.round.drawn.proposers
    lie = played.aggregate()
    lie[17] += 1
    played.propose(lie)
    played.vote(played.who(line[1]))

    played.prove(STRANGER, 17)

    assert played.task.round.proposer == line[2]
    assert played.task.round.convicted == {line[0], line[1]}


def test_a_round_named_twice_is_paid_once() -> None:
    played = scene()
    played.play_round()
    worker = played.who(next(iter(played.task.pays[1].workers)))

    with pytest.raises(errors.AlreadyClaimedError):
        played.world.claim(played.call(worker), played.task_address, [1, 1])

    played.world.claim(played.call(worker), played.task_address, [1])
    with pytest.raises(errors.AlreadyClaimedError):
        played.world.claim(played.call(worker), played.task_address, [1])


# The fold of events


def rebuilt(played: Scene, noted_at: int = 0) -> Task:
    """The task that the log alone tells of, all its events in one block."""
    task = played.task
    fresh = task.at_creation()
    for emitter, event in played.world.log:
        if emitter == task.address and not isinstance(event, TaskCreated):
            fold(fresh, event, noted_at)
    return fresh


def test_events_tell_in_which_block_a_finding_was_noted() -> None:
    played = scene()
    played.to(Phase.CHALLENGE)
    note = finder_note(31337, played.task_address, 1, 1, 17, STRANGER, SALT)
    call = played.call(STRANGER)

    played.world.note_finding(call, played.task_address, note)

    assert rebuilt(played, call.block_number).notes == {note: call.block_number}
    assert played.task.notes == {note: call.block_number}


def test_silence_before_the_challenge_is_no_absence_from_the_vote() -> None:
    played = scene()
    played.to(Phase.SCORE)
    for validator in played.committee()[1:]:
        played.commit_scores(validator)
    played.run_out()
    played.advance()
    assert rebuilt(played) == played.task

    for validator in played.committee()[1:]:
        played.reveal_scores(validator)
    played.tally()
    played.run_out()
    played.advance()

    assert played.task.round.absent == frozenset()
    assert rebuilt(played) == played.task


def test_silence_in_a_challenge_is_told_and_costs_the_pay_of_the_round() -> None:
    played = scene()
    played.to(Phase.CHALLENGE)
    silent, *others = played.voters()
    for validator in others:
        played.vote(validator, attests=False)
    played.run_out()
    played.advance()

    assert played.task.round.absent == {played.task.accounts[silent].id}
    assert rebuilt(played) == played.task
    credit = played.task.credits.get(silent, 0)
    played.play_round()
    assert played.task.credits.get(silent, 0) == credit
    assert rebuilt(played) == played.task


def test_votes_stand_in_the_committees_order_however_they_were_cast() -> None:
    for last_first in (False, True):
        played = scene()
        played.to(Phase.CHALLENGE)
        voters = played.voters()
        for validator in reversed(voters) if last_first else voters:
            played.vote(validator)
        played.run_out()
        played.advance()

        assert played.number == 2
        assert played.task.head_votes == tuple((id_, True) for id_ in played.ids(voters))


def test_what_a_void_round_elected_is_told_to_be_void_too() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR), stakes=(1,) * 9)
    played.to(Phase.PROPOSE)
    assert len(played.task.elected or ()) == 3
    assert rebuilt(played) == played.task

    for _ in range(3):
        played.run_out()
        played.advance()

    assert (played.number, played.task.elected) == (2, None)
    assert rebuilt(played) == played.task


def test_an_elected_committee_of_more_than_three_has_three_attempts_too() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR, committee_size=5, min_updates=5), stakes=(1,) * 12)
    played.to(Phase.PROPOSE)
    assert played.task.round.drawn is not None
    assert len(played.task.round.drawn.proposers) == 5

    for attempt in (1, 2, 3):
        assert (played.number, played.task.round.attempt) == (1, attempt)
        played.run_out()
        played.advance()

    assert (played.number, played.task.voids) == (2, (1,))


def test_a_target_that_is_reached_is_told_by_the_tally() -> None:
    played = scene(config(target=2**128 - 2))

    played.to(Phase.TALLY)
    for validator in played.committee():
        played.reveal_scores(validator)
    played.tally()

    assert played.task.round.phase is Phase.ENDED
    assert played.task.ending
    assert rebuilt(played) == played.task


def test_an_abandonment_in_a_round_is_told_before_its_end() -> None:
    played = scene()
    played.to(Phase.TRAIN)

    played.world.abandon(played.call(played.task.sponsor), played.task_address)

    assert rebuilt(played) == played.task
    played.play_round()
    assert played.task.round.phase is Phase.ENDED
    assert rebuilt(played) == played.task
