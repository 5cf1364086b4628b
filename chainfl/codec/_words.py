"""What compiled kernels share: SHA-256's constants (FIPS 180-4), and words in either byte order."""

from typing import Any

import numba
import numpy as np
from numba.core.registry import cpu_target

BLOCK_WORDS = 16


def _first_bits(root: int) -> tuple[int, ...]:
    """The first 32 fractional bits of the square (2) or cube (3) roots of the first 64 primes."""
    primes = [n for n in range(2, 312) if all(n % q for q in range(2, n))]
    return tuple(_root_floor(prime << 32 * root, root) & 0xFFFFFFFF for prime in primes)


def _root_floor(value: int, root: int) -> int:
    low = 0
    high = 1 << 64
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**root <= value else (low, middle)
    return low


INITIAL = np.array(_first_bits(2)[:8], np.uint32)
ROUND_CONSTANTS = _first_bits(3)


@numba.njit(inline="always")
def swap_bytes(word: Any) -> Any:
    """The word in the other byte order; cut back to 32 bits, for numba widens every sum to 64."""
    return np.uint32(
        (word >> np.uint32(24))
        | ((word >> np.uint32(8)) & np.uint32(0xFF00))
        | ((word << np.uint32(8)) & np.uint32(0xFF0000))
        | (word << np.uint32(24))
    )


def has_sha_instructions() -> bool:
    """Whether numba compiles for an x86 processor with SHA instructions."""
    return {"+sha", "+sse4.1"} <= _features()


def has_wide_registers() -> bool:
    """Whether numba compiles for an x86 processor whose vector registers have upper halves (AVX)."""
    return "+avx" in _features()


def _features() -> set[str]:
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    return set(features.split(","))
