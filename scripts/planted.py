"""Plant known bugs in a copy of the contracts, one at a time, and see that the tests find each.

usage: planted.py [NAME ...]

Patches are in contracts/planted. A bug is found when rules and bytecode disagree in random play, or when an
attack succeeds. Every bug takes a compilation of its own: about two minutes each.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from chainfl.errors import ChainflError, InputError, VerificationError  # noqa: E402

PATCHES: Final = ROOT / "contracts" / "planted"
COPIED: Final = ("chainfl", "scripts", "tests", "contracts/src", "contracts/test")
FILES: Final = ("pyproject.toml", "contracts/foundry.toml", "contracts/solc", "contracts/package.json")
TESTS: Final = ("tests/test_contract_agrees.py", "tests/agree/test_attacks.py")
SECONDS: Final = 1200
TESTS_FAILED: Final = 1


class NotFoundBugError(VerificationError):
    """The tests pass although a bug is planted."""


def names() -> list[str]:
    """All planted bugs."""
    return sorted(path.stem for path in PATCHES.glob("*.patch"))


def is_found(name: str) -> bool:
    """Whether the tests fail on a copy of the project with this bug."""
    patch = PATCHES / f"{name}.patch"
    if not patch.is_file():
        raise InputError(f"no planted bug named {name!r}; there are: {', '.join(names())}")
    with tempfile.TemporaryDirectory(prefix="chainfl-planted-") as folder:
        copy = Path(folder)
        _copy_to(copy)
        _run(copy, "patch", "--silent", "--strip=1", f"--input={patch}")
        _run(copy, sys.executable, "scripts/build_contracts.py")
        tests = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "not deep",
            "-p",
            "no:cacheprovider",
            *TESTS,
        )
        environment = {**os.environ, "CHAINFL_TEST_DEPTH": "fast"}
        done = subprocess.run(
            tests, cwd=copy, env=environment, timeout=SECONDS, check=False, capture_output=True, text=True
        )
        if done.returncode not in (0, TESTS_FAILED):
            raise VerificationError(f"planted {name}: the tests did not run: {done.stdout[-500:]}")
        return done.returncode == TESTS_FAILED


def _copy_to(copy: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, copy / name)
    (copy / "contracts" / "node_modules").symlink_to(ROOT / "contracts" / "node_modules")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, timeout=SECONDS, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise VerificationError(f"planted: {' '.join(command[:2])}: {(done.stderr or done.stdout)[-500:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; answers its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="planted bugs; all when none is named")
    options = parser.parse_args(argv)
    missed = []
    try:
        for name in options.names or names():
            found = is_found(name)
            sys.stdout.write(f"{name}: {'caught' if found else 'NOT CAUGHT'}\n")
            sys.stdout.flush()
            if not found:
                missed.append(name)
        if missed:
            raise NotFoundBugError(f"bugs that no test finds: {', '.join(missed)}")
    except ChainflError as error:
        sys.stderr.write(f"planted: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
