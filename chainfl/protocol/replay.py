"""A task rebuilt from its events alone: what nodes, audit and index read a chain with (docs/protocol.md section 10).

`fold` changes the task it is given. The events of the task come in ledger order; the registry's are not needed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chainfl.protocol import draw as drawing
from chainfl.protocol import events
from chainfl.protocol.round import set_order
from chainfl.protocol.settlement import worker_pay
from chainfl.protocol.state import Account, Pay, Proposal, Scores, Tally, Task, Update
from chainfl.protocol.tally import as_flags, decide, has_quorum, is_target_reached
from chainfl.protocol.turns import begin_next, hand_over, remember
from chainfl.types import Outcome, Phase


def fold(task: Task, event: events.Event, block_number: int) -> None:
    """Take one event into account."""
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(task, event, block_number)


def _enrolled(task: Task, event: events.Enrolled, _: int) -> None:
    account = task.accounts.get(event.account)
    if account is None:
        task.addresses.append(event.account)
        account = Account(event.id, event.account, True, 0, 0)
    task.accounts[event.account] = replace(account, wants=True)


def _left(task: Task, event: events.Left, _: int) -> None:
    task.accounts[event.account] = replace(task.accounts[event.account], wants=False)


def _weight_set(task: Task, event: events.WeightSet, _: int) -> None:
    account = task.by_id(event.id)
    task.eligible += (event.weight > 0) - (account.weight > 0)
    task.total_weight += event.weight - account.weight
    task.accounts[account.address] = replace(account, weight=event.weight, active_from=event.active_from)


def _draw_opened(task: Task, event: events.DrawOpened, _: int) -> None:
    task.round.draw_block = event.block_number


def _drawn(task: Task, event: events.Drawn, _: int) -> None:
    workers = event.workers if event.limited else None
    task.round.drawn = drawing.Drawn(event.committee, event.proposers, workers)
    task.round.expected, task.round.seed, task.elected = event.expected, event.seed, None


def _phase_entered(task: Task, event: events.PhaseEntered, _: int) -> None:
    round_ = task.round
    round_.phase, round_.deadline = event.phase, event.deadline
    if event.phase is Phase.SCORE:
        set_order(round_)
    if event.phase is Phase.PROPOSE:
        hand_over(round_)


def _train_extended(task: Task, event: events.TrainExtended, _: int) -> None:
    task.round.extended, task.round.deadline = True, event.deadline


def _update_committed(task: Task, event: events.UpdateCommitted, _: int) -> None:
    task.round.updates[event.id] = Update(event.commitment)


def _update_revealed(task: Task, event: events.UpdateRevealed, _: int) -> None:
    update = task.round.updates[event.id]
    task.round.updates[event.id] = replace(update, root=event.root, cid=event.cid, samples=event.samples)


def _scores_committed(task: Task, event: events.ScoresCommitted, _: int) -> None:
    task.round.scores[event.id] = Scores(event.commitment)


def _scores_revealed(task: Task, event: events.ScoresRevealed, _: int) -> None:
    task.round.scores[event.id] = replace(task.round.scores[event.id], revealed=event.scores)


def _tallied(task: Task, event: events.Tallied, _: int) -> None:
    decide(task)
    assert task.round.tally is not None
    if has_quorum(task):
        included = as_flags(event.included, len(task.round.order))
        task.round.tally = Tally(included, event.shares, task.round.tally.deviations, event.head_score)
    task.elected = event.elected or None
    task.ending = task.ending or is_target_reached(task.config, event.head_score)


def _proposed(task: Task, event: events.Proposed, _: int) -> None:
    task.round.proposal = Proposal(event.id, event.model_root, event.block, event.shares)


def _voted(task: Task, event: events.Voted, _: int) -> None:
    task.round.votes[event.id] = event.attests


def _noted(task: Task, event: events.FindingNoted, block_number: int) -> None:
    task.notes[event.note] = block_number


def _convicted(task: Task, event: events.Convicted, _: int) -> None:
    task.round.convicted |= {event.id}
    task.escrow += event.to_escrow


def _silent(task: Task, event: events.Silent, _: int) -> None:
    if event.phase is Phase.CHALLENGE:
        task.round.absent |= {event.id}


def _credited(task: Task, event: events.Credited, _: int) -> None:
    task.escrow -= event.amount
    task.owed += event.amount
    task.credits[event.account] = task.credits.get(event.account, 0) + event.amount


def _round_ended(task: Task, event: events.RoundEnded, _: int) -> None:
    task.head_root, task.head_block = event.head_root, event.head_block
    task.escrow -= event.workers_paid
    task.owed += event.workers_paid
    if task.round.tally is not None:
        task.pays[event.round] = worker_pay(task, task.round.tally, event.outcome)
    if event.outcome is Outcome.VOID:
        task.elected = None
    remember(task, event.outcome)
    begin_next(task)


def _claimed(task: Task, event: events.Claimed, _: int) -> None:
    task.owed -= event.amount
    task.credits.pop(event.account, None)
    account = task.accounts.get(event.account)
    if account is not None:
        paid = (n for n in event.rounds if account.id in task.pays.get(n, Pay({}, 1)).workers)
        task.claimed.update((number, account.id) for number in paid)


def _abandoned(task: Task, _event: events.Abandoned, _: int) -> None:
    task.ending = True


def _ended(task: Task, _event: events.TaskEnded, _: int) -> None:
    task.round.phase, task.elected = Phase.ENDED, None


def _refunded(task: Task, event: events.Refunded, _: int) -> None:
    task.escrow -= event.amount


_HANDLERS: dict[type[events.Event], Callable[[Task, Any, int], None]] = {
    events.Enrolled: _enrolled,
    events.Left: _left,
    events.WeightSet: _weight_set,
    events.DrawOpened: _draw_opened,
    events.Drawn: _drawn,
    events.PhaseEntered: _phase_entered,
    events.TrainExtended: _train_extended,
    events.UpdateCommitted: _update_committed,
    events.UpdateRevealed: _update_revealed,
    events.ScoresCommitted: _scores_committed,
    events.ScoresRevealed: _scores_revealed,
    events.Tallied: _tallied,
    events.Proposed: _proposed,
    events.Voted: _voted,
    events.FindingNoted: _noted,
    events.Convicted: _convicted,
    events.Silent: _silent,
    events.Credited: _credited,
    events.RoundEnded: _round_ended,
    events.Claimed: _claimed,
    events.Abandoned: _abandoned,
    events.TaskEnded: _ended,
    events.Refunded: _refunded,
}
