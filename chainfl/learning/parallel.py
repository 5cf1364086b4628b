"""Training on all cores of this machine, in threads or in processes: whichever is quicker, with the same bits.

Threads share everything and suit long steps. Short ones spend their time in the interpreter, which threads share too:
they go to forked processes. The time of a first step decides; an app of a user's own is trained in processes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from chainfl.learning.builtin import BuiltIn
from chainfl.learning.compute import cores
from chainfl.learning.forked import Forked, UnknownArrayError, can_fork, is_shared
from chainfl.learning.learner import Flat, Job, Learner, Metrics
from chainfl.learning.train import train, train_many

SHORT_STEP: Final = 0.004
"""Seconds: below this, two threads wait for the interpreter more than they compute."""


@dataclass(slots=True)
class ParallelTraining:
    """Trains on all cores; keeps how it did so for the app that it trained last."""

    learner: Learner | None = None
    in_processes: bool = False
    forked: Forked | None = None

    def __call__(
        self, learner: Learner, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat
    ) -> Sequence[Metrics]:
        """Train every job from the head and write its update to its row; returns what each reported."""
        if self.learner != learner:
            self.end()
            self.in_processes = _suits_processes(learner, head_D, jobs, round_)
            self.learner = learner

        may_fork = len(jobs) > 1 and cores() > 1 and can_fork() and is_shared(out_KD)
        if self.in_processes and may_fork:
            return self._train_in_processes(head_D, jobs, round_, out_KD)

        if isinstance(learner, BuiltIn):
            spec = learner.spec
            threads = 1 if self.in_processes else None
            train_many(spec.model, head_D, jobs, spec.recipe, round_=round_, threads=threads, out_KD=out_KD)
            return ()

        metrics = []
        for job, row_D in zip(jobs, out_KD, strict=True):
            learner.train(head_D, job, round_, out_D=row_D)
            metrics.append(dict(learner.metrics))
        return metrics

    def end(self) -> None:
        """End the processes, if there are any."""
        if self.forked is not None:
            self.forked.end()
        self.forked = None

    def _train_in_processes(
        self, head_D: Flat, jobs: Sequence[Job], round_: int, out_KD: Flat
    ) -> Sequence[Metrics]:
        assert self.learner is not None
        if self.forked is None or not self._suits(self.forked, out_KD):
            self._fork(jobs, out_KD)
        assert self.forked is not None
        try:
            return self.forked.train(head_D, jobs, round_)
        except UnknownArrayError:
            self._fork(jobs, out_KD)
            return self.forked.train(head_D, jobs, round_)

    def _suits(self, forked: Forked, out_KD: Flat) -> bool:
        same_place = forked.rows.ctypes.data == out_KD.ctypes.data
        return bool(forked.children) and same_place and len(out_KD) <= len(forked.rows)

    def _fork(self, jobs: Sequence[Job], out_KD: Flat) -> None:
        assert self.learner is not None
        self.end()
        self.forked = Forked.start(self.learner, _whole(out_KD), jobs, cores() - 1)


def _whole(rows_KD: Flat) -> Flat:
    """All rows of the shared memory that these are the first of."""
    size = rows_KD.shape[1]
    memory: Flat = rows_KD.base  # type: ignore[assignment]
    return memory.reshape(-1)[: memory.size // size * size].reshape(-1, size)


def _suits_processes(learner: Learner, head_D: Flat, jobs: Sequence[Job], round_: int) -> bool:
    """Whether the time of a first step shows that threads would wait for each other; a user's app has no threads."""
    if not isinstance(learner, BuiltIn) or not jobs:
        return not isinstance(learner, BuiltIn)

    recipe = replace(learner.spec.recipe, local_steps=1)
    seconds = 0.0
    for _ in range(2):  # the first builds the model and loads what is compiled
        started = time.thread_time()
        train(learner.spec.model, head_D, jobs[0].samples, recipe, jobs[0].seed, round_=round_)
        seconds = time.thread_time() - started
    return seconds < SHORT_STEP
