"""What scripts/test does after set-up: run every check, add up the counts, show again what failed.

A lint is one check. forge and pytest count their tests. A check that ends badly without saying how many tests
failed counts as one failure, so the last line never hides anything.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chainfl import tools
from chainfl.errors import ToolMissingError

ROOT: Final = Path(__file__).resolve().parent.parent
CONTRACTS: Final = ROOT / "contracts"
PYTHON: Final = sys.executable
BIN: Final = Path(sys.executable).parent
TAIL_LINES: Final = 150

SELECTION: Final[Mapping[str, str]] = {"fast": "not slow and not deep", "default": "not deep", "deep": ""}
TIMEOUT_SECONDS: Final[Mapping[str, int]] = {"fast": 120, "default": 600, "deep": 7200}


@dataclass(frozen=True, slots=True)
class Counts:
    """How many checks passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        """Both together."""
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        """The last line of scripts/test."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One command and how to count what it did, from its exit code and output."""

    name: str
    group: str
    command: tuple[str, ...]
    count: Callable[[int, str], Counts]
    folder: Path = ROOT
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A check that has run."""

    check: Check
    counts: Counts
    output: str
    seconds: float


def one(code: int, _output: str) -> Counts:
    """A lint: it holds or it does not."""
    return Counts(passed=1) if code == 0 else Counts(failed=1)


def forge_tests(code: int, output: str) -> Counts:
    """The tests of `forge test`, from its summary line."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    found = re.findall(r"(\d+) tests passed, (\d+) failed, (\d+) skipped", plain)
    counts = Counts(*map(int, found[-1])) if found else Counts()
    return honest(code, counts)


def pytest_tests(junit: Path) -> Callable[[int, str], Counts]:
    """The tests of a pytest run, from the JUnit file it wrote."""

    def count(code: int, _output: str) -> Counts:
        try:
            suites = ElementTree.parse(junit).getroot().iter("testsuite")
        except (OSError, ElementTree.ParseError):
            return honest(code, Counts())
        return honest(code, sum(map(suite_counts, suites), Counts()))

    return count


def mutants(code: int, output: str) -> Counts:
    """The mutants of `scripts/mutants`, from its last line; one that survives is a failure."""
    found = re.findall(r"^(\d+) caught, (\d+) survived$", output, re.MULTILINE)
    return honest(code, Counts(*map(int, found[-1])) if found else Counts())


def suite_counts(suite: ElementTree.Element) -> Counts:
    """The counts of one JUnit suite; an error in set-up or tear-down is a failure."""
    tests, failures, errors, skipped = (
        int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")
    )
    return Counts(tests - failures - errors - skipped, failures + errors, skipped)


def honest(code: int, counts: Counts) -> Counts:
    """A bad exit code is at least one failure, whatever was counted."""
    return counts if code == 0 or counts.failed else counts + Counts(failed=1)


def checks(depth: str, junit: Path, site: Path, workers: int, coverage: bool = False) -> list[Check]:
    """Every check, cheapest first; with `coverage` those alone that count what the unit tests reach."""
    if coverage:
        return coverage_checks(junit)
    return [
        lint("ruff check", "lint", BIN / "ruff", "check", "."),
        lint("ruff format", "lint", BIN / "ruff", "format", "--check", "."),
        lint("mypy --strict", "lint", BIN / "mypy"),
        lint("import layers", "lint", BIN / "lint-imports", "--no-logo"),
        lint("spelling", "lint", BIN / "codespell"),
        lint("docs site", "lint", BIN / "mkdocs", "build", "--strict", "--quiet", "--site-dir", site),
        *contract_checks(depth),
        Check("pytest", "python", pytest_command(depth, junit, workers), pytest_tests(junit), streams=True),
        *mutant_checks(depth, workers),
    ]


def lint(name: str, group: str, *command: str | Path, folder: Path = ROOT) -> Check:
    """A check that holds or does not."""
    return Check(name, group, tuple(map(str, command)), one, folder)


def contract_checks(depth: str) -> list[Check]:
    """The checks of contracts/; without forge they fail in one line that says what to do."""
    forge = tools.require("forge")
    test = (str(forge), "test", "--color", "never")
    fresh = ("--check", "--compile", "--every-compiler") if depth == "deep" else ("--check",)
    return [
        lint("forge fmt", "contracts", forge, "fmt", "--check", folder=CONTRACTS),
        lint("forge build", "contracts", forge, "build", "--deny", "warnings", folder=CONTRACTS),
        lint("contract artifacts", "contracts", PYTHON, ROOT / "scripts" / "build_contracts.py", *fresh),
        Check("forge test", "contracts", test, forge_tests, CONTRACTS, streams=True),
    ]


def coverage_checks(junit: Path) -> list[Check]:
    """The unit tests with lines and branches counted, in one process, and the floor in pyproject.toml."""
    tests = (
        "pytest",
        "-q",
        "-rs",
        "-m",
        SELECTION["fast"],
        "--ignore=tests/integration",
        f"--junitxml={junit}",
    )

    run_tests = (PYTHON, "-m", "coverage", "run", "-m", *tests)
    floor = (PYTHON, "-m", "coverage", "report", "--format=total")
    return [
        Check("unit tests, counted", "python", run_tests, pytest_tests(junit), streams=True),
        Check("coverage floor", "python", floor, one, streams=True),
    ]


def mutant_checks(depth: str, workers: int) -> list[Check]:
    """The tests of the tests: every planted bug has to be found. It takes as long as all the rest."""
    command = (PYTHON, "-m", "scripts.mutation", "--workers", str(workers))
    return [Check("mutants", "mutants", command, mutants, streams=True)] if depth == "deep" else []


def pytest_command(depth: str, junit: Path, workers: int) -> tuple[str, ...]:
    """pytest with the selection of this depth, skips listed by name."""
    selection = ("-m", SELECTION[depth]) if SELECTION[depth] else ()
    timeout = ("-o", f"timeout={TIMEOUT_SECONDS[depth]}")
    parallel = ("-n", str(workers), "--dist", "worksteal")

    return (
        PYTHON,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "--durations=5",
        *parallel,
        *selection,
        *timeout,
        f"--junitxml={junit}",
    )


def run(check: Check, environment: Mapping[str, str]) -> Outcome:
    """Run one check; long ones show their output while they run."""
    started = time.perf_counter()
    say(f"-- {check.name}")

    with subprocess.Popen(
        check.command,
        cwd=check.folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        output = drain(process, check.streams)

    counts = check.count(process.returncode, output)
    seconds = time.perf_counter() - started
    say(f"   {'FAILED' if counts.failed else 'ok'}, {counts}, {seconds:.1f} s")
    return Outcome(check, counts, output, seconds)


def drain(process: "subprocess.Popen[str]", show: bool) -> str:
    """All output of a process, shown line by line where asked."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if show:
            say(line.rstrip("\n"))
    return "".join(lines)


def say(line: str) -> None:
    """One line of progress, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line of scripts/test."""
    parser = argparse.ArgumentParser(prog="scripts/test", description="Run every check of this repository.")
    depth = parser.add_mutually_exclusive_group()
    for name, what in (("fast", "the inner loop, under 3 minutes"), ("deep", "the long campaigns too")):
        depth.add_argument(f"--{name}", dest="depth", action="store_const", const=name, help=what)
    parser.add_argument(
        "--only", choices=("lint", "contracts", "python", "mutants"), help="one group of checks"
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="only: what the unit tests reach, against the floor in pyproject.toml",
    )

    parser.add_argument("--workers", type=int, default=2, help="pytest processes side by side (default 2)")
    parser.set_defaults(depth="default")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the checks asked for; 0 when nothing failed."""
    asked = parse(arguments)
    depth = "fast" if asked.coverage else asked.depth
    environment = {
        **os.environ,
        "FOUNDRY_PROFILE": depth,
        "CHAINFL_TEST_DEPTH": depth,
        "PYTHONUNBUFFERED": "1",
        "NO_MKDOCS_2_WARNING": "1",
    }

    with tempfile.TemporaryDirectory(prefix="chainfl-test-") as folder:
        places = (Path(folder) / "junit.xml", Path(folder) / "site")
        planned = checks(depth, *places, asked.workers, asked.coverage)
        outcomes = [run(each, environment) for each in planned if asked.only in {None, each.group}]

    for outcome in outcomes:
        if outcome.counts.failed:
            say(f"\n==== {outcome.check.name} failed ({' '.join(outcome.check.command)})")
            say("\n".join(outcome.output.splitlines()[-TAIL_LINES:]))

    total = sum((outcome.counts for outcome in outcomes), Counts())
    failed = [outcome.check.name for outcome in outcomes if outcome.counts.failed]
    say(
        f"\n{sum(outcome.seconds for outcome in outcomes):.0f} s{'; failed: ' if failed else ''}{', '.join(failed)}"
    )
    say(str(total))
    return 1 if total.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ToolMissingError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted")
