"""Ray carries training to other processes and changes no bit of it."""

import importlib.util
import os
from dataclasses import replace

import pytest

from chainfl.learning.train import Recipe
from chainfl.sim.experiment import Experiment
from chainfl.sim.ray_engine import ray_engine
from chainfl.sim.run import play
from chainfl.sim.simulation import set_up

SCENE = Experiment(
    participants=10,
    committee=3,
    rounds=2,
    hostile=0.3,
    worker_attack="alie",
    recipe=Recipe(learning_rate=0.1, local_steps=3),
    test_samples=100,
)


def _require_ray() -> None:
    if importlib.util.find_spec("ray") is not None:
        return
    if "ray" in os.environ.get("CHAINFL_REQUIRE", "").split(","):
        pytest.fail("ray not found, and CHAINFL_REQUIRE names it")
    pytest.skip("ray not found")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_really_train_and_the_model_roots_are_those_of_one_process() -> None:
    _require_ray()
    here = [one.model_root for one in play(set_up(SCENE), [])]

    with ray_engine(workers=2) as engine:
        far = [one.model_root for one in play(set_up(replace(SCENE), engine=engine), [])]

    assert far == here
    assert len(engine.pids) == 2
    assert os.getpid() not in engine.pids
