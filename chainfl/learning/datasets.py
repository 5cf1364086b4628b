"""Data sets by name: ours, a user's own file (`npz:PATH`), and those that installed packages add.

An entry point of group `chainfl.datasets` is a function from the data directory (or None) to a `Dataset`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from chainfl import names
from chainfl.errors import DataCorruptError, InputError
from chainfl.learning.dataset import Array, Dataset
from chainfl.learning.sources import covtype, idx, shakespeare
from chainfl.learning.sources.cache import cached
from chainfl.learning.sources.cifar import decode_cifar, decode_cropped, find_cifar
from chainfl.learning.sources.files import digest, require
from chainfl.learning.sources.imdb import decode_imdb, find_imdb
from chainfl.learning.sources.known import DIGESTS
from chainfl.learning.sources.npz import load_own

GROUP: Final = "chainfl.datasets"
DEFAULT: Final = "mnist-embedded"
EMBEDDED: Final = Path(__file__).parent / "data"
OWN_PREFIX: Final = "npz:"

Find = Callable[[str, Path | None], Mapping[str, Path]]
Decode = Callable[[Mapping[str, Path]], dict[str, Array]]


@dataclass(frozen=True, slots=True)
class Source:
    """How one of our data sets is found and decoded."""

    about: str
    classes: int
    find: Find
    decode: Decode


def _in_folders(*folders: str, files: Mapping[str, tuple[str, ...]]) -> Find:
    def find(name: str, root: Path | None) -> Mapping[str, Path]:
        return require(name, root, folders, files)

    return find


def _embedded(name: str, _root: Path | None) -> Mapping[str, Path]:
    files = {key: (gz.replace(".gz", ".xz"),) for key, (gz, _plain) in (idx.PIXELS | idx.WRITERS).items()}
    return require(name, EMBEDDED, ("mnist",), files)


SOURCES: Final[Mapping[str, Source]] = {
    "mnist-embedded": Source(
        "handwritten digits of 77 writers, inside the package", 10, _embedded, idx.decode_images
    ),
    "mnist": Source(
        "handwritten digits with their writers",
        10,
        _in_folders("mnist", "MNIST/raw", ".", files=idx.PIXELS | idx.WRITERS),
        idx.decode_images,
    ),
    "fashion-mnist": Source(
        "pictures of clothes",
        10,
        _in_folders("fashion-mnist", "FashionMNIST/raw", files=idx.PIXELS),
        idx.decode_images,
    ),
    "covtype": Source(
        "forest cover types by wilderness area and soil",
        7,
        _in_folders("covtype", ".", files=covtype.FILES),
        covtype.decode_covtype,
    ),
    "imdb": Source("movie reviews, positive or negative, by movie", 2, find_imdb, decode_imdb),
    "shakespeare": Source(
        "the next character of a role in Shakespeare's plays",
        shakespeare.CLASSES,
        _in_folders("shakespeare", ".", files=shakespeare.FILES),
        shakespeare.decode_shakespeare,
    ),
    "shakespeare-six": Source(
        "the same of six plays, with the role that speaks each test sample",
        shakespeare.CLASSES,
        _in_folders("shakespeare", ".", files=shakespeare.FILES),
        shakespeare.decode_six,
    ),
    "cifar10": Source("small photographs, 32x32", 10, find_cifar, decode_cifar),
    "cifar10-24": Source("small photographs, the middle 24x24", 10, find_cifar, decode_cropped),
}


def data_dir(given: str | Path | None = None) -> Path | None:
    """The directory with data files: as given, else `CHAINFL_DATA`, else none."""
    text = given or os.environ.get("CHAINFL_DATA")
    return Path(text).expanduser() if text else None


def known_datasets() -> tuple[str, ...]:
    """All names that `load` takes, besides `npz:PATH`."""
    return names.known_names(SOURCES, GROUP)


def load(name: str = DEFAULT, data: str | Path | None = None, *, fresh: bool = False) -> Dataset:
    """The data set called `name`, decoded, checked, and mapped from the cache; `fresh` decodes it again.

    Raises:
        UnknownNameError: no data set is called so.
        DataMissingError: its files are not there; says which and where they were looked for.
        DataCorruptError: its files do not hold what they should.
    """
    if name.startswith(OWN_PREFIX):
        return load_own(name.removeprefix(OWN_PREFIX))
    loaders = {known: partial(_load_source, known, fresh=fresh) for known in SOURCES}
    loader = names.find("data set", name, loaders, GROUP)
    loaded = loader(data_dir(data))
    if not isinstance(loaded, Dataset):
        raise InputError(f"data set {name!r}: its package returned {type(loaded).__name__}, not a Dataset")
    return loaded


def _load_source(name: str, root: Path | None, *, fresh: bool) -> Dataset:
    source = SOURCES[name]
    found = source.find(name, root)

    def decode() -> dict[str, Array]:
        arrays = source.decode(found)
        verify_contents(name, arrays, DIGESTS.get(name, {}))
        return arrays

    arrays = cached(name, found.values(), decode, fresh=fresh)
    groups = _owners(arrays, "group_")
    test_groups = _owners(arrays, "test_")
    train = (arrays["x"], arrays["y"])
    test = (arrays["x_test"], arrays["y_test"])
    return Dataset(name, *train, *test, source.classes, groups, test_groups)


def _owners(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def verify_contents(name: str, arrays: Mapping[str, Array], known: Mapping[str, str]) -> None:
    """Compare decoded arrays with the digests of the known data set.

    Raises:
        DataCorruptError: one differs; names it.
    """
    for key, expected in known.items():
        if key not in arrays:
            raise DataCorruptError(f"data set {name}: no array {key} after decoding; fetch its files again")
        found = digest(arrays[key])
        if found != expected:
            shape = list(arrays[key].shape)
            raise DataCorruptError(
                f"data set {name}: array {key} {shape} has digest {found[:16]}…, "
                f"the known one {expected[:16]}…; fetch its files again"
            )
