"""What tests do to processes they started."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """The process stops dead, and goes on afterwards."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
