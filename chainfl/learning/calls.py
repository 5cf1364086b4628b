"""Calling a user's code: seeded, with a fixed number of threads, its errors in one line."""

import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import torch

from chainfl.errors import AppError, ChainflError
from chainfl.learning.source import Source, failure

_DETERMINISTIC: Final[Any] = torch.utils.deterministic
_GROUPS: Final = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files with a container's limit of memory, in both versions of control groups."""


@dataclass(frozen=True, slots=True)
class Context:
    """What an app's functions get beside model and samples.

    `seed` has seeded torch, numpy and `random` already; `generator` is a torch.Generator with the same seed, on the
    CPU, as DataLoader takes it. `log` writes a line to the node's log; `config` is the app's own, as the task sets it.
    """

    device: torch.device
    seed: int
    round: int
    config: Any = None
    log: Callable[[str], None] = lambda _: None
    generator: torch.Generator = field(default_factory=torch.Generator)

    @classmethod
    def seeded(
        cls, device: torch.device, seed: int, round_: int, config: Any, log: Callable[[str], None]
    ) -> "Context":
        """A context whose generator starts from the seed."""
        return cls(device, seed, round_, config, log, torch.Generator().manual_seed(seed))


_OURS: Final = str(Path(__file__).parent) + os.sep
AGAIN_AFTER: Final = 1.0
"""Seconds until a call that caught the end of its time is ended again."""


class TimeUp(BaseException):
    """The time of a call is over; no `except Exception` of the user's keeps it from ending."""


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """End what runs inside when the time is up; only the main thread of a process can do so, others run on.

    A long call into compiled code is ended when it comes back to Python. A bare `except:` that catches the end is
    ended in its own lines, where nothing catches it; a second one around the first gets the next.

    Raises:
        AppError: the time was up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    rings = 0
    told = f"{what} has not ended after {seconds:.3g} s"

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal rings
        del number
        rings += 1
        if rings > 1 and not _end_next_lines(frame, told):
            return
        raise TimeUp(told)

    # Python delivers signals to the main thread only.
    before, traced_before = signal.signal(signal.SIGALRM, ring), sys.gettrace()
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), AGAIN_AFTER)
    try:
        yield
    except TimeUp as error:
        raise AppError(str(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rings > 1:
            sys.settrace(traced_before)


def _end_next_lines(frame: FrameType | None, told: str) -> bool:
    """Raise TimeUp in the next line, too, that runs in a frame of the user's: that of its `except:`.

    False where what runs is ours, here: it puts things back as they were, and is to finish.
    """

    def end(frame: FrameType, event: str, argument: object) -> Any:
        del frame, argument
        if event == "line":
            raise TimeUp(told)
        return end

    users = []
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        users.append(frame)
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename == __file__:
        return False

    for each in users:
        each.f_trace = end
    sys.settrace(lambda *_: None)
    return True


@contextmanager
def guarded(source: Source, doing: str) -> Iterator[None]:
    """Whatever the user's code raises becomes an AppError with the user's file and line; ours pass as they are.

    Memory that runs out is such an error too: the soft limit of the process stands at what the machine has left.
    What the code prints goes to stderr: stdout is for the answer of a command.

    Raises:
        AppError: the code failed.
    """
    try:
        with redirect_stdout(sys.stderr), _memory_bounded():
            yield
    except AppError as error:
        if str(source.main) in str(error):
            raise
        raise AppError(f"{source.main}: {doing}: {error}") from error  # from one of the defaults
    except ChainflError:
        raise
    except (Exception, SystemExit, TimeUp) as error:
        raise failure(source, doing, error) from error


@contextmanager
def seeded(seed: int, device: torch.device, threads: int) -> Iterator[None]:
    """Global random state from the seed and deterministic algorithms, until the call is over; then as it was.

    So are torch's other global switches, which the user's code may have turned.
    """
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    threads_before = torch.get_num_threads()
    strict_before = torch.are_deterministic_algorithms_enabled()
    warns_before = torch.is_deterministic_algorithms_warn_only_enabled()
    filling_before = _DETERMINISTIC.fill_uninitialized_memory
    gradients_before, dtype_before = torch.is_grad_enabled(), torch.get_default_dtype()

    # User code draws from any of these, mostly without knowing which: all start from the same seed.
    random.seed(seed)
    np.random.seed(seed & 0xFFFF_FFFF)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=device.type != "cpu")
    _DETERMINISTIC.fill_uninitialized_memory = False  # bits do not depend on it, and it costs time
    if threads != threads_before:
        torch.set_num_threads(threads)
    try:
        with np.errstate():
            yield
    finally:
        torch.set_grad_enabled(gradients_before)
        torch.set_default_dtype(dtype_before)
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
        torch.use_deterministic_algorithms(strict_before, warn_only=warns_before)
        _DETERMINISTIC.fill_uninitialized_memory = filling_before
        if torch.get_num_threads() != threads_before:  # the user's code may have set them too
            torch.set_num_threads(threads_before)


def warm_up() -> None:
    """Load what torch loads at its first step, in seconds: it is not the time of the app that is tried next."""
    with seeded(0, torch.device("cpu"), 1):
        weight = torch.nn.Parameter(torch.zeros(1))
        optimiser = torch.optim.SGD([weight], 0.1)
        weight.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()


@contextmanager
def _memory_bounded() -> Iterator[None]:
    """An allocation beyond what the machine has left fails, in place of the process being ended for it."""
    spare = free_memory()
    used = _data_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = used + spare
    if not spare or not used or (soft != resource.RLIM_INFINITY and soft < bound):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def free_memory() -> int:
    """Bytes that this process may still take; 0 where the system does not report it."""
    if sys.platform != "linux":
        return 0
    free = _in_kib(Path("/proc/meminfo"), "MemAvailable:")
    for folder, limit, current, reclaimable in _GROUPS:
        try:
            most = int((folder / limit).read_text())
            spare = most - int((folder / current).read_text()) + _field(folder / "memory.stat", reclaimable)
        except (OSError, ValueError):  # no such group, or one without a limit
            continue
        free = min(free, max(0, spare))
    return free


def _data_bytes() -> int:
    return _in_kib(Path("/proc/self/status"), "VmData:") if sys.platform == "linux" else 0


def _in_kib(path: Path, name: str) -> int:
    return _field(path, name) * 1024


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    return 0


def numbers(source: Source, doing: str, returned: Any) -> dict[str, float]:
    """What `train` returns, or `score` measures besides, as numbers by name.

    Raises:
        AppError: it is something else.
    """
    if returned is None:
        return {}
    try:
        pairs = dict(returned).items()
    except (TypeError, ValueError):
        raise AppError(
            f"{source.main}: {doing} returns a {type(returned).__name__}; return nothing, or a dict of numbers by name"
        ) from None

    found: dict[str, float] = {}
    for name, value in pairs:
        try:
            found[str(name)] = _number(value)
        except (TypeError, ValueError, RuntimeError):
            raise AppError(
                f"{source.main}: {doing} gives {name!r} as a {type(value).__name__}; give a number"
            ) from None
    return found


def _number(value: Any) -> float:
    """A number, also of a tensor that still has its gradients."""
    return float(value.detach() if isinstance(value, torch.Tensor) else value)
