"""Where a Flower app is: a project's `pyproject.toml`, or a module that is installed. Needs neither torch nor flwr."""

import importlib.util
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from chainfl.errors import AppError

PREFIX: Final = "flower:"
PROJECT: Final = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class FlowerProject:
    """A ClientApp and the ServerApp beside it, as `package.module:object`, and the project's run config."""

    client: str
    server: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


def find_project(where: str) -> FlowerProject:
    """The app of `flower:FOLDER`, which holds a project, or of `flower:package.client_app:app`.

    Raises:
        AppError: there is none, or its project file says otherwise.
    """
    name = where.removeprefix(PREFIX)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _of_folder(folder.resolve())
    module, _, attribute = name.partition(":")
    if not module or not attribute or not attribute.isidentifier() or "/" in module:
        raise AppError(f"app {where!r}: write {PREFIX}package.client_app:app, or {PREFIX}FOLDER of a project")
    return _of_module(name, module)


def _of_folder(folder: Path) -> FlowerProject:
    """The project that `flwr run` would take from this folder; its modules are found from there."""
    document = _read(folder / PROJECT)
    components = document.get("components")
    if not isinstance(components, dict) or not isinstance(components.get("clientapp"), str):
        raise AppError(f"app {PREFIX}{folder}: its {PROJECT} names no [tool.flwr.app.components] clientapp")
    _make_findable(folder)
    return FlowerProject(
        components["clientapp"], components.get("serverapp"), _flat(document.get("config", {}))
    )


def _of_module(name: str, module: str) -> FlowerProject:
    """An installed module, or one in the folder that the command was called from; its project is above its package."""
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        _make_findable(Path.cwd())
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise AppError(f"app {PREFIX}{name}: no package {package} is installed here, nor in {Path.cwd()}")

    project = Path(spec.origin).resolve().parents[1] / PROJECT
    document = _read(project) if project.is_file() else {}
    server = document.get("components", {}).get("serverapp") or _server_beside(module)
    return FlowerProject(name, server, _flat(document.get("config", {})))


def _server_beside(module: str) -> str | None:
    """The ServerApp where Flower's own templates put it."""
    beside = module.rpartition(".")[0] + ".server_app"
    try:
        is_there = importlib.util.find_spec(beside) is not None
    except (ImportError, ValueError):
        return None
    return f"{beside}:app" if is_there else None


def _make_findable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AppError(f"app {PREFIX}{path.parent}: {path.name}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AppError(f"{path}: {error}") from None
    found = document.get("tool", {}).get("flwr", {}).get("app", {})
    return found if isinstance(found, dict) else {}


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A run config with tables inside as Flower reads it: names joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
