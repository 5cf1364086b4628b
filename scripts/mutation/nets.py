"""The nets: commands that fail when they find a bug. Each is a part of the tests that scripts/test runs."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from chainfl import tools
from chainfl.errors import VerificationError
from scripts.mutation import switch
from scripts.mutation.table import ROOT, Mutant
from scripts.mutation.weave import coinbase

SECONDS: Final = 600
"""A mutant that runs longer is found: tests do not take that long."""

_FAILED: Final = 1
_NO_TESTS: Final = 5
_INVARIANTS: Final = "invariant_|test_handlers"
_PYTEST: Final = (
    sys.executable,
    "-m",
    "pytest",
    *("-q", "-x", "--tb=no", "-m", "not deep"),
    *("-p", "no:cacheprovider", "-p", "pytest_timeout", "-p", switch.__name__),
)
_FORGE: Final = (
    "test",
    "--threads",
    "1",
    "--fail-fast",
    "--color",
    "never",
    "--code-size-limit",
    str(switch.CODE_SIZE),
)


@dataclass(frozen=True, slots=True)
class Net:
    """Tests of one kind, as arguments of pytest or forge."""

    name: str
    what: str
    tests: tuple[str, ...]
    is_forge: bool = False

    def narrowed(self, test: str) -> "Net":
        """The same net with one test in it. Where there is none of that name it finds nothing."""
        only = ("--match-test", rf"^{test}\b") if self.is_forge else (*self.tests, "-k", test)
        return replace(self, tests=only)


CONTRACT_NETS: Final = (
    Net(
        "maths",
        "the libraries against the rules' integers, case by case",
        ("tests/agree/test_maths.py", "tests/contracts/test_libraries_agree.py", "tests/agree/test_proof.py"),
    ),
    Net("unit", "forge's unit and fuzz tests", ("--no-match-test", _INVARIANTS), is_forge=True),
    Net(
        "rules",
        "random play on rules and bytecode",
        ("tests/agree/test_terms.py", "tests/test_contract_agrees.py"),
    ),
    Net(
        "attacks",
        "attacks on rules and bytecode",
        tuple(f"tests/agree/test_{name}.py" for name in ("survivors", "phases", "attacks")),
    ),
    Net(
        "invariants",
        "forge's random play against its own books",
        ("--match-test", _INVARIANTS),
        is_forge=True,
    ),
)

PYTHON_NETS: Final = (
    Net(
        "protocol",
        "unit and property tests of the rules",
        ("tests/protocol", "--ignore=tests/protocol/test_attacks.py"),
    ),
    Net("attacks", "attacks on the rules", ("tests/protocol/test_attacks.py",)),
    Net("roles", "what a participant does", ("tests/roles",)),
    Net(
        "sim",
        "whole rounds, and traces played again",
        ("tests/sim/test_network.py", "tests/sim/test_replay.py"),
    ),
    Net(
        "audit",
        "evidence, bundles, watching and challenging",
        tuple(f"tests/audit/test_{name}.py" for name in ("evidence", "walk", "watch", "challenge", "bundle")),
    ),
    Net(
        "agreement",
        "the comparison with the bytecode",
        ("tests/agree", "tests/contracts/test_libraries_agree.py", "tests/test_contract_agrees.py"),
    ),
)


@dataclass(frozen=True, slots=True)
class Switch:
    """How a mutant is switched on, and where its nets run."""

    folder: Path
    environment: Mapping[str, str]
    coinbase: str


def on_contracts(folder: Path, mutant: Mutant | None) -> Switch:
    """One mutant of the contracts, or none of them, in the copy that holds all."""
    number = mutant.number if mutant else 0
    return Switch(folder, {switch.CONTRACT: str(number)}, coinbase(number))


def on_python(mutant: Mutant | None) -> Switch:
    """One mutant of the package, or none."""
    return Switch(ROOT, {switch.PYTHON: mutant.name} if mutant else {}, coinbase(0))


def run(net: Net, switched: Switch) -> str | None:
    """The first test that fails; None when all pass.

    Raises:
        VerificationError: the tests could not run.
    """
    with tempfile.TemporaryDirectory(prefix="chainfl-mutants-") as kept:
        command, folder, environment = _forge(net, switched, kept) if net.is_forge else _pytest(net, switched)
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                timeout=SECONDS,
                check=False,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return f"took longer than {SECONDS} s"

    if done.returncode == 0 or (done.returncode == _NO_TESTS and not net.is_forge):
        return None

    failed = first_failure(done.stdout)
    if done.returncode != _FAILED or failed is None:
        tail = (done.stdout + done.stderr).strip()[-800:]
        raise VerificationError(f"mutants: {net.name} did not run ({switched.environment}): {tail}")
    return failed


def _pytest(net: Net, switched: Switch) -> tuple[Sequence[str], Path, dict[str, str]]:
    environment = {
        **switched.environment,
        "CHAINFL_TEST_DEPTH": "fast",
        "CHAINFL_NO_NUMBA": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return (*_PYTEST, *net.tests), switched.folder, environment


def _forge(net: Net, switched: Switch, kept: str) -> tuple[Sequence[str], Path, dict[str, str]]:
    """What fails needs no shorter example, and must not be tried again by the next mutant's run."""
    environment = {
        "FOUNDRY_PROFILE": "fast",
        "FOUNDRY_DENY": "never",
        "FOUNDRY_INVARIANT_SHRINK_RUN_LIMIT": "0",
        "FOUNDRY_INVARIANT_FAILURE_PERSIST_DIR": f"{kept}/invariant",
        "FOUNDRY_FUZZ_FAILURE_PERSIST_DIR": f"{kept}/fuzz",
        "FOUNDRY_TEST_FAILURES_FILE": f"{kept}/failures",
    }
    command = (str(tools.require("forge")), *_FORGE, "--block-coinbase", switched.coinbase, *net.tests)
    return command, switched.folder / "contracts", environment


def first_failure(output: str) -> str | None:
    """The name of a failed test. forge tells the calls that led to it between the verdict and the name."""
    for pattern in (r"^(?:FAILED|ERROR) (\S+)", r"^\[FAIL(?:.|\n)*?\b(setUp|(?:test|invariant)\w*)\("):
        if found := re.search(pattern, output, re.MULTILINE):
            return found[1].partition("::")[2] or found[1]
    return None
