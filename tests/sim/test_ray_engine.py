"""Ray carries training and scoring to other processes and changes no bit of them, whoever dies on the way."""

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from chainfl.devnet.processes import free_port
from chainfl.errors import OutsideError
from chainfl.learning.train import Recipe
from chainfl.sim.experiment import Experiment
from chainfl.sim.ray_engine import gpus_for_each, ray_engine
from chainfl.sim.run import play
from chainfl.sim.simulation import set_up
from tests.processes import await_that

SCENE = Experiment(
    participants=10,
    committee=3,
    rounds=2,
    hostile=0.3,
    worker_attack="alie",
    recipe=Recipe(learning_rate=0.1, local_steps=3),
    test_samples=100,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True, scope="module")
def _require_ray() -> None:
    if importlib.util.find_spec("ray") is not None:
        return
    if "ray" in os.environ.get("CHAINFL_REQUIRE", "").split(","):
        pytest.fail("ray not found, and CHAINFL_REQUIRE names it")
    pytest.skip("ray not found")


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[dict[str, str], "subprocess.Popen[bytes]"]]:
    """A cluster with two cores and two GPUs that are only said to be there; how to reach it, and its process."""
    port = free_port()
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # Ray's sockets want a short path
    ray = Path(sys.executable).parent / "ray"
    command = [str(ray), "start", "--head", "--block", "--disable-usage-stats", "--include-dashboard=false"]
    size = [
        "--node-ip-address=127.0.0.1",
        f"--port={port}",
        "--num-cpus=2",
        "--num-gpus=2",
        "--object-store-memory=200000000",
    ]
    process = subprocess.Popen(
        [*command, *size, f"--temp-dir={folder}"],
        env={**os.environ, **token, "RAY_raylet_start_wait_time_s": "200"},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert any(b"Ray runtime started" in line for line in process.stdout), "the cluster does not start"
    yield {**os.environ, **token, "RAY_ADDRESS": f"127.0.0.1:{port}"}, process
    end(process)
    process.stdout.close()
    shutil.rmtree(folder, ignore_errors=True)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a cluster with all its processes, as when a machine loses power."""
    if process.poll() is None:
        for each in psutil.Process(process.pid).children(recursive=True):
            each.kill()
        process.kill()
    process.wait()


@pytest.mark.parametrize(("gpus", "workers", "part"), [(0, 4, 0), (1, 4, 0.25), (2, 3, 0.5), (8, 2, 1)])
def test_every_worker_finds_room_on_the_gpus(gpus: int, workers: int, part: float) -> None:
    assert gpus_for_each(gpus, workers) == part


def test_workers_train_and_score_and_one_that_is_killed_is_replaced() -> None:
    here = [one.model_root for one in play(set_up(SCENE), [])]

    with ray_engine(workers=2) as engine:
        far = []
        for one in play(set_up(replace(SCENE), engine=engine), []):
            far.append(one.model_root)
            if one.round == 1:
                first = set(engine.pids)
                os.kill(min(first), signal.SIGKILL)

        with pytest.raises(OutsideError, match="3 Ray workers ended during the same job"):
            list(engine._answers({0: lambda worker: worker.__ray_terminate__.remote()}))

    assert far == here, "the bits are those of one process"
    assert len(first) == 2
    assert len(engine.pids - first) == 1, "a new worker took the place of the one that was killed"
    assert len(engine.scored_by) >= 2
    assert os.getpid() not in engine.pids | engine.scored_by


ASK_FOR_GPUS = """
from chainfl.sim.ray_engine import ray_engine
with ray_engine() as engine:
    engine.ray.get([worker.__ray_ready__.remote() for worker in engine.workers])
    print(len(engine.workers), engine.ray.available_resources().get("GPU", 0))
"""


def test_workers_of_a_cluster_take_its_cores_and_gpus(
    cluster: tuple[dict[str, str], "subprocess.Popen[bytes]"],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK_FOR_GPUS], env=cluster[0], capture_output=True, text=True, timeout=280
    )

    assert done.stdout.split() == ["2", "0"], done.stderr


def test_a_cluster_that_goes_away_is_one_line_and_the_run_goes_on_without_it(
    cluster: tuple[dict[str, str], "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    environment, process = cluster
    chainfl = [sys.executable, "-m", "chainfl", "simulate"]
    asked = ("--preset", "sabfl-small", "--rounds", "500", "--engine", "ray", "--run", "run")
    lines = tmp_path / "run" / "metrics.jsonl"
    simulation = subprocess.Popen(
        [*chainfl, *asked],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    await_that(lambda: lines.exists() or simulation.poll() is not None, 250, "the first round")
    end(process)
    _, complaint = simulation.communicate(timeout=250)

    assert simulation.returncode == 5, complaint
    assert "error: the Ray cluster at " in complaint
    assert "cannot be reached any more" in complaint
    assert "goes on with --resume" in complaint
    assert "Traceback" not in complaint

    kept = len(lines.read_text().splitlines())
    again = subprocess.Popen(
        [*chainfl, "--resume", "run"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await_that(lambda: len(lines.read_text().splitlines()) > kept, 250, "the next round")
    finally:
        again.kill()
        again.wait()
