"""Processes of this system by number: whether they run, since when, and how they are ended."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether this process is alive (one that has ended and waits to be collected is not)."""
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _told(pid, "stat")[:1] != "Z"


def birth_of(pid: int) -> str:
    """When a process began, as the system reports it: with its number it names the process for good."""
    return _told(pid, "lstart")


def _told(pid: int, what: str) -> str:
    """What the system reports of a process: `stat` or `lstart`, as ps names them; empty when there is none."""
    proc = Path(f"/proc/{pid}/stat")
    try:
        if Path("/proc/self/stat").exists():
            fields = proc.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            return fields[{"stat": 0, "lstart": 19}[what]]
        done = subprocess.run(
            ["ps", "-o", f"{what}=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def send_signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
