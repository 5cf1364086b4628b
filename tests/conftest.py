"""What all tests share: how deep to search, and programs that may be missing."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from chainfl import tools

# The same cases on every run and machine; scripts/test chooses how many (CHAINFL_TEST_DEPTH).
_SHARED = settings(
    deadline=None,
    derandomize=True,
    print_blob=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fast", _SHARED, max_examples=40)
settings.register_profile("default", _SHARED, max_examples=100)
settings.register_profile("deep", _SHARED, max_examples=2000)
settings.load_profile(os.environ.get("CHAINFL_TEST_DEPTH", "default"))


@pytest.fixture(scope="session")
def require() -> Callable[[str], Path]:
    """Ask for a program by name: its path, else a skip, or a failure where CHAINFL_REQUIRE names it."""
    return _require


def _require(name: str) -> Path:
    found = tools.find(name)
    if found is not None:
        return found
    if name in os.environ.get("CHAINFL_REQUIRE", "").split(","):
        pytest.fail(f"{name} not found, and CHAINFL_REQUIRE names it")
    pytest.skip(f"{name} not found")


@pytest.fixture(scope="session")
def require_extra() -> Callable[[str], None]:
    """Ask for an extra by name: nothing, else a skip, or a failure where CHAINFL_REQUIRE names it."""
    return _require_extra


EXTRAS = {
    "flower": ("flwr",),
    "hf": ("peft", "transformers"),
    "dp": ("opacus",),
    "onnx": ("onnx", "onnxscript"),
}


def _require_extra(extra: str) -> None:
    missing = [package for package in EXTRAS[extra] if find_spec(package) is None]
    if not missing:
        return
    if extra in os.environ.get("CHAINFL_REQUIRE", "").split(","):
        pytest.fail(f"{missing[0]} not found, and CHAINFL_REQUIRE names {extra}")
    pytest.skip(f"{missing[0]} (extra {extra}) not found")
