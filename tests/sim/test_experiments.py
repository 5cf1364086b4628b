"""Experiments in memory: quick and faithful runs agree, hostile ones are handled, and a stopped run goes on."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chainfl.codec.json_codec import pack, unpack
from chainfl.errors import InputError
from chainfl.learning.train import Recipe
from chainfl.learning.trainer import record_layout
from chainfl.protocol.term_table import BUDGET
from chainfl.protocol.terms import MAX_WEIGHT, Floors, check_config, weight_of
from chainfl.sim import rundir
from chainfl.sim.experiment import Experiment, as_plain, from_plain, with_changes
from chainfl.sim.presets import PRESETS, preset
from chainfl.sim.run import RoundMetrics, has_settled, play, summary
from chainfl.sim.runfiles import BLOBS, METRICS
from chainfl.sim.simulation import Simulation, set_up, stakes_of
from chainfl.sim.terms import terms_of
from chainfl.store.directory import DirectoryStore
from chainfl.types import Rule

SMALL = Experiment(
    participants=10,
    committee=3,
    rounds=2,
    hostile=0.3,
    recipe=Recipe(learning_rate=0.1, batch=100, local_steps=2),
    score_samples=50,
    test_samples=200,
    scale=20,
    seed=3,
)
NEEDS = {Rule.FEDROB: "fedrob:b=1,alpha=0.9", Rule.KRUM: "krum:f=1", Rule.MULTI_KRUM: "multi-krum:f=1,m=3"}
TEXTS = [NEEDS.get(rule, rule.name_text) for rule in Rule if rule is not Rule.VARSEL]


def facts_of(experiment: Experiment, *, faithful: bool = False) -> list[RoundMetrics]:
    simulation = set_up(experiment, faithful=faithful)
    return list(play(simulation, []))


def roots(facts: list[RoundMetrics]) -> list[str]:
    return [one.model_root for one in facts]


@pytest.mark.parametrize("rule", TEXTS)
def test_a_quick_run_gives_the_model_roots_of_a_faithful_one(rule: str) -> None:
    experiment = replace(SMALL, rule=rule)

    quick, faithful = facts_of(experiment), facts_of(experiment, faithful=True)

    assert roots(quick) == roots(faithful)
    assert [one.outcome for one in quick] == ["final", "final"]
    assert len(set(roots(quick))) == 2


@pytest.mark.parametrize("rule", ["softmax", "committee-near", "mean"])
@pytest.mark.parametrize("attack", ["absurd-losses", "copier", "silent"])
def test_hostile_validators_do_the_same_in_quick_and_faithful_runs(rule: str, attack: str) -> None:
    experiment = replace(SMALL, rule=rule, validator_attack=attack, rounds=1, seed=5)

    quick, faithful = facts_of(experiment), facts_of(experiment, faithful=True)

    assert roots(quick) == roots(faithful)
    assert quick[0].acting_hostile == 1


@pytest.mark.parametrize("attack", ["scaling", "alie", "copy-cat", "free-rider", "same-value", "cancel-mean"])
def test_forged_updates_are_the_same_in_quick_and_faithful_runs(attack: str) -> None:
    experiment = replace(SMALL, rule="mean", hostile=0.6, worker_attack=attack, rounds=1)

    quick, faithful = facts_of(experiment), facts_of(experiment, faithful=True)

    assert roots(quick) == roots(faithful)
    assert quick[0].hostile_workers > 0
    assert quick[0].included == faithful[0].included


def test_copied_updates_count_once_and_the_head_never() -> None:
    copied = facts_of(replace(SMALL, rule="mean", hostile=0.6, worker_attack="copy-cat", rounds=1))[0]
    idle = facts_of(replace(SMALL, rule="mean", hostile=0.6, worker_attack="free-rider", rounds=1))[0]

    assert copied.included == copied.workers - copied.hostile_workers + 1
    assert idle.included == idle.workers - idle.hostile_workers
    assert idle.share_hostile == 0


def test_updates_that_are_not_numbers_are_never_submitted_and_the_round_is_void() -> None:
    wild = replace(SMALL, recipe=Recipe(learning_rate=1e30, batch=100, local_steps=2), rounds=1)

    quick, faithful = facts_of(wild)[0], facts_of(wild, faithful=True)[0]

    assert quick.outcome == faithful.outcome == "void"
    assert quick.invalid_updates == faithful.invalid_updates == 6
    assert quick.model_root == faithful.model_root


def test_hostile_members_beyond_half_of_the_committee_score_honestly() -> None:
    crowded = replace(SMALL, hostile=0.8, rounds=1, rule="softmax")

    limited = facts_of(crowded)[0]
    free = facts_of(replace(crowded, max_hostile_committee="none"))[0]

    assert limited.hostile_in_committee == free.hostile_in_committee >= 2
    assert (limited.acting_hostile, limited.captured) == (1, False)
    assert (free.acting_hostile, free.captured) == (free.hostile_in_committee, True)
    assert limited.model_root != free.model_root


def test_exactly_so_many_workers_are_poisoned_in_every_round() -> None:
    facts = facts_of(replace(SMALL, rule="fedrob:b=2", hostile=0, hostile_workers=2, rounds=3))

    assert [one.hostile_workers for one in facts] == [2, 2, 2]
    assert {one.hostile_in_committee for one in facts} == {0}


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    assert roots(facts_of(SMALL)) == roots(facts_of(SMALL))
    assert roots(facts_of(SMALL)) != roots(facts_of(replace(SMALL, seed=4)))


@pytest.mark.parametrize(
    ("rule", "faithful"), [("softmax", True), ("softmax", False), ("committee-near", False)]
)
def test_a_resumed_run_ends_with_the_same_model_root_as_an_uninterrupted_one(
    tmp_path: Path, rule: str, faithful: bool
) -> None:
    experiment = replace(SMALL, rule=rule, rounds=3, validator_attack="silent")
    whole = facts_of(experiment, faithful=faithful)
    rundir.start(tmp_path, rundir.Plan(experiment, faithful, None))
    first = stored(tmp_path, experiment, faithful)
    facts: list[RoundMetrics] = []
    for _, _ in zip(range(2), play(first, facts), strict=False):
        rundir.keep(tmp_path, first, facts)
    with (tmp_path / METRICS).open("a") as lines:
        lines.write('{"round": 3, "half a li')

    again = stored(tmp_path, rundir.read_plan(tmp_path).experiment, faithful)
    resumed = rundir.restore(tmp_path, again)
    assert len(resumed) == 2
    for _ in play(again, resumed):
        rundir.keep(tmp_path, again, resumed)

    assert roots(resumed) == roots(whole)
    assert len((tmp_path / METRICS).read_text().splitlines()) == 3
    assert again.net.task.credits.keys() <= again.net.task.accounts.keys() | {again.net.ledger.me}


def stored(folder: Path, experiment: Experiment, faithful: bool) -> Simulation:
    store = DirectoryStore(folder / BLOBS) if faithful else None
    return set_up(experiment, faithful=faithful, store=store)


def test_what_is_in_memory_is_looked_through_for_garbage_again_when_a_run_ends() -> None:
    rounds = play(set_up(SMALL), [])
    next(rounds)
    kept = gc.get_freeze_count()

    rounds.close()  # type: ignore[attr-defined]

    assert kept > 0
    assert gc.get_freeze_count() == 0


def test_a_task_survives_packing() -> None:
    simulation = set_up(replace(SMALL, rule="committee-near"))
    next(play(simulation, []))
    task = simulation.net.task

    assert unpack(type(task), pack(task)) == task
    with pytest.raises(InputError, match="this is no Task"):
        unpack(type(task), {"chain_id": "x"})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "head-1.bin").write_bytes(bytes(4 * 25450)), "its root is not the head's"),
        (lambda folder: (folder / "head-1.bin").unlink(), "No such file"),
        (lambda folder: (folder / "checkpoint.json").write_text("{}"), "damaged"),
        (lambda folder: (folder / "metrics.jsonl").write_text(""), "damaged"),
    ],
)
def test_a_damaged_run_folder_is_refused_by_name(
    tmp_path: Path, damage: Callable[[Path], object], says: str
) -> None:
    experiment = replace(SMALL, rounds=1)
    rundir.start(tmp_path, rundir.Plan(experiment, False, None))
    simulation, facts = set_up(experiment), list[RoundMetrics]()
    for _ in play(simulation, facts):
        rundir.keep(tmp_path, simulation, facts)
    damage(tmp_path)

    with pytest.raises(InputError, match=says):
        rundir.restore(tmp_path, set_up(experiment))


def test_varsel_is_refused_where_nobody_is_internal() -> None:
    with pytest.raises(InputError, match="--rule varsel: this population has no internals"):
        set_up(replace(SMALL, rule="varsel:budget=2"))


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    rundir.start(tmp_path, rundir.Plan(SMALL, False, None))

    with pytest.raises(InputError, match="--resume"):
        rundir.start(tmp_path, rundir.Plan(SMALL, False, None))


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_terms_that_a_task_accepts(name: str) -> None:
    experiment = preset(name)
    config = terms_of(experiment, record_layout(experiment.model).d, bytes(32), bytes(32))

    check_config(config, experiment.rounds * BUDGET, Floors(1))
    assert from_plain(as_plain(experiment)) == experiment


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"rule": "medium"},
            "no rule is called 'medium'; there are: bulyan, centred-clipping, committee-far",
        ),
        ({"rule": "krum:z=1"}, "no parameter of rule krum is called 'z'"),
        ({"worker_attack": "nap"}, "no worker attack is called 'nap'"),
        ({"validator_attack": "nap"}, "no validator attack is called 'nap'"),
        ({"committee": 4}, "odd size"),
        ({"committee": 11}, "leave no worker"),
        ({"hostile": 1.5}, "0…1"),
        ({"hostile_workers": 7}, "only 6"),
        ({"stakes": "none"}, "samples, equal"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate must be a positive number"),
    ],
)
def test_an_impossible_experiment_is_refused_by_name(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        with_changes(SMALL, changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rule": "krum:f=4"}, "Krum needs at least f"),
        ({"rule": "fedreg:alpha=0"}, "alpha lies above 0"),
        ({"model": "none"}, "no model is called"),
        ({"dataset": "none"}, "no data set is called"),
        ({"partition": "none"}, "no partition is called"),
        ({"model": "covtype-mlp"}, "takes samples of"),
        ({"participants": 8000}, "too few"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_a_round_is_played(
    changes: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        facts_of(with_changes(SMALL, changes))


def test_sabfls_rule_stops_when_steadiness_falls_for_the_first_time() -> None:
    rising = [0.1 * k for k in range(1, 6)]

    assert not has_settled(rising, window=3)
    assert not has_settled([*rising, 0.5, 0.5], window=3)
    assert has_settled([*rising, 0.5, 0.5, 0.4], window=3)
    assert not has_settled([], window=3)


def test_a_summary_tells_the_mean_of_the_last_five_rounds() -> None:
    one = facts_of(replace(SMALL, rounds=1))[0]
    facts = [replace(one, round=k, accuracy=k / 10) for k in range(1, 8)]

    told = summary(facts)

    assert told["mean_accuracy_last_five"] == pytest.approx(0.5)
    assert told["best_accuracy"] == 0.7
    assert summary([])["accuracy"] is None


@pytest.mark.parametrize("are_equal", [True, False])
def test_the_weights_of_a_hundred_thousand_fit_the_tree(are_equal: bool) -> None:
    terms = terms_of(SMALL, 10, bytes(32), bytes(32))

    stakes = stakes_of([50] * 100_000, are_equal=are_equal)

    weights = [weight_of(stake, terms) for stake in stakes]
    assert min(weights) > 0
    assert sum(weights) <= MAX_WEIGHT


def test_stakes_of_few_are_what_was_asked_for() -> None:
    assert stakes_of([3, 5], are_equal=False) == [3 * 10**18, 5 * 10**18]
    assert stakes_of([3, 5], are_equal=True) == [1000 * 10**18] * 2
