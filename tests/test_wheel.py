"""The wheel as a stranger gets it: built from the tree, installed alone, run away from the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from chainfl import __version__

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {
        key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=180, check=True
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", into)
    return next(into.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what it depends on is lent by this one: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    # The line is read as a path: packages only, not the link to this checkout.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_the_wheel_carries_what_it_needs_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {"chainfl/py.typed", "chainfl/cli/app.py", "chainfl/api/static/index.html"} <= set(names)
    assert [name for name in names if name.startswith(("tests", "scripts", "contracts", "services"))] == []


def test_the_installed_command_prints_its_version(installed: Path, tmp_path: Path) -> None:
    done = run(installed / "chainfl", "--version", cwd=tmp_path)

    assert done.stdout == f"chainfl {__version__}\n"


def test_the_installed_doctor_finds_its_packages(installed: Path, tmp_path: Path) -> None:
    answer = json.loads(run(installed / "chainfl", "doctor", "--json", cwd=tmp_path).stdout)

    assert answer["ok"] is True
    assert answer["commit"] is None, "the installed package must not be the checkout"
