"""Keep the compiled contracts inside the Python package: whoever installs the wheel needs no compiler.

One JSON file per contract and library of contracts/src: ABI, creation and runtime code, link references. The
files are sorted and indented, so a review sees what changed.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from chainfl import tools
from chainfl.errors import ChainflError, OutsideError, VerificationError

ROOT: Final = Path(__file__).resolve().parent.parent
CONTRACTS: Final = ROOT / "contracts"
ARTIFACTS: Final = ROOT / "chainfl" / "chain" / "artifacts"


def build() -> None:
    """Compile with forge, warnings as errors."""
    done = subprocess.run(
        [tools.require("forge"), "build", "--deny", "warnings"], cwd=CONTRACTS, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise OutsideError(f"forge build failed:\n{done.stdout}{done.stderr}")


def compiled() -> dict[str, str]:
    """File name to text, for everything in contracts/src that has code or is an interface."""
    sources = {path.name for path in (CONTRACTS / "src").rglob("*.sol")}
    found: dict[str, str] = {}
    for path in sorted((CONTRACTS / "out").glob("*.sol/*.json")):
        if path.parent.name not in sources:
            continue
        output = json.loads(path.read_text())
        source = next(iter(output.get("metadata", {}).get("settings", {}).get("compilationTarget", {})), "")
        if source.startswith("src/") and (CONTRACTS / source).is_file():
            found[f"{path.stem}.json"] = encode(path.stem, output)
    return found


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
    sys.stdout.write(f"{len(fresh)} contracts, {len(stale)} {'stale' if check else 'refreshed'}\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ChainflError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
