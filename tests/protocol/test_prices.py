"""What each way of voiding a round costs: the table of docs/security.md, played, on bytecode too (tests/agree)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from chainfl.codec.scores import UNAVAILABLE
from chainfl.protocol import events
from chainfl.protocol.rewards import PAID_CALLS, round_budget
from chainfl.types import WAD, Address, Digest, Outcome, Phase
from tests.protocol import test_attacks as attacks
from tests.protocol.scene import ETHER, STRANGER, Scene, config
from tests.protocol.test_attacks_on_availability import losses

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
MIN_UPDATES, WORKERS, SEATS = 5, 8, 3
EVIL = WORKERS - MIN_UPDATES + 1
"""So many workers are enough to keep a round from having enough updates."""
PART = ETHER // 100


@dataclass(frozen=True, slots=True)
class Price:
    """Who loses how many hundredths of its stake, and what is paid: a part of W, seats of V (None: by closeness)."""

    lost: Mapping[Address, int]
    workers: tuple[int, int]
    seats: int | None


NOTHING, ALL = (0, 1), (1, 1)


def few_commit(played: Scene) -> Price:
    """Train is extended once; then it is over."""
    played.to(Phase.TRAIN)
    for worker in played.workers()[EVIL:]:
        played.commit(worker)
    for _ in range(2):
        played.run_out()
        played.advance()
    return Price({}, NOTHING, 0)


def commit_and_hide(played: Scene) -> Price:
    """Some who committed reveal nothing; the others are judged."""
    played.to(Phase.REVEAL)
    evil = played.workers()[:EVIL]
    attacks.act(played, Phase.REVEAL, but=evil)
    attacks.judge(played, {})
    return Price(dict.fromkeys(evil, 5), (WORKERS - EVIL, MIN_UPDATES), SEATS)


def say_of_updates(played: Scene, missing: int, members: list[Address]) -> None:
    """These members say of so many updates that they cannot be had."""
    attacks.judge(played, {m: losses(played, dict.fromkeys(range(missing), UNAVAILABLE)) for m in members})


def roots_without_bytes(played: Scene) -> Price:
    """Nobody can get what some workers revealed."""
    played.to(Phase.SCORE)
    evil = [played.who(id_) for id_ in played.task.round.order[:EVIL]]
    say_of_updates(played, EVIL, played.committee())
    return Price(dict.fromkeys(evil, 5), (WORKERS - EVIL, MIN_UPDATES), SEATS)


def no_scores(played: Scene) -> Price:
    """A majority of the committee says nothing."""
    played.to(Phase.SCORE)
    evil = played.committee()[:2]
    attacks.act(played, Phase.SCORE, but=evil)
    attacks.act(played, Phase.TALLY, but=evil)
    return Price(dict.fromkeys(evil, 1), NOTHING, 1)


def hidden_scores(played: Scene) -> Price:
    """A majority of the committee commits and does not reveal."""
    played.to(Phase.TALLY)
    evil = played.committee()[:2]
    attacks.act(played, Phase.TALLY, but=evil)
    return Price(dict.fromkeys(evil, 5), NOTHING, 1)


def false_absence(played: Scene) -> Price:
    """A majority of the committee says that bytes which are there are not."""
    played.to(Phase.SCORE)
    workers = [played.who(id_) for id_ in played.task.round.order]
    say_of_updates(played, WORKERS, played.committee()[:2])
    return Price(dict.fromkeys(workers, 5), NOTHING, SEATS)


def missing_head(played: Scene) -> Price:
    """A majority of the committee says that the head is not there."""
    played.to(Phase.SCORE)
    none = UNAVAILABLE.to_bytes(8, "big")
    attacks.judge(played, {m: none + played.scores_of(m)[8:] for m in played.committee()[:2]})
    return Price({}, ALL, None)


def objections(played: Scene) -> Price:
    """A majority objects to every right proposal."""
    for _ in range(3):
        played.to(Phase.CHALLENGE)
        for member in played.voters():
            played.vote(member, attests=member == played.voters()[2])
        played.run_out()
        played.advance()
    return Price({}, ALL, None)


def no_votes(played: Scene) -> Price:
    """A majority does not vote on any proposal."""
    played.to(Phase.CHALLENGE)
    evil = played.committee()[:2]
    for _ in range(3):
        played.to(Phase.CHALLENGE)
        attacks.act(played, Phase.CHALLENGE, but=evil)
    return Price(dict.fromkeys(evil, 3), ALL, None)


def silent_proposers(played: Scene) -> Price:
    """Nobody in line proposes."""
    played.to(Phase.PROPOSE)
    evil = list[Address]()
    for _ in range(3):
        evil.append(played.who(played.task.round.proposer))
        played.run_out()
        played.advance()
    return Price(dict.fromkeys(evil, 1), ALL, None)


def hidden_proposals(played: Scene) -> Price:
    """Everybody in line proposes what nobody can get, and the committee objects."""
    for attempt in range(1, 4):
        played.to(Phase.PROPOSE)
        proposer = played.call(played.who(played.task.round.proposer))
        nowhere = Digest(bytes([attempt]) * 32)
        played.world.propose(
            proposer, played.task_address, played.number, attempt, nowhere, attacks.NOWHERE, ()
        )
        for member in played.voters():
            played.vote(member, attests=False)
        played.run_out()
        played.advance()
    return Price({}, ALL, None)


def proven_lies(played: Scene) -> Price:
    """Everybody in line lies, and a stranger proves it; the backups lose their pay as workers too."""
    played.to(Phase.PROPOSE)
    shares, order = played.task.round.decided.shares, played.task.round.order
    evil = list[Address]()
    for _ in range(3):
        evil.append(played.who(played.task.round.proposer))
        attacks.lie_at(played, 7)
        played.prove(STRANGER, 7)
    kept = sum(share for id_, share in zip(order, shares[1:], strict=True) if played.who(id_) not in evil)
    return Price(dict.fromkeys(evil, 100), (kept, sum(shares[1:])), None)


WAYS: dict[str, Callable[[Scene], Price]] = {
    "fewer than `minUpdates` commit": few_commit,
    "commits and no reveals": commit_and_hide,
    "roots that a majority cannot get": roots_without_bytes,
    "a majority says nothing in Score": no_scores,
    "a majority commits to scores and does not reveal them": hidden_scores,
    'a majority says "not available" of updates that are there': false_absence,
    "a majority says that the head is missing": missing_head,
    "a majority objects to right proposals, three times": objections,
    "a majority does not vote, three times": no_votes,
    "three in line propose nothing": silent_proposers,
    "three in line propose what nobody can get": hidden_proposals,
    "three in line lie, and it is proven": proven_lies,
}


@pytest.mark.parametrize("how", WAYS)
def test_a_voided_round_costs_what_the_page_says(how: str) -> None:
    played = attacks.crowd(config(min_updates=MIN_UPDATES, max_updates=WORKERS, lie_slash=WAD), people=12)
    number, before, fee = played.number, played.task.escrow, played.task.config.caller_fee
    budget = round_budget(played.task.funded, played.task.config)
    played.draw()
    committee = played.committee()

    price = WAYS[how](played)

    # The round is over, without a model and without pay for one.
    (ended,) = (e for _, e in played.world.log if isinstance(e, events.RoundEnded) and e.round == number)
    assert (ended.outcome, ended.miner_paid) == (Outcome.VOID, 0)

    # What the attackers lose, or in one case those whom they attack; everybody else's stake is whole.
    for who in played.task.addresses:
        lost = ETHER - attacks.stake_of(played, who)
        assert 0 <= price.lost.get(who, 0) * PART - lost <= PART // 30, who

    # What the sponsor pays.
    part, whole = price.workers
    assert 0 <= budget.workers * part // whole - ended.workers_paid <= WORKERS
    if price.seats is None:
        absent = sum(1 for who in committee if price.lost.get(who) == 3)
        assert absent or 0 <= budget.committee - ended.committee_paid <= SEATS
        assert ended.committee_paid <= budget.committee
    else:
        assert ended.committee_paid == price.seats * (budget.committee // SEATS)
    paid = ended.workers_paid + ended.committee_paid
    assert before - played.task.escrow <= paid + PAID_CALLS * fee


def test_the_page_has_a_row_for_each_way() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## What voiding a round costs")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|", table, flags=re.MULTILINE)

    assert [row for row in rows if row in WAYS] == list(WAYS)
