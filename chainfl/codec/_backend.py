"""Where the fast paths come from: compiled kernels when numba is there, and a pool of threads to run them in.

Kernels release the GIL and work on slices. So any Python thread may call them, a forked child starts its own
pool, and no result depends on how the slices were cut.
"""

import importlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from chainfl.errors import InputError

# numba's names for arrays that a kernel only reads; writable ones are accepted too
READ_UINT32, READ_UINT64, READ_FLOAT32, READ_FLOAT64 = (
    f"Array({kind}, 1, 'C', readonly=True)" for kind in ("uint32", "uint64", "float32", "float64")
)
PIECES_PER_THREAD = 8  # small pieces even out cores that others keep busy


def has_numba() -> bool:
    """True when kernels are compiled; CHAINFL_NO_NUMBA=1 or a missing numba selects the plain ones."""
    is_unwanted = "1" in (os.environ.get("CHAINFL_NO_NUMBA"), os.environ.get("NUMBA_DISABLE_JIT"))
    return not is_unwanted and _can_import("numba")


@cache
def _can_import(package: str) -> bool:
    """False also where the package is there but does not go with the others, such as a newer numpy."""
    try:
        importlib.import_module(package)
    except (ImportError, OSError):
        return False
    return True


def compiled(*signatures: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile for exactly these signatures, without the GIL, once per machine.

    The cache lies beside the source, else in the user's cache directory; where neither can be written, or
    what lies there is damaged, the kernel is compiled for this process alone.
    """
    import numba

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            kernel = numba.njit(list(signatures), nogil=True, cache=True, error_model="numpy")(function)
        except Exception:  # a damaged cache may raise anything; a faulty kernel raises again below
            kernel = numba.njit(list(signatures), nogil=True, error_model="numpy")(function)
        return kernel

    return decorate


def default_threads() -> int:
    """As many threads as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Slices of `size` that cover start..stop; the last may be shorter."""
    for at in range(start, stop, size):
        yield slice(at, min(at + size, stop))


def in_parallel(work: Callable[[int, int], None], count: int, grain: int, threads: int | None = None) -> None:
    """Call `work(start, stop)` on slices that cover 0..count, each a multiple of `grain` long but the last.

    The calling thread works too, so a busy pool delays nobody and nested calls cannot wait for each other.
    """
    threads = default_threads() if threads is None else threads
    if threads < 1:
        raise InputError(f"threads is {threads}: give 1 or more")
    grains = -(-count // grain)
    pieces = min(grains, 1 if threads == 1 else threads * PIECES_PER_THREAD)
    if pieces <= 1:
        work(0, count)
        return

    bounds = [min(count, i * grains // pieces * grain) for i in range(pieces)] + [count]
    todo = iter(list(itertools.pairwise(bounds)))

    def drain() -> None:
        for start, stop in todo:
            work(start, stop)

    helpers = [_pool().submit(drain) for _ in range(min(threads, pieces) - 1)]
    try:
        drain()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()


class _Pool:
    """The process's threads, started at first use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None


_shared = _Pool()


def _pool() -> ThreadPoolExecutor:
    with _shared.lock:
        if _shared.executor is None:
            _shared.executor = ThreadPoolExecutor(
                max(1, default_threads()), thread_name_prefix="chainfl-kernel"
            )
        return _shared.executor


# A forked child has none of its parent's threads, and the lock may have been held when it was born.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.__init__)  # type: ignore[misc]
