"""Who may do what in which phase (tests/protocol/test_phases.py), asked of the contracts' bytecode at the same time."""

import pytest

from tests.agree import mirror
from tests.protocol import test_phases as phases

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes of this module's tests act on rules and bytecode."""
    monkeypatch.setattr(phases, "scene", mirror.scene)
    monkeypatch.setattr(phases, "address", mirror.address)


globals().update({name: test for name, test in vars(phases).items() if name.startswith("test_")})
