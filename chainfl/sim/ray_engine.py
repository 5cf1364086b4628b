"""Training and scoring on many machines by Ray (extra `ray`); the bits are those of one machine.

A worker that ends is replaced, and its job is done again. K models or jobs, V judges, D parameters.
"""

import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

import numpy as np

from chainfl.errors import ChainflError, InputError, OutsideError, ToolMissingError
from chainfl.learning.builtin import BuiltIn
from chainfl.learning.compute import cores
from chainfl.learning.dataset import Array, Rows, Samples
from chainfl.learning.evaluate import score_many
from chainfl.learning.learner import Flat, Job, Learner, Metrics
from chainfl.learning.score import Score
from chainfl.learning.train import Recipe, train
from chainfl.tools import pip_install

MOST_DEATHS: Final = 3
"""Workers that one job may cost before the job is taken for the cause."""
LOOK_SECONDS: Final = 2.0
"""How long to wait for an answer before looking whether the cluster is still there."""

Call = Callable[[Any], Any]
"""One job: given a worker, it answers Ray's handle to the result."""


class RemoteLearner:
    """One worker process: trains and scores what it is sent, with one torch thread."""

    def __init__(self) -> None:
        import ray
        import torch

        self.device = "cuda" if ray.get_gpu_ids() and torch.cuda.is_available() else "cpu"

    def train(
        self, model: str, head_D: Flat, x: Array, y: Array, rows: Rows, recipe: Recipe, seed: int, round_: int
    ) -> tuple[int, Flat]:
        """The process, and the update that it made."""
        samples = Samples(x, y, rows)
        return os.getpid(), train(model, head_D, samples, recipe, seed, round_=round_, device=self.device)

    def score(
        self, model: str, flat_D: Flat, rows: Sequence[Rows], *arrays: Array
    ) -> tuple[int, tuple[Score, ...]]:
        """The process, and the model's scores by every judge, whose samples follow as x, y, x, y, …"""
        judges = [Samples(x, y, r) for x, y, r in zip(arrays[::2], arrays[1::2], rows, strict=True)]
        return os.getpid(), score_many(model, [flat_D], judges, threads=1, device=self.device)[0]


@dataclass(slots=True)
class RayEngine:
    """Jobs go to whichever worker is free; data is sent to each machine once."""

    ray: Any
    start: Callable[[], Any]
    workers: list[Any]
    address: str
    pids: set[int] = field(default_factory=set)
    scored_by: set[int] = field(default_factory=set)
    _sent: dict[int, tuple[Array, Any]] = field(default_factory=dict)

    def __call__(
        self, learner: Learner, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat
    ) -> Sequence[Metrics]:
        """Train every job from the head and write its update to its row; built-in models report nothing here.

        Raises:
            InputError: the app is not the built-in one: its code is on this machine alone.
            OutsideError: the cluster cannot be reached, or a job ends every worker that takes it.
        """
        spec = _built_in(learner).spec
        head = self._put(head_D)

        def call(job: Job) -> Call:
            x, y = self._send(job.samples.x), self._send(job.samples.y)
            arguments = (spec.model, head, x, y, job.samples.rows, spec.recipe, job.seed, round_)
            return lambda worker: worker.train.remote(*arguments)

        # The largest jobs first: a long one that starts last would keep all others waiting.
        order = sorted(range(len(jobs)), key=lambda k: -len(jobs[k].samples))
        for k, (pid, update_D) in self._answers({k: call(jobs[k]) for k in order}):
            self.pids.add(pid)
            out_KD[k] = update_D
        return ()

    def score(
        self, learner: Learner, flats_KD: Sequence[Flat], judges: Sequence[Job]
    ) -> tuple[tuple[Score, ...], ...]:
        """For each model its scores by every judge; one model is one job.

        Raises:
            InputError: the app is not the built-in one: its code is on this machine alone.
            OutsideError: the cluster cannot be reached, or a job ends every worker that takes it.
        """
        model = _built_in(learner).spec.model
        rows = [judge.samples.rows for judge in judges]
        arrays = [self._send(each) for judge in judges for each in (judge.samples.x, judge.samples.y)]

        def call(flat_D: Flat) -> Call:
            return lambda worker: worker.score.remote(model, flat_D, rows, *arrays)

        found: dict[int, tuple[Score, ...]] = {}
        for k, (pid, scores) in self._answers({k: call(flat_D) for k, flat_D in enumerate(flats_KD)}):
            self.scored_by.add(pid)
            found[k] = scores
        return tuple(found[k] for k in range(len(flats_KD)))

    def _answers(self, calls: Mapping[int, Call]) -> Iterator[tuple[int, Any]]:
        """Every job's answer as it comes. The job of a worker that died is waiting again, and a new worker is free."""

        # Taken from the end, so reversed: jobs begin in their order.
        waiting = list(reversed(list(calls)))
        deaths = dict.fromkeys(calls, 0)
        running: dict[Any, tuple[int, Any]] = {}
        free = list(self.workers)

        while waiting or running:
            while waiting and free:
                k, worker = waiting.pop(), free.pop()
                running[calls[k](worker)] = (k, worker)

            done = self._next(list(running))
            k, worker = running.pop(done)
            try:
                answer = self._get(done)
            except WorkerDiedError:
                deaths[k] += 1
                if deaths[k] == MOST_DEATHS:
                    raise OutsideError(
                        f"{MOST_DEATHS} Ray workers ended during the same job, one after the other: "
                        "check that they have enough memory"
                    ) from None
                waiting.append(k)
                free.append(self._replaced(worker))
                continue
            free.append(worker)
            yield k, answer

    def _next(self, running: Sequence[Any]) -> Any:
        """The first handle whose job has ended, well or badly."""
        while True:
            with self._asking():
                done, _ = self.ray.wait(running, num_returns=1, timeout=LOOK_SECONDS)
            if done:
                return done[0]
            self._look()

    def _get(self, handle: Any) -> Any:
        errors = self.ray.exceptions
        try:
            with self._asking():
                return self.ray.get(handle)
        except (errors.RayActorError, errors.WorkerCrashedError, errors.OutOfMemoryError):
            self._look()
            raise WorkerDiedError from None

    def _replaced(self, dead: Any) -> Any:
        with self._asking():
            worker = self.start()
        self.workers[self.workers.index(dead)] = worker
        return worker

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Ray's error about a lost cluster becomes one line; errors of our own code pass as they are."""
        errors = self.ray.exceptions
        try:
            yield
        except (errors.RayActorError, errors.WorkerCrashedError, errors.OutOfMemoryError):
            raise
        except errors.RayTaskError as error:
            if isinstance(error.cause, ChainflError):
                raise error.cause from None
            raise
        except (errors.RayError, ConnectionError) as error:
            raise gone(self.address, type(error).__name__) from None

    def _look(self) -> None:
        """See that the cluster's head still answers: Ray itself would wait for it.

        Raises:
            OutsideError: it does not.
        """
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK_SECONDS):
                return
        except OSError as error:
            raise gone(self.address, error.strerror or type(error).__name__) from None

    def _put(self, array: Array) -> Any:
        with self._asking():
            return self.ray.put(np.ascontiguousarray(array))

    def _send(self, array: Array) -> Any:
        """A handle to an array that all workers can read; the array is kept, so that its identity stays its own."""
        if id(array) not in self._sent:
            self._sent[id(array)] = (array, self._put(array))
        return self._sent[id(array)][1]


class WorkerDiedError(OutsideError):
    """A worker process ended in the middle of a job."""


def gone(address: str, why: str) -> OutsideError:
    """The line about a cluster that cannot be reached."""
    return OutsideError(
        f"the Ray cluster at {address} cannot be reached any more ({why}): "
        "start it again; a run with --run goes on with --resume"
    )


def gpus_for_each(gpus: float, workers: int) -> float:
    """The part of a GPU for each worker, so that all of them find room; 0 where there is none."""
    return 1 / ceil(workers / gpus) if gpus >= 1 else 0


def _built_in(learner: Learner) -> BuiltIn:
    if not isinstance(learner, BuiltIn):
        raise InputError("--engine ray trains built-in models only: an app's code is on this machine alone")
    return learner


@contextmanager
def ray_engine(workers: int | None = None) -> Iterator[RayEngine]:
    """An engine with this many worker processes (default: one for each core); RAY_ADDRESS names a cluster.

    Raises:
        ToolMissingError: ray is not installed.
        OutsideError: there is no cluster at RAY_ADDRESS.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
            import ray.exceptions
    except ImportError:
        raise ToolMissingError(f"--engine ray needs ray: {pip_install('ray')}") from None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _connect(ray, workers)
        try:
            # One worker for each core, each with one thread: more threads would change the bits of a model.
            has = ray.cluster_resources()
            count = workers or int(has.get("CPU", 1))
            actor = ray.remote(num_cpus=1, num_gpus=gpus_for_each(has.get("GPU", 0), count))(RemoteLearner)
            address = ray.get_runtime_context().gcs_address
            yield RayEngine(ray, actor.remote, [actor.remote() for _ in range(count)], address)
        finally:
            ray.shutdown()


def _connect(ray: Any, workers: int | None) -> None:
    address = os.environ.get("RAY_ADDRESS")
    here: dict[str, Any] = {} if address else {"num_cpus": workers or cores(), "include_dashboard": False}
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # 30 are too few on a busy machine
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **here)
    except Exception as error:  # Ray raises bare ones
        reason = " ".join(str(error).split())[:200]
        raise OutsideError(f"no Ray cluster at {address or 'this machine'}: {reason}") from None
