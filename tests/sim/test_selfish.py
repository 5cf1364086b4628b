"""VaRSeL and its rivals on small shards: they run, repeat, and VaRSeL serves the internal clients best."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chainfl.errors import InputError
from chainfl.learning.train import Recipe
from chainfl.protocol.shares import softmax
from chainfl.sim import selfish_dir
from chainfl.sim.experiment import SELFISH_METHODS
from chainfl.sim.experiments.cells import Cell
from chainfl.sim.judged import judged_shares, judges_of
from chainfl.sim.presets import SELFISH
from chainfl.sim.runfiles import METRICS
from chainfl.sim.selfish import (
    METHODS,
    Selfish,
    first_progress,
    play_selfish,
    sampling_chances,
    set_up_selfish,
)
from chainfl.types import TOTAL, WAD, Statistic

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
    if method != "varsel":  # which samples by chance, and alike internal clients need little help
        assert (one[0].external == 0) == (method == "local")


def test_varsel_serves_the_internal_clients_better_than_fedavg() -> None:
    longer = replace(SMALL, rounds=15, recipe=Recipe(learning_rate=0.1, local_steps=3))

    varsel, fedavg = (
        [facts.accuracy for facts in play_selfish(set_up_selfish(replace(longer, method=method)))]
        for method in ("varsel", "fedavg")
    )

    assert np.mean(varsel[-5:]) > np.mean(fedavg[-5:])


def test_the_internals_judge_all_updates_but_their_own() -> None:
    scores = [[1, 5, 7], [6, 1, 8], [7, 9, 1], [2, 3, 4]]

    assert judges_of(scores) == [[5, 7], [6, 8], [7, 9], [2, 3, 4]]


@pytest.mark.parametrize(
    ("statistic", "statistics"),
    [(Statistic.MEDIAN, [8, 9, 10, 3]), (Statistic.MEAN, [6, 7, 8, 4])],
)
def test_judged_shares_are_the_contracts_softmax_of_the_statistics(
    statistic: Statistic, statistics: list[int]
) -> None:
    trillionths = 10**12
    scores = [[1, 4, 8], [5, 1, 9], [6, 10, 1], [2, 3, 7]]

    shares = judged_shares([[score * trillionths for score in row] for row in scores], WAD, statistic)

    assert shares == softmax([each * WAD for each in statistics], WAD, TOTAL)
    assert sum(shares) == TOTAL


def test_a_scarce_and_poisoned_setting_is_dealt_as_it_says() -> None:
    experiment = replace(SMALL, internal_samples=10, external_samples=20, hostile=0.5)

    plain, dealt = (set_up_selfish(each) for each in (replace(experiment, hostile=0.0), experiment))

    assert [len(client) for client in dealt.clients] == [10] * 2 + [20] * 18
    assert experiment.honest == range(2, 11)
    for k, (before, after) in enumerate(zip(plain.clients, dealt.clients, strict=True)):
        assert (before.rows == after.rows).all()
        labels, wanted = before.y[before.rows], after.y[after.rows]
        assert (wanted == (labels if k < 11 else 9 - labels)).all()


def test_the_internals_softmax_withstands_poison_that_ruins_averaging_and_helps_more_than_varsel() -> None:
    accuracies: dict[str, list[float]] = {}
    for method in ("softmax:beta=20", "varsel", "local", "fedavg", "oracle"):
        for seed in range(3):
            experiment = replace(SELFISH["selfish-small"], method=method, drawn=10, rounds=15, seed=seed)
            facts = list(play_selfish(set_up_selfish(experiment)))
            accuracies.setdefault(method, []).append(facts[-1].accuracy)
    found = {method: float(np.mean(values)) for method, values in accuracies.items()}

    assert found["softmax:beta=20"] > found["varsel"] + 0.03
    assert found["softmax:beta=20"] > found["local"] + 0.05
    assert found["softmax:beta=20"] > found["fedavg"] + 0.2
    assert found["oracle"] > found["softmax:beta=20"]


def test_narrow_outsiders_hold_two_labels_and_the_other_honest_ones_all() -> None:
    setup = set_up_selfish(SELFISH["selfish-story"])

    labels = [np.unique(client.y[client.rows]).tolist() for client in setup.clients]
    assert [len(held) for held in labels] == [10] * 6 + [2] * 3 + [10] * 3
    assert labels[6:9] == [[2, 3], [4, 5], [6, 7]]


def test_of_those_drawn_varsel_weighs_every_update_as_on_a_chain() -> None:
    experiment = replace(SMALL, drawn=6, partition="iid", rounds=1)

    facts = next(play_selfish(set_up_selfish(experiment)))

    assert 0 < facts.external <= 6
    assert facts.external_share > 0


def test_hostile_shares_of_a_round_are_told() -> None:
    half, none = (
        next(play_selfish(set_up_selfish(replace(SMALL, method="fedavg", drawn=18, hostile=hostile))))
        for hostile in (0.5, 0.0)
    )

    assert half.hostile_share == pytest.approx(9 / 20)
    assert none.hostile_share == pytest.approx(0)


def test_a_setting_that_came_later_leaves_the_names_of_older_cells_as_they_were() -> None:
    older = Cell("varsel", "fashion", (), Selfish(dataset="fashion-mnist", seed=3))

    assert older.key() == "6908d53fa7cf6b81a4aa"
    assert Cell("varsel", "fashion", (), replace(SMALL, drawn=6)).key() != Cell("v", "f", (), SMALL).key()


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
        ({"method": "softmax:gamma=1"}, "no parameter of method softmax is called 'gamma'"),
        ({"method": "softmax", "internal": 1}, "softmax needs at least 2 internal clients"),
        ({"hostile": 1.5}, "hostile fraction"),
        ({"drawn": -1}, "drawn"),
        ({"narrow": 2.0}, "narrow part"),
        ({"worker_attack": "gaussian"}, "label-flip or label-shift"),
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
    with (tmp_path / METRICS).open("a") as lines:
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
    assert len((tmp_path / METRICS).read_text().splitlines()) == 3


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
