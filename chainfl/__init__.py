"""Federated learning run by Ethereum contracts, checkable by anyone."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# The name on PyPI; `chainfl` there is somebody else's package.
DISTRIBUTION = "chainfl-protocol"

# What users import from here (docs/python.md), by the module that has it: imported on first use, so that
# `import chainfl` is light. `__init__.pyi` tells type checkers the same.
_LAZY = {
    "App": "chainfl.learning.app",
    "ChainflError": "chainfl.errors",
    "RoundAudit": "chainfl.public.task",
    "RoundMetrics": "chainfl.sim.run",
    "Score": "chainfl.learning.score",
    "SimulationResult": "chainfl.public.simulation",
    "Task": "chainfl.public.task",
    "TaskRound": "chainfl.public.task",
    "load_app": "chainfl.learning.app",
    "resume": "chainfl.public.simulation",
    "simulate": "chainfl.public.simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        raise _missing(name, error) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def _missing(name: str, error: ModuleNotFoundError) -> Exception:
    """What to install, where it is no defect of ours."""
    errors, tools = import_module("chainfl.errors"), import_module("chainfl.tools")

    package = (error.name or "").partition(".")[0]
    if package not in tools.EXTRAS:
        return error
    remedy = tools.pip_install(tools.EXTRAS[package])
    missing: Exception = errors.ToolMissingError(
        f"chainfl.{name} needs {package}, which is not installed: {remedy}"
    )
    return missing
