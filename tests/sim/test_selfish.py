"""VaRSeL and its rivals on small shards: they run, repeat, and VaRSeL serves the internal clients best."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chainfl.errors import InputError
from chainfl.learning.train import Recipe
from chainfl.sim import rundir, selfish_dir
from chainfl.sim.experiment import SELFISH_METHODS
from chainfl.sim.selfish import (
    METHODS,
    SELFISH,
    Selfish,
    first_progress,
    play_selfish,
    sampling_chances,
    set_up_selfish,
)

SMALL = Selfish(clients=20, internal=2, budget=5, rounds=2, seed=2)


def test_every_method_that_an_experiment_may_name_has_a_step() -> None:
    assert tuple(METHODS) == SELFISH_METHODS


@pytest.mark.parametrize("method", METHODS)
def test_every_method_plays_rounds_that_can_be_repeated(method: str) -> None:
    experiment = replace(SMALL, method=method)

    one, again = (list(play_selfish(set_up_selfish(experiment))) for _ in range(2))

    assert [facts.model_root for facts in one] == [facts.model_root for facts in again]
    assert len({facts.model_root for facts in one}) == 2
    assert all(facts.external <= 18 for facts in one)
    assert (one[0].external == 0) == (method == "local")


def test_varsel_serves_the_internal_clients_better_than_fedavg() -> None:
    longer = replace(SMALL, rounds=15, recipe=Recipe(learning_rate=0.1, local_steps=3))

    varsel, fedavg = (
        [facts.accuracy for facts in play_selfish(set_up_selfish(replace(longer, method=method)))]
        for method in ("varsel", "fedavg")
    )

    assert np.mean(varsel[-5:]) > np.mean(fedavg[-5:])


def test_sampling_chances_add_up_to_the_budget_and_never_exceed_one() -> None:
    chances = sampling_chances(np.array([1.0, 1.0, 2.0, 100.0]), 2)

    assert chances == pytest.approx([0.25, 0.25, 0.5, 1.0])
    assert sampling_chances(np.zeros(4), 2) == pytest.approx([0.5] * 4)
    assert sampling_chances(np.ones(2), 5) == pytest.approx([1, 1])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "none"}, "no method is called 'none'; there are: fedavg"),
        ({"internal": 20}, "some must be external"),
        ({"budget": 0}, "budget"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_an_impossible_stage_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(SMALL, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["varsel", "per-fl"])
def test_a_resumed_run_ends_with_the_same_model_and_metrics_as_an_uninterrupted_one(
    tmp_path: Path, method: str
) -> None:
    experiment = replace(SMALL, method=method, rounds=3)
    whole = list(play_selfish(set_up_selfish(experiment)))
    selfish_dir.start(tmp_path, selfish_dir.SelfishPlan(experiment, None))
    stopped = first_progress(experiment)
    for _ in zip(range(2), play_selfish(set_up_selfish(experiment), stopped), strict=False):
        selfish_dir.keep(tmp_path, stopped)
    with (tmp_path / rundir.METRICS).open("a") as lines:
        lines.write('{"round": 3, "half a li')

    plan = selfish_dir.read_plan(tmp_path)
    assert plan is not None
    progress = selfish_dir.restore(tmp_path, plan.experiment)
    assert len(progress.facts) == 2
    for _ in play_selfish(set_up_selfish(plan.experiment), progress):
        selfish_dir.keep(tmp_path, progress)

    assert plan.experiment == experiment
    assert [replace(facts, seconds=0) for facts in progress.facts] == [
        replace(facts, seconds=0) for facts in whole
    ]
    assert len((tmp_path / rundir.METRICS).read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "head-1.bin").write_bytes(bytes(4 * 7850)), "its root is not the head's"),
        (lambda folder: (folder / "checkpoint.json").write_text("[]"), "damaged"),
        (lambda folder: (folder / "metrics.jsonl").write_text(""), "damaged"),
    ],
)
def test_a_damaged_folder_of_a_selfish_run_is_refused_by_name(
    tmp_path: Path, damage: Callable[[Path], object], says: str
) -> None:
    experiment = replace(SMALL, rounds=1, method="local")
    selfish_dir.start(tmp_path, selfish_dir.SelfishPlan(experiment, None))
    progress = first_progress(experiment)
    for _ in play_selfish(set_up_selfish(experiment), progress):
        selfish_dir.keep(tmp_path, progress)
    damage(tmp_path)

    with pytest.raises(InputError, match=says):
        selfish_dir.restore(tmp_path, experiment)


def test_the_presets_stand() -> None:
    assert {"varsel-small", "varsel-fashion"} <= SELFISH.keys()
    assert SELFISH["varsel-fashion"].clients == 60
