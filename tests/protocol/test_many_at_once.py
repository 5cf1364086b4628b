"""What many workers do in one transaction of the rules; the simulator's, so the contracts have no such call."""

import pytest

from chainfl.codec.commitments import worker_payload
from chainfl.protocol import errors
from chainfl.protocol.state import RevealedUpdate
from chainfl.types import Phase
from tests.protocol.scene import SALT, STRANGER, scene

ROOT, CID = b"\x0a" * 32, b"\x0c" * 32


def test_what_many_workers_do_as_one_leaves_what_each_by_itself_leaves() -> None:
    alone, together = scene(), scene()
    for played in (alone, together):
        played.to(Phase.TRAIN)
    workers = alone.workers()

    for who in workers:
        alone.commit(who, ROOT)
    sealed = [
        (together.call(who), together.seal(who, Phase.TRAIN, worker_payload(ROOT, CID, 100)))
        for who in workers
    ]
    together.world.commit_updates(sealed, together.task_address, together.number)
    assert together.task == alone.task

    for played in (alone, together):
        played.advance()
    for who in workers:
        alone.reveal(who, ROOT)
    shown = [(together.call(who), RevealedUpdate(ROOT, CID, 100)) for who in workers]
    together.world.reveal_updates(shown, together.task_address, together.number, SALT)
    assert together.task == alone.task
    assert together.world.log == alone.world.log


def test_of_what_many_workers_do_as_one_nothing_counts_when_one_is_refused() -> None:
    played = scene()
    played.to(Phase.TRAIN)
    before, told = played.task, list(played.world.log)
    calls = [(played.call(who), ROOT) for who in (played.workers()[0], STRANGER)]

    with pytest.raises(errors.NotEnrolledError):
        played.world.commit_updates(calls, played.task_address, played.number)

    assert (played.task, played.world.log) == (before, told)
