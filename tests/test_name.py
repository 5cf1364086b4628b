"""The name on PyPI: `chainfl` there belongs to somebody else, so no line of ours may install it."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from chainfl import DISTRIBUTION, __version__
from chainfl.tools import pip_install

ROOT = Path(__file__).resolve().parents[1]

# An installer, then any options, then the bare name: alone, quoted, with extras or with a version.
WRONG = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|conda)[ \t]+(?:tool[ \t]+)?(?:install|add|download|run)"
    r"(?:[ \t]+-[^\s`]+)*[ \t]+['\"]?chainfl(?=$|[\s'\"\[`<>=!~,;:.)])"
    r"|(?<![\w./-])chainfl\[[a-z, ]+\](?!\()",
    re.MULTILINE,
)


def tracked() -> list[Path]:
    """Every text file that the repository keeps, or would with the next commit."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [
        path for path in paths if path.is_file() and "corpus" not in path.parts and path != Path(__file__)
    ]


def wrong_lines(text: str) -> list[str]:
    return [match.group() for match in WRONG.finditer(text)]


@pytest.mark.parametrize(
    "line",
    [
        "pip install chainfl",
        "pip install 'chainfl[api]'",
        "python -m pip install -q --upgrade chainfl==0.1.0",
        "uv add chainfl",
        "`pip install chainfl`",
        '"chainfl[api,plot]",',
    ],
)
def test_a_line_that_installs_the_wrong_package_is_seen(line: str) -> None:
    assert wrong_lines(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install chainfl-protocol",
        "pip install 'chainfl-protocol[api]'",
        "pip install . && chainfl demo",
        "pip uninstall -y chainfl",
        "install -d -o chainfl /data",
    ],
)
def test_a_line_that_installs_ours_is_left_alone(line: str) -> None:
    assert wrong_lines(line) == []


def test_no_line_of_the_repository_installs_somebody_elses_package() -> None:
    files = tracked()

    wrong = {}
    for path in files:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if found := wrong_lines(text):
            wrong[str(path.relative_to(ROOT))] = found

    assert len(files) > 300
    assert wrong == {}


def test_the_name_is_said_once_and_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["name"] == DISTRIBUTION
    assert pip_install() == f"pip install {DISTRIBUTION}"
    assert pip_install("api") == f"pip install '{DISTRIBUTION}[api]'"


@pytest.mark.parametrize("extra", ["api", "plot", "ray", "train", "fuzz", "dev"])
def test_every_extra_that_a_message_or_page_names_exists(extra: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert extra in extras


def test_the_version_has_its_heading_in_the_changelog() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()

    assert re.search(rf"^## {re.escape(__version__)} - \d{{4}}-\d\d-\d\d$", changes, flags=re.MULTILINE)
