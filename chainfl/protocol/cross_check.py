"""What events say against what the rules make of everything before them (docs/adr/0018-hostile-endpoints.md).

Events reach us through an endpoint that may lie. An event is believed only if the rules, given the task as it stands,
could have told it: its action is done again on a copy, and whatever the rules decide by themselves (roles, shares,
phases and deadlines, outcomes, sums paid) must be what the event says. What nobody can redo from events alone, stakes
and the random seed, is taken as given.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from chainfl.errors import ChainflError, LedgerLieError
from chainfl.protocol import actions, enrolment, events, operators, proposers, settlement
from chainfl.protocol import round as rules
from chainfl.protocol.admission import NO_LIST
from chainfl.protocol.errors import WrongRevealError
from chainfl.protocol.guards import enter
from chainfl.protocol.proposers import loses_head
from chainfl.protocol.shared import SharedMap
from chainfl.protocol.state import NO_ADDRESS, Call, Slashed, Task
from chainfl.protocol.tally import as_set, tally_of
from chainfl.protocol.term_table import UNITS_PER_MIN_STAKE
from chainfl.protocol.terms import phase_seconds
from chainfl.protocol.views import has_enough, revealed_vectors
from chainfl.types import Address, Id, Phase, Role, Slash

_ANYBODY: Final = Address(b"")
"""The caller: events do not name it, and anyone may call."""
_WHAT_RULES_RAISE: Final = (ChainflError, AssertionError, LookupError, ValueError, TypeError, OverflowError)
"""What a history that cannot be makes of rules that were written for those that can."""

E = TypeVar("E", bound=events.Event)
Listed = events.Silent | events.Credited
Ending = events.PhaseEntered | events.TrainExtended | events.RoundEnded


@dataclass(frozen=True, slots=True)
class _Stakes:
    """A registry whose stakes make the rules come to the event's weight; slashes take what the event says."""

    amount: int = 0

    def stake_of(self, account: Address, task: Address) -> int:
        """The same for everybody."""
        del account, task
        return self.amount

    def operator_of(self, account: Address, task: Address) -> Address:
        """Operators that accounts named are kept by the registry."""
        del account, task
        return NO_ADDRESS

    def slash(self, account: Address, task: Address, kind: Slash, finder: Address | None) -> Slashed:
        """Amounts are the registry's affair."""
        del account, task, kind, finder
        return Slashed(0, 0)


_REDONE: dict[type[events.Event], Callable[[Task, Any], None]] = {}


def _redoes(kind: type[E]) -> Callable[[Callable[[Task, E], None]], Callable[[Task, E], None]]:
    """Marks the function that repeats an event of this kind by the rules."""
    return lambda redo: _REDONE.setdefault(kind, redo)


def check(task: Task, event: events.Event) -> None:
    """Refuse an event that the rules could not have emitted in this state of the task. The task is not changed.

    Raises:
        LedgerLieError: names the event, what was expected and what was found.
    """
    redo = _REDONE.get(type(event))
    if redo is None:
        return
    try:
        redo(task, event)
    except LedgerLieError:
        raise
    except _WHAT_RULES_RAISE as error:
        raise impossible(task, event, error) from error


def impossible(task: Task, event: events.Event, error: Exception) -> LedgerLieError:
    """An event that the rules do not allow where it stands."""
    why = str(error) if isinstance(error, ChainflError) else f"no such thing ({type(error).__name__} {error})"
    return _lie(task, event, "one that the rules allow", why)


def note(task: Task, event: events.Event) -> None:
    """Keep the events since the phase began, until the event that ends it shows what there should have been."""
    if isinstance(event, Listed):
        task.round.announced = (*task.round.announced, event)
    elif isinstance(event, Ending):
        task.round.announced = ()


def _lie(task: Task, event: events.Event, expected: object, found: object) -> LedgerLieError:
    return LedgerLieError(
        f"the endpoint's events do not add up: round {task.round.number}, {type(event).__name__}: "
        f"expected {expected!s:.300}, found {found!s:.300}; is the endpoint honest? Ask another (--rpc-url)"
    )


def _same(task: Task, event: events.Event, expected: events.Event) -> None:
    """Compare field by field, and name the first that differs."""
    if type(expected) is not type(event):
        raise _lie(task, event, type(expected).__name__, type(event).__name__)
    for field in fields(event):
        wanted = getattr(expected, field.name)
        found = getattr(event, field.name)
        if wanted != found:
            raise _lie(task, event, f"{field.name} = {_plain(wanted)}", _plain(found))


def _expect(task: Task, event: events.Event, holds: bool, expected: str) -> None:
    if not holds:
        found = ", ".join(f"{f.name} {_plain(getattr(event, f.name))}" for f in fields(event))
        raise _lie(task, event, expected, found)


def _plain(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def _in_time(task: Task, sender: Address) -> Call:
    """A call before the deadline: events of participants do not say when they were sent."""
    return Call(sender, task.round.deadline - 1, task.round.draw_block + 1)


# Who takes part


@_redoes(events.Admitted)
def _admitted(task: Task, event: events.Admitted) -> None:
    # Nobody can redo the proof from events: that the list names the account is taken as given.
    is_new = event.account not in task.accounts and event.account not in task.roles
    has_list = task.config.admission_root != NO_LIST and event.role is not Role.NONE
    _expect(task, event, is_new and has_list, "one who is new, in a task that has a list of who may join")


@_redoes(events.Enrolled)
def _enrolled(task: Task, event: events.Enrolled) -> None:
    role = task.roles.get(event.account, Role.NONE)
    before = task.roles.copy()
    before.pop(event.account, None)
    copy = replace(task.trial(), roles=before)
    enrolment.enrol_as(copy, _in_time(task, event.account), _Stakes(task.config.min_stake), role)
    (expected,) = (each for each in copy.events if isinstance(each, events.Enrolled))
    _same(task, event, expected)


@_redoes(events.Left)
def _left(task: Task, event: events.Left) -> None:
    account = task.accounts[event.account]
    is_known = account.is_enrolled and account.id == event.id
    _expect(task, event, is_known, f"one who takes part, as {account.id}")


@_redoes(events.WeightSet)
def _weight_set(task: Task, event: events.WeightSet) -> None:
    copy = task.trial()
    account = _by_id(task, event.id)
    # The least stake that weighs as much; less than a whole minimum weighs something only in a full tree.
    least = -(-event.weight * task.config.min_stake // UNITS_PER_MIN_STAKE)
    stakes = _Stakes(max(least, task.config.min_stake) if event.weight else 0)
    enrolment.apply_change(copy, _in_time(task, account), stakes, account)
    _expect(task, event, bool(copy.events), "a change of the weight")
    _same(task, event, copy.events[0])


@_redoes(events.Absent)
def _absent(task: Task, event: events.Absent) -> None:
    copy = task.trial()
    enrolment.note_absent(copy, _in_time(task, _ANYBODY), _Stakes(), event.round, [event.id])
    _same(task, event, copy.events[0])


@_redoes(events.OperatorSet)
def _operator_set(task: Task, event: events.OperatorSet) -> None:
    copy = task.trial()
    if event.operator == NO_ADDRESS:
        operators.dismiss(copy, event.owner, event.operator)
    else:
        operators.accept(copy, event.operator, event.owner, event.operator)
    _expect(task, event, bool(copy.events), "a change of the operator")
    _same(task, event, copy.events[0])


def _by_id(task: Task, id_: Id) -> Address:
    if not 1 <= id_ <= len(task.addresses):
        raise LookupError(f"participant {id_} of {len(task.addresses)}")
    return task.addresses[id_ - 1]


# Draw


@_redoes(events.DrawOpened)
def _draw_opened(task: Task, event: events.DrawOpened) -> None:
    round_ = task.round
    _expect(task, event, event.round == round_.number, f"round {round_.number}")
    _expect(task, event, round_.phase is Phase.DRAW and round_.drawn is None, "a round before its draw")
    _expect(task, event, event.block_number > round_.draw_block, "a later block")
    _expect(task, event, has_enough(task), "enough participants to draw from")


@_redoes(events.ElectionDropped)
def _election_dropped(task: Task, event: events.ElectionDropped) -> None:
    stands = task.round.phase is Phase.DRAW and task.elected is not None
    _expect(task, event, stands and event.round == task.round.number, "a committee that waits for its draw")


@_redoes(events.Drawn)
def _drawn(task: Task, event: events.Drawn) -> None:
    _expect(task, event, task.round.drawn is None, "one draw in a round")
    copy = task.trial()
    rules.draw_seeded(copy, Call(_ANYBODY, 0, task.round.draw_block + 1), event.seed)
    _same(task, event, copy.events[0])


# What participants do


@_redoes(events.UpdateCommitted)
def _update_committed(task: Task, event: events.UpdateCommitted) -> None:
    copy = task.trial()
    sender = _by_id(task, event.id)
    actions.commit_update(copy, _in_time(task, sender), event.round, event.commitment)


@_redoes(events.UpdateRevealed)
def _update_revealed(task: Task, event: events.UpdateRevealed) -> None:
    opened = (event.root, event.cid, event.samples, event.salt)
    _opened_by_one(task, event.id, lambda copy, call: actions.reveal_update(copy, call, event.round, *opened))


@_redoes(events.ScoresCommitted)
def _scores_committed(task: Task, event: events.ScoresCommitted) -> None:
    copy = task.trial()
    sender = _by_id(task, event.id)
    actions.commit_scores(copy, _in_time(task, sender), event.round, event.commitment)


@_redoes(events.ScoresRevealed)
def _scores_revealed(task: Task, event: events.ScoresRevealed) -> None:
    opened = (event.scores, event.salt)
    _opened_by_one(task, event.id, lambda copy, call: actions.reveal_scores(copy, call, event.round, *opened))


def _opened_by_one(task: Task, id_: Id, reveal: Callable[[Task, Call], None]) -> None:
    """A commitment names its sender: the account itself or its operator; events do not say which."""
    *others, last = operators.senders_of(task, _by_id(task, id_))
    for sender in others:
        try:
            return reveal(task.trial(), _in_time(task, sender))
        except WrongRevealError:
            continue
    return reveal(task.trial(), _in_time(task, last))


@_redoes(events.Proposed)
def _proposed(task: Task, event: events.Proposed) -> None:
    _expect(task, event, task.round.proposal is None, "one proposal in an attempt")
    copy = task.trial()
    sender = _by_id(task, event.id)
    posted = (event.model_root, event.block, event.shares)
    actions.propose(copy, _in_time(task, sender), event.round, event.attempt, *posted)


@_redoes(events.Voted)
def _voted(task: Task, event: events.Voted) -> None:
    copy = task.trial()
    sender = _by_id(task, event.id)
    proposal = task.round.posted
    named = (proposal.model_root, proposal.block, proposal.shares_digest)
    actions.vote(copy, _in_time(task, sender), event.round, event.attempt, *named, event.attests)


@_redoes(events.LieProven)
def _lie_proven(task: Task, event: events.LieProven) -> None:
    _expect_attempt(task, event)
    _expect(task, event, event.expected != event.found, "two values that differ")


@_redoes(events.Convicted)
def _convicted(task: Task, event: events.Convicted) -> None:
    round_ = task.round
    _expect_attempt(task, event)
    is_guilty = event.id == round_.proposer or round_.votes.get(event.id, False)
    is_new = event.id not in round_.convicted
    _expect(task, event, is_guilty and is_new, "the proposer or one who attested, once")
    _expect(task, event, 0 <= event.to_escrow <= event.slashed, "no more to the escrow than was slashed")


def _expect_attempt(task: Task, event: events.LieProven | events.Convicted) -> None:
    round_ = task.round
    here = f"the standing proposal of attempt {round_.number}.{round_.attempt}"
    stands = round_.phase is Phase.CHALLENGE and (event.round, event.attempt) == (
        round_.number,
        round_.attempt,
    )
    _expect(task, event, stands, here)


# What the rules decide


@_redoes(events.Tallied)
def _tallied(task: Task, event: events.Tallied) -> None:
    round_ = task.round
    is_due = round_.phase is Phase.TALLY and round_.tally is None
    _expect(task, event, is_due, "a round whose scores are to be tallied")
    decided = tally_of(task)
    included = as_set(decided.included)
    expected = events.Tallied(
        round_.number, included, decided.shares, decided.elected or (), decided.head_score
    )
    _same(task, event, expected)


@_redoes(events.HeadDropped)
def _head_dropped(task: Task, event: events.HeadDropped) -> None:
    _expect(task, event, loses_head(task), "a head that a majority could not get, and one before it")
    _same(task, event, events.HeadDropped(task.round.number, task.head_root, task.head_block))


@_redoes(events.Silent)
def _silent(task: Task, event: events.Silent) -> None:
    _by_id(task, event.id)
    here = (task.round.number, task.round.phase)
    _expect(task, event, (event.round, event.phase) == here, f"round {here[0]} in {here[1].name.title()}")


@_redoes(events.Credited)
def _credited(task: Task, event: events.Credited) -> None:
    _expect(task, event, 0 < event.amount <= task.escrow, f"something out of the {task.escrow} wei of escrow")


@_redoes(events.PhaseEntered)
def _phase_entered(task: Task, event: events.PhaseEntered) -> None:
    _compare_end(task, event, event.deadline - phase_seconds(task.config, event.phase))


@_redoes(events.TrainExtended)
def _train_extended(task: Task, event: events.TrainExtended) -> None:
    _compare_end(task, event, event.deadline - task.config.train_seconds)


@_redoes(events.RoundEnded)
def _round_ended(task: Task, event: events.RoundEnded) -> None:
    _expect(task, event, not _is_settled(task), "one end of a round")
    _compare_end(task, event, task.round.deadline)


def _compare_end(task: Task, event: Ending, now: int) -> None:
    """Leave the phase as the rules do: who was silent, who is paid and what follows must be what the events say."""
    round_ = task.round
    copy = task.trial()
    begun = 0 if round_.phase is Phase.DRAW else round_.deadline - phase_seconds(task.config, round_.phase)
    _expect(task, event, now >= begun, f"a time after {begun}, when the phase began")
    _leave(copy, Call(_ANYBODY, now, task.round.draw_block + 1))
    expected = [each for each in copy.events if isinstance(each, Listed)]
    ends = next(each for each in copy.events if isinstance(each, Ending))
    _same(task, event, ends)
    for wanted, found in zip(expected, task.round.announced, strict=False):
        if _named(wanted, found) != _named(found, found):
            raise _lie(task, found, wanted, found)
    if len(expected) != len(task.round.announced):
        what = "events of who was silent and who was paid"
        raise _lie(task, event, f"{len(expected)} {what}", len(task.round.announced))


def _named(event: events.Event, other: events.Event) -> tuple[object, ...]:
    """What must be the same of two events: not what a slash took, nor who called."""
    if isinstance(event, events.Silent):
        return event.round, event.phase, event.id
    assert isinstance(event, events.Credited)
    account = event.account
    if account == _ANYBODY and isinstance(other, events.Credited):
        account = other.account
    return account, event.amount


def _leave(task: Task, call: Call) -> None:
    """Whatever ends the phase in which the task stands."""
    round_ = task.round
    if round_.phase is Phase.DRAW and round_.drawn is not None:
        settlement.pay_caller(task, call)
        enter(task, call, Phase.TRAIN)
    elif round_.phase is Phase.TALLY and round_.tally is not None:
        rules.tally(task, call, _Stakes(), round_.number, revealed_vectors(task))
    elif round_.phase is Phase.PROPOSE and round_.proposal is not None:
        enter(task, call, Phase.CHALLENGE)
    elif round_.phase is Phase.CHALLENGE and round_.proposer in round_.convicted:
        _leave_convicted(task, call)
    else:
        rules.advance(task, call, _Stakes(), round_.number)


def _leave_convicted(task: Task, call: Call) -> None:
    """A proof convicts the proposer and all who attested, and opens the next attempt."""
    round_ = task.round
    missing = [id_ for id_, attests in round_.votes.items() if attests and id_ not in round_.convicted]
    if missing:
        raise LookupError(f"{missing[0]} attested a proven lie and is not convicted")
    proposers.next_proposer(task, call)


def _is_settled(task: Task) -> bool:
    """Whether the running round is over: the last one of a task stays until the task ends."""
    return task.round.number in task.pays or task.round.number in task.voids


# Money and ends


@_redoes(events.Claimed)
def _claimed(task: Task, event: events.Claimed) -> None:
    account = task.accounts.get(event.account)
    known = {(n, account.id) for n in event.rounds} & task.claimed if account is not None else set()
    credits = SharedMap({event.account: task.credits.get(event.account, 0)})
    copy = replace(task, credits=credits, claimed=known, events=[])
    settlement.claim(copy, Call(event.account, 0, 0), event.rounds)
    _same(task, event, copy.events[0])


@_redoes(events.Abandoned)
def _abandoned(task: Task, event: events.Abandoned) -> None:
    copy = task.trial()
    proposers.abandon(copy, _in_time(task, task.sponsor))
    _same(task, event, copy.events[0])


@_redoes(events.TaskEnded)
def _ended(task: Task, event: events.TaskEnded) -> None:
    round_ = task.round
    is_over = _is_settled(task) or (round_.phase is Phase.DRAW and round_.drawn is None)
    is_last = round_.phase is not Phase.ENDED and (task.ending or round_.number == task.config.rounds)
    _expect(task, event, event.round == round_.number and is_over and is_last, "the end of the last round")


@_redoes(events.Refunded)
def _refunded(task: Task, event: events.Refunded) -> None:
    copy = task.trial()
    settlement.refund(copy, _in_time(task, task.sponsor))
    _same(task, event, copy.events[0])
