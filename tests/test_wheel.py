"""The wheel as a stranger gets it: built from the tree, installed alone, run away from the checkout."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from chainfl import DISTRIBUTION, __version__
from chainfl.report import commit, version_line

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

    assert done.stdout == version_line() + "\n", "the wheel must name the commit it was built from"


def test_the_installed_doctor_finds_its_packages(installed: Path, tmp_path: Path) -> None:
    answer = json.loads(run(installed / "chainfl", "doctor", "--json", cwd=tmp_path).stdout)

    assert answer["ok"] is True
    assert answer["commit"] == commit()
    packages = next(each for each in answer["metrics"]["findings"] if each["name"] == "packages")
    assert re.fullmatch(r"all \d\d that chainfl needs", packages["detail"])


def test_the_installed_package_is_not_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import chainfl; print(chainfl.__file__)", cwd=tmp_path).stdout

    assert Path(where.strip()).is_relative_to(installed.parent)


def test_the_wheel_has_a_name_of_its_own(wheel: Path) -> None:
    assert wheel.name == f"{DISTRIBUTION.replace('-', '_')}-{__version__}-py3-none-any.whl"


def test_a_wheel_made_from_the_source_archive_names_the_commit_too(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(path for path in tmp_path.iterdir() if path.is_dir())

    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=unpacked)

    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as packed:
        recorded = [packed.read(name) for name in packed.namelist() if name == "chainfl/commit.txt"]
    assert recorded == ([] if commit() is None else [f"{commit()}\n".encode()])
