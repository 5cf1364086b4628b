"""The attacks that the rules survive (tests/protocol/test_attacks.py), on the contracts' bytecode at the same time."""

import pytest

from tests.agree import mirror
from tests.protocol import test_attacks as attacks

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes of this module's tests act on rules and bytecode."""
    monkeypatch.setattr(attacks, "scene", mirror.scene)
    monkeypatch.setattr(attacks, "address", mirror.address)


globals().update({name: test for name, test in vars(attacks).items() if name.startswith("test_")})
