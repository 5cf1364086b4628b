import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chainfl.types import Rule
from tests.extending import page

NAME = "interquartile"
NUMBER = len(Rule)
PLAYED = (
    "protocol/test_spec",
    "protocol/test_fold",
    "protocol/test_proof",
    "protocol/test_terms",
    "sim/test_network",
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this tree with the edits of the page."""
    to = tmp_path_factory.mktemp("tree")
    page.copy_tree(to)
    for edit in page.edits():
        page.apply(edit, to)
    return to


def run(tree: Path, *arguments: str) -> str:
    """What a Python process prints that sees the copied tree and not this one."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def run_tests(tree: Path, *files: str) -> str:
    """The tests of these files that are parametrised over rules, for the new one."""
    return run(tree, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", f"[{NUMBER}]", *files)


def test_adding_a_rule_touches_at_most_eight_files() -> None:
    touched = {edit.path for edit in page.edits()}

    assert len(touched) <= 8
    assert {Path(path).suffix for path in touched} == {".py", ".sol", ".md"}


def test_every_file_that_the_page_names_exists() -> None:
    words = re.findall(r"`([\w./]+\.(?:py|sol|md|js))`", page.PAGE.read_text())
    named = {word for word in words if "NAME" not in word}
    folders = [page.ROOT / folder for folder in ("", "chainfl", "chainfl/learning", "contracts/src")]

    assert len(named) >= 20
    assert [name for name in named if not any((folder / name).is_file() for folder in folders)] == []


@pytest.mark.slow
def test_the_rules_play_the_new_rule(tree: Path) -> None:
    told = run_tests(tree, *(f"tests/{name}.py" for name in PLAYED))

    assert "passed" in told
    assert "failed" not in told


@pytest.mark.slow
def test_the_bytecode_gives_the_new_rule_the_same_shares(tree: Path) -> None:
    told = run(tree, "-m", "tests.extending.compare", NAME)

    assert told == f"{NAME}: the same shares for 1 to 128 updates\n"


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_whole_contracts_with_the_new_rule_agree_with_the_rules(tree: Path) -> None:
    run(tree, "scripts/build_contracts.py")

    told = run_tests(tree, "tests/agree/test_proof.py", "tests/contracts/test_artifacts.py")

    assert "passed" in told
