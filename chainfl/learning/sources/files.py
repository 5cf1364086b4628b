"""Find data files, unpack them, and say exactly what is missing and where, or what is wrong with it."""

import gzip
import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from chainfl.errors import DataCorruptError, DataMissingError
from chainfl.learning.dataset import Array

MAX_GROWTH = 100
"""How many times its own size an .npz may unpack to, once that is more than `FREE_BYTES`: images reach about ten."""
FREE_BYTES = 1 << 28


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
        if _starts_with(path, np.lib.format.MAGIC_PREFIX):
            raise ValueError("it holds one bare array (.npy), not named ones")

        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_growth(members, path.stat().st_size)

            names = [member.filename.removesuffix(".npy") for member in members]
            if len(names) != len(set(names)):
                raise ValueError("two of its arrays have the same name")
            return {name: _read_member(archive, member) for name, member in zip(names, members, strict=True)}
    except Exception as problem:  # zipfile, zlib and struct raise their own for damaged archives
        why: object = problem
        if isinstance(problem, zipfile.BadZipFile):
            why = "it is damaged, or holds Python objects instead of plain arrays"
        raise DataCorruptError(f"{path}: not a usable .npz file: {why}") from problem


def _starts_with(path: Path, prefix: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(prefix)) == prefix


def _check_growth(members: Sequence[zipfile.ZipInfo], packed: int) -> None:
    """Refuse an archive that is made to fill the memory of its reader."""
    unpacked = sum(member.file_size for member in members)
    if unpacked > max(FREE_BYTES, MAX_GROWTH * packed):
        raise ValueError(
            f"its {packed} bytes unpack to {unpacked}, more than {MAX_GROWTH} times as many; "
            "write it with np.savez, which does not compress"
        )


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    """One array, after a check of its header: memory is taken only for as many bytes as there are."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"{member.filename} has format {version}, not 1.0 or 2.0")
        found = member.file_size - file.tell()

    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds Python objects, which are read by pickle only: never")
    if not dtype.itemsize or prod(shape) * dtype.itemsize != found:
        raise ValueError(
            f"{member.filename} has {found} bytes of data where its header asks for {dtype}{shape}"
        )
    with archive.open(member) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
        return array


def digest(array: Array) -> str:
    """SHA-256 over type, shape and little-endian contents: what a decoded array is known by."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    head = f"{little.dtype.str}{list(little.shape)}".encode()
    return hashlib.sha256(head + little.tobytes()).hexdigest()


def expect(condition: bool, path: Path, what: str) -> None:
    """Refuse a file whose contents are not as they must be."""
    if not condition:
        raise DataCorruptError(f"{path}: {what}; fetch the file again")
