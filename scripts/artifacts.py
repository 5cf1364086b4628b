"""Keep the compiled contracts inside the Python package: whoever installs the wheel needs no compiler.

One JSON file per contract and library of contracts/src: ABI, creation and runtime code, link references. The
files are sorted and indented, so a review sees what changed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import solcx

from chainfl import tools
from chainfl.errors import ChainflError, OutsideError, VerificationError

ROOT: Final = Path(__file__).resolve().parent.parent
CONTRACTS: Final = ROOT / "contracts"
ARTIFACTS: Final = ROOT / "chainfl" / "chain" / "artifacts"


def build(*options: str) -> None:
    """Compile with forge; scripts/test holds the warnings against us, not this."""
    done = subprocess.run(
        [tools.require("forge"), "build", "--deny", "never", *options],
        cwd=CONTRACTS,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise OutsideError(f"forge build failed:\n{done.stdout}{done.stderr}")


def compiled() -> dict[str, str]:
    """File name to text, for every contract and library of contracts/src that can be called."""
    found: dict[str, str] = {}
    for path in sorted((CONTRACTS / "out").glob("*.sol/*.json")):
        output = json.loads(path.read_text())
        is_variant = "." in path.stem  # what forge compiled again under other settings, for tests
        if not is_variant and is_ours(output) and is_callable(output):
            found[f"{path.stem}.json"] = encode(path.stem, output)
    return found


def is_ours(output: Mapping[str, Any]) -> bool:
    """Whether forge's output belongs to a file of contracts/src that still exists."""
    target = output.get("metadata", {}).get("settings", {}).get("compilationTarget", {})
    source = next(iter(target), "")
    return source.startswith("src/") and (CONTRACTS / source).is_file()


def is_callable(output: Mapping[str, Any]) -> bool:
    """Whether there is code to deploy and a function to call; interfaces and inlined libraries lack one."""
    has_function = any(entry["type"] == "function" for entry in output["abi"])
    return has_function and output["bytecode"]["object"] != "0x"


def encode(name: str, output: Mapping[str, Any]) -> str:
    """The part of forge's output that Python needs, as stable text."""
    artifact = {
        "name": name,
        "compiler": output["metadata"]["compiler"]["version"],
        "abi": output["abi"],
        "bytecode": output["bytecode"]["object"],
        "link_references": output["bytecode"].get("linkReferences", {}),
        "deployed_bytecode": output["deployedBytecode"]["object"],
        "deployed_link_references": output["deployedBytecode"].get("linkReferences", {}),
        "immutable_references": output["deployedBytecode"].get("immutableReferences", {}),
    }
    return json.dumps(artifact, indent=1, sort_keys=True) + "\n"


def committed() -> dict[str, str]:
    """What the package carries now."""
    return {path.name: path.read_text() for path in sorted(ARTIFACTS.glob("*.json"))}


def differences(fresh: Mapping[str, str], kept: Mapping[str, str]) -> list[str]:
    """One line for each file that is missing, superfluous or different."""
    return [
        f"{name}: {'missing' if name not in kept else 'superfluous' if name not in fresh else 'stale'}"
        for name in sorted({*fresh, *kept})
        if fresh.get(name) != kept.get(name)
    ]


def write(fresh: Mapping[str, str]) -> None:
    """Make the package carry exactly these files."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    for name in committed().keys() - fresh.keys():
        (ARTIFACTS / name).unlink()
    for name, text in fresh.items():
        (ARTIFACTS / name).write_text(text)


def native_compiler() -> str | None:
    """The native solc of py-solc-x, where it has the version that npm's package.json pins."""
    version = json.loads((CONTRACTS / "package.json").read_text())["devDependencies"]["solc"]
    found = solcx.get_solcx_install_folder() / f"solc-v{version}"
    return version if found.is_file() else None


def native_differences(version: str) -> list[str]:
    """Contracts whose creation code differs between npm's solc and the native one, given the same input."""
    with tempfile.TemporaryDirectory(prefix="chainfl-build-") as folder:
        build("--force", "--skip", "test", "--build-info", "--build-info-path", folder)
        infos = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    different: list[str] = []
    for info in infos:
        standard = {key: info["input"][key] for key in ("language", "sources", "settings")}
        try:
            native = solcx.compile_standard(standard, solc_version=version)
        except solcx.exceptions.SolcError as error:
            raise OutsideError(f"native solc {version} failed: {error.message}") from error
        ours, theirs = codes(info["output"]), codes(native)
        different += [name for name in ours if ours[name] != theirs.get(name)]
    return sorted(set(different))


def codes(output: Mapping[str, Any]) -> dict[str, str]:
    """Creation code by `file:contract`, for the files of contracts/src."""
    return {
        f"{file}:{name}": contract["evm"]["bytecode"]["object"].removeprefix("0x")
        for file, contracts in output["contracts"].items()
        if file.startswith("src/")
        for name, contract in contracts.items()
    }


def compare_compilers() -> str:
    """One line on whether the native compiler agrees; it is asked only where it is installed."""
    version = native_compiler()
    if version is None:
        return "native solc not installed, so not compared"
    different = native_differences(version)
    if different:
        raise VerificationError(
            f"native solc {version} gives other bytecode than npm's: {', '.join(different)}"
        )
    return f"native solc {version} gives the same bytecode"


def main(arguments: Sequence[str]) -> int:
    """Refresh the artifacts, or with --check refuse when they are stale."""
    parser = argparse.ArgumentParser(prog="scripts/contracts", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when the artifacts are stale"
    )
    check = parser.parse_args(arguments).check
    build()
    fresh = compiled()
    stale = differences(fresh, committed())
    if check and stale:
        raise VerificationError(
            f"run scripts/contracts and commit {ARTIFACTS.relative_to(ROOT)}: {', '.join(stale)}"
        )
    if not check:
        write(fresh)
    sys.stdout.write(f"{len(fresh)} contracts, {len(stale)} refreshed; {compare_compilers()}\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ChainflError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
