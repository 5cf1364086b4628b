"""A deal of the selfish setting on a chain and again in the simulator: the short form of `scripts/bench selfish`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.benches.selfish import RULES, SHORT, measure


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_deal_has_the_same_models_on_a_chain_and_in_the_simulator_under_both_rules(
    require: Callable[[str], Path],
) -> None:
    require("anvil")
    _, rounds = SHORT

    found = measure(quick=True)

    deals = found.metrics["deals"]
    assert isinstance(deals, list)
    assert [each.id for each in found.bars if not each.ok] == []
    for name in RULES:
        played = deals[0][name]
        assert (played["final"], played["roots"], played["differ"]) == (rounds, rounds, 0)
