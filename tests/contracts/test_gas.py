"""What the calls of a round cost, held against a committed snapshot: a change of gas is seen and decided on.

`CHAINFL_SNAPSHOT=write pytest tests/contracts/test_gas.py` writes the file anew.
"""

import json
import os
from pathlib import Path

import pytest

from chainfl.types import Rule, Statistic
from scripts.benches._gas_node import TRANSACTION_GAS
from scripts.benches._list_gas import enrolments_gas
from scripts.benches._operator_gas import operated_gas
from scripts.benches.gas import TRANSACTION_BYTES, largest_proof_gas, round_gas
from scripts.benches.keys import ACCOUNTS, LIST_SLACK, OPERATOR_GAS

SNAPSHOT = Path(__file__).resolve().parents[2] / "contracts" / "snapshots" / "round.json"
SLACK = 0.02
SENTENCES = {
    "draw": "a stranger draws 5 validators, a miner and 2 backups out of 26",
    "commitUpdate": "a worker commits to its update",
    "revealUpdate": "a worker opens its commitment",
    "commitScores": "a validator commits to its scores of 20 updates",
    "revealScores": "a validator opens its scores of 20 updates",
    "tally": "the scores of 5 validators on 20 updates become softmax shares by their median",
    "propose": "the miner proposes the next model",
    "attest": "a validator attests the proposal",
    "advance": "a phase of a round with 20 updates is left, on average",
}
SEED_SLACK = {"draw": 0.06, "commitUpdate": 0.05}
"""These depend on who is drawn, and the blocks of the test's chain differ from run to run."""


def test_calls_of_a_round_cost_what_the_snapshot_says() -> None:
    by_function, _ = round_gas(Rule.SOFTMAX, Statistic.MEDIAN, 20)
    found = {sentence: round(by_function[name]) for name, sentence in SENTENCES.items()}
    if os.environ.get("CHAINFL_SNAPSHOT") == "write":
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

    expected = json.loads(SNAPSHOT.read_text(encoding="utf-8"))

    assert found.keys() == expected.keys()
    for name, sentence in SENTENCES.items():
        slack = SEED_SLACK.get(name, SLACK) * expected[sentence]
        assert abs(found[sentence] - expected[sentence]) <= slack, f"{sentence}: {found[sentence]}"


OPERATORS = {
    "commitUpdate": "a worker's operator commits to its update",
    "revealUpdate": "a worker's operator opens its commitment",
}


@pytest.mark.slow
def test_an_operator_pays_one_cold_read_more_than_an_owner_where_nobody_has_one() -> None:
    owner, operator = operated_gas()

    for name, sentence in OPERATORS.items():
        assert 0 < operator[name] - owner[name] <= OPERATOR_GAS, sentence


@pytest.mark.slow
def test_a_proof_of_a_long_list_makes_an_enrolment_at_most_15_percent_dearer() -> None:
    freely, by_proof = enrolments_gas(ACCOUNTS)

    assert freely < by_proof <= (1 + LIST_SLACK) * freely


@pytest.mark.slow
@pytest.mark.parametrize("rule", list(Rule), ids=lambda rule: rule.name)
def test_a_proof_over_the_most_updates_fits_one_transaction(rule: Rule) -> None:
    gas, size = largest_proof_gas(rule)

    assert gas <= TRANSACTION_GAS
    assert size <= TRANSACTION_BYTES
