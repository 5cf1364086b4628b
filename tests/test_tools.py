import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from chainfl import tools
from chainfl.errors import InputError, ToolMissingError


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_forge_is_the_native_binary_of_this_platform() -> None:
    forge = tools.require("forge")

    done = subprocess.run([forge, "no-such-command"], capture_output=True, timeout=60)

    assert done.returncode != 0, "npm's shim ends with 0 whatever happens"


@pytest.mark.parametrize(
    ("system", "machine", "tag"),
    [
        ("Linux", "x86_64", "linux-amd64"),
        ("Linux", "aarch64", "linux-arm64"),
        ("Darwin", "arm64", "darwin-arm64"),
        ("Darwin", "x86_64", "darwin-amd64"),
    ],
)
def test_npm_platform_names_follow_system_and_architecture(system: str, machine: str, tag: str) -> None:
    assert tools.platform_tag(system, machine) == tag


def test_another_architecture_is_looked_for_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ToolMissingError, match="anvil not found; run scripts/setup"):
        tools.require("anvil")


def test_the_variable_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = program(tmp_path / "my-anvil")
    monkeypatch.setenv("CHAINFL_ANVIL", str(mine))

    assert tools.find("anvil") == mine


def test_a_variable_that_names_no_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINFL_ANVIL", "/nonexistent/anvil")

    with pytest.raises(InputError, match="CHAINFL_ANVIL is '/nonexistent/anvil', which is not a program"):
        tools.find("anvil")


def test_a_program_on_the_path_is_found_under_either_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    daemon = program(tmp_path / "ipfs-daemon")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert tools.find("ipfs") == daemon


def test_a_file_that_cannot_be_run_is_no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "geth").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert tools.find("geth") is None


def shim_of(modules: Path, name: str) -> Path:
    """A folder for PATH with the command that npm puts there for one of its foundry packages."""
    shim = program(modules / "@foundry-rs" / name / "bin.mjs")
    folder = modules / ".bin"
    folder.mkdir()
    (folder / name).symlink_to(shim)
    return folder


def test_an_npm_shim_without_a_binary_for_this_system_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shims = shim_of(tmp_path / "node_modules", "anvil")
    native = program(tmp_path / "native" / "anvil")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (shims, native.parent))))

    assert tools.find("anvil") == native


@pytest.mark.parametrize("inside", ["", "@foundry-rs/anvil/node_modules/"], ids=["beside", "inside"])
def test_an_npm_shim_on_the_path_leads_to_its_native_binary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, inside: str
) -> None:
    modules = tmp_path / "node_modules"
    shims = shim_of(modules, "anvil")
    tag = tools.platform_tag(platform.system(), platform.machine())
    native = program(modules / f"{inside}@foundry-rs/anvil-{tag}/bin/anvil")
    monkeypatch.setattr(tools, "checkout", lambda: None)
    monkeypatch.setenv("PATH", str(shims))

    assert tools.find("anvil") == native


def test_the_line_that_installs_anvil_names_the_version_that_the_tests_use() -> None:
    pinned = json.loads((tools.checkout() or Path()).joinpath("contracts/package.json").read_text())

    assert f"npm install -g @foundry-rs/anvil@{tools.FOUNDRY} " in tools.TOOLS["anvil"].remedy
    assert {**pinned.get("dependencies", {}), **pinned.get("devDependencies", {})}[
        "@foundry-rs/anvil"
    ] == tools.FOUNDRY


def test_an_unknown_tool_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown tool 'hammer'; known: anvil, forge"):
        tools.find("hammer")


def test_a_folder_on_path_that_cannot_be_entered_is_passed_by(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Asking for a file in it is an error of the system's, as for another user's home; here the name is too long."""
    monkeypatch.delenv("CHAINFL_GETH", raising=False)
    there = tmp_path / "geth"
    there.write_text("#!/bin/sh\n")
    there.chmod(0o700)
    monkeypatch.setenv("PATH", os.pathsep.join(["/" + "x" * 5000, str(tmp_path)]))

    assert tools.find("geth") == there
