"""Find data files, unpack them, and say exactly what is missing and where, or what is wrong with it."""

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from chainfl.errors import DataCorruptError, DataMissingError
from chainfl.learning.dataset import Array


def require(
    dataset: str, root: Path | None, folders: Sequence[str], wanted: Mapping[str, Sequence[str]]
) -> dict[str, Path]:
    """For each wanted file the first of its names that exists in one of the folders under `root`.

    Raises:
        DataMissingError: one or more are not there; all of them are named.
    """
    if root is None:
        raise DataMissingError(
            f"data set {dataset}: no data directory given; use --data DIR or set CHAINFL_DATA "
            f"to a directory with {folders[0]}/{next(iter(wanted.values()))[0]}"
        )
    places = [root / folder for folder in folders]
    found = {key: locate(places, names) for key, names in wanted.items()}
    missing = [" or ".join(wanted[key]) for key, path in found.items() if path is None]
    if missing:
        raise DataMissingError(
            f"data set {dataset}: missing {', '.join(missing)}; looked in {', '.join(map(str, places))}"
        )
    return {key: path for key, path in found.items() if path is not None}


def locate(places: Sequence[Path], names: Sequence[str]) -> Path | None:
    """The first file or folder with one of these names, in the order of the places."""
    return next((place / name for place in places for name in names if (place / name).exists()), None)


def unpack(path: Path) -> bytes:
    """A file's bytes, unpacked if its name ends in .gz or .xz.

    Raises:
        DataCorruptError: it cannot be read or is cut short.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return file.read()
        if path.suffix == ".xz":
            with lzma.open(path) as file:
                return file.read()
        return path.read_bytes()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as problem:
        raise DataCorruptError(f"{path}: cannot be read: {problem}; fetch the file again") from problem


def load_npz(path: Path) -> dict[str, Array]:
    """All arrays of an .npz file; object arrays (pickle) are refused.

    Raises:
        DataCorruptError: it is not such a file.
    """
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise ValueError("it holds one bare array (.npy), not named ones")
            return {name: arrays[name] for name in arrays.files}
    except Exception as problem:  # zipfile, zlib and struct raise their own for damaged archives
        is_pickle = "pickle" in str(problem)  # numpy would advise to load it unsafely: never
        why = "it is damaged, or holds Python objects instead of plain arrays" if is_pickle else problem
        raise DataCorruptError(f"{path}: not a usable .npz file: {why}") from problem


def digest(array: Array) -> str:
    """SHA-256 over type, shape and little-endian contents: what a decoded array is known by."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    head = f"{little.dtype.str}{list(little.shape)}".encode()
    return hashlib.sha256(head + little.tobytes()).hexdigest()


def expect(condition: bool, path: Path, what: str) -> None:
    """Refuse a file whose contents are not as they must be."""
    if not condition:
        raise DataCorruptError(f"{path}: {what}; fetch the file again")
