"""A task rebuilt from its events alone: what nodes, audit and index read a chain with (docs/protocol.md section 10).

`fold` changes the task it is given. The events of the task come in ledger order; the registry's are not needed.
Events that the rules could not have emitted are refused (`cross_check`); `take` applies any event unchecked.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from chainfl.protocol import cross_check, events
from chainfl.protocol import draw as drawing
from chainfl.protocol.actions import forget_absence
from chainfl.protocol.enrolment import MOST_MISSED
from chainfl.protocol.operators import set_operator
from chainfl.protocol.proposers import begin_next, drop_head, hand_over, loses_head, remember
from chainfl.protocol.round import set_order
from chainfl.protocol.settlement import worker_pay
from chainfl.protocol.state import Account, Pay, Proposal, RevealedUpdate, Scores, Task, Update
from chainfl.protocol.tally import as_flags, has_quorum, is_target_reached, tally_of
from chainfl.types import Outcome, Phase

E = TypeVar("E", bound=events.Event)
_HANDLERS: dict[type[events.Event], Callable[[Task, Any, int], None]] = {}


def _takes(kind: type[E]) -> Callable[[Callable[[Task, E, int], None]], Callable[[Task, E, int], None]]:
    """Marks the function that applies an event of this kind to a task."""
    return lambda handler: _HANDLERS.setdefault(kind, handler)


def fold(task: Task, event: events.Event, block_number: int) -> None:
    """Apply one event, if the rules could have emitted it.

    Raises:
        LedgerLieError: they could not; the task is as it was.
    """
    cross_check.check(task, event)
    take(task, event, block_number)
    cross_check.note(task, event)


def take(task: Task, event: events.Event, block_number: int) -> None:
    """Apply one event unchecked: for callers that compare the events by themselves."""
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(task, event, block_number)


@_takes(events.Admitted)
def _admitted(task: Task, event: events.Admitted, _: int) -> None:
    task.roles[event.account] = event.role


@_takes(events.Enrolled)
def _enrolled(task: Task, event: events.Enrolled, _: int) -> None:
    account = task.accounts.get(event.account)
    if account is None:
        task.addresses.append(event.account)
        account = Account(event.id, event.account, True, 0, 0)
    task.accounts[event.account] = replace(account, is_enrolled=True)


@_takes(events.Left)
def _left(task: Task, event: events.Left, _: int) -> None:
    task.accounts[event.account] = replace(task.accounts[event.account], is_enrolled=False)


@_takes(events.Absent)
def _absent(task: Task, event: events.Absent, _: int) -> None:
    account = task.by_id(event.id)
    # Who is put out of the draw starts again from nothing when it enrols anew.
    missed = 0 if event.times == MOST_MISSED else event.times
    task.accounts[account.address] = replace(account, missed=missed, absent_in=event.round)


@_takes(events.WeightSet)
def _weight_set(task: Task, event: events.WeightSet, _: int) -> None:
    account = task.by_id(event.id)
    task.eligible += (event.weight > 0) - (account.weight > 0)
    task.total_weight += event.weight - account.weight
    task.accounts[account.address] = replace(account, weight=event.weight, active_from=event.active_from)


@_takes(events.OperatorSet)
def _operator_set(task: Task, event: events.OperatorSet, _: int) -> None:
    set_operator(task, event.owner, event.operator, event.from_round)


@_takes(events.DrawOpened)
def _draw_opened(task: Task, event: events.DrawOpened, _: int) -> None:
    task.round.draw_block = event.block_number


@_takes(events.ElectionDropped)
def _election_dropped(task: Task, _event: events.ElectionDropped, _: int) -> None:
    task.elected = None


@_takes(events.Drawn)
def _drawn(task: Task, event: events.Drawn, _: int) -> None:
    workers = event.workers if event.limited else None
    task.round.drawn = drawing.Drawn(event.committee, event.proposers, workers)
    task.round.expected = event.expected
    task.round.seed = event.seed
    task.elected = None


@_takes(events.PhaseEntered)
def _phase_entered(task: Task, event: events.PhaseEntered, _: int) -> None:
    round_ = task.round
    round_.phase = event.phase
    round_.deadline = event.deadline

    # The order of the revealed updates is fixed when Reveal is over: entries of scores refer to it.
    if event.phase is Phase.SCORE:
        set_order(task)
    if event.phase is Phase.PROPOSE:
        hand_over(round_)
        # The time of the election is that of the first attempt: an election that waits too long is dropped.
        if task.elected is not None and event.attempt == 1:
            task.elected_at = event.deadline - task.config.propose_seconds


@_takes(events.TrainExtended)
def _train_extended(task: Task, event: events.TrainExtended, _: int) -> None:
    task.round.extended = True
    task.round.deadline = event.deadline


@_takes(events.UpdateCommitted)
def _update_committed(task: Task, event: events.UpdateCommitted, _: int) -> None:
    task.round.updates[event.id] = Update(event.commitment)
    forget_absence(task, task.by_id(event.id))


@_takes(events.UpdateRevealed)
def _update_revealed(task: Task, event: events.UpdateRevealed, _: int) -> None:
    update = task.round.updates[event.id]
    revealed = RevealedUpdate(event.root, event.cid, event.samples)
    task.round.updates[event.id] = replace(update, revealed=revealed)


@_takes(events.ScoresCommitted)
def _scores_committed(task: Task, event: events.ScoresCommitted, _: int) -> None:
    task.round.scores[event.id] = Scores(event.commitment)


@_takes(events.ScoresRevealed)
def _scores_revealed(task: Task, event: events.ScoresRevealed, _: int) -> None:
    task.round.scores[event.id] = replace(task.round.scores[event.id], revealed=event.scores)


@_takes(events.Tallied)
def _tallied(task: Task, event: events.Tallied, _: int) -> None:
    elected = event.elected or None
    tally = tally_of(task)

    # Without a quorum the event's fields are empty, and the tally of the rules holds.
    if has_quorum(task):
        included = as_flags(event.included, len(task.round.order))
        tally = replace(
            tally, included=included, shares=event.shares, head_score=event.head_score, elected=elected
        )

    task.round.tally = tally
    task.elected = elected
    task.ending = task.ending or is_target_reached(task.config, event.head_score)


@_takes(events.Proposed)
def _proposed(task: Task, event: events.Proposed, _: int) -> None:
    task.round.proposal = Proposal(event.id, event.model_root, event.block, event.shares)


@_takes(events.Voted)
def _voted(task: Task, event: events.Voted, _: int) -> None:
    task.round.votes[event.id] = event.attests


@_takes(events.FindingNoted)
def _noted(task: Task, event: events.FindingNoted, block_number: int) -> None:
    task.notes[event.note] = block_number


@_takes(events.Convicted)
def _convicted(task: Task, event: events.Convicted, _: int) -> None:
    task.round.convicted |= {event.id}
    task.escrow += event.to_escrow


@_takes(events.Silent)
def _silent(task: Task, event: events.Silent, _: int) -> None:
    # Silence in other phases costs stake, which the registry keeps; here it also costs the member's pay.
    if event.phase is Phase.CHALLENGE:
        task.round.absent |= {event.id}


@_takes(events.Credited)
def _credited(task: Task, event: events.Credited, _: int) -> None:
    task.escrow -= event.amount
    task.owed += event.amount
    task.credits[event.account] = task.credits.get(event.account, 0) + event.amount


@_takes(events.RoundEnded)
def _round_ended(task: Task, event: events.RoundEnded, _: int) -> None:
    task.escrow -= event.workers_paid
    task.owed += event.workers_paid

    # Pay is computed once here and claimed later: the tally of a past round is not kept.
    if task.round.tally is not None:
        task.pays[event.round] = worker_pay(task, task.round.tally, event.outcome)
    if event.outcome is Outcome.VOID:
        task.elected = None

    # A head that a majority could not read is dropped before the new one is set.
    if loses_head(task):
        drop_head(task)
    remember(task, event.outcome)
    task.head_root = event.head_root
    task.head_block = event.head_block
    begin_next(task)


@_takes(events.Claimed)
def _claimed(task: Task, event: events.Claimed, _: int) -> None:
    task.owed -= event.amount
    task.credits.pop(event.account, None)

    # What a finder or a caller earned is a credit of the address; rounds' pay belongs to those who enrolled.
    account = task.accounts.get(event.account)
    if account is not None:
        paid = (n for n in event.rounds if account.id in task.pays.get(n, Pay({}, 1)).workers)
        task.claimed.update((number, account.id) for number in paid)


@_takes(events.Abandoned)
def _abandoned(task: Task, _event: events.Abandoned, _: int) -> None:
    task.ending = True


@_takes(events.TaskEnded)
def _ended(task: Task, _event: events.TaskEnded, _: int) -> None:
    task.round.phase = Phase.ENDED
    task.elected = None


@_takes(events.Refunded)
def _refunded(task: Task, event: events.Refunded, _: int) -> None:
    task.escrow -= event.amount
