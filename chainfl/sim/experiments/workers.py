"""Cells side by side: one process for each core, one thread in each; a process that is killed costs its cell only."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from chainfl.errors import ToolMissingError
from chainfl.learning.compute import limit_cores
from chainfl.sim.experiments.cells import Cell
from chainfl.sim.experiments.play import play_cell
from chainfl.tools import pip_install

Play = Callable[[Cell, str | None], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A cell that has ended: with what it showed, or with the reason why it failed."""

    cell: Cell
    result: Mapping[str, Any] | None
    error: str = ""


def attempt(cell: Cell, data: str | None, play: Play = play_cell) -> Outcome:
    """Run one cell here; whatever goes wrong becomes a line."""
    try:
        return Outcome(cell, play(cell, data))
    except Exception as error:  # a cell of a stranger's campaign may fail in any way; the others go on
        return Outcome(cell, None, f"{type(error).__name__}: {' '.join(str(error).split())}")


@dataclass(slots=True)
class _Worker:
    """A process of ours, the line to it, and the cell that it works on."""

    process: Any
    line: Connection
    cell: Cell | None = None


def side_by_side(
    cells: Sequence[Cell], data: str | None, jobs: int, play: Play = play_cell
) -> Iterator[Outcome]:
    """The outcome of every cell as each ends, from so many processes; all of ours are gone when this ends."""
    waiting = list(reversed(cells))
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.cell for worker in workers):
            while waiting and len(workers) < min(jobs, len(cells)):
                workers.append(_start(data, play))
            for worker in workers:
                if worker.cell is None and waiting:
                    worker.cell = waiting.pop()
                    with suppress(BrokenPipeError):  # it has died, which `wait` will tell
                        worker.line.send(worker.cell)

            busy = [worker for worker in workers if worker.cell]
            ready = wait([worker.line for worker in busy])
            for worker in [worker for worker in busy if worker.line in ready]:
                outcome = _receive(worker)
                if outcome.result is None and not worker.process.is_alive():
                    workers.remove(worker)
                worker.cell = None
                yield outcome
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.line.close()


def _receive(worker: _Worker) -> Outcome:
    assert worker.cell is not None
    try:
        outcome: Outcome = worker.line.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join()
        return Outcome(worker.cell, None, f"its process ended with code {worker.process.exitcode}")
    return outcome


def _start(data: str | None, play: Play) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, data, play), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _work(line: Connection, data: str | None, play: Play) -> None:
    """A process's life: cells in, outcomes out. Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"
    limit_cores(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            line.send(attempt(line.recv(), data, play))


def _end_with_parent() -> None:
    """A parent that is killed cannot end its processes: they end by themselves, in the middle of their cells."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def on_ray(cells: Sequence[Cell], data: str | None) -> Iterator[Outcome]:
    """The outcome of every cell as each ends, from the machines of a Ray cluster (RAY_ADDRESS) or this one's cores.

    Raises:
        ToolMissingError: ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise ToolMissingError(f"--engine ray needs ray: {pip_install('ray')}") from None

    def one(cell: Cell) -> Outcome:
        limit_cores(1)
        return attempt(cell, data)

    ray.init(log_to_driver=False)
    try:
        remote = ray.remote(num_cpus=1)(one)
        running = {remote.remote(cell): cell for cell in cells}
        while running:
            (done, *_), _ = ray.wait(list(running), num_returns=1)
            cell = running.pop(done)
            try:
                yield ray.get(done)
            except Exception as error:  # a machine of the cluster cannot be reached
                yield Outcome(cell, None, f"{type(error).__name__}: {' '.join(str(error).split())}")
    finally:
        ray.shutdown()
