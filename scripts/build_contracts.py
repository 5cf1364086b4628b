"""Compile the contracts and refresh the artifacts that the Python package carries.

usage: build_contracts.py [--check] [--compile] [--every-compiler] | --print-input

Without options: compile and write. `--check` writes nothing and fails when the artifacts are stale; it compares digests
and takes a moment, with `--compile` it compiles and compares every byte. `--every-compiler` compiles with each one
found and fails when two give different code. `--print-input` checks digests and prints the compiler's input, for
`chainfl deploy`. Compilers are looked for in this order: the one that CHAINFL_SOLC names,
py-solc-x's folder, py-solc-x's download, npm's behind `contracts/solc`. The settings are foundry.toml's.
"""

import argparse
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from chainfl.artifacts import BUILD  # noqa: E402
from chainfl.errors import ChainflError, ToolMissingError, VerificationError  # noqa: E402

CONTRACTS: Final = ROOT / "contracts"
ARTIFACTS: Final = ROOT / "chainfl" / "artifacts"
TEST_ARTIFACTS: Final = CONTRACTS / "test" / "artifacts"
TEST_CONTRACTS: Final = ("test/RulesHarness.sol",)
MAX_RUNTIME_BYTES: Final = 24_576
DOWNLOAD_SECONDS: Final = 60
COMPILE_SECONDS: Final = 600

Json = dict[str, Any]


class StaleArtifactsError(VerificationError):
    """The artifacts are not what the sources compile to."""


class CompileError(VerificationError):
    """The sources do not compile, or not to something that can be deployed."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A solc that reads standard JSON."""

    origin: str
    path: Path


def main(argv: list[str] | None = None) -> int:
    """Run the command; answers its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when artifacts are stale")
    parser.add_argument(
        "--compile", action="store_true", help="with --check: compile instead of comparing digests"
    )
    parser.add_argument(
        "--every-compiler", action="store_true", help="compile with each one found, and compare"
    )
    parser.add_argument("--print-input", action="store_true", help="print the compiler's input without tests")

    options = parser.parse_args(argv)

    try:
        if options.print_input:
            source = standard_input()
            check_digests(source)
            sys.stdout.write(_pretty(published(source)))
            return 0
        _run(options.check, options.compile or options.every_compiler, options.every_compiler)
    except ChainflError as error:
        _say(f"build_contracts: {error}")
        return error.exit_code
    return 0


def _run(check: bool, compiles: bool, every: bool) -> None:
    source = standard_input()
    if check and not compiles:
        check_digests(source)
        _say("artifacts are fresh")
        return

    found = compilers(version())
    used = list(found) if every else [next(found)]
    outputs = [build(source, compiler) for compiler in used]
    for compiler, output in zip(used, outputs, strict=True):
        if output != outputs[0]:
            raise CompileError(f"{compiler.path} and {used[0].path} give different code for the same sources")
    if every:
        _say(f"{len(used)} compiler(s) agree: {', '.join(compiler.origin for compiler in used)}")
    if check:
        check_bytes(outputs[0])
        _say("artifacts are what the sources compile to")
    else:
        write(outputs[0])


# Input: sources and settings.


def standard_input() -> Json:
    """The compiler's input: all sources with what they import, and the settings of foundry.toml."""
    profile = _profile()
    remappings: list[str] = profile["remappings"]

    return {
        "language": "Solidity",
        "sources": {name: {"content": text} for name, text in sorted(_sources(remappings).items())},
        "settings": {
            "remappings": remappings,
            "optimizer": {"enabled": profile["optimizer"], "runs": profile["optimizer_runs"]},
            "viaIR": profile["via_ir"],
            "evmVersion": profile["evm_version"],
            "metadata": {"bytecodeHash": profile["bytecode_hash"], "appendCBOR": profile["cbor_metadata"]},
            "outputSelection": {
                name: {"*": ["abi", "evm.bytecode", "evm.deployedBytecode.object"]} for name in _own_sources()
            },
        },
    }


def _profile() -> Json:
    settings = tomllib.loads((CONTRACTS / "foundry.toml").read_text(encoding="utf-8"))
    profile: Json = settings["profile"]["default"]
    return profile


def version() -> str:
    """The compiler's version, as npm's package pins it."""
    pinned = json.loads((CONTRACTS / "package.json").read_text(encoding="utf-8"))
    return str(pinned["devDependencies"]["solc"])


def _own_sources() -> list[str]:
    own = sorted(path.relative_to(CONTRACTS).as_posix() for path in (CONTRACTS / "src").rglob("*.sol"))
    return [*own, *TEST_CONTRACTS]


def _sources(remappings: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting = _own_sources()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = CONTRACTS / name
        if not path.is_file():
            raise ToolMissingError(f"contracts/{name} is missing; run: npm ci --prefix contracts")
        found[name] = path.read_text(encoding="utf-8")
        waiting.extend(_imports(name, found[name], remappings))
    return found


def _imports(name: str, text: str, remappings: list[str]) -> Iterator[str]:
    for target in re.findall(r"^\s*import\s[^;]*?\"([^\"]+)\"\s*;", text, re.MULTILINE):
        if target.startswith("."):
            yield os.path.normpath(PurePosixPath(name).parent / target)
            continue
        for remapping in remappings:
            prefix, _, place = remapping.partition("=")
            if target.startswith(prefix):
                yield place + target.removeprefix(prefix)
                break
        else:
            raise CompileError(
                f"contracts/{name} imports {target}, which no remapping in foundry.toml covers"
            )


# Compilers.


def compilers(wanted: str) -> Iterator[Compiler]:
    """The compilers on this machine, best first; tries to download one before npm's.

    Raises:
        ToolMissingError: there is none.
    """
    setting = os.environ.get("CHAINFL_SOLC")
    lookups: tuple[tuple[str, Callable[[], Path | None]], ...] = (
        ("CHAINFL_SOLC", lambda: Path(setting) if setting else None),
        ("py-solc-x", lambda: _solcx(wanted, download=False) or _solcx(wanted, download=True)),
        ("npm", lambda: CONTRACTS / "solc" if (CONTRACTS / "node_modules" / "solc").is_dir() else None),
    )

    count = 0
    for origin, lookup in lookups:
        path = lookup()
        if path is None:
            continue
        _expect_version(path, wanted)
        count += 1
        yield Compiler(origin, path)

    if count == 0:
        raise ToolMissingError(f"no solc {wanted} found; run: npm ci --prefix contracts, or set CHAINFL_SOLC")


def _solcx(wanted: str, download: bool) -> Path | None:
    """py-solc-x's compiler, if the package is installed and has it or can get it."""
    try:
        solcx: Any = importlib.import_module("solcx")
    except ImportError:
        return None

    if download:
        _say(f"trying to download solc {wanted} with py-solc-x")
        code = f"import solcx; solcx.install_solc({wanted!r})"
        try:
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, timeout=DOWNLOAD_SECONDS, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            _say("no download: going on without")
            return None

    if wanted not in {str(have) for have in solcx.get_installed_solc_versions()}:
        return None
    return Path(solcx.install.get_executable(wanted))


def _expect_version(path: Path, wanted: str) -> None:
    answer = _call(path, "--version", "")
    if f"Version: {wanted}+" not in answer:
        raise ToolMissingError(f"{path} is not solc {wanted}: {answer.strip().splitlines()[-1:]}")


def _call(path: Path, option: str, text: str) -> str:
    # npm's compiler is a script for node: a node inside the virtual environment is found although PATH may not name it.
    paths = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    environment = {**os.environ, "PATH": os.pathsep.join(paths)}
    program = shutil.which(str(path))
    if program is None:
        raise ToolMissingError(f"{path} is not a program; correct or unset CHAINFL_SOLC")

    try:
        done = subprocess.run(
            [program, option],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=COMPILE_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"{path} {option} took longer than {COMPILE_SECONDS} s") from error

    if done.returncode:
        raise ToolMissingError(
            f"{path} {option} failed: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}"
        )
    return done.stdout


# Output: artifacts.


def build(source: Json, compiler: Compiler) -> dict[Path, str]:
    """Compile; answers the text of every artifact by its path.

    Raises:
        CompileError: the compiler has errors or warnings, or a contract is too large to deploy.
    """
    _say(f"compiling {len(source['sources'])} sources with {compiler.path} ({compiler.origin})")
    output: Json = json.loads(_call(compiler.path, "--standard-json", json.dumps(source)))
    for problem in output.get("errors", []):
        # Warnings count in our own files only: nobody here can mend those of a package.
        place = problem.get("sourceLocation", {}).get("file", "")
        if int(problem.get("errorCode", 0)) in _profile().get("ignored_error_codes", []):
            continue
        if problem["severity"] == "error" or not place.startswith("node_modules/"):
            raise CompileError(f"solc: {problem['formattedMessage'].strip()}")
    release = re.search(r"Version: (\S+?\+commit\.[0-9a-f]+)", _call(compiler.path, "--version", ""))
    named = release[1] if release else version()

    linked = {
        library
        for contracts in output["contracts"].values()
        for contract in contracts.values()
        for libraries in contract["evm"]["bytecode"]["linkReferences"].values()
        for library in libraries
    }
    texts: dict[Path, str] = {}
    for name, contracts in sorted(output["contracts"].items()):
        for contract_name, contract in sorted(contracts.items()):
            if _is_published(name, contract_name, contract, linked, source):
                folder = TEST_ARTIFACTS if name in TEST_CONTRACTS else ARTIFACTS
                texts[folder / f"{contract_name}.json"] = _artifact(
                    name, contract_name, contract, named, source
                )
    texts[ARTIFACTS / BUILD] = _build_record(texts, named, source)
    return texts


def _is_published(name: str, contract_name: str, contract: Json, linked: set[str], source: Json) -> bool:
    """Contracts that can be deployed and libraries that one of them links; the rest lives inside its users."""
    if not contract["evm"]["bytecode"]["object"]:
        return False
    text: str = source["sources"][name]["content"]
    is_library = re.search(rf"^library {contract_name}\b", text, re.MULTILINE) is not None
    return not is_library or contract_name in linked


def _artifact(name: str, contract_name: str, contract: Json, compiler: str, source: Json) -> str:
    code: Json = contract["evm"]["bytecode"]
    runtime: str = contract["evm"]["deployedBytecode"]["object"]
    if len(runtime) > 2 * MAX_RUNTIME_BYTES and name not in TEST_CONTRACTS:
        raise CompileError(
            f"{contract_name} has {len(runtime) // 2} bytes of code, {MAX_RUNTIME_BYTES} are allowed"
        )

    settings = {key: source["settings"][key] for key in ("optimizer", "viaIR", "evmVersion", "metadata")}
    links = {
        library: [place["start"] for place in places]
        for libraries in code["linkReferences"].values()
        for library, places in libraries.items()
    }

    return _pretty(
        {
            "contractName": contract_name,
            "sourceName": name,
            "compiler": {"version": compiler, "settings": settings},
            "linkReferences": dict(sorted(links.items())),
            "abi": contract["abi"],
            "bytecode": "0x" + code["object"],
            "deployedBytecode": "0x" + runtime,
        }
    )


def _build_record(texts: Mapping[Path, str], compiler: str, source: Json) -> str:
    artifacts = {path.relative_to(ROOT).as_posix(): _digest(text) for path, text in sorted(texts.items())}
    return _pretty({"compiler": compiler, "input": _digest(json.dumps(source)), "artifacts": artifacts})


def _pretty(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def published(source: Json) -> Json:
    """The compiler's input without tests, as explorers take it to verify what was deployed."""
    settings = {key: value for key, value in source["settings"].items() if key != "outputSelection"}
    sources = {name: text for name, text in source["sources"].items() if not name.startswith("test/")}
    return {"language": source["language"], "sources": sources, "settings": settings}


def write(texts: Mapping[Path, str]) -> None:
    """Write all artifacts and remove those of contracts that are gone."""
    for folder in (ARTIFACTS, TEST_ARTIFACTS):
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.json"):
            if path not in texts:
                path.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    _say(f"wrote {len(texts)} files: {', '.join(sorted(path.stem for path in texts))}")


def check_digests(source: Json) -> None:
    """Compare digests of sources and artifacts with those of the last build.

    Raises:
        StaleArtifactsError: something changed since.
    """
    record: Json = json.loads(_read(ARTIFACTS / BUILD))
    if record["input"] != _digest(json.dumps(source)):
        raise StaleArtifactsError(
            "the contracts changed since they were compiled; run: scripts/build_contracts.py"
        )
    for name, digest in record["artifacts"].items():
        if _digest(_read(ROOT / name)) != digest:
            raise StaleArtifactsError(f"{name} is not what was compiled; run: scripts/build_contracts.py")


def check_bytes(texts: Mapping[Path, str]) -> None:
    """Compare the artifacts with what was just compiled.

    Raises:
        StaleArtifactsError: one differs.
    """
    for path, text in texts.items():
        if _read(path) != text:
            raise StaleArtifactsError(f"{path.relative_to(ROOT)} is stale; run: scripts/build_contracts.py")


def _read(path: Path) -> str:
    if not path.is_file():
        raise StaleArtifactsError(f"{path.relative_to(ROOT)} is missing; run: scripts/build_contracts.py")
    return path.read_text(encoding="utf-8")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
