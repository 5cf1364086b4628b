"""What tests do with processes they start."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def chainfl(*arguments: str, folder: Path = ROOT, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """A command as a process of its own; its one JSON object."""
    done = subprocess.run(
        [sys.executable, "-m", "chainfl", *arguments, "--json"],
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode in codes, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """The process stops dead, and goes on afterwards."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def await_that(condition: Callable[[], bool], seconds: float, what: str, pause: float = 0.05) -> None:
    """Ask again and again until it holds, as there is nobody to be told by; fail when it takes too long."""
    until, never = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < until, f"after {seconds:.0f} s still not: {what}"
        never.wait(pause)


def stall(pid: int, seconds: float) -> None:
    """The process stops dead for so long: the fault itself, not a wait for something."""
    with paused(pid):
        threading.Event().wait(seconds)
