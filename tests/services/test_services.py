"""The five processes: each main runs the command it names, and its files name only what exists."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from chainfl.api.settings import ApiSettings
from chainfl.node.settings import NodeSettings

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ROOT / "services"
ROLES = {"node": "all", "worker": "worker", "validator": "validator", "miner": "miner"}


def unit_of(name: str) -> str:
    return (SERVICES / name / f"chainfl-{name.replace('_', '-')}.service").read_text()


def test_there_are_five_processes_and_each_has_all_its_files() -> None:
    found = {path.name for path in SERVICES.iterdir() if path.is_dir() and path.name != "__pycache__"}

    assert found == {*ROLES, "audit_api"}
    for name in found:
        files = {path.name for path in (SERVICES / name).iterdir() if path.name != "__pycache__"}
        example = "settings.example.env" if name == "audit_api" else "settings.example.toml"
        assert files == {"__main__.py", example, f"chainfl-{name.replace('_', '-')}.service"}


@pytest.mark.parametrize("name", ROLES)
def test_example_settings_of_a_node_are_settings_it_takes(name: str) -> None:
    example = tomllib.loads((SERVICES / name / "settings.example.toml").read_text())

    taken = NodeSettings(**example)

    assert taken.home.name == name
    assert taken.enrol is (name == "node"), "one process enrols the key"


def test_example_settings_of_the_audit_api_are_settings_it_takes() -> None:
    text = (SERVICES / "audit_api" / "settings.example.env").read_text()
    own = {name.lower() for name in re.findall(r"^CHAINFL_API_([A-Z_]+)=", text, re.MULTILINE)}

    assert own
    assert own <= set(ApiSettings.model_fields)


@pytest.mark.parametrize("name", [*ROLES, "audit_api"])
def test_unit_and_image_run_the_command_that_the_main_runs(name: str) -> None:
    command = "serve" if name == "audit_api" else "node run"
    role = ROLES.get(name, "all")
    wanted = command if role == "all" else f"{command} --role {role}"
    target = (ROOT / "docker" / "Dockerfile").read_text().split(f" AS {name}\n")[1].split("\nFROM ")[0]
    quoted = ", ".join(f'"{word}"' for word in wanted.split())

    assert f"ExecStart=/usr/local/bin/chainfl {wanted}" in unit_of(name)
    assert f"CMD [{quoted}" in target
    assert f"[{quoted}, *sys.argv[1:]]" in (SERVICES / name / "__main__.py").read_text()


@pytest.mark.parametrize("name", [*ROLES, "audit_api"])
def test_a_main_is_the_command(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"services.{name}", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "--rpc-url" in done.stdout
