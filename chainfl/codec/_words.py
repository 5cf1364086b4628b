"""What compiled kernels share: reading a 32-bit word in either byte order."""

from typing import Any

import numba
import numpy as np


@numba.njit(inline="always")
def swap_bytes(word: Any) -> Any:
    """The word in the other byte order; cut back to 32 bits, for numba widens every sum to 64."""
    return np.uint32(
        (word >> np.uint32(24))
        | ((word >> np.uint32(8)) & np.uint32(0xFF00))
        | ((word << np.uint32(8)) & np.uint32(0xFF0000))
        | (word << np.uint32(24))
    )
