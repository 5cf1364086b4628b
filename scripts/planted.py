"""Plant known bugs in a copy of the contracts, one at a time, and see which of three nets find each.

usage: planted.py [--net NET ...] [NAME ...]

Patches are in contracts/planted. The nets: random play against the rules (rules) and attacks (attacks), both on rules
and bytecode at once, and forge's random play against books of its own (invariants). A bug is caught when the invariants
find it and one of the other two. Every bug is compiled twice, for Python and for forge: about four minutes each.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from chainfl import tools  # noqa: E402
from chainfl.errors import ChainflError, InputError, VerificationError  # noqa: E402

PATCHES: Final = ROOT / "contracts" / "planted"
COPIED: Final = ("chainfl", "scripts", "tests", "contracts/src", "contracts/test")
FILES: Final = ("pyproject.toml", "contracts/foundry.toml", "contracts/solc", "contracts/package.json")
PYTHON_NETS: Final = {"rules": "tests/test_contract_agrees.py", "attacks": "tests/agree/test_attacks.py"}
INVARIANTS: Final = "invariants"
NETS: Final = (*PYTHON_NETS, INVARIANTS)
COMPILED: Final = ("contracts/out", "contracts/cache")
INVARIANT_TESTS: Final = (
    "Base.t.sol",
    *(f"TrainingTask.{n}.t.sol" for n in ("books", "handler", "invariant")),
)
SECONDS: Final = 1200
TESTS_FAILED: Final = 1


class NotFoundBugError(VerificationError):
    """The tests pass although a bug is planted."""


def names() -> list[str]:
    """All planted bugs."""
    return sorted(path.stem for path in PATCHES.glob("*.patch"))


def is_caught(found: Sequence[str]) -> bool:
    """Whether both sides see it: the contracts' own tests, and the comparison with the rules."""
    return INVARIANTS in found and any(net in found for net in PYTHON_NETS)


def finders(name: str, nets: Sequence[str] = NETS) -> list[str]:
    """Which of the nets find this bug in a copy of the project."""
    with _planted(name) as copy:
        if any(net in nets for net in PYTHON_NETS):
            _run(copy, sys.executable, "scripts/build_contracts.py")
        found = [net for net, tests in PYTHON_NETS.items() if net in nets and _python_fails(copy, tests)]
        return [*found, INVARIANTS] if INVARIANTS in nets and _forge_fails(copy) else found


@contextmanager
def _planted(name: str) -> Iterator[Path]:
    patch = PATCHES / f"{name}.patch"
    if not patch.is_file():
        raise InputError(f"no planted bug named {name!r}; there are: {', '.join(names())}")
    with tempfile.TemporaryDirectory(prefix="chainfl-planted-") as folder:
        copy = Path(folder)
        _copy_to(copy)
        _run(copy, "patch", "--silent", "--strip=1", f"--input={patch}")
        yield copy


def _python_fails(copy: Path, tests: str) -> bool:
    pytest = ("-m", "pytest", "-q", "-x", "-m", "not deep", "-p", "no:cacheprovider", tests)
    return _fails(copy, {"CHAINFL_TEST_DEPTH": "fast"}, sys.executable, *pytest)


def _forge_fails(copy: Path) -> bool:
    """The invariants alone, compiled first: a bug that does not compile is none."""
    contracts, forge = copy / "contracts", str(tools.require("forge"))
    for test in (contracts / "test").rglob("*.sol"):
        if test.name not in INVARIANT_TESTS:
            test.unlink()
    # What forge compiled before it need not compile again, as far as the bug leaves it alone.
    for name in COMPILED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
    # A bug may look odd to the compiler, and what fails needs no shorter example.
    environment = {
        "FOUNDRY_PROFILE": "fast",
        "FOUNDRY_DENY": "never",
        "FOUNDRY_INVARIANT_SHRINK_RUN_LIMIT": "0",
    }
    _run(contracts, forge, "build", **environment)
    return _fails(contracts, environment, forge, "test")


def _fails(folder: Path, environment: dict[str, str], *command: str) -> bool:
    done = _do(folder, environment, *command)
    if done.returncode not in (0, TESTS_FAILED):
        raise VerificationError(f"planted: {command[0]} did not run: {(done.stderr or done.stdout)[-500:]}")
    for line in dict.fromkeys(done.stdout.splitlines()):
        if line.startswith(("[FAIL", "FAILED")):
            sys.stderr.write(f"{line}\n")
    return done.returncode == TESTS_FAILED


def _copy_to(copy: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, copy / name)
    (copy / "contracts" / "node_modules").symlink_to(ROOT / "contracts" / "node_modules")


def _run(folder: Path, *command: str, **environment: str) -> None:
    done = _do(folder, environment, *command)
    if done.returncode != 0:
        raise VerificationError(f"planted: {' '.join(command[:2])}: {(done.stderr or done.stdout)[-500:]}")


def _do(folder: Path, environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        timeout=SECONDS,
        check=False,
        capture_output=True,
        text=True,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; answers its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="planted bugs; all when none is named")
    parser.add_argument(
        "--net",
        action="append",
        choices=NETS,
        help="only this net, as often as wanted; all when none is named",
    )
    options = parser.parse_args(argv)
    nets, missed = options.net or NETS, []
    try:
        for name in options.names or names():
            found = finders(name, nets)
            caught = is_caught(found) if nets == NETS else bool(found)
            sys.stdout.write(
                f"{name}: {'caught' if caught else 'NOT CAUGHT'}, by {', '.join(found) or 'none'}\n"
            )
            sys.stdout.flush()
            if not caught:
                missed.append(name)
        if missed:
            raise NotFoundBugError(f"bugs that are not caught: {', '.join(missed)}")
    except ChainflError as error:
        sys.stderr.write(f"planted: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
