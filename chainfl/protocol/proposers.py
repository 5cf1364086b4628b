"""Whose turn it is to propose, and how a round or a task ends (docs/protocol.md 5.6, 5.8)."""

from chainfl.protocol import errors, events
from chainfl.protocol.enrolment import open_if_enough
from chainfl.protocol.guards import enter, expect_running
from chainfl.protocol.settlement import settle
from chainfl.protocol.state import Call, OlderHead, Round, Task
from chainfl.protocol.views import voters
from chainfl.types import Id, Outcome, Phase

ATTEMPTS = 3
"""A proposer and two backups."""


def next_proposer(task: Task, call: Call) -> None:
    """The next proposer in order that was not convicted; Void where none is left, or no one is left to vote."""
    round_ = task.round
    line = _line(round_)
    if round_.attempt < ATTEMPTS and line and voters(round_, line[0]):
        hand_over(round_)
        enter(task, call, Phase.PROPOSE)
    else:
        end_void(task, call)


def hand_over(round_: Round) -> None:
    """The next attempt: the first in line proposes, and nothing stands yet."""
    line = _line(round_)
    round_.attempt += 1
    round_.proposer = line[0]
    round_.proposal = None
    round_.turns = (*round_.turns, line[0])
    round_.votes.clear()


def _line(round_: Round) -> list[Id]:
    """Who may still propose, in order: those who had no turn yet and were not convicted."""
    proposers = round_.drawn.proposers if round_.drawn else ()
    return [id_ for id_ in proposers if id_ not in round_.turns and id_ not in round_.convicted]


def end_void(task: Task, call: Call) -> None:
    """End the round without a new model; what was elected in it falls."""
    task.elected = None
    end_round(task, call, Outcome.VOID)


def end_round(task: Task, call: Call, outcome: Outcome) -> None:
    """Settle, then open the next round, or end the task."""
    round_ = task.round
    paid = settle(task, outcome)
    remember(task, outcome)
    task.events.append(
        events.RoundEnded(round_.number, round_.attempt, outcome, task.head_root, task.head_block, *paid)
    )
    if begin_next(task):
        open_if_enough(task, call)
    else:
        end_task(task)


def remember(task: Task, outcome: Outcome) -> None:
    """The head after the round, and what the next block records of the past: votes on it, void rounds since."""
    round_ = task.round
    if outcome is not Outcome.FINAL:
        task.voids = (*task.voids, round_.number)
        return

    voids = (*task.voids, round_.number)

    # One head back is kept, for a majority that cannot get the bytes of the new one (docs/adr/0016).
    task.older_head = OlderHead(task.head_root, task.head_block, task.head_votes, voids)
    task.head_root = round_.posted.model_root
    task.head_block = round_.posted.block
    task.head_votes = tuple((i, round_.votes[i]) for i in round_.committee if i in round_.votes)
    task.voids = ()


def loses_head(task: Task) -> bool:
    """Whether a majority could not get the head, and there is one before it to go back to."""
    tallied = task.round.tally
    return tallied is not None and tallied.is_head_withheld and task.older_head is not None


def drop_head(task: Task) -> None:
    """Go back to the head before this one; the round that left it counts as void from now on."""
    older = task.older_head
    assert older is not None
    task.head_root = older.root
    task.head_block = older.block
    task.head_votes = older.votes
    task.voids = (*older.voids, *task.voids)
    task.older_head = None


def begin_next(task: Task) -> bool:
    """Start the next round, unless this was the last; an elected committee serves until the next redraw."""
    number = task.round.number
    if task.ending or number == task.config.rounds:
        return False
    if number % task.config.redraw_every == 0:
        task.elected = None
    task.round = Round(number + 1)
    return True


def abandon(task: Task, call: Call) -> None:
    """The sponsor abandons the task: at once in Draw, else when the round ends."""
    if call.sender != task.sponsor:
        raise errors.NotSponsorError()
    expect_running(task)
    if task.ending:
        raise errors.AlreadyAbandonedError()

    task.ending = True
    task.events.append(events.Abandoned(task.round.number))
    if task.round.phase is Phase.DRAW:
        end_task(task)


def end_task(task: Task) -> None:
    """No round follows: locks fall, what is left can be claimed and refunded."""
    task.round.phase = Phase.ENDED
    task.elected = None
    task.events.append(events.TaskEnded(task.round.number))
