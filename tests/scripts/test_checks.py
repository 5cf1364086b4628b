"""scripts/test itself: its last line must never hide a failure."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import checks
from scripts.checks import Counts, forge_tests, honest, mutants, one, pytest_tests

FORGE = (
    "Ran 3 test suites in 1s: \x1b[32m41\x1b[0m tests passed, {failed} failed, 2 skipped (46 total tests)\n"
)


def test_a_lint_counts_as_one() -> None:
    assert one(0, "") == Counts(passed=1)
    assert one(3, "") == Counts(failed=1)


def test_forge_counts_come_from_its_last_summary() -> None:
    assert forge_tests(1, FORGE.format(failed=3)) == Counts(41, 3, 2)
    assert str(forge_tests(0, FORGE.format(failed=0))) == "41 passed, 0 failed, 2 skipped"


def test_a_mutant_that_survives_is_a_failure() -> None:
    assert mutants(0, "py-a: found by roles\n12 caught, 0 survived\n") == Counts(passed=12)
    assert mutants(1, "survivors: py-a\n11 caught, 1 survived\n") == Counts(passed=11, failed=1)
    assert mutants(4, "mutants: a row does not fit\n") == Counts(failed=1)


@pytest.mark.parametrize("counts", [Counts(), Counts(passed=12, skipped=1)])
def test_a_bad_exit_code_is_a_failure_whatever_was_counted(counts: Counts) -> None:
    assert honest(1, counts).failed == 1
    assert honest(0, counts) == counts
    assert honest(1, Counts(failed=4)).failed == 4


def test_pytest_counts_come_from_the_file_it_writes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert False\n"
        "def test_is_left_out(): pytest.skip('no geth')\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError\n"
        "def test_has_no_scene(broken): pass\n"
    )
    junit = tmp_path / "junit.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={junit}", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert pytest_tests(junit)(done.returncode, done.stdout) == Counts(passed=1, failed=2, skipped=1)


def test_a_pytest_that_wrote_no_file_is_a_failure(tmp_path: Path) -> None:
    assert pytest_tests(tmp_path / "none.xml")(4, "") == Counts(failed=1)


def test_the_output_of_a_failed_check_is_kept_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    check = checks.Check("bad", "lint", (sys.executable, "-c", "print('what went wrong'); exit(3)"), one)

    outcome = checks.run(check, {})

    assert outcome.counts == Counts(failed=1)
    assert outcome.output == "what went wrong\n"
    assert "FAILED" in capsys.readouterr().out


def test_coverage_counts_the_unit_tests_and_then_holds_the_floor(tmp_path: Path) -> None:
    counted, floor = checks.checks("fast", tmp_path / "junit.xml", tmp_path / "site", 2, coverage=True)
    settings = tomllib.loads((checks.ROOT / "pyproject.toml").read_text())["tool"]["coverage"]

    assert counted.command[1:4] == ("-m", "coverage", "run")
    assert {checks.SELECTION["fast"], "--ignore=tests/integration"} <= set(counted.command)
    assert floor.command[1:4] == ("-m", "coverage", "report")
    assert settings["run"] == {"branch": True, "source": ["chainfl"]}
    assert settings["report"]["fail_under"] > 80


def test_below_the_floor_coverage_fails(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("def never() -> int:\n    number = 1\n    return number\n")
    settings = tmp_path / "settings"
    coverage = (sys.executable, "-m", "coverage")

    def report(floor: int) -> Counts:
        settings.write_text(f"[run]\ndata_file = {tmp_path}/data\n[report]\nfail_under = {floor}\n")
        subprocess.run(
            [*coverage, "run", f"--rcfile={settings}", tmp_path / "half.py"], check=True, timeout=60
        )
        command = (*coverage, "report", f"--rcfile={settings}", "--format=total")
        return checks.run(checks.Check("floor", "python", command, one), os.environ).counts

    assert report(33) == Counts(passed=1)
    assert report(34) == Counts(failed=1)


def test_depths_select_more_and_more() -> None:
    assert "not slow and not deep" in checks.pytest_command("fast", Path("junit.xml"), 2)
    assert "not deep" in checks.pytest_command("default", Path("junit.xml"), 2)
    assert "-m" not in checks.pytest_command("deep", Path("junit.xml"), 2)[3:]
    assert [check.name for check in checks.mutant_checks("deep", 2)] == ["mutants"]
    assert checks.mutant_checks("default", 2) == []


def test_pages_and_spelling_are_checked_with_the_lints(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("forge")
    planned = checks.checks("fast", tmp_path / "junit.xml", tmp_path / "site", 2)

    lints = {check.name: check.command for check in planned if check.group == "lint"}
    assert {"spelling", "docs site"} <= set(lints)
    assert "--strict" in lints["docs site"]
    assert str(tmp_path / "site") in lints["docs site"], "the checkout stays clean"


def test_a_spelling_error_is_found_and_the_repositorys_own_words_are_not(tmp_path: Path) -> None:
    (tmp_path / "wrong.md").write_text(
        "Sep" + "erate words.\n"
    )  # in two pieces, or this file would fail the check itself
    (tmp_path / "right.md").write_text("Toom and Cook multiply.\n")

    codes = [
        subprocess.run(
            [checks.BIN / "codespell", tmp_path / name], cwd=checks.ROOT, capture_output=True
        ).returncode
        for name in ("wrong.md", "right.md")
    ]

    assert codes[0] != 0
    assert codes[1] == 0
