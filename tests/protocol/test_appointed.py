"""Appointed committees, and attacks by and on them; they run on bytecode too (tests/agree)."""

from collections.abc import Mapping

import pytest

from chainfl.codec import merkle
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.commitments import worker_payload
from chainfl.codec.scores import Scores, encode_scores, unavailable
from chainfl.protocol import errors
from chainfl.protocol.admission import list_root
from chainfl.protocol.tally import score_kind
from chainfl.protocol.views import claim_of, earnings
from chainfl.types import Address, Id, Phase, Role, Rule
from tests.protocol.scene import STRANGER, Scene, address, config, scene, vector
from tests.protocol.test_admission import join, shown_for

INTERNALS = 3
UNAVAILABLE = None


def entries(internals: int = INTERNALS) -> list[Entry]:
    """The first accounts are internal; anyone else may join."""
    named = [(address(number), Role.INTERNAL) for number in range(1, internals + 1)]
    return [(ANYONE, Role.PARTICIPANT), *named]


def appointed(rule: Rule = Rule.SOFTMAX, internals: int = INTERNALS, **changes: object) -> Scene:
    """A task whose internals are its committee and train, in which nobody takes part yet."""
    terms: dict[str, object] = {
        "admission_root": list_root(entries(internals)),
        "committee_size": internals,
        "min_internals": internals,
        "internals_train": True,
        "min_updates": 3,
        "max_updates": 10,
    }
    return scene(config(rule, **(terms | changes)), stakes=())


def enrol(played: Scene, internals: int = INTERNALS, others: int = 4) -> Scene:
    """All internals enrol, then others."""
    named = entries(internals)
    for number in range(1, internals + others + 1):
        join(played, address(number), shown_for(named, address(number)))
    return played


def said(played: Scene, of: Mapping[int, int | None]) -> bytes:
    """Scores that say this of updates by their trainers' ids, and the same good loss of all others."""
    kind = score_kind(played.task.config.rule)
    good = 1 if played.task.config.rule is Rule.MEAN else 10**11
    told = (of.get(id_, good) for id_ in played.task.round.order)
    return encode_scores(kind, Scores(10**12, tuple(unavailable(kind) if n is None else n for n in told)))


def tallied(played: Scene, opinions: Mapping[int, Mapping[int, int | None]]) -> Scene:
    """Play up to the tally; each member says what it is told of the updates of these ids."""
    played.to(Phase.SCORE)
    members = list(zip(played.task.round.committee, played.committee(), strict=True))
    for id_, member in members:
        played.commit_scores(member, said(played, opinions.get(id_, {})))
    played.advance()
    for id_, member in members:
        played.reveal_scores(member, said(played, opinions.get(id_, {})))
    played.tally()
    return played


def share_of(played: Scene, id_: int) -> int:
    """The share of the update that this account trained."""
    round_ = played.task.round
    return round_.decided.shares[1 + round_.order.index(Id(id_))]


def test_the_staked_internals_are_the_committee_of_every_round() -> None:
    played = enrol(appointed())

    for number in (1, 2):
        played.draw()
        assert played.task.round.committee == (1, 2, 3)
        assert played.task.round.number == number
        assert not set(played.task.round.committee) & set(played.task.round.drawn.proposers)  # type: ignore[union-attr]
        played.play_round()


def test_a_draw_waits_for_the_fewest_internals_and_for_others_who_train() -> None:
    played = appointed(min_internals=2)
    named = entries()
    for number in (4, 5, 6, 7, 8, 1):
        join(played, address(number), shown_for(named, address(number)))
    assert played.task.round.draw_block == 0

    join(played, address(2), shown_for(named, address(2)))
    played.draw()

    assert played.task.round.committee == (6, 7)


def test_internals_alone_open_no_draw() -> None:
    played = enrol(appointed(), others=1)
    assert played.task.round.draw_block == 0

    join(played, address(5), shown_for(entries(), address(5)))

    assert played.task.round.draw_block != 0


def test_an_internal_that_leaves_is_no_member_of_the_next_committee() -> None:
    played = enrol(appointed(min_internals=2))
    played.draw()
    played.world.leave(played.call(address(2)), played.task_address)

    played.play_round()
    played.draw()

    assert played.task.round.committee == (1, 3)


def test_an_internal_that_comes_in_mid_round_neither_judges_nor_trains_in_it() -> None:
    played = appointed(min_internals=2)
    named = entries()
    for number in (1, 2, 4, 5, 6, 7):
        join(played, address(number), shown_for(named, address(number)))
    played.draw()

    join(played, address(3), shown_for(named, address(3)))

    assert address(3) not in played.workers()
    assert played.task.round.committee == (1, 2)


def test_no_more_internals_enrol_than_a_committee_may_have() -> None:
    played = appointed(internals=4, committee_size=3, min_internals=3)
    named = entries(4)
    for number in (1, 2, 3):
        join(played, address(number), shown_for(named, address(number)))

    with pytest.raises(errors.TooManyInternalsError):
        join(played, address(4), shown_for(named, address(4)))


def test_of_two_members_who_differ_neither_decides() -> None:
    played = enrol(appointed(internals=2, min_internals=2, min_updates=2), internals=2)

    tallied(played, {1: dict.fromkeys(range(3, 7), UNAVAILABLE), 2: {}})

    decided = played.task.round.decided
    assert decided.included[:2] == (True, True)
    assert len(decided.included) > 2
    assert not any(decided.included[2:])
    assert not any(decided.withheld)


def test_what_a_member_says_of_its_own_update_is_ignored() -> None:
    honest = tallied(enrol(appointed()), {1: {1: 10**12}, 2: {1: 10**12}, 3: {1: 10**12}})
    vain = tallied(enrol(appointed()), {1: {1: 0}, 2: {1: 10**12}, 3: {1: 10**12}})
    shy = tallied(enrol(appointed()), {1: {1: UNAVAILABLE}, 2: {1: 10**12}, 3: {1: 10**12}})

    for played in (vain, shy):
        assert played.task.round.decided == honest.task.round.decided


def test_a_member_cannot_vouch_for_its_own_update_against_the_others() -> None:
    played = tallied(enrol(appointed()), {2: {1: UNAVAILABLE}, 3: {1: UNAVAILABLE}})

    decided = played.task.round.decided
    assert (decided.included[0], decided.withheld[0]) == (False, True)


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.MEAN])
def test_one_liar_among_five_internals_moves_no_share(rule: Rule) -> None:
    built = {"internals": 5, "max_updates": 12}
    honest = tallied(enrol(appointed(rule, **built), internals=5), {})
    lie = 0 if rule is Rule.MEAN else 10**13
    lied = tallied(enrol(appointed(rule, **built), internals=5), {2: dict.fromkeys(range(1, 10), lie)})

    assert lied.task.round.decided.shares == honest.task.round.decided.shares


def test_internals_earn_nothing_by_updates_that_they_judge() -> None:
    played = enrol(appointed(committee_part=0))
    played.play_round()
    task = played.task

    pay = task.pays[1]
    fees = task.config.caller_fee

    assert set(pay.workers) == {id_ for id_ in pay.workers if id_ > INTERNALS}
    assert sum(pay.workers.values()) < pay.whole
    assert all(earnings(task, address(number)) <= 8 * fees for number in range(1, INTERNALS + 1))


def test_internals_that_starve_the_others_gain_nothing_and_take_no_stake() -> None:
    played = enrol(appointed())
    stakes = {n: played.world.registry.allocation(played.task_address, address(n)) for n in range(4, 8)}
    worst = dict.fromkeys(range(4, 8), 2**64 - 2)

    tallied(played, {1: worst, 2: worst, 3: worst})
    outsiders = [id_ for id_ in played.task.round.order if id_ > INTERNALS]

    assert outsiders
    assert all(share_of(played, id_) == 0 for id_ in outsiders)
    played.to(Phase.CHALLENGE)
    played.play_round()
    assert not played.task.pays[1].workers
    assert stakes == {
        n: played.world.registry.allocation(played.task_address, address(n)) for n in range(4, 8)
    }


def test_a_copy_of_an_internals_update_does_not_count() -> None:
    played = enrol(appointed())
    played.draw()
    copier = next(who for who in played.workers() if who not in played.committee())
    root = merkle.root(played.update_of(address(1)))
    for who in played.workers():
        played.commit(who, root if who == copier else None)
    played.advance()
    for who in played.workers():
        played.reveal(who, root if who == copier else None)
    played.advance()

    tallied(played, {})
    round_ = played.task.round

    assert round_.decided.included[round_.order.index(Id(1))]
    assert not round_.decided.included[round_.order.index(played.task.accounts[copier].id)]


def test_a_lie_about_an_appointed_committees_model_is_proven_and_its_attesters_lose_their_seats() -> None:
    played = enrol(appointed())
    played.to(Phase.PROPOSE)
    wrong = played.aggregate().copy()
    wrong[7] += 1
    played.propose(wrong)
    played.vote(address(1))
    assert claim_of(played.task).root == merkle.root(wrong)

    played.prove(STRANGER, 7)

    assert Id(1) in played.task.round.convicted
    assert address(1) not in played.voters()


def test_an_accomplice_of_an_internal_is_judged_by_the_others_too() -> None:
    """Two of three internals push an outsider: they are the majority, and a majority decides."""
    pushed = tallied(enrol(appointed()), {1: {4: 0}, 2: {4: 0}, 3: {4: 10**13}})
    alone = tallied(enrol(appointed()), {1: {4: 0}, 2: {4: 10**13}, 3: {4: 10**13}})

    for played, is_moved in ((pushed, True), (alone, False)):
        if Id(4) not in played.task.round.order:
            continue
        others = [share_of(played, id_) for id_ in played.task.round.order if id_ != 4]
        assert (share_of(played, 4) > max(others)) is is_moved


def test_an_internals_operator_judges_and_trains_for_it() -> None:
    played = enrol(appointed())
    key: Address = address(101)
    played.world.set_operator(played.call(address(1)), played.task_address, key)
    played.world.enrol_for(played.call(key), played.task_address, address(1))
    played.draw()
    root = merkle.root(vector(1))
    digest = played.seal(key, Phase.TRAIN, worker_payload(root, b"\x0c" * 32, 100))
    played.world.commit_update(played.call(key), played.task_address, played.number, digest)

    assert set(played.task.round.updates) == {1}


def test_an_internals_operator_changed_in_mid_round_finishes_it_and_the_next_one_waits_for_the_draw() -> None:
    played = enrol(appointed())
    owner, old, new = address(1), address(101), address(102)
    hire(played, owner, old)
    played.to(Phase.SCORE)
    played.commit_scores(old)

    hire(played, owner, new)
    with pytest.raises(errors.NotEnrolledError):
        played.commit_scores(new)
    with pytest.raises(errors.AlreadyCommittedError):
        played.commit_scores(owner)
    for member in (address(2), address(3)):
        played.commit_scores(member)
    played.advance()
    for member in (old, address(2), address(3)):
        played.reveal_scores(member)
    played.tally()
    played.propose()
    with pytest.raises(errors.NotEnrolledError):
        played.vote(new)
    played.vote(old)

    assert played.task.round.votes == {1: True}
    assert played.task.operators[old].until == played.task.operators[new].since == played.number + 1


def hire(played: Scene, owner: Address, key: Address) -> None:
    """The owner names the key, and the key accepts."""
    played.world.set_operator(played.call(owner), played.task_address, key)
    played.world.enrol_for(played.call(key), played.task_address, owner)
