"""A pytest plugin that switches one mutant on, before anything of the project is imported.

`CHAINFL_CONTRACT_MUTANT` holds the number of a mutant in the compiled contracts, `CHAINFL_PYTHON_MUTANT` the name of
one of the package. Failing examples are neither kept nor shortened: that there is one is all that is asked.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType
from typing import Any, Final

import pyrevm
from hypothesis import Phase, settings

from scripts.mutation import table
from scripts.mutation.table import Edit, Mutant
from scripts.mutation.weave import coinbase

CONTRACT: Final = "CHAINFL_CONTRACT_MUTANT"
PYTHON: Final = "CHAINFL_PYTHON_MUTANT"
CODE_SIZE: Final = 1 << 20
"""Contracts with all mutants in them may be longer than a chain allows."""


def pytest_load_initial_conftests() -> None:
    """Switch on what the environment asks for; a conftest would import what is to be changed."""
    settings.register_profile("mutants", database=None, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")
    if CONTRACT in os.environ:
        switch_contracts(int(os.environ[CONTRACT]))
    if PYTHON in os.environ:
        (mutant,) = table.pick(table.load(table.PYTHON), [os.environ[PYTHON]])
        switch_python(mutant)


def switch_contracts(number: int) -> None:
    """Every EVM of this process mines for the mutant's address, and takes contracts of any size."""
    block_env = pyrevm.BlockEnv
    cfg_env = pyrevm.CfgEnv
    evm = pyrevm.EVM

    def mined(**fields: Any) -> Any:
        return block_env(coinbase=coinbase(number), **fields)

    def roomy(**fields: Any) -> Any:
        return cfg_env(limit_contract_code_size=CODE_SIZE, **fields)

    def switched(**fields: Any) -> Any:
        fields.setdefault("env", pyrevm.Env(cfg=roomy()))
        found = evm(**fields)
        found.set_block_env(mined())
        return found

    for name, made in (("BlockEnv", mined), ("CfgEnv", roomy), ("EVM", switched)):
        setattr(pyrevm, name, made)


def switch_python(mutant: Mutant) -> None:
    """The modules that the mutant changes are compiled from changed source."""
    edits: dict[str, list[Edit]] = {}
    for edit in mutant.edits:
        name = "chainfl." + edit.file.removesuffix(".py").replace("/", ".")
        assert name not in sys.modules, f"{name} was imported before it could be changed"
        edits.setdefault(name, []).append(edit)
    sys.meta_path.insert(0, _Finder(edits))


class _Finder(MetaPathFinder):
    """Finds the changed modules only."""

    def __init__(self, edits: dict[str, list[Edit]]) -> None:
        self._edits = edits

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname not in self._edits:
            return None
        edits = self._edits[fullname]
        file = table.SOURCES[table.PYTHON] / edits[0].file
        return spec_from_file_location(fullname, file, loader=_Changed(fullname, str(file), edits))


class _Changed(SourceFileLoader):
    """Compiles changed source; what was compiled before is not read, and nothing is kept."""

    def __init__(self, fullname: str, path: str, edits: Sequence[Edit]) -> None:
        super().__init__(fullname, path)
        self._mutations = edits

    def get_code(self, fullname: str) -> CodeType:
        text = table.replaced(self.get_data(self.path).decode(), self._mutations)
        del fullname
        return compile(text, self.path, "exec", dont_inherit=True)
