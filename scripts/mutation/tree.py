"""A copy of the project whose contracts hold all mutants, compiled once by forge for forge's tests and for Python's.

It is kept in `.cache`: as long as neither contracts nor table change, nothing is compiled again.
"""

import fcntl
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

from chainfl import tools
from chainfl.artifacts import BUILD
from chainfl.errors import VerificationError
from scripts.mutation import table
from scripts.mutation.table import ROOT, Mutant
from scripts.mutation.weave import impure, woven

TREE: Final = ROOT / ".cache" / "mutants"
FOLDERS: Final = ("chainfl", "scripts", "tests", "contracts/src", "contracts/test")
FILES: Final = ("pyproject.toml", "contracts/foundry.toml", "contracts/solc", "contracts/package.json")
BUILD_SECONDS: Final = 1800

_SOURCES: Final = PurePosixPath("contracts/src")
_SOLIDITY: Final = ".sol"
_COMPILED_PYTHON: Final = "__pycache__"
_HARNESS: Final = Path("contracts/test/artifacts/RulesHarness.json")


@contextmanager
def tree(mutants: Sequence[Mutant]) -> Iterator[Path]:
    """The copy, compiled. One at a time: it belongs to whoever holds its lock.

    Raises:
        StaleRowError: a row of the table does not fit the contracts.
        VerificationError: the contracts do not compile with the mutants in them.
    """
    TREE.mkdir(parents=True, exist_ok=True)
    with (TREE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write(TREE, mutants)
        compile_contracts(TREE)
        write_artifacts(TREE)
        yield TREE


def write(folder: Path, mutants: Sequence[Mutant]) -> None:
    """Copy the project, mutants woven in. Files that are the same stay untouched, so that forge knows them again."""
    _expect_files(mutants)
    kept = set[Path]()
    for source in _files():
        name = source.relative_to(ROOT)
        content = source.read_bytes()
        if source.suffix == _SOLIDITY:
            content = _mutated(PurePosixPath(name.as_posix()), content.decode(), mutants).encode()
        kept.add(folder / name)
        _put(folder / name, content, source.stat().st_mode)
    _remove_others(folder, kept)

    modules = folder / "contracts" / "node_modules"
    if not modules.is_symlink():
        modules.symlink_to(ROOT / "contracts" / "node_modules")


def compile_contracts(folder: Path) -> None:
    """Compile everything that is new."""
    forge = str(tools.require("forge"))
    done = subprocess.run(
        [forge, "build", "--deny", "never"],
        cwd=folder / "contracts",
        timeout=BUILD_SECONDS,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        wrong = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise VerificationError("mutants: the contracts do not compile:\n" + "\n".join(wrong[:40]))


def write_artifacts(folder: Path) -> None:
    """What forge compiled, where Python's tests look for it."""
    out = folder / "contracts" / "out"
    artifacts = Path("chainfl/artifacts")
    names = [artifacts / path.name for path in (ROOT / artifacts).glob("*.json") if path.name != BUILD]
    for name in (*names, _HARNESS):
        compiled = json.loads((out / f"{name.stem}.sol" / name.name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(_artifact(name.stem, compiled)), encoding="utf-8")


def _artifact(name: str, compiled: dict[str, Any]) -> dict[str, Any]:
    code = compiled["bytecode"]
    links = {
        library: [place["start"] for place in places]
        for libraries in code["linkReferences"].values()
        for library, places in libraries.items()
    }
    return {
        "contractName": name,
        "linkReferences": links,
        "abi": compiled["abi"],
        "bytecode": code["object"],
        "deployedBytecode": compiled["deployedBytecode"]["object"],
    }


def _files() -> Iterator[Path]:
    for name in FOLDERS:
        for path in sorted((ROOT / name).rglob("*")):
            if path.is_file() and _COMPILED_PYTHON not in path.parts:
                yield path
    for name in FILES:
        yield ROOT / name


def _expect_files(mutants: Sequence[Mutant]) -> None:
    for name in table.files_of(mutants):
        if not (table.SOURCES[table.CONTRACTS] / name).is_file():
            raise table.StaleRowError(f"contracts/src/{name} is gone; mend the rows that name it")


def _mutated(name: PurePosixPath, text: str, mutants: Sequence[Mutant]) -> str:
    if name.is_relative_to(_SOURCES):
        text = woven(text, name.relative_to(_SOURCES).as_posix(), mutants)
    return impure(text)


def _put(path: Path, content: bytes, mode: int) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _remove_others(folder: Path, kept: set[Path]) -> None:
    for name in FOLDERS:
        for path in (folder / name).rglob("*"):
            if path.is_file() and path not in kept and _COMPILED_PYTHON not in path.parts:
                path.unlink()
