"""Forked processes that train into rows of shared memory: small steps of many clients do not share an interpreter.

Each process has what this one had when it was forked: the app, its code and the data. A round sends it jobs and the
head; large arrays that it has already are named, not sent. Where a process died, its jobs are done here.
K clients, D parameters.
"""

import atexit
import io
import os
import pickle
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
import torch

from chainfl.learning.compute import single_thread
from chainfl.learning.learner import Flat, Job, Learner, Metrics

MOST_SENT: Final = 2**24
"""Bytes of an array that is sent; for a larger one that they do not have, processes are forked again."""
_NAMED: Final = 2**16


class _Block(mmap):
    """Memory that processes forked later share."""


def shared_rows(rows: int, size: int) -> Flat:
    """A KxD array that forked processes write into."""
    block = _Block(-1, max(1, rows * size * 4))
    return np.frombuffer(block, np.float32, rows * size).reshape(rows, size)


def is_shared(array: Flat) -> bool:
    """Whether forked processes write into this array, and not into a copy."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview) and isinstance(base.obj, _Block)


def can_fork() -> bool:
    """Whether processes can be forked here and now: other threads' locks and a GPU do not survive it."""
    is_main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_main and not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


class UnknownArrayError(Exception):
    """A large array that the processes do not have."""


@dataclass(slots=True)
class _Child:
    """A forked process and the pipe to it."""

    pid: int
    talk: Connection


@dataclass(slots=True)
class Forked:
    """Processes that train for one app. `rows` are where updates go; `known` are the arrays they have."""

    learner: Learner
    rows: Flat
    known: dict[int, Any]
    head: Flat
    owner: int = field(default_factory=os.getpid)
    children: list[_Child] = field(default_factory=list)

    @classmethod
    def start(cls, learner: Learner, rows_KD: Flat, jobs: Sequence[Job], count: int) -> "Forked":
        """Fork this many processes; they have what these jobs hold."""
        # What is collected here is inherited by the fork and never sent.
        collected = _Collector()
        collected.dump([job.samples for job in jobs])
        made = cls(learner, rows_KD, collected.known, shared_rows(1, rows_KD.shape[1])[0])
        for _ in range(count):
            made._fork()
        atexit.register(made.end)
        return made

    def train(self, head_D: Flat, jobs: Sequence[Job], round_: int) -> list[Metrics]:
        """Train every job from the head, in row k the k-th; this process does its part. Returns what each reported.

        Raises:
            UnknownArrayError: a job holds a large array that the processes do not have.
        """
        self.head[:] = head_D
        # Dealt like cards, the longest first, so that all end at about the same time.
        order = sorted(range(len(jobs)), key=lambda k: -_length(jobs[k]))
        parts = [order[at :: len(self.children) + 1] for at in range(len(self.children) + 1)]
        questions = [self._pack([(k, jobs[k]) for k in part], round_) for part in parts[1:]]

        undone: list[int] = []
        metrics: dict[int, Metrics] = {}
        try:
            # Everybody starts before this process trains its own part.
            sent = [_send(child, each) for child, each in zip(self.children, questions, strict=True)]
            metrics |= self._train_here(jobs, parts[0], round_)
            for child, part, is_sent in zip(self.children, parts[1:], sent, strict=True):
                answer = _receive(child) if is_sent else None
                if answer is None:
                    undone += part
                else:
                    metrics |= answer
        except BaseException:
            self.end()
            raise

        # A child that was killed leaves its part undone: it is trained here, with the same bits.
        if undone:
            self.end()
            metrics |= self._train_here(jobs, undone, round_)
        return [metrics[k] for k in range(len(jobs))]

    def end(self) -> None:
        """End the processes, whatever they do."""
        if os.getpid() != self.owner:
            return
        for child in self.children:
            child.talk.close()
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        self.children = []
        atexit.unregister(self.end)

    def _train_here(
        self, jobs: Mapping[int, Job] | Sequence[Job], part: Sequence[int], round_: int
    ) -> dict[int, Metrics]:
        metrics = dict[int, Metrics]()
        for k in part:
            self.learner.train(self.head, jobs[k], round_, out_D=self.rows[k])
            metrics[k] = dict(self.learner.metrics)
        return metrics

    def _pack(self, part: list[tuple[int, Job]], round_: int) -> bytes:
        whole = io.BytesIO()
        _Namer(whole, self.known).dump((round_, part))
        return whole.getvalue()

    def _fork(self) -> None:
        ours, theirs = _pipe()
        pid = os.fork()
        if pid:
            theirs.close()
            self.children.append(_Child(pid, ours))
            return

        # The child leaves by _exit: nothing of the parent's (exit handlers, buffers, threads) may run twice.
        code = 1
        try:
            ours.close()
            # A pipe that a second child holds open would not end when the parent goes.
            for other in self.children:
                other.talk.close()
            self._serve(theirs)
            code = 0
        finally:
            os._exit(code)

    def _serve(self, talk: Connection) -> None:
        """Train what is asked for until the pipe is closed."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks decides what an interruption ends
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        single_thread()
        have = dict(enumerate(self.known.values()))
        while True:
            try:
                round_, part = _Reader(io.BytesIO(talk.recv_bytes()), have).load()
            except (EOFError, OSError):
                return
            try:
                metrics = self._train_here(dict(part), [k for k, _ in part], round_)
                talk.send_bytes(pickle.dumps(metrics))
            except Exception as error:
                talk.send_bytes(_as_bytes(error))


def _pipe() -> tuple[Connection, Connection]:
    from multiprocessing import Pipe

    return Pipe()


def _length(job: Job) -> int:
    return len(job.samples) if hasattr(job.samples, "__len__") else 0


def _send(child: _Child, question: bytes) -> bool:
    try:
        child.talk.send_bytes(question)
    except OSError:
        return False
    return True


def _receive(child: _Child) -> dict[int, Metrics] | None:
    """What the trainings of the process reported, None if it died; raises what went wrong in it."""
    try:
        answer = pickle.loads(child.talk.recv_bytes())
    except (EOFError, OSError):
        return None
    if isinstance(answer, Exception):
        raise answer
    metrics: dict[int, Metrics] = answer
    return metrics


def _as_bytes(error: Exception) -> bytes:
    """An exception to be raised elsewhere; its text where it cannot be carried."""
    try:
        carried = pickle.dumps(error)
        pickle.loads(carried)
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return carried


class _Collector(pickle.Pickler):
    """Looks through values for large arrays."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), protocol=5)
        self.known: dict[int, Any] = {}

    def persistent_id(self, each: Any) -> int | None:
        if _size(each) < _NAMED:
            return None
        self.known[id(each)] = each
        return 0


class _Namer(pickle.Pickler):
    """Names the arrays that the reader has, in place of their content."""

    def __init__(self, file: io.BytesIO, known: dict[int, Any]) -> None:
        super().__init__(file, protocol=5)
        self.names = {identity: name for name, identity in enumerate(known)}

    def persistent_id(self, each: Any) -> int | None:
        size = _size(each)
        if size < _NAMED:
            return None
        name = self.names.get(id(each))
        if name is None and size > MOST_SENT:
            raise UnknownArrayError
        return name


class _Reader(pickle.Unpickler):
    """Reads a message in which known arrays stand as their names."""

    def __init__(self, file: io.BytesIO, have: dict[int, Any]) -> None:
        super().__init__(file)
        self.have = have

    def persistent_load(self, name: Any) -> Any:
        return self.have[name]


def _size(each: Any) -> int:
    return int(each.nbytes) if isinstance(each, np.ndarray | torch.Tensor) else 0
