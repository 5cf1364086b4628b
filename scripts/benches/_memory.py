"""The most memory that a contender and all its processes hold, looked at while it works."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]

PAUSE = 0.25


@dataclass(slots=True)
class Peak:
    """Proportional memory in MB: what processes share counts once."""

    mb: float = 0.0


@contextmanager
def watching(pid: int) -> Iterator[Peak]:
    """Look at a process and its descendants every quarter of a second."""
    peak, ended = Peak(), threading.Event()

    def look() -> None:
        while True:
            peak.mb = max(peak.mb, tree_pss(pid) / 2**20)
            if ended.wait(PAUSE):
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def tree_pss(pid: int) -> float:
    """Proportional memory of a process and all its descendants, in bytes."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        for each in (root, *root.children(recursive=True)):
            try:
                total += each.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
    except psutil.NoSuchProcess:
        return 0.0
    return total
