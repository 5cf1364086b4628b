""".ci/run with and without the tools that may lie beside the repository; scripts/test only reports what it is given."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with .ci/run, where set-up does nothing and the tests report their environment."""
    folder = tmp_path / "checkout"
    program(folder / "scripts" / "setup", "exit 0")
    program(
        folder / "scripts" / "test",
        'echo "require=$CHAINFL_REQUIRE data=${CHAINFL_DATA:-} geth=$(command -v geth) with $*"; exit "${ENDS:-0}"',
    )
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    return folder


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A PATH with what a shell script needs, and no browser, geth or apt."""
    folder = tmp_path / "system"
    folder.mkdir()
    for name in ("bash", "env", "dirname", "mktemp", "rm", "id", "tail", "mkdir", "cp", "chmod"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def share(checkout: Path) -> Path:
    """../shared, whose `unpack` makes a geth."""
    folder = checkout.parent / "shared"
    geth = program(folder / "geth", "exit 0")
    program(folder / "bin" / "unpack", f'cp "{geth}" "$1/geth"')
    (folder / "data").mkdir()
    return folder


def ci(checkout: Path, system: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / ".ci" / "run", *arguments],
        env={"PATH": str(system), "TMPDIR": str(checkout.parent), **environment},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_alone_it_runs_the_tests_and_requires_ray_only(checkout: Path, system: Path) -> None:
    done = ci(checkout, system, "--fast")

    assert done.returncode == 0
    assert done.stdout == "require=ray data= geth= with --fast\n"
    assert "no ../shared" in done.stderr


def test_alone_it_requires_the_browser_that_is_there(checkout: Path, system: Path) -> None:
    program(system / "google-chrome", "exit 0")

    done = ci(checkout, system, CHAINFL_REQUIRE="geth")

    assert done.stdout.startswith("require=geth,ray,chromium data= ")


def test_with_tools_beside_it_they_are_unpacked_and_required(checkout: Path, system: Path) -> None:
    folder = share(checkout)
    program(system / "chromium", "exit 0")

    done = ci(checkout, system)

    assert done.stdout.startswith(
        f"require=ray,ipfs,geth,chromium data={folder / 'data'} geth={checkout.parent}/tmp."
    )
    assert list(checkout.parent.glob("tmp.*")) == [], "what was unpacked is taken away again"


def test_with_tools_beside_it_a_browser_that_cannot_be_installed_is_still_required(
    checkout: Path, system: Path
) -> None:
    share(checkout)
    program(system / "sudo", "exit 1")

    done = ci(checkout, system)

    assert "Chromium could not be installed" in done.stderr
    assert done.stdout.startswith("require=ray,ipfs,geth,chromium ")


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "with tools"])
def test_its_exit_code_is_that_of_the_tests(checkout: Path, system: Path, shared: bool) -> None:
    if shared:
        share(checkout)
        program(system / "chromium", "exit 0")

    assert ci(checkout, system, ENDS="1").returncode == 1


def test_it_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
