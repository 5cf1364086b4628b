"""Attacks by silence, selective serving, missing bytes, and on the draw; each runs on bytecode too (tests/agree)."""

from random import Random

import pytest

from chainfl.codec.commitments import keccak256
from chainfl.codec.header import encode_header
from chainfl.codec.scores import UNAVAILABLE, ScoreKind, Scores, encode_scores
from chainfl.protocol import errors, events
from chainfl.protocol.draw import draw_roles
from chainfl.protocol.enrolment import MOST_MISSED
from chainfl.protocol.rewards import round_budget
from chainfl.types import WAD, Address, Id, Outcome, Phase, Rule, Slash
from tests.protocol import test_attacks as attacks
from tests.protocol.scene import (
    ETHER,
    SPONSOR,
    STRANGER,
    Scene,
    address,
    config,
    enrol,
    header_of,
    scene,
)

FAR = 2**128 - 1
"""A distance that says: not available."""


def losses(played: Scene, told: dict[int, int], usual: int = 4 * 10**11) -> bytes:
    """A validator's losses: these for the updates at these indices, the usual one for all others."""
    entries = tuple(told.get(i, usual) for i in range(len(played.task.round.order)))
    return encode_scores(ScoreKind.LOSS, Scores(10**12, entries))


def last(played: Scene, kind: type[events.Event]) -> list[events.Event]:
    """All events of a kind so far."""
    return [event for _, event in played.world.log if isinstance(event, kind)]


# Selective serving


@pytest.mark.parametrize(("size", "hostile"), [(5, 2), (11, 5), (21, 10)])
def test_a_minority_that_is_served_alone_does_not_set_the_median(size: int, hostile: int) -> None:
    """The worst update goes to so many honest validators as make it count, and to the hostile ones, who praise it."""
    played = attacks.crowd(config(committee_size=size, beta=8 * WAD, lie_slash=WAD), people=size + 9)
    played.to(Phase.SCORE)
    committee, bad = played.committee(), 0
    served = size // 2 + 1 - hostile
    scores = {member: losses(played, {bad: 0}) for member in committee[:hostile]}
    scores |= {m: losses(played, {bad: 5 * 10**12}) for m in committee[hostile : hostile + served]}
    scores |= {m: losses(played, {bad: UNAVAILABLE}) for m in committee[hostile + served :]}

    attacks.judge(played, scores)

    tallied = played.task.round.tally
    assert tallied is not None
    assert tallied.included[bad]
    assert tallied.shares[1 + bad] == min(tallied.shares[1:])
    assert tallied.shares[1 + bad] < max(tallied.shares) // 1000


def test_a_minority_does_not_elect_its_like_by_serving_few() -> None:
    terms = config(
        Rule.COMMITTEE_NEAR, committee_size=5, min_updates=5, max_updates=16, redraw_every=1000, lie_slash=WAD
    )
    played = attacks.crowd(terms, people=16)
    played.to(Phase.SCORE)
    members, order = played.committee(), list(played.task.round.order)
    hostile = set(order[:5])
    honest = [id_ for id_ in order if id_ not in hostile]
    true = {id_: 10**20 * (10 + honest.index(id_)) for id_ in honest} | dict.fromkeys(hostile, 10**24)
    middle = 10**20 * 12 + 1

    def told(hostile_distance: int) -> bytes:
        entries = tuple(hostile_distance if i in hostile else true[i] for i in order)
        return encode_scores(ScoreKind.DISTANCE, Scores(10**12, entries))

    scores = {member: told(middle) for member in members[:2]}
    scores |= {members[2]: told(10**24)} | {member: told(FAR) for member in members[3:]}
    attacks.judge(played, scores)

    # As the honest figures alone would have it: the middle of all by distance, the hostile ones last.
    ranking = [*honest, *order[:5]]
    start = (len(ranking) - 5) // 2
    assert played.task.elected == tuple(ranking[start : start + 5])


# Bytes that are missing


def test_a_root_that_a_majority_could_not_get_costs_what_not_revealing_costs() -> None:
    played = attacks.crowd(config(min_updates=5, max_updates=8, lie_slash=WAD), people=12)
    played.to(Phase.SCORE)
    before, number = played.task.escrow, played.number
    order = played.task.round.order
    hidden = dict.fromkeys(range(4), UNAVAILABLE)
    hiders = [played.who(id_) for id_ in order[:4]]

    attacks.judge(played, {member: losses(played, hidden) for member in played.committee()})

    assert attacks.slashed(played, Slash.NO_REVEAL) == set(hiders)
    assert all(attacks.stake_of(played, a) == ETHER * 95 // 100 for a in hiders)
    assert attacks.unharmed(played, but=hiders)
    assert attacks.voids(played) == (number,)
    # Each of the four that are left gets a fifth of the workers' part, as if five had been enough: no more than that.
    budget = round_budget(played.task.funded, played.task.config)
    spent = before - played.task.escrow
    most = 4 * (budget.workers // 5) + budget.committee + 4 * played.task.config.caller_fee
    assert spent <= most


def test_silent_validators_cost_a_worker_nothing() -> None:
    """Who revealed nothing does not say that the bytes are missing: one honest "not available" is no majority."""
    played = attacks.crowd(config(committee_size=5, lie_slash=WAD), people=14)
    played.to(Phase.SCORE)
    silent, (unlucky, *others) = played.committee()[:2], played.committee()[2:]
    for member in (unlucky, *others):
        scores = losses(played, {0: UNAVAILABLE}) if member == unlucky else losses(played, {})
        played.commit_scores(member, scores)
    played.run_out()
    played.advance()
    for member in (unlucky, *others):
        played.reveal_scores(
            member, losses(played, {0: UNAVAILABLE}) if member == unlucky else losses(played, {})
        )
    worker = played.who(played.task.round.order[0])
    played.tally()

    tallied = played.task.round.tally
    assert tallied is not None
    assert not tallied.included[0]
    assert not tallied.withheld[0]
    assert attacks.unharmed(played, but=silent)
    assert attacks.stake_of(played, worker) == ETHER


def test_updates_that_nobody_judged_are_not_paid_for() -> None:
    played = attacks.crowd(people=12)
    played.to(Phase.SCORE)
    number, member = played.number, played.committee()[0]
    workers = [played.who(id_) for id_ in played.task.round.order]
    played.commit_scores(member)
    played.run_out()
    played.advance()
    played.reveal_scores(member)
    played.tally()

    assert attacks.voids(played) == (number,)
    assert played.task.pays[number].workers == {}
    ended = [e for e in last(played, events.RoundEnded) if isinstance(e, events.RoundEnded)][-1]
    assert (ended.outcome, ended.workers_paid) == (Outcome.VOID, 0)
    assert all(attacks.stake_of(played, worker) == ETHER for worker in workers)


# The way back


def test_a_root_without_bytes_that_became_head_is_left_again_once() -> None:
    played = attacks.crowd(config(rounds=9, lie_slash=WAD), people=12)
    played.to(Phase.PROPOSE)
    good = played.task.head_root
    played.world.propose(
        played.call(played.who(played.task.round.proposer)),
        played.task_address,
        played.number,
        1,
        attacks.NOWHERE,
        attacks.NOWHERE,
        (),
    )
    for member in played.voters():
        played.vote(member)
    played.run_out()
    played.advance()
    assert played.task.head_root == attacks.NOWHERE
    number = played.number

    played.to(Phase.SCORE)
    none = {m: UNAVAILABLE.to_bytes(8, "big") + losses(played, {})[8:] for m in played.committee()}
    attacks.judge(played, none)

    assert played.task.head_root == good
    assert attacks.voids(played) == (number - 1, number)
    assert played.task.older_head is None
    assert attacks.unharmed(played)

    # Once: there is no second step back before the next Final round.
    played.to(Phase.SCORE)
    none = {m: UNAVAILABLE.to_bytes(8, "big") + losses(played, {})[8:] for m in played.committee()}
    attacks.judge(played, none)
    assert played.task.head_root == good
    assert played.task.round.phase is Phase.PROPOSE


def test_a_minority_that_does_not_have_the_head_changes_nothing() -> None:
    played = attacks.crowd(config(committee_size=5, lie_slash=WAD), people=14)
    played.to(Phase.SCORE)
    head = played.task.head_root
    some = {m: UNAVAILABLE.to_bytes(8, "big") + losses(played, {})[8:] for m in played.committee()[:2]}

    attacks.judge(played, some)

    assert played.task.head_root == head
    assert played.task.round.phase is Phase.PROPOSE


# Absence


def absent_round(played: Scene, lazy: Address) -> None:
    """A round in which one worker never commits and is noted, and which the others finish."""
    played.to(Phase.TRAIN)
    for worker in played.workers():
        if worker != lazy:
            played.commit(worker)
    played.run_out()
    played.advance()
    played.world.note_absent(played.call(STRANGER), played.task_address, played.number, played.ids([lazy]))
    played.play_round()


def test_who_never_commits_is_out_after_three_rounds_and_loses_no_stake() -> None:
    played = attacks.crowd(config(rounds=30, min_updates=3, lie_slash=WAD), people=9)
    lazy, times = address(3), 0
    for _ in range(20):
        played.to(Phase.TRAIN)
        if lazy not in played.workers():
            played.play_round()
            continue
        absent_round(played, lazy)
        times += 1
        if not played.task.accounts[lazy].is_enrolled:
            break

    assert times == MOST_MISSED
    assert played.task.accounts[lazy].weight == 0
    assert attacks.stake_of(played, lazy) == ETHER
    played.play_round()
    assert lazy not in played.workers() if played.task.round.drawn else True
    played.world.enrol(played.call(lazy), played.task_address)


def test_a_commitment_forgets_absences_and_nobody_is_noted_twice_in_a_round_or_wrongly() -> None:
    played = attacks.crowd(config(rounds=30, lie_slash=WAD), people=9)
    played.to(Phase.TRAIN)
    late, *others = played.workers()
    note = (played.task_address, played.number, played.ids([late]))
    with pytest.raises(errors.WrongPhaseError):
        played.world.note_absent(played.call(STRANGER), *note)
    played.commit(others[0])
    played.run_out()
    played.advance()
    assert played.task.round.extended

    played.world.note_absent(played.call(STRANGER), *note)
    assert played.task.accounts[late].missed == 1
    wrong = [played.ids([others[0]]), played.ids([late]), list(played.task.round.committee[:1]), [Id(99)]]
    for ids in wrong:
        with pytest.raises(errors.NotAbsentError):
            played.world.note_absent(played.call(STRANGER), played.task_address, played.number, ids)

    played.commit(late)
    assert played.task.accounts[late].missed == 0


# Stake


def test_elected_members_can_leave_when_the_others_left_before_the_draw() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR, rounds=1000, lie_slash=WAD), (1,) * 6)
    played.play_round()
    played.to(Phase.CHALLENGE)
    chosen = [played.who(id_) for id_ in played.task.elected or ()]
    others = [a for a in played.task.addresses if a not in chosen]
    asked = {a: played.world.deallocate(played.call(a), played.task_address, ETHER) for a in others}
    for member in played.voters():
        played.vote(member)
    played.run_out()
    played.advance()
    assert (played.task.round.phase, played.task.round.draw_block) == (Phase.DRAW, 0)

    asked |= {a: played.world.deallocate(played.call(a), played.task_address, ETHER) for a in chosen}
    played.now += played.task.config.longest_round()

    for account, number in asked.items():
        assert played.world.release(played.call(account), played.task_address, number) == ETHER


def test_an_election_that_waited_too_long_is_dropped_when_the_draw_opens() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR, rounds=1000, lie_slash=WAD), (1,) * 6)
    played.play_round()
    played.to(Phase.CHALLENGE)
    chosen = tuple(played.task.elected or ())
    leaver = next(a for a in played.task.addresses if played.ids([a])[0] not in chosen)
    played.world.leave(played.call(leaver), played.task_address)
    for member in played.voters():
        played.vote(member)
    played.run_out()
    played.advance()
    assert attacks.elected(played) == chosen

    played.now += played.task.config.longest_round()
    played.world.enrol(played.call(leaver), played.task_address)

    assert attacks.elected(played) is None
    assert last(played, events.ElectionDropped)
    played.play_round()


def hide_one_update(played: Scene) -> Address:
    """One worker commits and never reveals; who that is."""
    played.to(Phase.TRAIN)
    hider, *others = played.workers()
    for worker in (hider, *others):
        played.commit(worker)
    played.advance()
    for worker in others:
        played.reveal(worker)
    played.run_out()
    played.advance()
    return hider


def test_the_weight_follows_a_slash_in_the_same_call() -> None:
    played = attacks.crowd(config(rounds=60, lie_slash=WAD), people=12)
    hider = hide_one_update(played)

    stake = attacks.stake_of(played, hider)
    assert stake == ETHER * 95 // 100
    assert played.task.accounts[hider].weight == stake * 1000 // played.task.config.min_stake


def test_who_falls_below_the_minimum_is_out_of_the_draw_until_it_tops_up() -> None:
    played = attacks.crowd(config(rounds=60, min_stake=ETHER * 98 // 100, lie_slash=WAD), people=12)
    stake = played.world.registry.allocation(played.task_address, address(1)).bonded
    hider = hide_one_update(played)
    taken = stake - attacks.stake_of(played, hider)
    played.world.deallocate(
        played.call(hider), played.task_address, stake - taken - played.task.config.min_stake + 1
    )

    assert played.task.accounts[hider].weight == 0
    played.world.allocate(played.call(hider), played.task_address, 1, 1)
    assert played.task.accounts[hider].weight == 1000


# The draw


def test_a_builder_that_tries_headers_with_the_same_randomness_changes_nothing() -> None:
    """Whatever else stands in the header, committee and line follow from mixHash alone; another header is refused."""
    played = attacks.crowd(people=12)
    at, random = played.task.round.draw_block, Random(7)
    for _ in range(8):
        with pytest.raises(errors.BadHeaderError):
            played.draw(encode_header(at, random.randbytes(32)))
    with pytest.raises(errors.BadHeaderError):
        played.draw(header_of(at)[:-1])
    weights = [(played.task.accounts[a].id, played.task.accounts[a].weight) for a in played.task.addresses]

    played.draw()

    terms = played.task.config
    seed = played.task.round.seed
    drawn = draw_roles(seed, weights, terms.committee_size, terms.max_updates, elected=None, trains=False)
    assert played.task.round.drawn == drawn


def test_the_block_that_opens_a_draw_does_not_seed_it() -> None:
    played = scene(stakes=(1,) * 6)
    enrol(played, address(7), ETHER)
    opened = played.block

    assert played.task.round.draw_block == opened + played.task.seed_delay
    header = header_of(opened)
    played.block = opened
    with pytest.raises(errors.DrawTooEarlyError):
        played.world.draw(played.call(STRANGER), played.task_address, header, keccak256(header))


def test_a_sponsor_cannot_lock_stake_for_longer_than_its_phases_allow() -> None:
    with pytest.raises(errors.BadConfigError, match="phaseSeconds"):
        scene(config(train_seconds=7 * 24 * 3600 + 1))
    played = scene(config(train_seconds=7 * 24 * 3600))
    assert played.task.config.longest_round() <= 12 * 7 * 24 * 3600
    assert played.task.sponsor == SPONSOR
