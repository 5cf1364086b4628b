"""Training in processes: the bits of one process, whoever dies, and the app's own errors."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest

from chainfl.codec import records
from chainfl.errors import AppError
from chainfl.learning import forked
from chainfl.learning.builtin import BuiltIn, LearningSpec
from chainfl.learning.dataset import Samples
from chainfl.learning.forked import can_fork, shared_rows
from chainfl.learning.learner import Flat, Job
from chainfl.learning.parallel import ParallelTraining
from chainfl.learning.recipe import Recipe
from chainfl.learning.score import Score
from chainfl.learning.train import train

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="processes are forked on Linux alone"
)
D = 6


class Doubler:
    """An app of a user's own: twice the head plus its number; it fails, or dies, where a job says so."""

    name, digest = "doubler", "1"
    metrics: Mapping[str, float] = {}
    layout = records.Layout((records.Tensor("w", (D,)),))

    def __init__(self) -> None:
        self.home = os.getpid()

    def initial(self) -> Flat:
        return np.zeros(D, np.float32)

    def train(
        self, head_D: Flat, job: Job, round_: int, *, device: str = "cpu", out_D: Flat | None = None
    ) -> Flat:
        assert out_D is not None
        assert device == "cpu"
        is_away = os.getpid() != self.home
        wish = job.samples if is_away and isinstance(job.samples, str) else ""
        if wish == "fails":
            raise AppError("the app cannot train this")
        if wish == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        out_D[:] = 2 * head_D + job.seed + round_ + is_away / 2
        self.metrics = {"seed": float(job.seed)}
        return out_D

    def score(self, flats_KD: Sequence[Flat], job: Job, *, device: str = "cpu") -> tuple[Score, ...]:
        return tuple(Score(0.0, job.seed, len(device)) for _ in flats_KD)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Iterator[ParallelTraining]:
    """Two processes, whatever machine this is."""
    monkeypatch.setattr("chainfl.learning.parallel.cores", lambda: 2)
    made = ParallelTraining()
    yield made
    made.end()


def jobs_of(*samples: object) -> list[Job]:
    return [Job(each, seed) for seed, each in enumerate(samples)]


def test_small_steps_are_trained_in_processes_with_the_bits_of_one(training: ParallelTraining) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (400, 28, 28), dtype=np.uint8), rng.integers(0, 10, 400)
    jobs = [Job(Samples(x, y, rng.permutation(400)[: 20 + k]), k) for k in range(7)]
    app = BuiltIn(LearningSpec("mnist-mlp-small", "any", Recipe(0.1, 10)))
    head = app.initial()
    rows = shared_rows(9, len(head))
    training.learner, training.in_processes = app, True

    for round_, some in ((1, jobs), (2, jobs[:4])):
        training(app, head, some, round_, rows[: len(some)])

        assert training.forked is not None
        for job, row in zip(some, rows, strict=False):
            alone = train("mnist-mlp-small", head, job.samples, app.spec.recipe, job.seed, round_=round_)
            assert np.array_equal(row.view(np.uint32), alone.view(np.uint32))


def test_an_app_of_a_users_own_is_trained_in_processes(training: ParallelTraining) -> None:
    rows = shared_rows(5, D)

    metrics = training(Doubler(), np.ones(D, np.float32), jobs_of(*"abcde"), 10, rows)

    assert [each["seed"] for each in metrics] == [0, 1, 2, 3, 4]
    assert sorted({row % 1 for row in rows[:, 0]}) == [0, 0.5]
    assert [int(row) for row in rows[:, 0]] == [12, 13, 14, 15, 16]


def test_what_an_app_says_in_another_process_is_said_here_and_no_process_stays(
    training: ParallelTraining,
) -> None:
    before = set(
        psutil.Process().children()
    )  # other tests of this process may have left some for the next run

    with pytest.raises(AppError, match="the app cannot train this"):
        training(Doubler(), np.ones(D, np.float32), jobs_of("fails", "fails", "fails"), 1, shared_rows(3, D))

    assert training.forked is not None
    assert not training.forked.children
    assert set(psutil.Process().children()) <= before


def test_the_jobs_of_a_process_that_was_killed_are_done_here(training: ParallelTraining) -> None:
    rows = shared_rows(4, D)
    app = Doubler()

    metrics = training(app, np.ones(D, np.float32), jobs_of("a", "dies", "c", "dies"), 1, rows)
    after = rows[:, 0].tolist()
    training(app, np.ones(D, np.float32), jobs_of("a", "b", "c", "d"), 1, rows)

    assert [each["seed"] for each in metrics] == [0, 1, 2, 3]
    assert after == [3, 4, 5, 6]
    assert rows[:, 0].tolist() == [3, 4.5, 5, 6.5]


def test_a_large_array_that_processes_do_not_have_makes_new_ones(
    training: ParallelTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "MOST_SENT", 100_000)
    rows, app, head = shared_rows(2, D), Doubler(), np.ones(D, np.float32)
    training(app, head, jobs_of("a", "b"), 1, rows)
    assert training.forked is not None
    first = training.forked.children[0].pid

    training(app, head, jobs_of(np.zeros(50_000), np.ones(50_000)), 1, rows)

    assert training.forked.children[0].pid != first
    assert rows[:, 0].tolist() == [3, 4.5]


def test_arrays_that_are_not_shared_are_trained_into_here(training: ParallelTraining) -> None:
    rows = np.empty((3, D), np.float32)

    training(Doubler(), np.ones(D, np.float32), jobs_of("a", "b", "c"), 1, rows)

    assert training.forked is None
    assert rows[:, 0].tolist() == [3, 4, 5]


def test_processes_are_forked_from_the_main_thread_alone() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(can_fork).result()
    assert can_fork()


def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chainfl", "simulate", "--rounds", "100000", "--participants", "12"]
    run = subprocess.Popen(
        [*command, "--committee", "3", "--test-samples", "10", "--run", str(tmp_path / "run")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A shell's background jobs are started with interrupts ignored, and what they start ignores them too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            with suppress(subprocess.TimeoutExpired):
                assert run.wait(0.1) is None
        children = psutil.Process(run.pid).children(recursive=True)

        os.killpg(run.pid, signal.SIGINT)

        assert run.wait(120) == 130
        assert children
        assert not psutil.wait_procs(children, 60)[1]
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
