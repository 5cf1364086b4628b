"""A participant's own data: an .npz file with `x`, `y` and, if it likes, `x_test`, `y_test` and `client`."""

from pathlib import Path

import numpy as np

from chainfl.errors import DataCorruptError, DataMissingError
from chainfl.learning.dataset import TOKEN_DTYPES, Array, Dataset
from chainfl.learning.sources.files import load_npz

NAMES = ("x", "y", "x_test", "y_test", "client")
TEST_EVERY = 10


def load_own(text: str) -> Dataset:
    """The data set in `npz:PATH`; without `x_test` every tenth sample, from the first, is kept for testing.

    Raises:
        DataMissingError: there is no such file.
        DataCorruptError: an array is missing, or shapes or types do not fit; says which.
    """
    path = Path(text.replace("\0", "?")).expanduser()
    if not path.is_file():
        raise DataMissingError(f"data set npz:{text}: no such file; give npz:PATH of an .npz with x and y")
    arrays = load_npz(path)
    if odd := sorted(arrays.keys() - set(NAMES)):
        raise DataCorruptError(f"{path}: unknown array {', '.join(odd)}; allowed are {', '.join(NAMES)}")
    if missing := [name for name in ("x", "y") if name not in arrays]:
        raise DataCorruptError(f"{path}: no array called {', '.join(missing)}")
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise DataCorruptError(f"{path}: x_test and y_test belong together; give both or neither")

    arrays = _split(path, {name: _convert(path, name, array) for name, array in arrays.items()})
    classes = 1 + max(int(arrays[name].max(initial=0)) for name in ("y", "y_test"))
    groups = {"client": arrays["client"]} if "client" in arrays else {}
    return Dataset(
        f"npz:{text}", arrays["x"], arrays["y"], arrays["x_test"], arrays["y_test"], max(2, classes), groups
    )


def _convert(path: Path, name: str, array: Array) -> Array:
    if name not in ("x", "x_test"):
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise DataCorruptError(
                f"{path}: {name} is {array.dtype}{list(array.shape)}, not a list of integers; "
                "number the values alike for all participants: 0, 1, 2, …"
            )
        if name != "client" and int(array.min(initial=0)) < 0:
            raise DataCorruptError(f"{path}: {name} holds {array.min()}; number the values from 0")
        return array.astype(np.int64)

    # Bytes are pictures and stay as they are; wider whole numbers are tokens of a text.
    if array.dtype.kind in "iu" and array.dtype != np.uint8:
        return _tokens(path, name, array)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused below
            array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise DataCorruptError(f"{path}: {name} holds NaN, infinite or too large values")

    return np.ascontiguousarray(array)


def _tokens(path: Path, name: str, array: Array) -> Array:
    """Integers of any width but a byte's, as one of the widths that tokens have."""
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < 0 or high > np.iinfo(np.int64).max:
        odd = low if low < 0 else high
        raise DataCorruptError(
            f"{path}: {name} holds {odd}: integers are tokens, from 0; save numbers as float, pixels as uint8"
        )
    return np.ascontiguousarray(array if array.dtype in TOKEN_DTYPES else array.astype(np.int64))


def _split(path: Path, arrays: dict[str, Array]) -> dict[str, Array]:
    samples = len(arrays["x"])
    if samples != len(arrays["y"]) or samples < 2:
        raise DataCorruptError(
            f"{path}: {samples} samples and {len(arrays['y'])} labels; both must be the same, ≥ 2"
        )
    if "client" in arrays and len(arrays["client"]) != samples:
        raise DataCorruptError(f"{path}: client names {len(arrays['client'])} owners for {samples} samples")
    if "x_test" in arrays:
        return arrays
    is_test = np.arange(samples) % TEST_EVERY == 0
    kept = {name: array[~is_test] for name, array in arrays.items()}
    return kept | {"x_test": arrays["x"][is_test], "y_test": arrays["y"][is_test]}
