"""A task's address follows from who makes it and on what terms: after a reorg nobody's stake goes to other terms."""

from dataclasses import replace

import pytest

from chainfl.types import Address, TaskConfig
from tests.agree.evm import Chain
from tests.agree.twin import CHAIN_ID, new_twin
from tests.protocol.scene import ETHER, SPONSOR, STRANGER, config

pytestmark = pytest.mark.slow
ESCROW = ETHER // 2


def made(sponsor: Address, terms: TaskConfig, escrow: int, before: int = 0) -> Address:
    """Where a task stands on a new chain, always the same one, on which so many others were made before."""
    twin = new_twin(Chain(CHAIN_ID))
    for _ in range(before):
        assert twin.create_task(STRANGER, config(), ESCROW) is not None
    task = twin.create_task(sponsor, terms, escrow)
    assert task is not None
    return task


def test_after_a_reorg_no_other_task_stands_at_an_address_that_people_stake_to() -> None:
    terms = config()
    task = made(SPONSOR, terms, ESCROW)

    others = [
        made(STRANGER, terms, ESCROW),
        made(SPONSOR, replace(terms, challenge_seconds=terms.challenge_seconds + 1), ESCROW),
        made(SPONSOR, replace(terms, liveness_slash=0), ESCROW),
        made(SPONSOR, terms, ESCROW + ETHER // 100),
        made(SPONSOR, terms, ESCROW, before=1),
    ]

    assert len({task, *others}) == 1 + len(others)
    assert made(SPONSOR, terms, ESCROW) == task
