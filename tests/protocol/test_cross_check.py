"""Events that the rules could not have told are refused, and every history that they can tell is taken."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import Any

import pytest

from chainfl.blobs import name_model, put_model, put_record
from chainfl.codec.cid import Cid
from chainfl.errors import LedgerLieError
from chainfl.execution import block_record, fetch
from chainfl.protocol import events
from chainfl.protocol.combine import combine
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task
from chainfl.roles import validator
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, next_step
from chainfl.sim.memory import MemoryLedger
from chainfl.sim.network import Network
from chainfl.types import TOTAL, Id, Outcome, Phase, Rule
from tests.protocol.scene import SPONSOR, STRANGER, Scene, address, config, enrol, scene
from tests.sim.network import LAYOUT, network

Log = list[events.Event]


def created(task: Task) -> Task:
    """The task before its first event."""
    return task.at_creation()


def told_by(played: Scene) -> Log:
    """What the task's contract told."""
    log = (event for emitter, event in played.world.log if emitter == played.task_address)
    return [event for event in log if not isinstance(event, events.TaskCreated)]


def folded(task: Task, log: Sequence[events.Event]) -> Task:
    """The task that these events tell of."""
    fresh = created(task)
    for event in log:
        fold(fresh, event, 0)
    return fresh


def eventful(rule: Rule) -> Scene:
    """Rounds with all that can happen: silence, a lie, a void round, one that is final, claims, leaving, the end."""
    played = scene(config(rule, rounds=9), stakes=(4, 2, 3, 4, 5, 6, 3, 2, 7, 2, 4, 3, 3, 2))
    played.to(Phase.TRAIN)
    for account in played.task.addresses:  # who enrolled while the draw was open
        played.world.apply_change(played.call(STRANGER), played.task_address, account)
    played.play_round()
    _lie_and_silence(played)
    _void(played)
    played.to(Phase.CHALLENGE)
    played.world.leave(played.call(address(12)), played.task_address)
    played.world.abandon(played.call(SPONSOR), played.task_address)
    played.play_round()
    _settle_up(played)
    return played


def _lie_and_silence(played: Scene) -> None:
    """Somebody hides its update, a proposer lies and is convicted with who attested, one voter sleeps."""
    played.to(Phase.REVEAL)
    round_ = played.task.round
    hider = next(id_ for id_ in round_.updates if id_ not in round_.committee)
    for id_ in round_.updates:
        if id_ != hider:
            played.reveal(played.who(id_))
    played.run_out()
    played.advance()
    played.to(Phase.PROPOSE)
    lie = played.aggregate()
    lie[17] += 1
    played.propose(lie)
    played.vote(played.voters()[0])
    played.prove(STRANGER, 17)
    played.to(Phase.CHALLENGE)
    for sender in played.voters()[1:]:
        played.vote(sender)
    played.run_out()
    played.advance()


def _void(played: Scene) -> None:
    """Nobody trains, twice."""
    played.to(Phase.TRAIN)
    for _ in range(2):
        played.run_out()
        played.advance()


def _settle_up(played: Scene) -> None:
    """Everybody pulls what it earned, the sponsor the rest."""
    task = played.task
    for account in task.addresses:
        mine = [n for n, pay in task.pays.items() if task.accounts[account].id in pay.workers]
        if mine or task.credits.get(account):
            played.world.claim(played.call(account), played.task_address, mine)
    if task.round.phase is Phase.ENDED:
        played.world.refund(played.call(SPONSOR), played.task_address)


@pytest.fixture(scope="module", params=[Rule.SOFTMAX, Rule.COMMITTEE_NEAR, Rule.MEDIAN, Rule.MULTI_KRUM])
def played(request: pytest.FixtureRequest) -> Scene:
    return eventful(request.param)


def test_a_history_with_everything_in_it_is_believed(played: Scene) -> None:
    seen = {type(event) for event in told_by(played)}

    assert folded(played.task, told_by(played)) == played.task
    assert {events.TrainExtended, events.Convicted, events.Silent, events.Claimed, events.Refunded} <= seen


# One forged value


def _other(value: Any, rng: random.Random) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, IntEnum):
        return rng.choice([each for each in type(value) if each is not value])
    if isinstance(value, int):
        return value + rng.choice((1, -1 if value else 1, 2**31))
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    assert isinstance(value, tuple)
    if not value:
        return (1,)
    return rng.choice((value[:-1], (*value, value[-1]), (_other(value[0], rng), *value[1:])))


_BEYOND_THE_RULES: dict[type[events.Event], set[str]] = {
    # What the owner sealed, signed or staked, and when: only another endpoint can say whether that is true.
    events.Enrolled: {"account"},
    events.WeightSet: {"id", "weight"},
    events.ChangeQueued: {"id", "account"},
    events.DrawOpened: {"block_number"},
    events.Drawn: {"seed"},
    events.UpdateCommitted: {"id", "commitment"},
    events.ScoresCommitted: {"commitment"},
    events.Proposed: {"model_root", "block"},
    events.Voted: {"id", "attests"},
    events.FindingNoted: {"account", "note"},
    events.LieProven: {"position", "expected", "found", "finder"},
    events.Convicted: {"slashed", "to_escrow"},
    events.Silent: {"slashed"},
    # Who called is paid; events do not say who that was.
    events.Credited: {"account"},
    # Rounds in which it did not work are passed over.
    events.Claimed: {"rounds"},
    # The block's time says whether it is true: the reader compares (tests/integration/test_lying_endpoint.py).
    events.PhaseEntered: {"deadline"},
    events.TrainExtended: {"deadline"},
}
"""Fields whose forgery the rules alone cannot see at once."""


def _forgeries(log: Log, rng: random.Random) -> Iterator[tuple[int, str, events.Event]]:
    for place, event in enumerate(log):
        for field in fields(event):
            forged = replace(event, **{field.name: _other(getattr(event, field.name), rng)})
            yield place, field.name, forged


def test_whatever_the_rules_decide_cannot_be_forged(played: Scene) -> None:
    """Every field of every event, changed one at a time: refused there, or by the event that ends its phase."""
    log, rng = told_by(played), random.Random(18)
    believed: list[str] = []
    task = created(played.task)
    states = [task.draft()]
    for event in log:
        fold(task, event, 0)
        states.append(task.draft())

    for place, name, forged in _forgeries(log, rng):
        if name in _BEYOND_THE_RULES.get(type(forged), ()):
            continue
        try:
            _go_on(states[place].draft(), [forged, *log[place + 1 :]])
        except LedgerLieError:
            continue
        believed.append(f"{place} {type(forged).__name__}.{name}")

    assert believed == []


def _go_on(task: Task, log: Sequence[events.Event]) -> None:
    """Fold on, until the next phase has begun or the round is over."""
    for event in log:
        fold(task, event, 0)
        if isinstance(
            event, events.PhaseEntered | events.RoundEnded | events.TrainExtended | events.TaskEnded
        ):
            return


def test_an_event_that_is_left_out_or_told_twice_is_noticed(played: Scene) -> None:
    log = told_by(played)
    # A vote or an act that nobody saw changes nothing that must follow, as if its sender had been silent;
    # an application that opens no draw, and what is earned but not counted yet, comes out later or never.
    free = (events.FindingNoted, events.ChangeQueued, events.LieProven)
    last_free = (events.Claimed, events.Left, events.WeightSet, events.Abandoned, events.Enrolled)
    missed, doubled = list[str](), list[str]()

    for place, event in enumerate(log):
        if isinstance(event, free):
            continue
        rest = log[:place] + log[place + 1 :]
        if not isinstance(event, last_free) and place < len(log) - 1 and _is_believed(played.task, rest):
            missed.append(f"{place} {type(event).__name__}")
        if _is_believed(played.task, [*log[: place + 1], *log[place:]]):
            doubled.append(f"{place} {type(event).__name__}")

    assert missed == []
    assert doubled == []


def _is_believed(task: Task, log: Sequence[events.Event]) -> bool:
    try:
        folded(task, log)
    except LedgerLieError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "changes", "line"),
    [
        (
            events.Tallied,
            {"shares": (0, TOTAL, 0)},
            r"Tallied: expected shares = \(.*\), found \(0, 2147483648, 0\)",
        ),
        (events.Drawn, {"committee": (1, 2, 3)}, r"Drawn: expected committee = .*, found \(1, 2, 3\)"),
        (events.PhaseEntered, {"phase": Phase.SCORE}, r"PhaseEntered: expected phase = "),
        (events.PhaseEntered, {"deadline": 1}, r"PhaseEntered: expected "),
        (events.UpdateRevealed, {"samples": 7}, r"UpdateRevealed: .*do not match the commitment"),
        (events.Voted, {"id": 99}, r"Voted: .*participant 99 of"),
        (events.RoundEnded, {"outcome": Outcome.VOID}, r"RoundEnded: expected outcome = "),
        (events.RoundEnded, {"miner_paid": 5}, r"RoundEnded: expected miner_paid = \d+, found 5"),
        (events.Proposed, {"id": 1}, r"Proposed: "),
        (events.WeightSet, {"weight": 2**32}, r"WeightSet: expected weight = "),
        (events.Claimed, {"amount": 10**18}, r"Claimed: expected amount = \d+, found 10"),
    ],
)
def test_a_lie_is_told_in_one_line(kind: type[events.Event], changes: dict[str, Any], line: str) -> None:
    played = eventful(Rule.SOFTMAX)
    log = told_by(played)
    place = max(at for at, event in enumerate(log) if type(event) is kind)
    log[place] = replace(log[place], **changes)

    with pytest.raises(LedgerLieError, match=line) as lie:
        folded(played.task, log)

    assert "\n" not in str(lie.value)
    assert str(lie.value).startswith("the endpoint's events do not add up: round ")


# What a lie would cost


class Misled(MemoryLedger):
    """A ledger in memory behind an endpoint that gives all of the next model to one worker."""

    def task(self) -> Task:
        """The task as the endpoint reports it."""
        real = super().task()
        log = [event for emitter, event in self.chain.world.log if emitter == real.address]
        return folded(
            real, [_all_to_one(event) for event in log if not isinstance(event, events.TaskCreated)]
        )


def _all_to_one(event: events.Event) -> events.Event:
    if not isinstance(event, events.Tallied):
        return event
    return replace(event, shares=(0, TOTAL, *([0] * (len(event.shares) - 2))))


def _to(net: Network, phase: Phase) -> None:
    while net.task.round.phase is not phase:
        steps = [(me, next_step(me, net.task, net.chain.now, Duty.ALL)) for me in net.participants.values()]
        me, step = next(((me, step) for me, step in steps if step is not None), (None, None))
        if me is None or step is None:
            net.wait()
        else:
            step.take(me)


def test_an_honest_validator_does_not_attest_what_a_forged_tally_makes_look_right() -> None:
    """The accomplice proposes what the forged shares give; on the chain it is a lie, and attesting it costs stake."""
    net = network(Rule.SOFTMAX)
    net.ledger.draw()
    _to(net, Phase.PROPOSE)
    real = net.task
    order, miner = real.round.order, real.by_id(real.round.proposer).address
    first = real.round.revealed(order[0])
    shares = (0, TOTAL, *([0] * (len(order) - 1)))
    update_D = fetch(net.store, real, Cid.dag_cbor(first.cid), first.root)
    named = name_model(combine(None, [update_D, *([None] * (len(order) - 1))], shares), 20, LAYOUT)
    put_model(net.store, named)
    record = put_record(net.store, block_record(net.store, real, miner, named.cid, shares))
    net.participants[miner].ledger.propose(1, 1, named.node.root, record.digest, ())
    victim = real.by_id(Id(real.round.committee[0])).address
    me = net.participants[victim]
    ledger = Misled(net.chain, real.address, victim)

    with pytest.raises(LedgerLieError, match="Tallied: expected shares"):
        validator.vote(Participant(ledger, me.store, me.trainer, me.journal))

    assert net.task.round.votes == {}


def test_an_account_beyond_those_enrolled_has_no_weight() -> None:
    played = scene(stakes=(1,) * 9)
    played.to(Phase.TRAIN)
    enrol(played, address(50), 10**18)
    log = [*told_by(played), events.WeightSet(Id(60), 1000, 2)]

    with pytest.raises(LedgerLieError, match="participant 60 of 10"):
        folded(played.task, log)
