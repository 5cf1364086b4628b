"""Other projects to measure against: each in a virtual environment of its own under .cache/, driven line by line.

A peer sees our torch, numpy and chainfl (a `.pth` file, written after its own packages): both sides compute alike.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from chainfl.errors import OutsideError, ToolMissingError
from chainfl.report import narrate

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "peers"


def peer_python(name: str, requirements: Sequence[str], *, alone: bool = False) -> Path:
    """The Python of a peer's environment, made when it is missing; `alone` takes no dependencies of the packages.

    Raises:
        ToolMissingError: the packages cannot be installed.
    """
    home = FOLDER / name
    python = home / "bin" / "python"
    mark = home / "installed"
    if mark.exists() and mark.read_text() == "\n".join(requirements):
        return python

    narrate(f"installing {', '.join(requirements)} into {home.relative_to(ROOT)}")
    install = [str(python), "-m", "pip", "install", "-q", *(["--no-deps"] if alone else []), *requirements]
    for command in ([sys.executable, "-m", "venv", "--clear", str(home)], install):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode:
            last = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise ToolMissingError(f"peer {name} cannot be installed: {last}")

    # A peer may use what we have installed, torch above all: it is found after the peer's own packages.
    site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "zz_ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    mark.write_text("\n".join(requirements))
    return python


@dataclass(slots=True)
class Peer:
    """A process that answers one line of JSON with one line of JSON."""

    process: subprocess.Popen[str]

    def ask(self, **question: Any) -> Any:
        """Send a question and wait for its answer.

        Raises:
            OutsideError: the peer ended, or could not answer.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise OutsideError(f"the peer ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise OutsideError(f"the peer cannot: {answer['error']}")
        return answer["answer"]

    def __enter__(self) -> "Peer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_peer(python: Path, script: str, *arguments: str, environment: dict[str, str] | None = None) -> Peer:
    """Start a peer's script (Python text); it reads questions from stdin and answers on stdout."""
    process = subprocess.Popen(
        [str(python), "-u", "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    return Peer(process)


def start(command: Sequence[str], **more: str) -> Peer:
    """A contender that answers a line for each one it is sent; `more` are variables of its environment."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=with_ours(**more),
    )
    return Peer(process)


def with_ours(**more: str) -> dict[str, str]:
    """The environment of a process that finds this repository's packages."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **more}
