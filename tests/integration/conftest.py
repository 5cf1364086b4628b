"""A chain for each file of tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.chain import Devchain, devchain


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[Devchain]:
    """One anvil with the contracts for all tests of a file."""
    require("anvil")
    with devchain(tmp_path_factory.mktemp("chain")) as built:
        yield built
