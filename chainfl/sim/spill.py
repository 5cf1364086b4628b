"""Updates of a large round on disk: memory holds a few of them, and the head. K updates, D parameters.

They lie in a temporary file without a name, which is written again in every round and gone with the process.
`TMPDIR` says where. What the system keeps of it in its cache it gives back when others need the memory.
"""

import os
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chainfl.codec.vector import BYTES, Vector
from chainfl.errors import OutsideError
from chainfl.learning.compute import cores
from chainfl.protocol.combine import Input

MOST_HELD: Final = 2**29
"""Bytes of updates that a round holds in memory; those of a larger one are spilled where the rule allows it."""
AT_ONCE: Final = 2**26
"""Bytes of updates that a spilled round trains, or reads for combining, at a time."""
_GRAIN: Final = 2**14


class Spill:
    """A temporary file with room for one round's updates."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)

    def keep(self, place: int, u_D: Vector) -> "Spilled":
        """Write an update to its place; what lay there is gone.

        Raises:
            OutsideError: there is no room.
        """
        left, at = u_D.data.cast("B"), place * u_D.nbytes
        try:
            while left:
                done = os.pwrite(self.descriptor, left, at)
                left, at = left[done:], at + done
        except OSError as error:
            raise OutsideError(
                f"update {place + 1} of the round does not fit into a temporary file in {tempfile.gettempdir()}: "
                f"{error.strerror}: set TMPDIR to a folder with {(place + 1) * u_D.nbytes:,} bytes and more"
            ) from None
        return Spilled(self, place * u_D.nbytes, len(u_D))

    def read(self, at: int, count: int) -> Vector:
        """So many parameters from a byte on."""
        u_D = np.empty(count, np.uint32)
        left = u_D.data.cast("B")
        while left:
            done = os.preadv(self.descriptor, [left], at)
            left, at = left[done:], at + done
        return u_D


@dataclass(frozen=True, slots=True)
class Spilled:
    """An update in the file, read in slices."""

    spill: Spill
    at: int
    parameters: int

    def __len__(self) -> int:
        return self.parameters

    def __getitem__(self, part: slice, /) -> Vector:
        start, stop, _ = part.indices(self.parameters)
        return self.spill.read(self.at + start * BYTES, max(0, stop - start))


def rows_at_once(size: int) -> int:
    """How many updates of this many parameters are trained together: as many on each core."""
    return max(1, AT_ONCE // (size * BYTES * cores())) * cores()


def chunk_of(updates: Sequence[Input]) -> int | None:
    """Parameters to read at a time, so that memory holds little of spilled updates; None where all lie in memory."""
    if not any(isinstance(each, Spilled) for each in updates):
        return None
    return max(_GRAIN, AT_ONCE // (len(updates) * BYTES) // _GRAIN * _GRAIN)
