"""One history on one anvil for all tests of bundles and challenges."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.audit.scene import History, history


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[History]:
    """Rounds 1 (right) and 2 (a lie that was let through) settled, round 3 in Challenge with a lie that stands."""
    require("anvil")
    with history(tmp_path_factory.mktemp("history")) as built:
        yield built


@pytest.fixture
def standing(played: History) -> Iterator[History]:
    """The history with its standing lie, whatever a test does to it."""
    snapshot = played.chain.rpc("evm_snapshot", [])
    yield played
    played.chain.rpc("evm_revert", [snapshot])
