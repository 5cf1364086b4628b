"""What hostile participants may try, one test each: the task goes on, and the honest keep their stake and pay."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from chainfl.codec import merkle
from chainfl.codec.commitments import finder_note, keccak256, validator_payload, worker_payload
from chainfl.codec.scores import UNAVAILABLE, WORST_LOSS, ScoreKind, Scores, encode_scores
from chainfl.protocol import errors, events
from chainfl.protocol.draw import draw_roles
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.shares import softmax
from chainfl.protocol.terms import weight_of
from chainfl.protocol.views import ordered_roots, trains
from chainfl.types import TOTAL, WAD, Address, Digest, Id, Phase, Rule, Slash, Statistic, TaskConfig
from tests.protocol.scene import (
    ETHER,
    HEAD,
    SALT,
    SPONSOR,
    STRANGER,
    Scene,
    address,
    config,
    enrol,
    header_of,
    scene,
    usual_stake,
)

NOWHERE = Digest(b"\x66" * 32)
"""A root whose bytes nobody has."""


def crowd(terms: TaskConfig | None = None, people: int = 9) -> Scene:
    """A task at the draw of its second round, in which everybody enrolled has a weight."""
    played = scene(terms, (1,) * people)
    played.to(Phase.TRAIN)
    played.apply_queued()
    played.play_round()
    assert played.task.eligible == people
    return played


def voids(played: Scene) -> tuple[int, ...]:
    """The Void rounds since the head."""
    return played.task.voids


def elected(played: Scene) -> tuple[Id, ...] | None:
    """The committee that the last tally elected."""
    return played.task.elected


def stake_of(played: Scene, account: Address) -> int:
    stake = played.world.registry.allocation(played.task_address, account)
    return stake.bonded + stake.unbonding


def unharmed(played: Scene, but: Sequence[Address] = ()) -> bool:
    """Whether everybody but those named still has all of its stake."""
    whole = usual_stake(played.task.config)
    return all(stake_of(played, a) == whole for a in played.task.addresses if a not in but)


def slashed(played: Scene, kind: Slash) -> set[Address]:
    return {e.account for _, e in played.world.log if isinstance(e, events.Slashed) and e.kind is kind}


def act(played: Scene, phase: Phase, but: Sequence[Address] = ()) -> None:
    """Everybody expected acts in this phase except those named; then it is left."""
    steps: dict[Phase, tuple[Callable[[Address], None], Callable[[], list[Address]]]] = {
        Phase.TRAIN: (played.commit, played.workers),
        Phase.REVEAL: (played.reveal, lambda: [played.who(i) for i in played.task.round.updates]),
        Phase.SCORE: (played.commit_scores, played.committee),
        Phase.TALLY: (played.reveal_scores, played.committee),
        Phase.CHALLENGE: (played.vote, played.voters),
    }
    played.to(phase)
    step, who = steps[phase]
    for account in who():
        if account not in but:
            step(account)
    played.run_out()
    if phase is Phase.TALLY:
        played.tally()
    else:
        played.advance()


def judge(played: Scene, scores: dict[Address, bytes]) -> None:
    """Score and Tally, with these scores instead of the honest ones."""
    played.to(Phase.SCORE)
    for member in played.committee():
        played.commit_scores(member, scores.get(member))
    played.advance()
    for member in played.committee():
        played.reveal_scores(member, scores.get(member))
    played.tally()


def lie_at(played: Scene, position: int) -> None:
    """The proposer of this attempt posts a model that is wrong in one parameter, by one step."""
    model = played.aggregate().copy()
    model[position] += np.uint32(1)
    played.propose(model)


# Commitments


def test_a_copied_commitment_cannot_be_opened_and_costs_the_copier() -> None:
    played = crowd()
    played.to(Phase.TRAIN)
    victim, copier, *others = played.workers()
    played.commit(victim)
    copied = played.task.round.updates[played.ids([victim])[0]].commitment
    played.world.commit_update(played.call(copier), played.task_address, 2, copied)
    for worker in others:
        played.commit(worker)
    played.advance()
    played.reveal(victim)

    with pytest.raises(errors.WrongRevealError):
        played.reveal(copier, merkle.root(played.update_of(victim)))
    for worker in others:
        played.reveal(worker)
    played.run_out()
    played.advance()
    played.play_round()

    assert slashed(played, Slash.NO_REVEAL) == {copier}
    assert unharmed(played, but=[copier])
    assert played.ids([victim])[0] in played.task.pays[2].workers
    assert played.ids([copier])[0] not in played.task.pays[2].workers


def test_of_a_copied_root_only_the_lowest_index_counts() -> None:
    played = crowd()
    played.to(Phase.TRAIN)
    first, second, *others = sorted(played.workers())
    stolen = merkle.root(played.update_of(first))
    played.commit(first)
    played.commit(second, stolen)
    for worker in others:
        played.commit(worker)
    played.advance()
    played.reveal(first)
    played.reveal(second, stolen)
    for worker in others:
        played.reveal(worker)
    played.advance()
    played.to(Phase.PROPOSE)
    tallied = played.task.round.tally
    assert tallied is not None

    assert tallied.included == (True, False, *[True] * len(others))
    assert tallied.shares[2] == 0
    played.play_round()
    assert unharmed(played)


def test_handing_in_the_head_again_earns_nothing() -> None:
    played = crowd()
    played.to(Phase.TRAIN)
    lazy, *others = sorted(played.workers())
    played.commit(lazy, played.task.head_root)
    for worker in others:
        played.commit(worker)
    played.advance()
    played.reveal(lazy, played.task.head_root)
    for worker in others:
        played.reveal(worker)
    played.advance()
    played.play_round()

    assert played.ids([lazy])[0] not in played.task.pays[2].workers


def test_a_reveal_without_a_commitment_is_refused() -> None:
    played = crowd()
    played.to(Phase.TRAIN)
    late, *others = played.workers()
    for worker in others:
        played.commit(worker)
    played.run_out()
    played.advance()

    with pytest.raises(errors.NotCommittedError):
        played.reveal(late)

    played.play_round()
    assert unharmed(played)


def test_a_commitment_without_a_reveal_is_slashed_and_left_out() -> None:
    played = crowd()
    played.to(Phase.REVEAL)
    silent = played.who(next(iter(played.task.round.updates)))

    act(played, Phase.REVEAL, but=[silent])
    played.play_round()

    assert stake_of(played, silent) == ETHER * 95 // 100
    assert unharmed(played, but=[silent])
    assert played.ids([silent])[0] not in played.task.pays[2].workers


def test_when_all_commit_and_none_reveals_the_round_is_void_and_the_next_one_plays() -> None:
    played = crowd()
    played.to(Phase.REVEAL)
    silent = [played.who(id_) for id_ in played.task.round.updates]

    act(played, Phase.REVEAL, but=silent)
    played.to(Phase.TALLY)
    act(played, Phase.TALLY)

    assert voids(played) == (2,)
    assert slashed(played, Slash.NO_REVEAL) == set(silent)
    assert unharmed(played, but=silent)
    played.play_round()
    assert voids(played) == ()


def test_validators_who_commit_and_do_not_reveal_are_slashed_and_the_others_decide() -> None:
    played = crowd()
    played.to(Phase.TALLY)
    silent = played.committee()[0]

    act(played, Phase.TALLY, but=[silent])
    played.play_round()

    assert slashed(played, Slash.NO_REVEAL) == {silent}
    assert unharmed(played, but=[silent])


def test_scores_cannot_shift_onto_other_updates() -> None:
    played = crowd()
    played.to(Phase.SCORE)
    member, *others = played.committee()
    scores = played.scores_of(member)
    shifted = validator_payload(ordered_roots(played.task)[::-1], scores)
    played.world.commit_scores(
        played.call(member), played.task_address, 2, played.seal(member, Phase.SCORE, shifted)
    )
    for other in others:
        played.commit_scores(other)
    played.advance()

    with pytest.raises(errors.WrongRevealError):
        played.reveal_scores(member, scores)


# Bytes that nobody has


def hide_one(played: Scene) -> int:
    """One worker reveals a root without bytes; answers its index among the revealed, in phase Score."""
    played.to(Phase.TRAIN)
    hider, *others = played.workers()
    played.commit(hider, NOWHERE)
    for worker in others:
        played.commit(worker)
    played.advance()
    played.reveal(hider, NOWHERE)
    for worker in others:
        played.reveal(worker)
    played.advance()
    return played.task.round.order.index(played.ids([hider])[0])


def without(played: Scene, member: Address, index: int, value: int = UNAVAILABLE) -> bytes:
    """The member's scores, with another entry for one update."""
    at = 8 + 8 * index
    scores = played.scores_of(member)
    return scores[:at] + value.to_bytes(8, "big") + scores[at + 8 :]


def test_a_root_without_bytes_is_not_included_even_with_a_vouching_accomplice() -> None:
    played = crowd()
    index = hide_one(played)
    _accomplice, *honest = played.committee()

    judge(played, {member: without(played, member, index) for member in honest})

    tallied = played.task.round.tally
    assert tallied is not None
    assert tallied.included[index] is False
    assert tallied.shares[1 + index] == 0
    played.models[NOWHERE] = HEAD
    hider = played.who(played.task.round.order[index])
    played.play_round()
    assert unharmed(played, but=[hider])


def test_a_root_without_bytes_and_without_a_share_does_not_shield_a_lying_miner() -> None:
    played = crowd(config(beta=10**21))
    index = hide_one(played)
    judge(
        played,
        {member: without(played, member, index, WORST_LOSS) for member in played.committee()},
    )
    tallied = played.task.round.tally
    assert tallied is not None
    assert tallied.included[index] is True
    assert tallied.shares[1 + index] == 0
    played.models[NOWHERE] = HEAD
    lie_at(played, 3)
    del played.models[NOWHERE]

    played.prove(STRANGER, 3)

    assert len(played.task.round.convicted) == 1


# Scores


@pytest.mark.parametrize("liars", [1, 2])
@pytest.mark.parametrize("absurd", [0, WORST_LOSS])
def test_absurd_losses_of_less_than_half_the_committee_stay_within_what_the_honest_said(
    liars: int, absurd: int
) -> None:
    played = crowd(config(committee_size=5), people=12)
    played.to(Phase.SCORE)
    hostile, honest = played.committee()[:liars], played.committee()[liars:]
    count = len(played.task.round.order)
    lie = encode_scores(ScoreKind.LOSS, Scores(absurd, (absurd,) * count))

    before = dict(played.task.credits)
    judge(played, dict.fromkeys(hostile, lie))
    tallied, order = played.task.round.tally, played.task.round.order
    assert tallied is not None
    played.play_round()

    # Honest losses differ by a few units of 10^-12 per validator: the shares are those that the honest alone give.
    honest_losses = [[10**17 * (1 + id_) + 10**6 * j for j in (0, 20)] for id_ in order]
    low, high = (softmax([pair[side] for pair in honest_losses], WAD, TOTAL) for side in (0, 1))
    for share, a, b in zip(tallied.shares[1:], low, high, strict=True):
        assert min(a, b) - 10 <= share <= max(a, b) + 10
    paid = [played.task.credits.get(m, 0) - before.get(m, 0) for m in (*hostile, *honest)]
    assert max(paid[:liars]) < min(paid[liars:])
    assert unharmed(played)


def test_a_mean_is_moved_by_one_liar_which_is_why_the_median_is_the_default() -> None:
    played = crowd(config(statistic=Statistic.MEAN))
    played.to(Phase.SCORE)
    index, liar = 0, played.committee()[0]

    judge(played, {liar: without(played, liar, index, WORST_LOSS)})

    tallied = played.task.round.tally
    assert tallied is not None
    assert tallied.shares[1 + index] == 0


# Proposers


def test_a_silent_miner_and_two_silent_backups_void_the_round_and_the_next_one_plays() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    silent = []
    for _ in range(3):
        silent.append(played.who(played.task.round.proposer))
        played.run_out()
        played.advance()

    assert voids(played) == (2,)
    assert len(set(silent)) == 3
    assert slashed(played, Slash.LIVENESS) == set(silent)
    assert all(stake_of(played, account) == ETHER * 99 // 100 for account in silent)
    assert unharmed(played, but=silent)
    played.play_round()


def test_a_lying_miner_and_its_attesters_lose_stake_and_a_backup_finishes_the_round() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    head, miner = played.task.head_root, played.who(played.task.round.proposer)
    lie_at(played, 17)
    accomplice, honest, objector = played.committee()
    played.vote(accomplice)
    played.vote(objector, attests=False)
    escrow, earned = played.task.escrow, played.task.credits.get(accomplice, 0)

    played.prove(STRANGER, 17)

    assert (played.task.round.attempt, played.task.round.phase) == (2, Phase.PROPOSE)
    assert played.task.head_root == head
    for guilty in (miner, accomplice):
        assert stake_of(played, guilty) == ETHER // 2
        assert played.task.accounts[guilty].weight == 0
    assert played.task.escrow == escrow + 2 * (ETHER // 2) * 3 // 10
    right = merkle.root(played.aggregate())
    played.propose()
    with pytest.raises(errors.NotValidatorError):
        played.vote(accomplice)
    played.vote(honest)
    played.vote(objector)
    played.run_out()
    played.advance()
    assert played.task.head_root == right
    assert unharmed(played, but=[miner, accomplice])
    assert played.task.credits.get(accomplice, 0) == earned
    assert played.ids([miner])[0] not in played.task.pays[2].workers


def test_a_backup_who_lies_loses_its_pay_as_a_worker_too() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    played.run_out()
    played.advance()
    backup = played.task.round.proposer
    assert backup in played.task.round.order
    lie_at(played, 9)

    played.prove(STRANGER, 9)
    played.play_round()

    workers = played.task.pays[2].workers
    assert backup not in workers
    assert len(workers) == len(played.task.addresses) - 3 - 1 - 1


def test_when_the_whole_committee_attests_a_lie_the_round_is_void_and_all_are_slashed() -> None:
    played = crowd(people=12)
    played.to(Phase.PROPOSE)
    head = played.task.head_root
    guilty = [played.who(played.task.round.proposer), *played.committee()]
    lie_at(played, 0)
    for member in played.committee():
        played.vote(member)

    played.prove(STRANGER, 0)

    assert (voids(played), played.task.head_root) == ((2,), head)
    assert slashed(played, Slash.LIE) == set(guilty)
    assert unharmed(played, but=guilty)
    assert played.task.eligible == 8
    played.play_round()


def test_a_right_proposal_cannot_be_convicted() -> None:
    played = crowd()
    played.to(Phase.CHALLENGE)

    for position in (0, 63, 64, 199, 200, 255):
        with pytest.raises(errors.NoLieError):
            played.prove(STRANGER, position)

    played.play_round()
    assert unharmed(played)


def test_a_miner_that_hides_its_model_is_passed_over_without_a_slash() -> None:
    played = crowd()
    played.to(Phase.CHALLENGE)
    for member in played.committee():
        played.vote(member, attests=False)
    played.run_out()
    played.advance()

    assert (played.task.round.attempt, played.task.round.phase) == (2, Phase.PROPOSE)
    played.play_round()
    assert unharmed(played)
    assert voids(played) == ()


def test_an_attestation_for_another_attempt_is_refused() -> None:
    played = crowd()
    played.to(Phase.CHALLENGE)
    first, member = played.task.round.proposal, played.committee()[0]
    assert first is not None
    named = (first.model_root, first.block, first.shares_digest)
    for other in played.committee():
        played.vote(other, attests=False)
    played.run_out()
    played.advance()
    model = played.aggregate().copy()
    model[0] += np.uint32(1)
    played.propose(model)

    with pytest.raises(errors.WrongAttemptError):
        played.world.vote(played.call(member), played.task_address, 2, 1, *named, True)
    with pytest.raises(errors.OtherProposalError):
        played.world.vote(played.call(member), played.task_address, 2, 2, *named, True)
    assert played.task.round.votes == {}


def test_a_committee_cannot_end_the_challenge_before_its_time() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    lie_at(played, 5)
    for member in played.committee():
        played.vote(member)

    with pytest.raises(errors.PhaseStillOpenError):
        played.advance()
    played.now = played.task.round.deadline - 1
    with pytest.raises(errors.PhaseStillOpenError):
        played.advance()
    played.prove(STRANGER, 5)

    assert len(slashed(played, Slash.LIE)) == 4


def test_a_proof_counts_until_the_challenge_is_left_even_after_its_deadline() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    lie_at(played, 5)
    played.run_out()
    played.now += 1000

    played.prove(STRANGER, 5)

    assert len(slashed(played, Slash.LIE)) == 1


def note_lie(played: Scene, finder: Address) -> Digest:
    """The finder seals that parameter 5 of round 2's first proposal is wrong; the note itself."""
    task = played.task
    note = finder_note(task.chain_id, task.address, 2, 1, 5, finder, SALT)
    played.world.note_finding(played.call(finder), played.task_address, note)
    return note


def test_a_copied_proof_earns_its_copier_nothing() -> None:
    played = crowd()
    finder, copier = address(70), address(71)
    played.to(Phase.PROPOSE)
    lie_at(played, 5)
    note_lie(played, finder)

    played.prove(copier, 5)

    assert played.world.registry.free.get(copier, 0) == 0
    assert played.world.registry.free.get(finder, 0) == 0


def test_a_finder_who_noted_a_block_before_gets_its_part() -> None:
    played = crowd()
    finder = address(70)
    played.to(Phase.PROPOSE)
    lie_at(played, 5)
    note = note_lie(played, finder)
    # Somebody else who posts the same note changes nothing: it names its finder.
    played.world.note_finding(played.call(STRANGER), played.task_address, note)

    played.prove(finder, 5)

    assert played.world.registry.free[finder] == ETHER // 2 // 5


def test_a_note_in_the_block_of_the_proof_is_too_late() -> None:
    played = crowd()
    finder = address(70)
    played.to(Phase.PROPOSE)
    lie_at(played, 5)
    note_lie(played, finder)
    played.block -= 1

    played.prove(finder, 5)

    assert played.world.registry.free.get(finder, 0) == 0


def test_a_liar_who_convicts_itself_loses_more_than_two_budgets() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    liar = played.who(played.task.round.proposer)
    lie_at(played, 5)
    task = played.task
    note = finder_note(task.chain_id, task.address, 2, 1, 5, liar, SALT)
    played.world.note_finding(played.call(liar), played.task_address, note)

    played.prove(liar, 5)

    lost = ETHER - stake_of(played, liar) - played.world.registry.free[liar]
    budget = round_budget(task.funded, task.config)
    assert lost == ETHER // 2 * 8 // 10
    assert lost > budget.workers + budget.committee + budget.miner


# Crowds, stakes and seeds


def test_many_small_keys_cannot_push_the_updates_past_their_limit() -> None:
    played = scene(config(max_updates=4), (1,) * 7)
    played.to(Phase.TRAIN)
    for number in range(100, 130):
        enrol(played, address(number), ETHER)
    played.play_round()
    played.to(Phase.TRAIN)

    workers = played.workers()
    for worker in workers:
        played.commit(worker)
    for account in set(played.task.addresses) - set(workers):
        with pytest.raises(errors.NotWorkerError):
            played.commit(account)

    assert len(workers) == len(played.task.round.updates) == 4
    played.advance()
    played.play_round()
    assert unharmed(played)


def test_stake_moved_after_the_seed_is_known_changes_no_draw() -> None:
    played = crowd()
    terms, mover = played.task.config, address(3)
    before = [(played.task.by_id(id_).id, played.task.by_id(id_).weight) for id_ in map(Id, range(1, 10))]

    played.world.allocate(played.call(mover), played.task_address, 1000 * ETHER, 1000 * ETHER)
    played.world.leave(played.call(address(4)), played.task_address)
    enrol(played, address(50), 500 * ETHER)
    played.draw()

    drawn = draw_roles(
        played.task.round.seed, before, terms.committee_size, terms.max_updates, elected=None, trains=False
    )
    assert played.task.round.drawn == drawn
    played.apply_queued()
    assert played.task.accounts[mover].weight == weight_of(1001 * ETHER, terms)
    assert played.task.accounts[address(4)].weight == 0
    assert not trains(played.task, played.task.accounts[address(50)])


def test_stake_that_the_open_draw_counts_cannot_be_pulled_out() -> None:
    played = crowd()
    leaver = address(3)
    number = played.world.deallocate(played.call(leaver), played.task_address, ETHER)
    played.now += config().longest_round()

    with pytest.raises(errors.StakeLockedError):
        played.world.release(played.call(leaver), played.task_address, number)
    played.draw()
    played.world.apply_change(played.call(STRANGER), played.task_address, leaver)
    if played.world.is_locked(played.task_address, leaver):
        act(played, Phase.TRAIN)  # who has left trains no more, so the phase runs its full length
        played.play_round()

    assert played.world.release(played.call(leaver), played.task_address, number) == ETHER


def test_a_lie_is_slashed_from_stake_that_is_on_its_way_out() -> None:
    played = crowd()
    played.to(Phase.PROPOSE)
    liar = played.who(played.task.round.proposer)
    number = played.world.deallocate(played.call(liar), played.task_address, ETHER)
    lie_at(played, 5)
    with pytest.raises(errors.StillUnbondingError):
        played.world.release(played.call(liar), played.task_address, number)

    played.prove(STRANGER, 5)
    played.play_round()
    played.now += config().longest_round()

    assert played.world.release(played.call(liar), played.task_address, number) == ETHER // 2


def test_a_seed_that_is_out_of_reach_opens_the_draw_again_unpaid() -> None:
    played = crowd()
    owed, opened = played.task.owed, played.task.round.draw_block

    played.draw_too_late()

    assert played.task.round.draw_block > opened
    assert played.task.owed == owed
    played.play_round()


def test_the_seed_is_not_known_up_to_the_block_that_holds_it() -> None:
    played = crowd()
    at = played.task.round.draw_block
    header = header_of(at)

    for block in (at - 1, at):
        played.block = block - 1
        with pytest.raises(errors.DrawTooEarlyError):
            played.world.draw(played.call(STRANGER), played.task_address, header, keccak256(header))
    played.draw()


# Money


def test_a_claimer_cannot_be_paid_twice_however_often_it_calls() -> None:
    played = crowd()
    played.play_round()
    worker = played.who(next(iter(played.task.pays[2].workers)))
    rounds = [n for n, pay in played.task.pays.items() if played.ids([worker])[0] in pay.workers]
    with pytest.raises(errors.AlreadyClaimedError):
        played.world.claim(played.call(worker), played.task_address, [*rounds, rounds[0]])
    balance = played.world.balances[played.task_address]

    amount = played.world.claim(played.call(worker), played.task_address, rounds)
    with pytest.raises(errors.AlreadyClaimedError):
        played.world.claim(played.call(worker), played.task_address, rounds)
    with pytest.raises(errors.NothingToClaimError):
        played.world.claim(played.call(worker), played.task_address, [])

    assert played.world.balances[played.task_address] == balance - amount


def test_a_claimer_that_never_takes_its_money_hinders_nobody() -> None:
    played = scene(config(rounds=1, lie_slash=WAD, min_stake=ETHER), (1,) * 8)
    played.play_round()
    stubborn = played.who(next(iter(played.task.pays[1].workers)))
    earning = {*played.task.credits, *(played.who(id_) for id_ in played.task.pays[1].workers)}

    for account in earning - {stubborn}:
        played.world.claim(played.call(account), played.task_address, [1])
    played.world.refund(played.call(SPONSOR), played.task_address)

    assert played.world.balances[played.task_address] == played.task.owed > 0
    assert played.world.claim(played.call(stubborn), played.task_address, [1]) > 0
    assert played.world.balances[played.task_address] == 0


def test_nobody_claims_what_others_earned_or_what_is_not_settled() -> None:
    played = crowd()

    with pytest.raises(errors.NothingToClaimError):
        played.world.claim(played.call(address(98)), played.task_address, [1])
    with pytest.raises(errors.RoundNotSettledError):
        played.world.claim(played.call(STRANGER), played.task_address, [2])


# Sponsors


def test_a_sponsor_who_underfunds_is_refused_or_gets_what_it_pays_for() -> None:
    played = scene()
    fee = played.task.config.caller_fee
    with pytest.raises(errors.BadConfigError, match="callerFee"):
        played.world.create_task(played.call(SPONSOR), address(200), config(), 4 * 12 * fee - 1)

    free = scene(config(caller_fee=0), escrow=0)
    free.play_round()

    assert free.task.owed == free.task.escrow == 0
    assert free.number == 2


def test_a_sponsor_who_abandons_in_a_round_pays_for_it_first() -> None:
    played = crowd()
    played.to(Phase.SCORE)

    played.world.abandon(played.call(SPONSOR), played.task_address)
    with pytest.raises(errors.AlreadyAbandonedError):
        played.world.abandon(played.call(SPONSOR), played.task_address)
    with pytest.raises(errors.TaskNotEndedError):
        played.world.refund(played.call(SPONSOR), played.task_address)
    played.play_round()

    assert played.task.round.phase is Phase.ENDED
    assert played.task.pays[2].workers
    left = played.world.refund(played.call(SPONSOR), played.task_address)
    assert played.world.balances[played.task_address] == played.task.owed
    assert left + played.task.owed == played.task.funded


def test_a_sponsor_who_abandons_before_the_draw_takes_back_everything() -> None:
    played = scene()

    played.world.abandon(played.call(SPONSOR), played.task_address)

    assert played.world.refund(played.call(SPONSOR), played.task_address) == ETHER // 2
    for account in played.task.addresses:
        number = played.world.deallocate(played.call(account), played.task_address, ETHER)
        assert played.world.release(played.call(account), played.task_address, number) == ETHER


def test_a_stranger_cannot_abandon_or_refund() -> None:
    played = scene()

    with pytest.raises(errors.NotSponsorError):
        played.world.abandon(played.call(STRANGER), played.task_address)
    with pytest.raises(errors.NotSponsorError):
        played.world.refund(played.call(STRANGER), played.task_address)


def test_a_sponsor_in_the_committee_has_one_seat_and_no_more() -> None:
    played = scene(config(committee_size=3), ())
    enrol(played, SPONSOR, 1000 * ETHER)
    for number in range(1, 9):
        enrol(played, address(number), ETHER)
    played.to(Phase.PROPOSE)
    assert SPONSOR in played.committee()
    lie_at(played, 1)
    played.vote(SPONSOR)
    played.world.abandon(played.call(SPONSOR), played.task_address)

    played.prove(STRANGER, 1)

    assert stake_of(played, SPONSOR) == 500 * ETHER
    played.propose()
    for member in played.voters():
        played.vote(member)
    played.run_out()
    played.advance()
    assert played.task.head_block != bytes(32)


# Committees


def test_a_committee_gone_silent_voids_the_round_and_the_next_is_drawn_anew() -> None:
    played = crowd(config(liveness_slash=WAD // 100))
    played.to(Phase.SCORE)
    silent = played.committee()

    act(played, Phase.SCORE, but=silent)
    played.tally()

    assert voids(played) == (2,)
    assert slashed(played, Slash.LIVENESS) == set(silent)
    assert unharmed(played, but=silent)
    played.play_round()


def test_an_elected_committee_gone_silent_is_replaced_by_a_drawn_one() -> None:
    played = crowd(config(Rule.COMMITTEE_NEAR), people=10)
    seated = played.task.elected
    assert seated is not None
    played.draw()
    assert played.task.round.committee == seated
    silent = played.committee()

    act(played, Phase.TRAIN, but=silent)
    act(played, Phase.REVEAL)
    played.advance()
    played.tally()

    assert voids(played) == (2,)
    assert played.task.elected is None
    assert slashed(played, Slash.LIVENESS) == set(silent)
    played.play_round()
    assert voids(played) == ()


def test_an_election_falls_with_the_round_that_turns_void() -> None:
    played = crowd(config(Rule.COMMITTEE_NEAR), people=10)
    played.to(Phase.PROPOSE)
    assert played.task.elected is not None
    for _ in range(3):
        played.run_out()
        played.advance()

    assert voids(played) == (2,)
    assert elected(played) is None


def test_a_member_of_a_training_committee_without_an_update_cannot_score() -> None:
    played = crowd(config(Rule.COMMITTEE_NEAR), people=10)
    played.draw()
    idle = played.committee()[0]

    act(played, Phase.TRAIN, but=[idle])
    act(played, Phase.REVEAL)

    with pytest.raises(errors.NoOwnUpdateError):
        played.commit_scores(idle)


def test_elected_members_cannot_pull_their_stake_before_they_served() -> None:
    played = crowd(config(Rule.COMMITTEE_FAR), people=10)
    played.to(Phase.CHALLENGE)
    assert played.task.elected is not None
    member = played.who(played.task.elected[0])
    number = played.world.deallocate(played.call(member), played.task_address, ETHER)
    assert played.task.accounts[member].weight == 0
    played.play_round()
    played.now += config().longest_round()

    with pytest.raises(errors.StakeLockedError):
        played.world.release(played.call(member), played.task_address, number)
    played.draw()
    assert member in played.committee()
    with pytest.raises(errors.StakeLockedError):
        played.world.release(played.call(member), played.task_address, number)
    played.play_round()

    assert played.world.release(played.call(member), played.task_address, number) == ETHER


def test_a_captured_committee_elects_its_successors_only_until_the_redraw() -> None:
    played = crowd(config(Rule.COMMITTEE_NEAR, redraw_every=2), people=10)
    assert played.task.elected is not None

    played.play_round()

    assert played.number == 3
    assert played.task.elected is None


@pytest.mark.parametrize("leavers", [0, 1, 2, 5, 6])
def test_an_election_takes_the_middle_of_the_ranking_and_skips_who_has_left(leavers: int) -> None:
    played = crowd(config(Rule.COMMITTEE_NEAR), people=12)
    played.draw()
    act(played, Phase.TRAIN)
    act(played, Phase.REVEAL)
    ranked = list(played.task.round.order)
    for gone in ranked[1 : 1 + leavers]:
        played.world.leave(played.call(played.who(gone)), played.task_address)

    played.to(Phase.PROPOSE)

    staying = [ranked[0], *ranked[1 + leavers :]]
    middle = {8: staying[2:5], 7: staying[2:5], 6: staying[1:4], 3: staying}
    assert len(ranked) == 8
    assert elected(played) == (tuple(middle[len(staying)]) if len(staying) >= 3 else None)


# Edges


def test_a_task_without_participants_waits_and_can_be_abandoned() -> None:
    played = scene(stakes=())

    with pytest.raises(errors.DrawNotOpenError):
        played.draw()
    with pytest.raises(errors.WrongPhaseError):
        played.advance()
    played.world.abandon(played.call(SPONSOR), played.task_address)

    assert played.world.refund(played.call(SPONSOR), played.task_address) == ETHER // 2


def test_a_task_with_one_participant_waits_and_lets_it_go() -> None:
    played = scene(stakes=(1,))
    only = address(1)
    with pytest.raises(errors.DrawNotOpenError):
        played.draw()

    played.world.leave(played.call(only), played.task_address)
    number = played.world.deallocate(played.call(only), played.task_address, ETHER)
    played.now += config().longest_round()

    assert played.world.release(played.call(only), played.task_address, number) == ETHER
    played.world.withdraw(played.call(only), ETHER, only)
    assert played.world.registry.held() == 0


@pytest.mark.parametrize(
    ("terms", "people"),
    [
        (config(min_updates=1, max_updates=1), 5),
        (config(committee_size=45, min_updates=1, max_updates=45), 47),
        (config(max_updates=128, min_updates=100), 104),
        (config(alpha=3725290299), 7),
        (config(beta=0), 7),
        (config(beta=10**21), 7),
        (config(Rule.MEDIAN, min_updates=1), 5),
        (config(Rule.COMMITTEE_NEAR, keep=1), 6),
        (config(Rule.MULTI_KRUM, selected=5), 9),
        (config(rounds=1, lie_slash=WAD, min_stake=ETHER), 7),
        (config(workers_part=0, committee_part=0), 7),
        (config(workers_part=WAD, committee_part=0), 7),
        (config(burn_part=WAD, finder_part=0, lie_slash=WAD), 7),
    ],
    ids=lambda value: value if isinstance(value, int) else "terms",
)
def test_a_task_at_the_bounds_of_its_terms_plays_a_round(terms: TaskConfig, people: int) -> None:
    played = scene(terms, (1,) * people)

    played.play_round()

    assert voids(played) == ()
    assert unharmed(played)
    paid = next(e for _, e in played.world.log if isinstance(e, events.RoundEnded))
    budget = round_budget(played.task.funded, terms)
    assert paid.workers_paid <= budget.workers
    assert paid.committee_paid <= budget.committee
    assert paid.miner_paid == budget.miner


def test_a_round_with_too_few_updates_is_extended_once_and_then_void() -> None:
    played = crowd()
    played.to(Phase.TRAIN)
    for worker in played.workers()[:2]:
        played.commit(worker)
    played.run_out()
    played.advance()
    assert (played.task.round.phase, played.task.round.extended) == (Phase.TRAIN, True)
    played.run_out()
    played.advance()

    assert voids(played) == (2,)
    assert unharmed(played)


@pytest.mark.parametrize(("below", "ends"), [(0, True), (1, False)])
def test_a_target_that_the_head_reaches_ends_the_task_and_pays_for_the_round(below: int, ends: bool) -> None:
    played = scene(config(target=10**18 - below))
    played.to(Phase.SCORE)
    losses = dict(zip(played.committee(), (10**12 + 7, 10**12, 10**12 - 5), strict=True))

    judge(played, {m: loss.to_bytes(8, "big") + played.scores_of(m)[8:] for m, loss in losses.items()})

    assert (played.task.round.phase is Phase.ENDED) is ends
    assert voids(played) == ((1,) if ends else ())
    assert (1 in played.task.pays) is ends


def test_a_worker_payload_binds_root_cid_and_samples() -> None:
    played = crowd()
    played.to(Phase.TRAIN)
    worker = played.workers()[0]
    root = merkle.root(played.update_of(worker))
    sealed = played.seal(worker, Phase.TRAIN, worker_payload(root, b"\x0c" * 32, 99))
    played.world.commit_update(played.call(worker), played.task_address, 2, sealed)
    for other in played.workers()[1:]:
        played.commit(other)
    played.advance()

    with pytest.raises(errors.WrongRevealError):
        played.reveal(worker)
    with pytest.raises(errors.BadSamplesError):
        played.world.reveal_update(
            played.call(worker), played.task_address, 2, root, b"\x0c" * 32, 10_001, SALT
        )
