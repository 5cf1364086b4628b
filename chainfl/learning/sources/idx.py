"""MNIST's IDX format: MNIST (with QMNIST's writers) and Fashion-MNIST."""

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from chainfl.learning.dataset import Array
from chainfl.learning.sources.files import expect, unpack

TYPES: dict[int, np.dtype[Any]] = {0x08: np.dtype(np.uint8), 0x0C: np.dtype(">i4")}
WRITER_COLUMN = 2

PIXELS = {
    "x": ("train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"),
    "y": ("train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte"),
    "x_test": ("t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte"),
    "y_test": ("t10k-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte"),
}
WRITERS = {"writer": ("qmnist-train-labels-idx2-int.gz", "qmnist-train-labels-idx2-int")}


def read_idx(path: Path) -> Array:
    """The array in an IDX file: two zero bytes, type, number of dimensions, their sizes, the data."""
    data = unpack(path)
    expect(
        len(data) >= 4 and data[:2] == b"\0\0" and data[2] in TYPES,
        path,
        "not an IDX file of bytes or integers",
    )
    dtype = TYPES[data[2]]
    dimensions = data[3]
    expect(1 <= dimensions <= 3 and len(data) >= 4 + 4 * dimensions, path, "its header is cut short")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    size = prod(shape) * dtype.itemsize
    found = len(data) - 4 - 4 * dimensions
    expect(found == size, path, f"{found} bytes of data where its header {list(shape)} asks for {size}")
    return np.frombuffer(data, dtype, offset=4 + 4 * dimensions).reshape(shape)


def decode_images(found: Mapping[str, Path]) -> dict[str, Array]:
    """Images as uint8 of Nx28x28, labels as int64; with `writer`, who wrote each training digit."""
    arrays: dict[str, Array] = {}
    for part in ("", "_test"):
        x = read_idx(found[f"x{part}"])
        y = read_idx(found[f"y{part}"]).astype(np.int64)
        expect(
            x.ndim == 3 and x.shape[1:] == (28, 28),
            found[f"x{part}"],
            f"images are {list(x.shape)}, not Nx28x28",
        )
        expect(y.ndim == 1 and len(y) == len(x), found[f"y{part}"], f"{len(y)} labels for {len(x)} images")
        expect(len(y) == 0 or int(y.max()) <= 9, found[f"y{part}"], "labels above 9")

        arrays |= {f"x{part}": x, f"y{part}": y}

    if "writer" in found:
        extended = read_idx(found["writer"])
        fits = extended.ndim == 2 and extended.shape == (len(arrays["y"]), 8)
        expect(fits, found["writer"], f"{list(extended.shape)} extended labels for {len(arrays['y'])} digits")
        expect(
            bool((extended[:, 0] == arrays["y"]).all()),
            found["writer"],
            "its classes are not those of the labels",
        )
        arrays["group_writer"] = extended[:, WRITER_COLUMN].astype(np.int64)
    return arrays
