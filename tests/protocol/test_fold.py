"""The events of a task rebuild its whole state."""

import pytest

from chainfl.protocol.events import TaskCreated
from chainfl.protocol.fold import fold
from chainfl.protocol.state import Task
from chainfl.types import Phase, Rule
from tests.protocol.scene import SPONSOR, STRANGER, Scene, config, scene


def rebuilt(played: Scene) -> Task:
    """The task that the log alone tells of."""
    task = played.task
    fresh = task.at_creation()
    for emitter, event in played.world.log:
        if emitter in (task.address, played.world.registry_address) and not isinstance(event, TaskCreated):
            fold(fresh, event, 0)
    return fresh


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("phase", [Phase.TRAIN, Phase.REVEAL, Phase.SCORE, Phase.PROPOSE, Phase.CHALLENGE])
def test_events_rebuild_the_state_in_every_phase(rule: Rule, phase: Phase) -> None:
    played = scene(config(rule), stakes=(1, 2, 3, 4, 5, 1, 1, 1, 1, 2))

    played.play_round()
    played.to(phase)

    assert rebuilt(played) == played.task


def test_events_rebuild_silence_claims_and_the_end_of_a_task() -> None:
    played = scene(config(rounds=2, lie_slash=10**18), stakes=(1,) * 9)
    played.to(Phase.PROPOSE)
    for _ in range(3):
        played.run_out()
        played.advance()
    played.play_round()

    for account in played.task.addresses:
        if any(played.task.accounts[account].id in pay.workers for pay in played.task.pays.values()):
            played.world.claim(played.call(account), played.task_address, [1, 2])
    played.world.refund(played.call(SPONSOR), played.task_address)

    assert played.task.round.phase is Phase.ENDED
    assert rebuilt(played) == played.task


def test_events_rebuild_a_proven_lie() -> None:
    played = scene(stakes=(1,) * 10)
    played.to(Phase.PROPOSE)
    lie = played.aggregate()
    lie[17] += 1
    played.propose(lie)
    played.vote(played.voters()[0])

    played.prove(STRANGER, 17)

    assert len(played.task.round.convicted) == 2
    assert rebuilt(played) == played.task
    played.play_round()
    assert rebuilt(played) == played.task
