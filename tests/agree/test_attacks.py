"""The attacks that the rules survive (tests/protocol/test_attacks.py), on the contracts' bytecode at the same time."""

import pytest

from tests.agree import mirror
from tests.protocol import test_attacks as attacks

pytestmark = pytest.mark.slow

ON_RULES_ALONE = frozenset(
    {
        # The chain decides whether a block is out of reach; random play drives both there.
        "test_a_seed_that_is_out_of_reach_opens_the_draw_again_unpaid",
        # These compare two tasks drawn from one seed: on a chain a seed belongs to one task.
        "test_a_target_that_the_head_reaches_ends_the_task_and_pays_for_the_round",
        "test_stake_moved_after_the_seed_is_known_changes_no_draw",
    }
)


@pytest.fixture(autouse=True)
def _in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes of this module's tests act on rules and bytecode."""
    monkeypatch.setattr(attacks, "scene", mirror.scene)
    monkeypatch.setattr(attacks, "address", mirror.address)


globals().update(
    {
        name: test
        for name, test in vars(attacks).items()
        if name.startswith("test_") and name not in ON_RULES_ALONE
    }
)
