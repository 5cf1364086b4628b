"""Where and how torch computes: the device, one intra-op thread, models that are built once and used again.

One torch thread for each piece of work: the number of intra-op threads changes the bits of a result, so cores
are used by working on several models side by side. `torch.set_num_threads` is global, yet each Python thread
keeps what it saw at its first use of torch: `single_thread` sets it in the thread that is about to compute.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from chainfl.errors import InputError
from chainfl.learning.dataset import Rows, Samples
from chainfl.learning.models import ModelSpec, build, sent, spec_of

DEVICES: Final = ("auto", "cuda", "mps", "cpu")
MAX_IDLE: Final = 16
"""Models kept for the next borrower; more are dropped."""

MOST_TOGETHER: Final = 2_048
"""Rows that are fetched together."""

T = TypeVar("T")


def pick_device(name: str = "auto") -> torch.device:
    """The device called `name`; `auto` takes CUDA, then Apple's MPS, then the CPU.

    Raises:
        InputError: there is no such device here.
    """
    if name not in DEVICES:
        raise InputError(f"no device is called {name!r}; there are: {', '.join(DEVICES)}")
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device in ("cuda", "mps", "cpu") if available[device])
    if not available[name]:
        raise InputError(f"device {name} is not available on this machine; use auto or cpu")

    # The benchmark picks kernels by their speed in the moment, so results would differ from run to run.
    if name == "cuda":
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    return torch.device(name)


def single_thread() -> None:
    """Make torch use one intra-op thread in this Python thread (and in the process, where none is set)."""
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


_most_cores: int | None = None


def limit_cores(most: int) -> None:
    """Use no more cores than this in this process, as when others of ours run beside it."""
    global _most_cores
    _most_cores = most


def cores() -> int:
    """How many cores this process may use."""
    if _most_cores is not None:
        return _most_cores
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(tasks: Sequence[Callable[[], T]], threads: int | None = None) -> list[T]:
    """The results of all tasks, in order, computed on `threads` Python threads (default: one a core)."""
    workers = min(threads or cores(), len(tasks))
    if workers <= 1:
        single_thread()
        return [task() for task in tasks]
    with ThreadPoolExecutor(workers, initializer=single_thread) as pool:
        return list(pool.map(lambda task: task(), tasks))


_idle: dict[tuple[str, str], list[nn.Module]] = {}
_idle_lock = threading.Lock()


@contextmanager
def borrowed(name: str, device: torch.device) -> Iterator[nn.Module]:
    """A model to load vectors into, not shared meanwhile; built only if none is idle."""
    single_thread()
    key = (name, str(device))
    with _idle_lock:
        model = _idle.get(key, []).pop() if _idle.get(key) else None
    if model is None:
        model = build(name).to(device)
    yield model  # after an error the model is dropped: it may hold half a state
    with _idle_lock:
        if sum(map(len, _idle.values())) >= MAX_IDLE:
            _idle.clear()
        _idle.setdefault(key, []).append(model)


def check_fits(name: str, samples: Samples) -> ModelSpec:
    """The model's spec, if it can take these samples.

    Raises:
        InputError: shape, type or labels do not fit, or there are no samples.
    """
    spec = spec_of(name)
    form = samples.x.shape[1:]
    if form != spec.shape:
        raise InputError(f"model {name} takes samples of {list(spec.shape)}, these are {list(form)}")
    if spec.kind == "tokens" and samples.x.dtype.kind not in "iu":
        raise InputError(f"model {name} takes token numbers, these samples are {samples.x.dtype}")
    if spec.kind != "tokens" and samples.x.dtype not in (np.uint8, np.float32):
        raise InputError(f"model {name} takes uint8 or float32 samples, these are {samples.x.dtype}")
    if not len(samples):
        raise InputError(f"model {name}: no samples")

    # A label beyond the model's classes would fail deep inside torch, in the middle of a round.
    if (highest := int(samples.y[samples.rows].max())) >= spec.classes:
        raise InputError(f"model {name} has classes 0…{spec.classes - 1}, a label is {highest}")
    return spec


def batch_of(spec: ModelSpec, samples: Samples, rows: Rows, device: torch.device) -> tuple[Tensor, Tensor]:
    """Samples and labels of these rows as the model takes them: bytes become value/255, images BxCxHxW."""
    # Sent as they are stored: bytes are a quarter of floats.
    x = sent(torch.from_numpy(np.asarray(np.take(samples.x, rows, axis=0))), device)
    y = sent(torch.from_numpy(np.asarray(np.take(samples.y, rows))), device)
    if spec.kind == "tokens":
        x = x.to(torch.int64)
    elif x.dtype == torch.uint8:
        x = x.to(torch.float32).div_(255)
    if spec.kind == "image":
        x = x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2)
    return x, y


def gathered(
    spec: ModelSpec, samples: Samples, each: Iterable[Rows], device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """The batch of each of these rows; many small ones are fetched together, which changes no value."""
    for some in _together(each):
        lengths = [len(rows) for rows in some]
        x, y = batch_of(spec, samples, np.concatenate(some), device)
        start = 0
        for length in lengths:
            # In memory of its own: where a matrix begins can change the bits of its product.
            yield x[start : start + length].clone(), y[start : start + length]
            start += length


def _together(each: Iterable[Rows]) -> Iterator[list[Rows]]:
    """Runs of batches of at most so many rows, at least one batch in each."""
    some: list[Rows] = []
    for rows in each:
        if some and sum(map(len, some)) + len(rows) > MOST_TOGETHER:
            yield some
            some = []
        some.append(rows)
    if some:
        yield some


def in_chunks(rows: Rows, length: int) -> Iterable[Rows]:
    """The rows in pieces of `length`, the last one shorter."""
    return (rows[start : start + length] for start in range(0, len(rows), length))
