"""`import chainfl` is light, and says the same to Python and to type checkers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import chainfl

ROOT = Path(__file__).resolve().parents[2]


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_nothing_heavy_and_takes_next_to_no_time() -> None:
    told = python(
        "import sys, time; before = set(sys.modules); started = time.process_time(); import chainfl; "
        "print(time.process_time() - started, *(set(sys.modules) - before))"
    ).split()

    foreign = {name.partition(".")[0] for name in told[1:]} - sys.stdlib_module_names
    assert float(told[0]) < 0.1  # seconds of this process, whatever else the machine does
    assert foreign == {"chainfl"}


def test_reading_a_task_needs_no_torch() -> None:
    told = python("import sys, chainfl; chainfl.Task, chainfl.ChainflError; print(*sys.modules)").split()

    assert "torch" not in told


def test_every_name_is_there_and_type_checkers_are_told_of_each() -> None:
    stub = ast.parse((ROOT / "chainfl" / "__init__.pyi").read_text())
    told = {
        str(alias.asname): node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert told == chainfl._LAZY  # type: ignore[attr-defined]
    assert all(getattr(chainfl, name) is not None for name in told)
    assert set(told) <= set(dir(chainfl))


def test_every_name_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "python.md").read_text()

    assert [name for name in chainfl._LAZY if f"`{name}" not in page and f"chainfl.{name}" not in page] == []  # type: ignore[attr-defined]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        chainfl.simulat  # type: ignore[attr-defined]  # noqa: B018


def test_without_torch_the_error_says_what_to_install() -> None:
    told = python(
        "import sys; sys.modules['torch'] = None\n"
        "import chainfl\n"
        "try:\n    chainfl.simulate\n"
        "except chainfl.ChainflError as error:\n    print(type(error).__name__, error.exit_code, error)"
    )

    assert told.startswith(
        "ToolMissingError 6 chainfl.simulate needs torch, which is not installed: pip install "
    )
    assert "chainfl-protocol[train]" in told
