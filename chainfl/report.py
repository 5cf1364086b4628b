"""The one machine-readable answer of every command that measures or reports.

A report is one JSON object on stdout (docs/schemas/report.json); what is said to people goes to stderr.
Whoever runs chainfl from a script reads `ok`, or just the exit code: 0 everything holds, 1 a bar is missed or
a verdict negative.
"""

import json
import math
import operator
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from chainfl import __version__
from chainfl.errors import ChainflError, InputError

COMMIT: Final = re.compile(r"[0-9a-f]{40}(-dirty)?")
Op = Literal["<=", "<", ">=", ">", "=="]

_HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A measured value and the limit it has to keep; one that is not a finite number misses every limit."""

    id: str
    value: float
    op: Op
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the value keeps its limit."""
        return math.isfinite(self.value) and _HOLDS[self.op](self.value, self.limit)


@dataclass(frozen=True, slots=True)
class Report:
    """What a command found: numbers, the bars they must keep, and where and from what they were taken."""

    name: str
    metrics: Mapping[str, object]
    bars: tuple[Bar, ...]
    ok: bool
    seed: int | None
    seconds: float
    error: ChainflError | None = None

    @property
    def exit_code(self) -> int:
        """What the process ends with: 0 holds, 1 does not, else by branch of the error tree."""
        if self.error is not None:
            return self.error.exit_code
        return 0 if self.ok else 1


def bar(id: str, value: float, op: Op, limit: float) -> Bar:
    """A bar to be kept, such as `bar("codec.tree_ratio", 3.1, "<=", 4)`."""
    if op not in _HOLDS:
        raise InputError(f"bar {id}: operator {op!r} is not one of {', '.join(_HOLDS)}")
    return Bar(id, value, op, limit)


def report(
    name: str,
    metrics: Mapping[str, object],
    bars: Sequence[Bar] = (),
    *,
    ok: bool = True,
    seed: int | None = None,
    seconds: float = 0.0,
) -> Report:
    """A report named `chainfl/<name>/1` that holds when the verdict `ok` does and every bar is kept."""
    return Report(name, metrics, tuple(bars), ok and all(each.ok for each in bars), seed, seconds)


def refusal(name: str, error: ChainflError, seconds: float = 0.0) -> Report:
    """The report of a command that was refused, so that a machine still reads exactly one object."""
    return Report(name, {}, (), False, None, seconds, error)


def envelope(report: Report) -> dict[str, object]:
    """The report as the JSON object of docs/schemas/report.json."""
    body: dict[str, object] = {
        "schema": f"chainfl/{report.name}/1",
        "ok": report.ok,
        "commit": commit(),
        "machine": machine(),
        "seed": report.seed,
        "seconds": round(report.seconds, 6),
        "metrics": dict(report.metrics),
        "bars": [
            {"id": each.id, "value": each.value, "op": each.op, "limit": each.limit, "ok": each.ok}
            for each in report.bars
        ],
    }

    if report.error is not None:
        body["error"] = {
            "kind": type(report.error).__name__,
            "message": str(report.error),
            "exit_code": report.error.exit_code,
        }
    return body


def encode(report: Report) -> str:
    """The report as one line of strict JSON; numbers that JSON cannot hold become null."""
    return json.dumps(_finite(envelope(report)), allow_nan=False)


def emit(report: Report) -> int:
    """Write the report to stdout, alone, and return the exit code."""
    sys.stdout.write(encode(report) + "\n")
    sys.stdout.flush()
    return report.exit_code


def narrate(line: str) -> None:
    """Say something to people while stdout stays clean."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@cache
def commit() -> str | None:
    """The git commit the code runs from, `-dirty` where files differ from it; None where it is not known.

    A working tree asks git. A wheel carries the commit that it was built from (scripts/record_commit.py).
    """
    package = Path(__file__).resolve().parent
    root = package.parent
    if not (root / ".git").exists():
        return _recorded_commit(package / "commit.txt")
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return None if head is None else head + ("-dirty" if changed else "")


def version_line() -> str:
    """What `chainfl --version` prints: the version, and the commit in short where it is known."""
    known = commit()
    if known is None:
        return f"chainfl {__version__}"

    name, _, dirty = known.partition("-")
    return f"chainfl {__version__} ({name[:12]}{'-' if dirty else ''}{dirty})"


@cache
def machine() -> dict[str, object]:
    """What the numbers were taken on."""
    return {
        "system": platform.system(),
        "arch": platform.machine(),
        "cpu": _cpu_name(),
        "cores": _usable_cores(),
        "memory_gb": _memory_gb(),
        "python": platform.python_version(),
    }


def _recorded_commit(path: Path) -> str | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return text if COMMIT.fullmatch(text) else None


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or "unknown"


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (OSError, ValueError):
        return None


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
