"""Source verification: what an explorer needs to see that the code on a chain is what these sources compile to.

For each contract one standard JSON input, with the addresses of its libraries, and beside it where the contract lives,
its constructor's arguments and the compiler's version. The sources are those of a checkout; a wheel carries none.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from chainfl import tools
from chainfl.artifacts import load
from chainfl.chain.deploy import FACTORY, Deployment, constructor_arguments, plan
from chainfl.errors import ToolMissingError

_SECONDS = 60
_OUTPUT = [
    "abi",
    "evm.bytecode.object",
    "evm.deployedBytecode.object",
    "evm.deployedBytecode.immutableReferences",
]


@dataclass(frozen=True, slots=True)
class Verifiable:
    """A contract on a chain and what proves its source."""

    name: str
    address: str
    source: str
    compiler: str
    constructor_arguments: str
    libraries: dict[str, str]
    input: str

    def as_plain(self) -> dict[str, object]:
        """What explorers' forms ask for."""
        return {
            "address": self.address,
            "contract": f"{self.source}:{self.name}",
            "compiler": f"v{self.compiler}",
            "constructor_arguments": self.constructor_arguments,
            "libraries": self.libraries,
            "input": self.input,
        }


def write_verification(deployment: Deployment, folder: Path) -> Path:
    """Write an input per contract and the list of them; answers where the list is.

    Raises:
        ToolMissingError: there are no sources here, or they are not the ones that were compiled.
    """
    source = compiler_input()
    folder.mkdir(parents=True, exist_ok=True)
    listed = {}
    for each in verifiable(deployment):
        (folder / each.input).write_text(
            json.dumps(input_for(source, each, deployment), indent=1) + "\n", "utf-8"
        )
        listed[each.name] = each.as_plain()
    summary = folder / "verification.json"
    summary.write_text(
        json.dumps({"chain_id": deployment.chain_id, "contracts": listed}, indent=1) + "\n", "utf-8"
    )
    return summary


def verifiable(deployment: Deployment) -> list[Verifiable]:
    """All contracts of a deployment: what was sent, and what the factory made."""
    places = {name: deployment.steps[name].address for name in plan()}
    places |= {"StakeRegistry": deployment.registry, "TrainingTask": deployment.implementation}
    return [_verifiable(name, address, deployment) for name, address in places.items()]


def _verifiable(name: str, address: str, deployment: Deployment) -> Verifiable:
    facts = _artifact(name)
    return Verifiable(
        name,
        address,
        facts["sourceName"],
        facts["compiler"]["version"],
        constructor_arguments(name, deployment).hex() if name == FACTORY else "",
        {library: deployment.steps[library].address for library in sorted(load(name).links)},
        f"{name}.json",
    )


def input_for(source: dict[str, Any], contract: Verifiable, deployment: Deployment) -> dict[str, Any]:
    """The compiler's input for one contract: its libraries linked, only its own output asked for."""
    linked: dict[str, dict[str, str]] = {}
    for library in plan():
        if library != FACTORY:
            linked[_artifact(library)["sourceName"]] = {library: deployment.steps[library].address}
    settings = source["settings"] | {
        "libraries": linked if contract.libraries else {},
        "outputSelection": {contract.source: {contract.name: _OUTPUT}},
    }
    return source | {"settings": settings}


def compiler_input() -> dict[str, Any]:
    """All sources and settings of this checkout, found to be what the package's artifacts were compiled from."""
    root = tools.checkout()
    script = root / "scripts" / "build_contracts.py" if root is not None else None
    if script is None or not script.is_file():
        raise ToolMissingError("the contracts' sources are not in a wheel: run chainfl deploy in a checkout")

    # The script is run, not imported: it belongs to the checkout and is not part of the package.
    done = subprocess.run(
        [sys.executable, str(script), "--print-input"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise ToolMissingError(
            f"no sources to verify with: {(done.stderr.strip() or 'no reason').splitlines()[-1]}"
        )

    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _artifact(name: str) -> dict[str, Any]:
    text = (files("chainfl.artifacts") / f"{name}.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts
