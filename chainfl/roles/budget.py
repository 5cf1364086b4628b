"""How long a step may wait for somebody else's bytes: one limit for all its fetching, from the phase's deadline.

What is not there by then counts as unavailable, so that no commitment, vote or proposal is late because of what others
published. docs/adr/0017-availability-and-io-budgets.md says how the numbers were chosen.
"""

import time

from chainfl.execution import Budget
from chainfl.protocol.state import Task
from chainfl.protocol.terms import phase_seconds
from chainfl.roles.participant import Participant
from chainfl.types import Phase

_RESERVED = {Phase.TRAIN: 1 / 2}
_RESERVED_ELSE = 1 / 3
"""The part of a phase that is left for own work and for sending, in Train and elsewhere."""
_LEAST_SECONDS = 5.0
"""At least so much of it is left; a little more than a node pauses between two tries."""


def io_budget(me: Participant, task: Task, own_seconds: float = 0.0) -> Budget:
    """The limits of a step that begins now and will need `own_seconds` for work of its own.

    Where the phase is too short to leave that much, half of what remains is waited.
    """
    spare = max(0.0, seconds_left(me, task) - own_seconds)
    reserve = min(_reserve(task), spare / 2)
    now = time.monotonic()
    return Budget(fetch=now + spare - reserve, read=now + spare - reserve / 2)


def has_time(me: Participant, task: Task) -> bool:
    """Whether what failed may be tried again before the phase ends: silence costs stake, an opinion never does."""
    return seconds_left(me, task) > max(_length(task) / 2, _LEAST_SECONDS)


def seconds_left(me: Participant, task: Task) -> float:
    """Until the phase's deadline, on the ledger's clock."""
    return float(max(0, task.round.deadline - me.ledger.now()))


def _reserve(task: Task) -> float:
    return max(_length(task) * _RESERVED.get(task.round.phase, _RESERVED_ELSE), _LEAST_SECONDS)


def _length(task: Task) -> int:
    """The phase's seconds; none where it has no deadline, as when the round moved on since the step was chosen."""
    phase = task.round.phase
    return 0 if phase in (Phase.DRAW, Phase.ENDED) else phase_seconds(task.config, phase)
