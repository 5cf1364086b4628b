"""Where an app's code is: a file or an installed module, its digest, and the module that it becomes. Needs no torch.

The bytes of a file are read once: what is hashed is what runs.
"""

import importlib
import importlib.util
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from traceback import extract_tb
from types import ModuleType, TracebackType
from typing import Final

from chainfl.codec.manifest import app_digest
from chainfl.errors import AppError, ChainflError, ToolMissingError
from chainfl.learning.flower_project import PREFIX, FlowerProject, find_project
from chainfl.tools import pip_install

EXTRA_OF: Final = {"torch": "train", "peft": "hf", "transformers": "hf", "flwr": "flower"}
"""Packages that an app may need and an extra of this one brings."""


@dataclass(frozen=True, slots=True)
class Source:
    """An app's own files; `main` is the one that holds its functions."""

    name: str
    main: Path
    files: dict[str, bytes]
    folder: Path
    module: str | None = None
    flower: FlowerProject | None = None

    @property
    def digest(self) -> str:
        """What a manifest names the source by."""
        return app_digest(self.files)

    def owns(self, file: str) -> bool:
        """Whether a line of this file is the user's own."""
        return any(Path(file) == self.folder / path for path in self.files)


def find_source(where: str) -> Source:
    """The source of `path/to/app.py`, of a folder that holds an `app.py`, or of an installed `package.module`.

    `flower:package.client_app:app`, or `flower:FOLDER` with a Flower project in it, is a Flower ClientApp.

    Raises:
        AppError: there is no such file or module.
    """
    if where.startswith(PREFIX):
        project = find_project(where)
        return replace(_of_module(project.client.partition(":")[0]), flower=project)
    path = Path(where).expanduser()
    if path.is_dir():
        path = path / "app.py"
    if path.suffix == ".py" or "/" in where:
        return _of_file(path)
    return _of_module(where)


def load_module(source: Source) -> ModuleType:
    """Run the source; answers the module. What it prints goes to stderr: stdout is for the answer of a command.

    Raises:
        AppError: it does not run, or a package that it needs is not installed.
        ToolMissingError: that package comes with an extra of this one.
    """
    try:
        with redirect_stdout(sys.stderr):
            return _run(source)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        at = place(source, error.__traceback__)
        if package in EXTRA_OF:
            needed = f"{at}: needs {package}, which is not installed"
            raise ToolMissingError(f"{needed}: {pip_install(EXTRA_OF[package])}") from error

        hint = "an app is one file, or an installed package"
        raise AppError(f"{at}: needs {package}, which is not installed here ({hint})") from error
    except SyntaxError as error:
        raise AppError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except ChainflError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, and the end of its time
        raise failure(source, "import", error) from error


def failure(source: Source, doing: str, error: BaseException) -> AppError:
    """The error of a user's code as one line: its file and line, what it was doing, what went wrong."""
    message = _message(error)
    at = place(source, error.__traceback__)

    # A call that was ended names its file, and often its function, already.
    if type(error).__name__ == "TimeUp":
        ended = message.removeprefix(f"{source.main}: ")
        return AppError(f"{at}: {ended}" if ended.startswith(doing) else f"{at}: {doing}: {ended}")
    return AppError(f"{at}: {doing}: {type(error).__name__}: {message[:500]}")


def _message(error: BaseException) -> str:
    """What an error says, in one line; the text of a user's own kind of error may fail in its turn."""
    try:
        return " ".join(str(error).split()) or "no message"
    except Exception:
        return "no message"


def place(source: Source, trace: TracebackType | None) -> str:
    """The last line of the user's own that an error passed through; the file alone where there is none."""
    found = str(source.main)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if source.owns(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def absolute(where: str) -> str:
    """The same app, named so that another process in another folder finds it."""
    path = where.removeprefix(PREFIX)
    prefix = where[: len(where) - len(path)]
    return prefix + str(Path(path).resolve()) if Path(path).exists() else where


def _of_file(path: Path) -> Source:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AppError(f"app {path}: {error.strerror}; make one with: chainfl new NAME") from None
    whole = path.resolve()
    name = whole.parent.name if whole.name == "app.py" else whole.stem
    return Source(name, whole, {whole.name: data}, whole.parent)


def _of_module(name: str) -> Source:
    """An installed module: the digest covers every `.py` file of its package."""
    found = _spec_of(name)
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        raise AppError(f"app {name!r}: no such file, and no such module is installed here")
    main = Path(found.origin).resolve()
    package = _package_folder(name)
    if package is None:
        return Source(name, main, {main.name: main.read_bytes()}, main.parent, name)
    files = {path.relative_to(package).as_posix(): path.read_bytes() for path in package.rglob("*.py")}
    return Source(name, main, files, package, name)


def _spec_of(name: str) -> ModuleSpec | None:
    """Where a module is; looking runs the packages that it is in.

    Raises:
        AppError: one of them does not run, or needs what is not installed.
        ToolMissingError: what it needs comes with an extra of this one.
    """
    try:
        return importlib.util.find_spec(name)
    except ValueError:
        return None
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not missing or f"{name}.".startswith(f"{missing}."):
            return None

        package = missing.partition(".")[0]
        needed = f"app {name!r}: needs {package}, which is not installed"
        if package in EXTRA_OF:
            raise ToolMissingError(f"{needed}: {pip_install(EXTRA_OF[package])}") from error
        raise AppError(f"{needed} here") from error
    except (Exception, SystemExit) as error:
        steps = [step for step in extract_tb(error.__traceback__) if not step.filename.startswith("<")]
        raise AppError(
            f"{steps[-1].filename}:{steps[-1].lineno}: import: {type(error).__name__}: {_message(error)[:500]}"
        ) from error


def _package_folder(name: str) -> Path | None:
    """The folder of the outermost package that has an `__init__.py`; None for a module that is in none."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:depth]))
        if spec is not None and spec.origin is not None and spec.submodule_search_locations:
            return Path(spec.origin).resolve().parent
    return None


def _run(source: Source) -> ModuleType:
    if source.flower is not None:
        from chainfl.learning.flower import flower_app

        return flower_app(source, source.flower)
    if source.module is not None:
        return importlib.import_module(source.module)
    return _run_file(source)


def _run_file(source: Source) -> ModuleType:
    """A module of its own for each content, in `sys.modules` so that its dataclasses find themselves."""
    name = f"chainfl_app_{source.digest[:16]}"
    module = ModuleType(name)
    module.__file__ = str(source.main)
    sys.modules[name] = module
    try:
        (data,) = source.files.values()
        exec(compile(data, str(source.main), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
