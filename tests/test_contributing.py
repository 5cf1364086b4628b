"""What a contributor and the public continuous integration rely on: files that are not Python, and what they name."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from chainfl import __version__

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


def read(path: Path) -> dict[Any, Any]:
    parsed = yaml.safe_load(path.read_text())
    assert isinstance(parsed, dict)
    return parsed


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found = read(path)["jobs"]
    assert isinstance(found, dict)
    return found


def commands(path: Path) -> list[str]:
    return [step["run"] for job in jobs(path).values() for step in job["steps"] if "run" in step]


def test_both_workflows_are_there() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_can_only_read_and_cannot_hang(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}
    assert [name for name, job in jobs(path).items() if "timeout-minutes" not in job] == []
    assert "secrets." not in path.read_text(), "nothing beside the repository is needed"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_script_that_a_workflow_runs_is_there(path: Path) -> None:
    named = [name for each in commands(path) for name in re.findall(r"(?:scripts|\.ci)/\w+", each)]

    assert named
    assert [name for name in named if not (ROOT / name).stat().st_mode & 0o111] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_pinned_by_commit_and_says_its_version(path: Path) -> None:
    """A tag can be moved to other code after the review, a commit cannot."""
    used = re.findall(r"uses: (.+)$", path.read_text(), flags=re.MULTILINE)

    assert len(used) >= 4
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


def test_an_action_is_pinned_to_one_commit_everywhere_and_somebody_proposes_newer_ones() -> None:
    used = {each for path in WORKFLOWS for each in re.findall(r"uses: (\S+)", path.read_text())}
    updates = read(ROOT / ".github" / "dependabot.yml")["updates"]

    assert len({each.partition("@")[0] for each in used}) == len(used)
    assert [each["package-ecosystem"] for each in updates] == ["github-actions"]


def test_the_workflow_tries_the_wheel_with_every_python_that_the_package_takes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))

    assert jobs(WORKFLOWS[0])["wheel"]["strategy"]["matrix"]["python"] == classifiers
    assert jobs(WORKFLOWS[0])["test"]["strategy"]["matrix"]["python"] == classifiers[:2]


def test_the_workflow_holds_the_floor_of_coverage() -> None:
    assert ".ci/run --coverage" in [step.get("run") for step in jobs(WORKFLOWS[0])["coverage"]["steps"]]


def test_only_the_job_that_publishes_gets_a_token_and_it_waits_for_the_tests() -> None:
    found = jobs(WORKFLOWS[1])

    assert [name for name, job in found.items() if "permissions" in job] == ["publish"]
    assert found["publish"]["permissions"] == {"id-token": "write"}
    assert set(found["publish"]["needs"]) == set(found) - {"publish"}


def test_the_release_reads_the_version_as_it_is_written() -> None:
    first = (ROOT / "chainfl" / "__init__.py").read_text()
    pattern = re.search(r"s/\^(.+?)\$/", "\n".join(commands(WORKFLOWS[1])))

    assert pattern is not None
    written = pattern.group(1).replace(r"\(", "(").replace(r"\)", ")")
    assert re.findall(f"^{written}$", first, flags=re.MULTILINE) == [__version__]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_has_what_github_asks_for(path: Path) -> None:
    form = read(path)

    assert {"name", "description", "body"} <= set(form)
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert [each for each in fields if "label" not in each["attributes"]] == []
    assert len({each["id"] for each in fields}) == len(fields)


def test_hooks_run_only_what_set_up_installs() -> None:
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]

    assert {repo["repo"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"]} == {"local"}
    assert [hook["id"] for hook in hooks if ".venv/bin/" not in hook["entry"]] == []


def test_every_script_that_a_recipe_runs_is_there() -> None:
    recipes = (ROOT / "justfile").read_text()
    paths = re.findall(r"^    ((?:scripts|\.ci)/\w+)", recipes, flags=re.MULTILINE)
    modules = re.findall(r"python -m scripts\.(\w+)", recipes)

    assert len(paths) >= 5
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert [name for name in modules if not (ROOT / "scripts" / f"{name}.py").is_file()] == []
