"""What must hold before an action counts, and how a phase is entered (docs/protocol.md 5)."""

from chainfl.protocol import errors, events, operators
from chainfl.protocol.state import ZERO_DIGEST, Account, Call, Task
from chainfl.protocol.terms import phase_seconds
from chainfl.protocol.views import is_over
from chainfl.types import Digest, Phase


def expect_running(task: Task) -> None:
    """The task has not ended."""
    if task.round.phase is Phase.ENDED:
        raise errors.WrongPhaseError(task.round.number, Phase.ENDED)


def expect_round(task: Task, number: int) -> None:
    """The round meant is the one that runs."""
    if number != task.round.number:
        raise errors.WrongRoundError(number, task.round.number)


def expect_phase(task: Task, phase: Phase) -> None:
    """The round stands in this phase."""
    if task.round.phase is not phase:
        raise errors.WrongPhaseError(task.round.number, task.round.phase)


def expect_attempt(task: Task, attempt: int) -> None:
    """The attempt meant is the one that runs."""
    if attempt != task.round.attempt:
        raise errors.WrongAttemptError(attempt, task.round.attempt)


def expect_digest(digest: Digest) -> None:
    """A commitment names something: zero stands for none in storage."""
    if digest == ZERO_DIGEST:
        raise errors.ZeroCommitmentError()


def expect_over(task: Task, call: Call) -> None:
    """The phase can be left."""
    if not is_over(task, call.now):
        raise errors.PhaseStillOpenError(task.round.deadline)


def acting(task: Task, call: Call, round_number: int, phase: Phase) -> Account:
    """The account of a participant who acts in time, in the phase it means, or lets its operator."""
    expect_round(task, round_number)
    expect_phase(task, phase)
    if call.now >= task.round.deadline:
        raise errors.PhaseOverError(task.round.deadline)
    account = task.accounts.get(operators.acts_for(task, call.sender))
    if account is None:
        raise errors.NotEnrolledError()
    return account


def enter(task: Task, call: Call, phase: Phase) -> None:
    """Begin a phase: its full length counts from this call."""
    task.round.phase = phase
    task.round.deadline = call.now + phase_seconds(task.config, phase)
    task.events.append(events.PhaseEntered(task.round.number, task.round.attempt, phase, task.round.deadline))
