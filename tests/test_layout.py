"""What can drift between files that nobody reads side by side."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from chainfl import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PACKED_PART = 0.15
"""Of the functions of 15 lines or more: how many may be one unbroken run of lines, such as a single table."""


def distribution(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def declared() -> set[str]:
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    return {distribution(line) for line in lines} - {DISTRIBUTION}


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins}


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def foreign_imports(path: Path) -> set[str]:
    """Top-level names of what a file imports and neither Python nor this repository has."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return {name for name in names if name not in sys.stdlib_module_names} - {"chainfl"}


def test_every_dependency_has_its_line_in_the_page_and_no_other_has() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text().split("## npm")[0]

    listed = set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE))

    assert listed == declared()


def test_every_dependency_but_torch_and_ray_is_pinned() -> None:
    assert declared() - {"torch", "ray"} <= set(constraints())
    assert "torch" not in constraints(), "a pin of torch would replace the one that is there"


@pytest.mark.parametrize("folder", ["chainfl"])
def test_what_the_package_imports_it_also_declares(folder: str) -> None:
    provided = metadata.packages_distributions()

    undeclared = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files(folder)
        for name in foreign_imports(path)
        if not {each.lower().replace("_", "-") for each in provided.get(name, [name])} & declared()
    }

    assert undeclared == set()


def test_the_layers_name_every_module_of_the_package() -> None:
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    named = {name.strip(" ()") for layer in layers for name in layer.split("|")}

    present = {
        f"chainfl.{path.stem}"
        for path in (ROOT / "chainfl").iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").is_file()
    }

    assert present <= named


@pytest.mark.parametrize("name", ["setup", "demo", "test", "bench", "contracts", "fuzz", "try_wheel"])
def test_scripts_can_be_run_and_say_what_they_do(name: str) -> None:
    script = ROOT / "scripts" / name
    first, second = script.read_text().splitlines()[:2]

    assert script.stat().st_mode & 0o111
    assert first == "#!/usr/bin/env bash"
    assert second.startswith("# ")


def test_the_npm_lock_names_no_registry() -> None:
    assert "resolved" not in (ROOT / "contracts" / "package-lock.json").read_text()


def test_the_map_of_folders_in_the_readme_is_true() -> None:
    readme = (ROOT / "README.md").read_text()

    named = re.findall(r"^\| `([a-z_./]+)` \|", readme, flags=re.MULTILINE)

    assert len(named) >= 8
    assert [name for name in named if not (ROOT / name).exists()] == []


# How the code is laid out


@dataclass(frozen=True, slots=True)
class Body:
    """A function's body without its docstring."""

    where: str
    is_public: bool
    has_docstring: bool
    lines: int
    breathes: bool


def bodies(path: Path) -> Iterator[Body]:
    """Every function of a file; public are those of a module or a public class that have no underscore."""
    text = path.read_text()
    lines = text.splitlines()

    def visit(node: ast.AST, is_open: bool) -> Iterator[Body]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield body_of(child, is_open and not child.name.startswith("_"))
                yield from visit(child, False)
            elif isinstance(child, ast.ClassDef):
                yield from visit(child, is_open and not child.name.startswith("_"))
            else:
                yield from visit(child, is_open)

    def body_of(node: ast.FunctionDef | ast.AsyncFunctionDef, is_public: bool) -> Body:
        documented = ast.get_docstring(node) is not None
        steps = node.body[1:] if documented else node.body
        inside = lines[steps[0].lineno - 1 : node.end_lineno] if steps else []
        full = [line for line in inside if line.strip()]
        where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        return Body(where, is_public, documented, len(full), len(full) < len(inside))

    yield from visit(ast.parse(text), True)


@pytest.fixture(scope="module")
def functions() -> list[Body]:
    return [body for path in python_files("chainfl", "services", "scripts") for body in bodies(path)]


def test_public_functions_have_a_docstring(functions: list[Body]) -> None:
    assert [body.where for body in functions if body.is_public and not body.has_docstring] == []


def test_functions_are_short(functions: list[Body]) -> None:
    sizes = sorted(body.lines for body in functions)

    assert sizes[len(sizes) // 2] <= 6
    assert sizes[len(sizes) * 9 // 10] <= 18


def test_most_long_functions_have_blank_lines_between_their_steps(functions: list[Body]) -> None:
    long = [body for body in functions if body.lines >= 15]
    packed = [body.where for body in long if not body.breathes]

    assert len(packed) <= len(long) * PACKED_PART, packed


@pytest.mark.parametrize(("package", "percent"), [("node", 1.5), ("roles", 1.5), ("api", 1.0)])
def test_comments_stand_where_a_reader_would_stop(package: str, percent: float) -> None:
    texts = (path.read_text() for path in python_files(f"chainfl/{package}"))
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    comments = [line for line in lines if line.startswith("#")]

    assert 100 * len(comments) >= percent * len(lines)


def test_no_file_is_longer_than_450_lines() -> None:
    long = {
        path.relative_to(ROOT).as_posix()
        for path in python_files("chainfl", "services", "scripts")
        if len(path.read_text().splitlines()) > 450
    }

    assert long == set()


def test_more_than_half_of_the_main_interface_is_documentation() -> None:
    text = (ROOT / "contracts" / "src" / "interfaces" / "ITrainingTask.sol").read_text()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    documented = [line for line in lines if line.startswith(("///", "/**", "*"))]

    assert len(documented) >= 0.55 * len(lines)
