"""The bounds of a task's terms (tests/protocol/test_terms.py), asked of the factory's bytecode too."""

from dataclasses import replace
from functools import cache

import pytest

from tests.agree.evm import Chain
from tests.agree.twin import CHAIN_ID, Twin, new_twin
from tests.protocol.scene import SPONSOR
from tests.protocol.test_terms import EDGES, FLOORS, Edge

ENCODABLE = [case for case in EDGES if case.bad < 2**64 or case.field != "max_samples"]
"""A word of 64 bits cannot say that there are more samples than it can count."""


@cache
def _twin() -> Twin:
    return new_twin(Chain(CHAIN_ID), FLOORS)


@pytest.mark.parametrize("case", ENCODABLE, ids=str)
def test_contract_and_rules_take_a_value_at_its_bound_and_refuse_the_next(case: Edge) -> None:
    good, bad = (replace(case.terms, **{case.field: value}) for value in (case.good, case.bad))

    assert _twin().create_task(SPONSOR, good, case.escrow) is not None
    assert _twin().create_task(SPONSOR, bad, case.escrow) is None
