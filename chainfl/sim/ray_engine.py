"""Training on many machines: Ray carries jobs to worker processes (extra `ray`). The bits are those of one machine."""

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainfl.errors import ToolMissingError
from chainfl.learning.compute import cores
from chainfl.learning.dataset import Array, Rows, Samples
from chainfl.learning.models import Flat
from chainfl.learning.train import Job, Recipe, train
from chainfl.tools import pip_install


class RemoteTrainer:
    """One worker process: trains what it is sent, with one torch thread."""

    def train(
        self, model: str, head_D: Flat, x: Array, y: Array, rows: Rows, recipe: Recipe, seed: int, round_: int
    ) -> tuple[int, Flat]:
        """The update, and the process that made it."""
        return os.getpid(), train(model, head_D, Samples(x, y, rows), recipe, seed, round_=round_)


@dataclass(slots=True)
class RayEngine:
    """Jobs go to whichever worker is free, the largest first; data is sent to each machine once."""

    ray: Any
    workers: Sequence[Any]
    pids: set[int] = field(default_factory=set)
    _sent: dict[int, tuple[Array, Any]] = field(default_factory=dict)

    def __call__(
        self, model: str, head_D: Flat, jobs: Sequence[Job], recipe: Recipe, round_: int, out_KD: Flat
    ) -> None:
        """Train every job from the head and write its update to its row."""
        head = self.ray.put(head_D)
        waiting = sorted(range(len(jobs)), key=lambda k: len(jobs[k].samples))
        running: dict[Any, tuple[int, Any]] = {}
        free = list(self.workers)
        while waiting or running:
            while waiting and free:
                k = waiting.pop()
                worker = free.pop()
                samples = jobs[k].samples
                x = self._send(samples.x)
                y = self._send(samples.y)
                reply = worker.train.remote(model, head, x, y, samples.rows, recipe, jobs[k].seed, round_)
                running[reply] = (k, worker)
            done, _ = self.ray.wait(list(running), num_returns=1)
            k, worker = running.pop(done[0])
            pid, out_KD[k] = self.ray.get(done[0])
            self.pids.add(pid)
            free.append(worker)

    def _send(self, array: Array) -> Any:
        """A handle to an array that all workers can read; the array is kept, so that its identity stays its own."""
        if id(array) not in self._sent:
            self._sent[id(array)] = (array, self.ray.put(np.ascontiguousarray(array)))
        return self._sent[id(array)][1]


@contextmanager
def ray_engine(workers: int | None = None) -> Iterator[RayEngine]:
    """An engine with this many worker processes (default: one for each core); RAY_ADDRESS names a cluster.

    Raises:
        ToolMissingError: ray is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError:
        raise ToolMissingError(f"--engine ray needs ray: {pip_install('ray')}") from None
    count = workers or cores()
    here: dict[str, Any] = (
        {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": count, "include_dashboard": False}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **here)
        try:
            remote = ray.remote(num_cpus=1)(RemoteTrainer)
            yield RayEngine(ray, [remote.remote() for _ in range(count)])
        finally:
            ray.shutdown()
