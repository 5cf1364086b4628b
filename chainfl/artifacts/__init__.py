"""The contracts, compiled: who installs the package needs no compiler.

`scripts/build_contracts.py` writes the JSON files beside this module; nothing here is written by hand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from chainfl.errors import InputError

BUILD = "build.json"
"""Names the compiler and the digests of what went in and came out."""


class ArtifactError(InputError):
    """There is no such contract, or it cannot be linked with these addresses."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract. Code is hex with `0x`; `links` are the byte offsets where a library's address belongs."""

    name: str
    abi: tuple[Mapping[str, Any], ...]
    bytecode: str
    deployed_bytecode: str
    links: Mapping[str, tuple[int, ...]]

    def link(self, libraries: Mapping[str, str]) -> str:
        """The creation code with the addresses of its libraries filled in.

        Raises:
            ArtifactError: a library is missing, or an address is not twenty bytes of hex.
        """
        code = self.bytecode
        for library, offsets in self.links.items():
            if library not in libraries:
                raise ArtifactError(f"{self.name} needs the address of library {library}; deploy it first")
            address = _address(libraries[library])
            for offset in offsets:
                start = 2 + 2 * offset
                code = code[:start] + address + code[start + 40 :]
        return code


@cache
def load(name: str) -> Artifact:
    """A contract of this release by name, such as `StakeRegistry`.

    Raises:
        ArtifactError: this release has no such contract.
    """
    resource = files(__name__) / f"{name}.json"
    if name == Path(BUILD).stem or not resource.is_file():
        raise ArtifactError(f"no contract named {name!r}; there are: {', '.join(names())}")
    return parse(resource.read_text(encoding="utf-8"))


def names() -> list[str]:
    """The contracts of this release."""
    found = (Path(entry.name) for entry in files(__name__).iterdir())
    return sorted(path.stem for path in found if path.suffix == ".json" and path.name != BUILD)


def parse(text: str) -> Artifact:
    """An artifact from its JSON."""
    fields = json.loads(text)
    return Artifact(
        name=fields["contractName"],
        abi=tuple(fields["abi"]),
        bytecode=fields["bytecode"],
        deployed_bytecode=fields["deployedBytecode"],
        links={library: tuple(offsets) for library, offsets in fields["linkReferences"].items()},
    )


def _address(text: str) -> str:
    digits = text.removeprefix("0x").lower()
    if len(digits) != 40 or set(digits) - set("0123456789abcdef"):
        raise ArtifactError(f"{text!r} is not an address: 0x and 40 hex digits are expected")
    return digits
