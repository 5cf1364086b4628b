"""Make the MNIST subset that ships inside the package: every seventh writer, every fifth test digit.

Reads `mnist/` under CHAINFL_DATA and writes xz-packed IDX files to chainfl/learning/data/mnist. Running it again
gives the same decoded arrays.
"""

import lzma
import os
import struct
import sys
from pathlib import Path

import numpy as np

from chainfl.learning.dataset import Array
from chainfl.learning.sources.files import require
from chainfl.learning.sources.idx import PIXELS, WRITER_COLUMN, WRITERS, read_idx

WRITERS_STEP = 7
TEST_STEP = 5
TARGET = Path(__file__).resolve().parent.parent / "chainfl" / "learning" / "data" / "mnist"
CODES = {np.dtype(np.uint8): 0x08, np.dtype(">i4"): 0x0C}


def main() -> None:
    """Write the five files and say how large they are."""
    root = os.environ.get("CHAINFL_DATA")
    found = require("mnist", Path(root) if root else None, ("mnist", "."), PIXELS | WRITERS)
    arrays = {key: read_idx(path) for key, path in found.items()}
    rows = whole_writers(arrays["writer"][:, WRITER_COLUMN])
    chosen = {key: arrays[key][rows] for key in ("x", "y", "writer")}
    chosen |= {key: arrays[key][::TEST_STEP] for key in ("x_test", "y_test")}
    TARGET.mkdir(parents=True, exist_ok=True)
    for key, (gz, _plain) in (PIXELS | WRITERS).items():
        path = TARGET / gz.replace(".gz", ".xz")
        path.write_bytes(lzma.compress(idx_bytes(chosen[key]), preset=9 | lzma.PRESET_EXTREME))
        sys.stdout.write(f"{path.name}: {list(chosen[key].shape)}, {path.stat().st_size:,} bytes\n")


def whole_writers(writer: Array) -> Array:
    """The rows, in order, of every seventh writer by number: pupils and clerks alike, as in MNIST."""
    return np.flatnonzero(np.isin(writer, np.unique(writer)[::WRITERS_STEP]))


def idx_bytes(array: Array) -> bytes:
    """An array in IDX format."""
    header = struct.pack(f">HBB{array.ndim}I", 0, CODES[array.dtype], array.ndim, *array.shape)
    return header + array.tobytes()


if __name__ == "__main__":
    main()
