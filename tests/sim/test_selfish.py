"""VaRSeL and its rivals on small shards: they run, repeat, and VaRSeL serves the internal clients best."""

from dataclasses import replace

import numpy as np
import pytest

from chainfl.errors import InputError
from chainfl.learning.train import Recipe
from chainfl.sim.selfish import METHODS, SELFISH, Selfish, play_selfish, sampling_chances, set_stage

SMALL = Selfish(clients=20, internal=2, budget=5, rounds=2, seed=2)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_plays_rounds_that_can_be_repeated(method: str) -> None:
    experiment = replace(SMALL, method=method)

    one, again = (list(play_selfish(set_stage(experiment))) for _ in range(2))

    assert [facts.model_root for facts in one] == [facts.model_root for facts in again]
    assert len({facts.model_root for facts in one}) == 2
    assert all(facts.external <= 18 for facts in one)
    assert (one[0].external == 0) == (method == "local")


def test_varsel_serves_the_internal_clients_better_than_fedavg() -> None:
    longer = replace(SMALL, rounds=15, recipe=Recipe(learning_rate=0.1, local_steps=3))

    varsel, fedavg = (
        [facts.accuracy for facts in play_selfish(set_stage(replace(longer, method=method)))]
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


def test_the_presets_stand() -> None:
    assert {"varsel-small", "varsel-fashion"} <= SELFISH.keys()
    assert SELFISH["varsel-fashion"].clients == 60
