"""A task's app: what its manifest says, against the code and the frozen files that are here.

Nobody runs a sponsor's code. The manifest names an app and the digest of its source; what runs is what the operator
installed, if it is the same, or if the operator said that its own may run instead.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from chainfl.codec.manifest import AnyManifest, AppManifest, BaseFile
from chainfl.errors import InputError
from chainfl.learning import builtin
from chainfl.learning.appconfig import as_values, of_values
from chainfl.learning.source import find_source, load_module

if TYPE_CHECKING:
    from chainfl.learning.app import App

_AT_ONCE = 1 << 20


def is_builtin(manifest: AnyManifest) -> bool:
    """Whether the task runs the built-in app."""
    return not is_app(manifest)


def is_app(manifest: AnyManifest) -> TypeGuard[AppManifest]:
    """Whether the task runs an app that somebody brought."""
    return isinstance(manifest, AppManifest) and manifest.app != builtin.NAME


def task_app(manifest: AppManifest, where: str, accepted: str | None = None) -> "App":
    """The app at this place, if it is the task's or the operator accepts its digest; its frozen files are checked.

    Raises:
        InputError: it is another one (both digests are named), or a frozen file is not what the task names.
    """
    from chainfl.learning.app import App

    source = find_source(where)
    found = source.digest
    if found not in (manifest.digest, accepted):
        raise InputError(
            f"app {where} is not the task's: the task names {manifest.app} with digest {manifest.digest}, the source "
            f"here has {found}; get the task's, read it, and try again, or run your own with --accept-app {found}"
        )
    app = App(source, load_module(source), of_values(manifest.config), manifest.seed)
    check_base(manifest.base, app.base_files())
    return app


def settings_of(manifest: AnyManifest) -> tuple[dict[str, Any], int]:
    """What the sponsor set for the task's app, and the seed of its first model: its module is built with both."""
    return (of_values(manifest.config), manifest.seed) if is_app(manifest) else ({}, 0)


def name_base(files: Iterable[Path]) -> tuple[BaseFile, ...]:
    """The frozen files as a manifest names them.

    Raises:
        InputError: one cannot be read, or two have the same name.
    """
    named: dict[str, BaseFile] = {}
    for path in files:
        if path.name in named:
            raise InputError(
                f"base file {path}: another is called {path.name} too; give them different names"
            )
        named[path.name] = _named(path)
    return tuple(named[name] for name in sorted(named))


def check_base(wanted: Iterable[BaseFile], files: Iterable[Path]) -> None:
    """Compare the frozen files of this machine with those of the task.

    Raises:
        InputError: one is missing, or is another; says which, and both digests.
    """
    here = {each.name: each for each in name_base(files)}
    for each in wanted:
        found = here.pop(each.name, None)
        if found is None:
            raise InputError(
                f"the task's frozen file {each.name} ({each.bytes} bytes) is not among base() here"
            )
        if found != each:
            raise InputError(
                f"frozen file {each.name}: the task names SHA-256 {each.sha256.hex()} ({each.bytes} bytes), the one "
                f"here has {found.sha256.hex()} ({found.bytes} bytes)"
            )
    for name in here:
        raise InputError(f"frozen file {name}: base() names it here, the task does not")


def manifest_of(app: "App", *, score_samples: int, scale: int) -> AppManifest:
    """The manifest of a task that runs this app."""
    return AppManifest(
        app=app.name,
        digest=app.digest,
        config=as_values(app.config),
        base=name_base(app.base_files()),
        seed=app.seed,
        score_samples=score_samples,
        s=scale,
        layout=app.layout,
    )


def _named(path: Path) -> BaseFile:
    digest = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(_AT_ONCE):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise InputError(f"base file {path}: {error.strerror}") from None
    return BaseFile(path.name, digest.digest(), size)
