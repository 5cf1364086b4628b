"""VaRSeL's shares under attack, and its edges; these run on bytecode too (tests/agree)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from chainfl.codec import merkle
from chainfl.codec.vector import Vector
from chainfl.protocol import errors
from chainfl.protocol.combine import combine
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.varsel import WHOLE, varsel_shares
from chainfl.protocol.views import internal_updates, ordered_roots
from chainfl.types import TOTAL, Address, Digest, Id, Phase, Role, Rule
from tests.protocol.scene import HEAD, STRANGER, Scene
from tests.protocol.test_admission import join, shown_for
from tests.protocol.test_appointed import appointed, entries

M = 3
Steps = Mapping[int, int]
"""By coordinate: how many fixed-point steps an update is away from the head."""
FAR = 2**29


def weighed(internals: int = M, others: int = 4, **changes: object) -> Scene:
    """A task under VaRSeL with everybody enrolled, the last internal at last: its draw opens with all of them."""
    terms: dict[str, object] = {"min_updates": 2, "budget": 10}
    played = appointed(Rule.VARSEL, internals, **(terms | changes))
    first, *last = (who for who, role in entries(internals) if role is Role.INTERNAL)
    outside = [Address(bytes(19) + bytes([200 + n])) for n in range(others)]
    for who in (first, *outside, *last):
        join(played, who, shown_for(entries(internals), who))
    return played


def moved(steps: Steps) -> Vector:
    """The head, some coordinates away."""
    model = HEAD.copy()
    for at, step in steps.items():
        model[at] = np.uint32(int(model[at]) + step)
    return model


def internal(n: int) -> Steps:
    """The n-th internal's update: a hundred steps in a direction of its own."""
    return {1 + n: 100}


def judged(played: Scene, outsider: Callable[[int], Steps], own: Callable[[int], Steps] = internal) -> Scene:
    """A round up to its proposal; `outsider` says what the n-th of those drawn hands in, `own` the n-th internal."""
    played.draw()
    committee = played.task.round.committee
    drawn = [id_ for id_ in played.ids(played.workers()) if id_ not in committee]
    roots = {}
    for who, id_ in zip(played.workers(), played.ids(played.workers()), strict=True):
        model = moved(outsider(drawn.index(id_)) if id_ in drawn else own(committee.index(id_)))
        roots[who] = merkle.root(model)
        played.commit(who, roots[who])
        played.models[roots[who]] = model
    played.advance()
    for who, root in roots.items():
        played.reveal(who, root)
    played.advance()
    played.to(Phase.PROPOSE)
    return played


def post(played: Scene, shares: Sequence[int]) -> None:
    """The proposer posts these shares and the model that they make, if they make one."""
    task = played.task
    root = Digest(b"\x0d" * 32)
    if len(shares) == 1 + len(task.round.order) and sum(shares) == TOTAL:
        updates = [played.models[root] for root in ordered_roots(task)]
        model = combine(played.models[task.head_root], updates, shares)
        root = merkle.root(model)
        played.models[root] = model
    played.world.propose(
        played.call(played.who(task.round.proposer)),
        played.task_address,
        played.number,
        task.round.attempt,
        root,
        b"\x0b" * 32,
        shares,
    )


def vote_all(played: Scene, attests: bool) -> None:
    """Every member votes so, and Challenge ends."""
    for voter in played.voters():
        played.vote(voter, attests)
    played.run_out()
    played.advance()


def outsiders(played: Scene) -> list[int]:
    """The places of outsiders' updates in the round's order."""
    return [i for i, is_own in enumerate(internal_updates(played.task.round)) if not is_own]


def parts_of_outsiders(played: Scene, shares: Sequence[int]) -> list[int]:
    """What shares give to outsiders."""
    return [shares[1 + i] for i in outsiders(played)]


def usual_share(played: Scene, shares: Sequence[int]) -> int:
    """What every internal update but the first has."""
    *_, last = (i for i, is_own in enumerate(internal_updates(played.task.round)) if is_own)
    return shares[1 + last]


def weighing(played: Scene, weight: int, of: int = 0) -> tuple[int, ...]:
    """Shares of the right form in which one outsider has this weight and the others none."""
    internals_K = internal_updates(played.task.round)
    weights_K = [WHOLE if is_own else 0 for is_own in internals_K]
    weights_K[outsiders(played)[of]] = weight
    return (0, *varsel_shares(weights_K, internals_K))


def stakes_of(played: Scene) -> list[int]:
    """What everybody has bonded."""
    registry = played.world.registry
    return [registry.allocation(played.task_address, who).bonded for who in played.task.addresses]


def test_outsiders_are_paid_by_their_weight_and_the_rest_stays_in_escrow() -> None:
    played = judged(weighed(), lambda n: {10 + n: 50 * (n + 1)})
    shares = played.posted_shares()
    workers = round_budget(played.task.funded, played.task.config).workers
    expected = {played.task.round.order[i]: shares[1 + i] for i in outsiders(played)}
    assert all(0 < part < usual_share(played, shares) for part in expected.values())

    played.play_round()

    pay = played.task.pays[1]
    assert (pay.workers, pay.whole) == (expected, TOTAL)
    assert sum(workers * part // TOTAL for part in expected.values()) < workers
    for id_, part in expected.items():
        credit = played.task.credits.get(played.who(id_), 0)
        call = played.call(played.who(id_))
        assert played.world.claim(call, played.task_address, [1]) == workers * part // TOTAL + credit


def test_internals_that_collude_to_starve_outsiders_gain_nothing_and_take_no_stake() -> None:
    played = judged(weighed(committee_part=0), lambda n: {10 + n: 1})
    assert all(part > 0 for part in parts_of_outsiders(played, played.posted_shares()))
    internals = played.committee()
    before = stakes_of(played)

    post(played, weighing(played, 0))
    vote_all(played, attests=True)

    assert played.number == 2
    assert played.task.pays[1].workers == {}
    assert stakes_of(played) == before
    fees = 8 * played.task.config.caller_fee
    assert all(played.task.credits.get(who, 0) <= fees for who in internals)


def test_an_exact_copy_of_an_internals_update_does_not_count_and_a_near_one_counts_as_its_own() -> None:
    exact = judged(weighed(), lambda n: internal(0) if n == 0 else {10 + n: FAR})
    near = judged(weighed(), lambda n: {**internal(0), 9: 1} if n == 0 else {10 + n: FAR})

    assert not exact.task.round.decided.included[outsiders(exact)[0]]
    shares = near.posted_shares()
    assert 0 < parts_of_outsiders(near, shares)[0] <= usual_share(near, shares)


@pytest.mark.parametrize("scale", [1, 10, 100, 10_000, 1_000_000])
def test_however_an_outsider_scales_its_update_it_pulls_no_farther_than_the_internals_lie_apart(
    scale: int,
) -> None:
    played = judged(
        weighed(), lambda n: {**dict.fromkeys((1, 2, 3), 33), 50: scale} if n == 0 else {60 + n: FAR}
    )

    shares = played.posted_shares()

    # |p d|^2 M is at most q^2 times the sum of the internals' squared distances from their mean, 20,000.
    part = parts_of_outsiders(played, shares)[0]
    most = usual_share(played, shares)
    assert part <= most
    assert part**2 * scale**2 * M <= (most + 1) ** 2 * 20_001
    played.play_round()


def test_when_all_outsiders_are_useless_the_internals_mean_is_the_model_and_nobody_is_paid() -> None:
    played = judged(weighed(committee_part=0), lambda n: {10 + n: FAR})
    shares = played.posted_shares()
    assert parts_of_outsiders(played, shares) == [0] * len(outsiders(played))

    played.play_round()

    mean = played.models[played.task.head_root].astype(np.int64) - HEAD
    assert [int(mean[at]) for at in (1, 2, 3)] == [33, 33, 33]
    assert played.task.pays[1].workers == {}


@pytest.mark.parametrize("unique", [True, False])
def test_when_all_internals_are_equal_nothing_external_counts(unique: bool) -> None:
    played = judged(weighed(unique_roots=unique), lambda n: {10 + n: 1}, own=lambda _: {1: 100})

    shares = played.posted_shares()

    assert parts_of_outsiders(played, shares) == [0] * len(outsiders(played))
    assert sum(share > 0 for share in shares) == (1 if unique else M)
    with pytest.raises(errors.BadSharesError):
        post(played, weighing(played, WHOLE if unique else 2 * WHOLE))
    played.play_round()


@pytest.mark.parametrize(("budget", "most"), [(0, 0), (1, 1), (255, 3)])
def test_outsiders_together_have_no_more_than_the_budget_or_their_number(budget: int, most: int) -> None:
    played = judged(weighed(budget=budget), lambda n: {1: 33, 2: 33, 3: 33, 10 + n: 1})

    shares = played.posted_shares()

    taken = sum(parts_of_outsiders(played, shares))
    whole = most * usual_share(played, shares)
    assert whole - len(shares) * (1 + (whole >> 20)) <= taken <= whole
    played.play_round()


def test_two_internals_weigh_and_both_have_to_attest() -> None:
    played = judged(weighed(internals=2), lambda n: {1: 50, 2: 50, 10 + n: 1})
    assert sum(parts_of_outsiders(played, played.posted_shares())) > 0
    first, second = played.committee()
    played.propose()

    played.vote(first)
    played.vote(second, attests=False)
    played.run_out()
    played.advance()
    assert (played.number, played.task.round.attempt) == (1, 2)
    played.play_round()

    assert played.task.round.number == 2


def test_a_proposer_that_posts_wrong_weights_gets_no_quorum_and_the_next_one_posts_the_right_ones() -> None:
    played = judged(weighed(), lambda n: {10 + n: 1_000})
    right = played.posted_shares()
    before = stakes_of(played)
    wrong = weighing(played, WHOLE)
    assert wrong != right
    expected = {played.task.round.order[i]: right[1 + i] for i in outsiders(played) if right[1 + i]}

    post(played, wrong)
    vote_all(played, attests=False)
    assert (played.number, played.task.round.attempt) == (1, 2)
    assert stakes_of(played) == before

    played.play_round()

    assert played.task.pays[1].workers == expected


@pytest.mark.parametrize(
    ("head", "first", "last", "outsider"),
    [
        pytest.param(1, -1, 0, 0, id="a part for the head"),
        pytest.param(0, -1, 1, 0, id="internals that differ"),
        pytest.param(0, -1, 0, 0, id="less than all"),
        pytest.param(0, 20, 0, -20, id="too large a rest"),
        pytest.param(0, -20, 0, 20, id="too small a rest"),
    ],
)
def test_shares_that_are_not_of_the_form_are_refused(head: int, first: int, last: int, outsider: int) -> None:
    played = judged(weighed(), lambda n: {10 + n: 70})
    shares = list(played.posted_shares())
    own = [1 + i for i, is_own in enumerate(internal_updates(played.task.round)) if is_own]
    for at, change in ((0, head), (own[0], first), (own[-1], last), (1 + outsiders(played)[0], outsider)):
        shares[at] += change

    with pytest.raises(errors.BadSharesError):
        post(played, shares)
    with pytest.raises(errors.BadSharesError):
        post(played, played.posted_shares()[:-1])


def test_an_outsider_has_no_more_than_an_internal() -> None:
    played = judged(weighed(), lambda n: {10 + n: 70})

    with pytest.raises(errors.BadSharesError):
        post(played, weighing(played, WHOLE + 1_000))
    post(played, weighing(played, WHOLE))


def test_shares_beyond_the_budget_are_refused() -> None:
    played = judged(weighed(budget=1), lambda n: {1: 33, 2: 33, 3: 33, 10 + n: 1})
    internals_K = internal_updates(played.task.round)

    with pytest.raises(errors.BadSharesError):
        post(played, (0, *varsel_shares([WHOLE] * len(internals_K), internals_K)))


def test_a_share_for_an_update_that_does_not_count_is_refused() -> None:
    played = judged(weighed(), lambda n: internal(0) if n == 0 else {10 + n: 70})
    uncounted = outsiders(played)[0]
    assert not played.task.round.decided.included[uncounted]
    beside = list(played.posted_shares())
    beside[1 + uncounted] = 1

    with pytest.raises(errors.BadSharesError):
        post(played, weighing(played, WHOLE // 2))
    with pytest.raises(errors.BadSharesError):
        post(played, beside)


def test_outsiders_do_not_earn_by_voiding_a_round_with_proposals_that_nobody_attests() -> None:
    played = judged(weighed(), lambda n: {10 + n: FAR})
    for _ in range(3):
        post(played, weighing(played, WHOLE))
        vote_all(played, attests=False)

    assert played.task.voids == (1,)
    assert played.task.pays[1].workers == {}


def test_without_an_internal_update_the_round_is_void_and_nobody_is_paid_for_it() -> None:
    played = weighed()
    played.draw()
    committee = played.committee()
    drawn = [who for who in played.workers() if who not in committee]
    for who in drawn:
        played.commit(who)
    played.run_out()
    played.advance()
    for who in drawn:
        played.reveal(who)
    played.advance()
    assert len(drawn) >= played.task.config.min_updates

    played.to(Phase.DRAW)

    assert played.task.voids == (1,)
    assert played.task.pays[1].workers == {}


def test_with_one_internal_update_its_own_is_the_model() -> None:
    played = weighed()
    played.draw()
    first, *silent = played.committee()
    own = merkle.root(played.update_of(first))
    shown = [who for who in played.workers() if who not in silent]
    for who in shown:
        played.commit(who)
    played.run_out()
    played.advance()
    for who in shown:
        played.reveal(who)
    played.advance()
    played.to(Phase.PROPOSE)
    with pytest.raises(errors.BadSharesError):
        post(played, weighing(played, WHOLE))

    played.play_round()

    assert (played.task.head_root, played.task.pays[1].workers) == (own, {})


def test_a_lie_about_the_model_behind_right_weights_is_proven() -> None:
    played = judged(weighed(), lambda n: {10 + n: 70})
    lie = played.aggregate().copy()
    lie[3] += 1
    played.propose(lie)
    played.vote(played.voters()[0])
    liar = played.task.round.proposer

    played.prove(STRANGER, 3)

    assert {liar, Id(1)} == played.task.round.convicted
