"""Bugs that no other test found (docs/mutants.md): the scenes of tests/protocol/test_survivors.py, on bytecode too."""

import pytest

from tests.agree import mirror
from tests.protocol import test_survivors as survivors

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes of this module's tests act on rules and bytecode."""
    monkeypatch.setattr(survivors, "scene", mirror.scene)
    monkeypatch.setattr(survivors, "address", mirror.address)


globals().update({name: test for name, test in vars(survivors).items() if name.startswith("test_")})
