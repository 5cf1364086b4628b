"""When an action counts and by whom: every refusal of a round, each with the action that would have passed."""

from collections.abc import Callable

import pytest

from chainfl.codec import merkle
from chainfl.codec.commitments import worker_payload
from chainfl.protocol import errors
from chainfl.protocol.terms import weight_of
from chainfl.types import WAD, Address, Phase, Rule
from tests.protocol.scene import ETHER, SALT, SPONSOR, STRANGER, Scene, address, config, enrol, scene

ROOT, CID = b"\x0a" * 32, b"\x0c" * 32


def first_worker(played: Scene) -> Address:
    return played.workers()[0]


def first_committed(played: Scene) -> Address:
    return played.who(next(iter(played.task.round.updates)))


def first_member(played: Scene) -> Address:
    return played.committee()[0]


def proposer(played: Scene) -> Address:
    return played.who(played.task.round.proposer)


Act = Callable[[Scene, Address], None]
ACTIONS: dict[Phase, tuple[Act, Callable[[Scene], Address]]] = {
    Phase.TRAIN: (lambda p, who: p.commit(who), first_worker),
    Phase.REVEAL: (lambda p, who: p.reveal(who), first_committed),
    Phase.SCORE: (lambda p, who: p.commit_scores(who), first_member),
    Phase.TALLY: (lambda p, who: p.reveal_scores(who), first_member),
    Phase.PROPOSE: (lambda p, who: (p.propose(sender=who), None)[1], proposer),
    Phase.CHALLENGE: (lambda p, who: p.vote(who), first_member),
}


@pytest.mark.parametrize("phase", ACTIONS)
def test_an_action_counts_until_the_second_before_the_deadline(phase: Phase) -> None:
    act, who = ACTIONS[phase]
    early, late = scene(), scene()
    for played in (early, late):
        played.to(phase)
        played.run_out()
    early.now -= 1

    act(early, who(early))
    with pytest.raises(errors.PhaseOverError) as refused:
        act(late, who(late))

    assert refused.value.values == (late.now,)


@pytest.mark.parametrize("phase", ACTIONS)
def test_who_never_enrolled_cannot_act(phase: Phase) -> None:
    played = scene()
    played.to(phase)

    with pytest.raises(errors.NotEnrolledError):
        ACTIONS[phase][0](played, STRANGER)


@pytest.mark.parametrize("phase", [p for p in ACTIONS if p is not Phase.PROPOSE])
def test_an_action_counts_once(phase: Phase) -> None:
    played = scene()
    played.to(phase)
    act, who = ACTIONS[phase][0], ACTIONS[phase][1](played)
    again = (errors.AlreadyCommittedError, errors.AlreadyRevealedError, errors.AlreadyVotedError)

    act(played, who)
    with pytest.raises(again):
        act(played, who)


def test_a_proposal_is_made_once() -> None:
    played = scene()
    played.to(Phase.CHALLENGE)

    with pytest.raises(errors.WrongPhaseError):
        played.propose()


def test_an_action_of_another_round_or_phase_is_refused() -> None:
    played = scene()
    played.to(Phase.TRAIN)
    worker, task = first_worker(played), played.task_address

    for other in (0, 2):
        with pytest.raises(errors.WrongRoundError) as refused:
            played.world.commit_update(played.call(worker), task, other, ROOT)
        assert refused.value.values == (other, 1)
    with pytest.raises(errors.WrongPhaseError):
        played.world.reveal_update(played.call(worker), task, 1, ROOT, CID, 1, SALT)
    with pytest.raises(errors.WrongPhaseError):
        played.world.commit_scores(played.call(first_member(played)), task, 1, ROOT)
    with pytest.raises(errors.WrongPhaseError):
        played.world.tally(played.call(STRANGER), task, 1, [])
    with pytest.raises(errors.WrongPhaseError):
        played.world.draw(played.call(STRANGER), task, b"", ROOT)


def test_a_commitment_of_zero_is_none() -> None:
    played = scene()
    played.to(Phase.TRAIN)
    with pytest.raises(errors.ZeroCommitmentError):
        played.world.commit_update(played.call(first_worker(played)), played.task_address, 1, bytes(32))
    played.to(Phase.SCORE)
    with pytest.raises(errors.ZeroCommitmentError):
        played.world.commit_scores(played.call(first_member(played)), played.task_address, 1, bytes(32))


def test_members_and_the_miner_do_not_work_and_workers_do_not_judge() -> None:
    played = scene()
    played.to(Phase.TRAIN)
    drawn = played.task.round.drawn
    assert drawn is not None
    for idle in (first_member(played), played.who(drawn.proposers[0])):
        with pytest.raises(errors.NotWorkerError):
            played.commit(idle)
    played.to(Phase.SCORE)
    with pytest.raises(errors.NotValidatorError):
        played.commit_scores(first_committed(played))
    played.to(Phase.PROPOSE)
    with pytest.raises(errors.NotProposerError):
        played.propose(sender=first_member(played))
    played.to(Phase.CHALLENGE)
    with pytest.raises(errors.NotValidatorError):
        played.vote(first_committed(played))


def test_a_proposer_out_of_the_committee_does_not_vote_on_its_own_proposal() -> None:
    played = scene(config(Rule.COMMITTEE_NEAR))
    played.to(Phase.CHALLENGE)

    with pytest.raises(errors.ProposerVotesError):
        played.vote(proposer(played))

    assert len(played.voters()) == 2


def test_phases_end_early_when_everyone_expected_has_acted_and_not_before() -> None:
    played = scene()
    for phase in (Phase.TRAIN, Phase.REVEAL, Phase.SCORE):
        played.to(phase)
        with pytest.raises(errors.PhaseStillOpenError):
            played.advance()
    played.to(Phase.TALLY)
    with pytest.raises(errors.PhaseStillOpenError):
        played.tally()
    played.to(Phase.PROPOSE)
    with pytest.raises(errors.PhaseStillOpenError):
        played.advance()

    assert played.now == 1000


@pytest.mark.parametrize("phase", [Phase.DRAW, Phase.TALLY])
def test_draw_and_tally_are_not_left_by_advance(phase: Phase) -> None:
    played = scene()
    played.to(phase)
    played.now += 10_000

    with pytest.raises(errors.WrongPhaseError):
        played.advance()


def test_the_tally_takes_all_revealed_scores_in_committee_order_and_no_others() -> None:
    played = scene()
    played.to(Phase.TALLY)
    for member in played.committee():
        played.reveal_scores(member)
    vectors = [played.scores_of(member) for member in played.committee()]

    for wrong in (vectors[:-1], vectors[::-1], [*vectors, vectors[0]], []):
        with pytest.raises(errors.WrongScoresError):
            played.world.tally(played.call(STRANGER), played.task_address, 1, wrong)
    played.world.tally(played.call(STRANGER), played.task_address, 1, vectors)

    assert played.task.round.phase is Phase.PROPOSE


@pytest.mark.parametrize("spoil", [lambda s: s[:-1], lambda s: s + b"\0", lambda s: s[:0]])
def test_scores_of_a_wrong_length_are_refused(spoil: Callable[[bytes], bytes]) -> None:
    played = scene()
    played.to(Phase.TALLY)
    member = first_member(played)

    with pytest.raises(errors.BadScoresError):
        played.world.reveal_scores(
            played.call(member), played.task_address, 1, spoil(played.scores_of(member)), SALT
        )


def test_only_attested_rules_take_posted_shares() -> None:
    played = scene()
    played.to(Phase.PROPOSE)
    shares = (0, 2**31, 0, 0)

    with pytest.raises(errors.BadSharesError):
        played.world.propose(played.call(proposer(played)), played.task_address, 1, 1, ROOT, CID, shares)


def test_a_vote_names_the_posted_shares_too() -> None:
    played = scene(config(Rule.KRUM), (1,) * 9)
    played.to(Phase.CHALLENGE)
    proposal, member = played.task.round.proposal, first_member(played)
    assert proposal is not None
    named = (proposal.model_root, proposal.block)

    with pytest.raises(errors.OtherProposalError):
        played.world.vote(played.call(member), played.task_address, 1, 1, *named, bytes(32), True)
    played.world.vote(played.call(member), played.task_address, 1, 1, *named, proposal.shares_digest, True)

    assert len(played.task.round.votes) == 1


@pytest.mark.parametrize("samples", [0, 10_001])
def test_declared_samples_have_bounds(samples: int) -> None:
    played = scene()
    played.to(Phase.TRAIN)
    worker = first_worker(played)
    sealed = played.seal(worker, Phase.TRAIN, worker_payload(ROOT, CID, samples))
    played.world.commit_update(played.call(worker), played.task_address, 1, sealed)
    for other in played.workers()[1:]:
        played.commit(other)
    played.advance()

    with pytest.raises(errors.BadSamplesError):
        played.world.reveal_update(played.call(worker), played.task_address, 1, ROOT, CID, samples, SALT)


# Enrolment


def test_enrolling_takes_the_minimum_stake_and_counts_once() -> None:
    played = scene(config(min_stake=ETHER), stakes=())
    anne = address(1)
    played.world.allocate(played.call(anne), played.task_address, ETHER - 1, ETHER - 1)
    with pytest.raises(errors.StakeTooLowError):
        played.world.enrol(played.call(anne), played.task_address)
    played.world.allocate(played.call(anne), played.task_address, 1, 1)

    played.world.enrol(played.call(anne), played.task_address)

    with pytest.raises(errors.AlreadyEnrolledError):
        played.world.enrol(played.call(anne), played.task_address)
    assert played.task.accounts[anne].weight == 1000


def test_who_leaves_and_returns_keeps_its_id() -> None:
    played = scene(stakes=(1, 1))
    played.world.leave(played.call(address(1)), played.task_address)
    with pytest.raises(errors.NotEnrolledError):
        played.world.leave(played.call(address(1)), played.task_address)

    played.world.enrol(played.call(address(1)), played.task_address)

    assert played.ids([address(1), address(2)]) == [1, 2]
    assert played.task.eligible == 2


def test_while_the_draw_is_open_changes_queue_and_cannot_be_applied() -> None:
    played = scene()
    late = address(20)
    enrol(played, late, ETHER)
    assert played.task.accounts[late].weight == 0
    with pytest.raises(errors.DrawOpenError):
        played.world.apply_change(played.call(STRANGER), played.task_address, late)
    played.draw()

    played.world.apply_change(played.call(STRANGER), played.task_address, late)

    account = played.task.accounts[late]
    assert (account.weight, account.active_from) == (weight_of(ETHER, played.task.config), 2)
    with pytest.raises(errors.NotWorkerError):
        played.commit(late)
    with pytest.raises(errors.NotEnrolledError):
        played.world.apply_change(played.call(STRANGER), played.task_address, address(21))


def test_the_draw_opens_when_enough_are_enrolled_and_not_before() -> None:
    played = scene(stakes=(1,) * 6)
    assert played.task.round.draw_block == 0
    enrol(played, address(7), ETHER)
    assert played.task.round.draw_block == played.block + played.task.seed_delay

    played.draw()

    assert played.task.round.phase is Phase.TRAIN


def test_nobody_enrols_in_a_task_that_has_ended() -> None:
    played = scene(stakes=(1,))
    played.world.abandon(played.call(SPONSOR), played.task_address)
    late = address(9)
    played.world.allocate(played.call(late), played.task_address, ETHER, ETHER)

    with pytest.raises(errors.WrongPhaseError):
        played.world.enrol(played.call(late), played.task_address)
    with pytest.raises(errors.WrongPhaseError):
        played.world.abandon(played.call(SPONSOR), played.task_address)


# Callers


def test_every_call_that_changes_the_phase_earns_the_fee_and_no_other_does() -> None:
    played = scene()
    fee = played.task.config.caller_fee
    played.play_round()

    assert played.task.credits[STRANGER] == 6 * fee


def test_the_longest_round_pays_eight_callers() -> None:
    played = scene()
    played.to(Phase.TRAIN)
    played.run_out()
    played.advance()
    assert played.task.credits[STRANGER] == played.task.config.caller_fee
    played.to(Phase.PROPOSE)
    for _ in range(3):
        played.run_out()
        played.advance()

    assert played.task.voids == (1,)
    assert played.task.credits[STRANGER] == 8 * played.task.config.caller_fee


# Shares and the head


def test_alpha_keeps_the_heads_share_and_the_model_moves_only_by_the_rest() -> None:
    played = scene(config(Rule.FEDREG, alpha=WAD // 4))
    played.to(Phase.PROPOSE)
    tallied = played.task.round.tally
    assert tallied is not None

    right = merkle.root(played.aggregate())
    played.play_round()

    assert tallied.shares[0] == 3 * 2**29
    assert played.task.head_root == right


def test_votes_on_the_head_and_voids_since_are_remembered_for_the_next_block() -> None:
    played = scene()
    played.to(Phase.CHALLENGE)
    objector, *others = played.committee()
    played.vote(objector, attests=False)
    for member in others:
        played.vote(member)
    played.run_out()
    played.advance()
    votes = played.task.head_votes
    for _ in range(2):
        if played.task.round.phase is Phase.DRAW:
            played.draw()
        played.run_out()
        played.advance()

    assert dict(votes) == {played.ids([m])[0]: m != objector for m in (objector, *others)}
    assert played.task.voids == (2,)
    assert played.task.head_votes == votes
