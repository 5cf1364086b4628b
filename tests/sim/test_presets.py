"""Every preset plays as documented: one round each, with as little work as shows that its parts fit together."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from chainfl.errors import InputError
from chainfl.learning.datasets import SOURCES
from chainfl.sim.experiment import Experiment
from chainfl.sim.presets import PRESETS, SELFISH
from chainfl.sim.run import play
from chainfl.sim.selfish import play_selfish, set_up_selfish
from chainfl.sim.simulation import set_up
from chainfl.sim.terms import outside_bounds

DATA = os.environ.get("CHAINFL_DATA")


def marked(name: str, dataset: str) -> object:
    """The presets of whole data sets take a minute or more together: they are played by scripts/test --deep."""
    return name if dataset == "mnist-embedded" else pytest.param(name, marks=pytest.mark.deep)


def data_for(dataset: str) -> str | None:
    """Where the data set lies, else a skip, or a failure where CHAINFL_REQUIRE names `data`."""
    if dataset == "mnist-embedded" or (DATA is not None and Path(DATA).is_dir()):
        return DATA
    if "data" in os.environ.get("CHAINFL_REQUIRE", "").split(","):
        pytest.fail("CHAINFL_DATA names no directory, and CHAINFL_REQUIRE names data")
    pytest.skip("CHAINFL_DATA names no directory")


def test_presets_name_data_sets_that_there_are() -> None:
    named = {each.dataset for each in PRESETS.values()} | {each.dataset for each in SELFISH.values()}

    assert named <= SOURCES.keys()


@pytest.mark.parametrize("name", [marked(name, each.dataset) for name, each in PRESETS.items()])
def test_a_preset_plays_a_round(name: str) -> None:
    preset = PRESETS[name]
    data = data_for(preset.dataset)
    short = replace(
        preset,
        rounds=1,
        recipe=replace(preset.recipe, local_steps=1),
        score_samples=5,
        test_samples=50,
        loss_samples=50,
    )

    (one,) = play(set_up(short, data), [])

    assert one.outcome == "final"
    assert one.workers == preset.workers
    assert one.selected
    assert one.training_loss is not None
    assert one.bytes_down > one.bytes_up > 0


@pytest.mark.parametrize("name", [marked(name, each.dataset) for name, each in SELFISH.items()])
def test_a_selfish_preset_plays_a_round_and_deals_its_internal_clients_alike(name: str) -> None:
    preset = SELFISH[name]
    setup = set_up_selfish(replace(preset, rounds=1, test_samples=50), data_for(preset.dataset))

    (one,) = play_selfish(setup)

    first, second = (sorted(own.y[own.rows].tolist()) for own in setup.clients[:2])
    assert one.round == 1
    assert first == second


def on_digits(name: str) -> Experiment:
    """The preset's rule, people and attack on the embedded digits, so that it plays in a moment."""
    preset = PRESETS[name]
    return replace(
        preset,
        dataset="mnist-embedded",
        model="mnist-mlp-small",
        partition=preset.partition if preset.partition.startswith(("iid", "dirichlet")) else "iid",
        recipe=replace(preset.recipe, local_steps=1, learning_rate=0.1),
        rounds=1,
        score_samples=5,
        test_samples=50,
    )


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_rule_and_people_play_a_round_on_the_embedded_digits(name: str) -> None:
    (one,) = play(set_up(on_digits(name)), [])

    assert one.outcome == "final"
    assert one.workers == PRESETS[name].workers
    assert len(one.selected) >= 1
    assert one.bytes_down > one.bytes_up > 0


@pytest.mark.parametrize("rule", ["krum:f=8,unique=0", "multi-krum:f=8,m=6,unique=0"])
def test_krum_plays_below_what_a_contract_asks_for_and_says_so(rule: str) -> None:
    experiment = replace(on_digits("3-LH"), rule=rule)
    simulation = set_up(experiment)

    (one,) = play(simulation, [])

    assert one.outcome == "final"
    assert len(one.selected) == (1 if rule.startswith("krum") else 6)
    assert outside_bounds(simulation.net.task.config) == (
        "f = 8 asks for 2f + 3 = 19 updates, a round has 14: no contract takes these terms"
    )


def test_krum_within_the_contracts_bounds_is_not_called_outside() -> None:
    simulation = set_up(replace(on_digits("3-LH"), rule="krum:f=5"))

    assert outside_bounds(simulation.net.task.config) is None


def test_krum_without_a_single_distance_to_add_is_refused() -> None:
    with pytest.raises(InputError, match=r"Krum needs at least f \+ 3 = 15 updates, a round has 14"):
        set_up(replace(on_digits("3-LH"), rule="krum:f=12"))


def test_a_round_tells_who_was_selected_and_how_the_head_serves_each_participant() -> None:
    experiment = replace(on_digits("3-LH"), rounds=2, clients_every=2, loss_samples=100)

    first, second = play(set_up(experiment), [])

    assert first.client_accuracy is None
    assert second.client_accuracy is not None
    assert len(second.client_accuracy) == 20
    assert second.hostile_selected == second.hostile_workers > 0
    assert second.training_loss is not None
    assert set(second.selected).isdisjoint(second.committee_ids)
