"""More rounds for a run: its task goes on as one that was created for as many."""

from dataclasses import replace

from chainfl.protocol.enrolment import open_if_enough
from chainfl.protocol.proposers import begin_next
from chainfl.protocol.state import Call, Task
from chainfl.protocol.term_table import BUDGET
from chainfl.sim.memory import Chain
from chainfl.types import Address, Phase


def extend(chain: Chain, address: Address, rounds: int) -> None:
    """Let the task have so many rounds in all; one that has ended opens its next draw."""
    task = chain.world.tasks[address].draft()
    more = (rounds - task.config.rounds) * BUDGET
    task.config = replace(task.config, rounds=rounds)
    task.funded += more
    task.escrow += more
    chain.world.balances[address] += more

    if task.round.phase is Phase.ENDED:
        _open_next(task, Call(address, chain.now, chain.block_number))
    chain.world.tasks[address] = task


def _open_next(task: Task, call: Call) -> None:
    """What the end of the last round would have done, had it not been the last: the same time, the same block."""
    was_void = task.round.number in task.voids
    tallied = task.round.tally
    if tallied is not None and not was_void:
        task.elected = tallied.elected
    begin_next(task)
    open_if_enough(task, call)
    task.events = []  # they belong to the round before, which is settled
