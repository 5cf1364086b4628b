"""What comparisons of the libraries share."""

from pathlib import Path

import pytest

from chainfl import artifacts
from tests.contracts.evm import Deployed

HARNESS = Path(__file__).parents[2] / "contracts" / "test" / "artifacts" / "RulesHarness.json"


@pytest.fixture(scope="module")
def libraries() -> Deployed:
    """The libraries in an EVM."""
    return Deployed(artifacts.parse(HARNESS.read_text(encoding="utf-8")))
