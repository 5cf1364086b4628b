"""Decoded arrays on disk as .npy: slow formats are read once, and many processes map the same memory."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from chainfl.learning.dataset import Array

VERSION = 2
"""Raise it whenever a decoder changes what it returns."""
NAMES = "names.json"
"""Which arrays a folder holds: a reader must not take a folder that is being deleted for one with fewer."""


def cache_dir() -> Path:
    """`CHAINFL_CACHE`, or `chainfl` in the user's cache directory."""
    if own := os.environ.get("CHAINFL_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chainfl"


def cached(
    name: str, sources: Iterable[Path], decode: Callable[[], dict[str, Array]], *, fresh: bool = False
) -> dict[str, Array]:
    """What `decode` returns, mapped from disk if it was decoded before from these very files.

    A cache that cannot be read or written costs time, never correctness.
    """
    folder = cache_dir() / "datasets" / f"{name}-{_key(sources)}"
    if not fresh and (arrays := _read(folder)):
        return arrays
    arrays = decode()
    return (_read(folder) if _write(folder, arrays) else None) or arrays


def _key(sources: Iterable[Path]) -> str:
    facts = [f"{VERSION}"]
    for path in sorted(sources):
        stat = path.stat()
        facts.append(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _read(folder: Path) -> dict[str, Array] | None:
    """All arrays of a folder, or none of them."""
    try:
        names = json.loads((folder / NAMES).read_text(encoding="utf-8"))
        return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError):
        return None


def _write(folder: Path, arrays: dict[str, Array]) -> bool:
    """Write beside and rename, so that no reader ever sees half of it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent))
        made, old = temporary / "made", temporary / "old"
        try:
            made.mkdir()
            for name, array in arrays.items():
                np.save(made / f"{name}.npy", array, allow_pickle=False)
            (made / NAMES).write_text(json.dumps(sorted(arrays)), encoding="utf-8")

            # Another process may have been first, and others may be reading what it wrote: it is moved away whole.
            if folder.exists():
                folder.rename(old)
            made.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError:
        return False
    return True
