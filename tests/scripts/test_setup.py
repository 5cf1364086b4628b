"""scripts/setup on machines that lack something; nothing is installed here."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without an environment: only what set-up reads."""
    for name in (
        "pyproject.toml",
        "constraints.txt",
        "contracts/package.json",
        "contracts/package-lock.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    return tmp_path


def setup(checkout: Path, python: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", checkout / "scripts" / "setup"],
        env={"PATH": "/usr/bin:/bin", "CHAINFL_PYTHON": str(python), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def fake_python(path: Path, answers: str) -> Path:
    path.write_text(f"#!/bin/sh\n{answers}\n")
    path.chmod(0o755)
    return path


def test_no_fitting_python_is_said_in_one_line(checkout: Path) -> None:
    done = setup(checkout, checkout / "no-such-python")

    assert done.returncode == 6
    assert done.stderr.startswith("setup: no Python 3.11 to 3.14 found")
    assert "CHAINFL_PYTHON" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_names_the_package_to_install(checkout: Path) -> None:
    answers = 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.12;; esac'

    done = setup(checkout, fake_python(checkout / "python", answers))

    assert done.returncode == 6
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3.12-venv" in done.stderr
