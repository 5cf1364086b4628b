"""Run inside a tree that has one more rule on ranks: the contract's library and the rules give it the same shares.

usage: python -m tests.extending.compare RULE
"""

import sys

from chainfl import artifacts
from chainfl.protocol.shares import rank_shares
from chainfl.protocol.terms import default_terms
from chainfl.types import TOTAL, Rule
from scripts import build_contracts
from tests.contracts.evm import Deployed

NAME = "test/RuleHarness.sol"
HARNESS = """// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Rule, TaskConfig} from "../src/interfaces/ITrainingTask.sol";
import {Tally} from "../src/round/Tally.sol";
import {Rules} from "../src/types/TaskState.sol";

contract RuleHarness {
    function kinds(uint8 rule) external pure returns (bool, bool, bool, bool) {
        Rule r = Rule(rule);
        return (Rules.isSoftmax(r), Rules.isElected(r), Rules.isOnRanks(r), Rules.isAttested(r));
    }

    function onRanks(uint8 rule, uint256 count, uint256 amount) external pure returns (uint256[] memory) {
        TaskConfig memory c;
        return Tally.onRanks(c, Rule(rule), count, amount);
    }
}
"""


def compiled() -> Deployed:
    """The harness alone, so that only what it uses is compiled."""
    (build_contracts.CONTRACTS / NAME).write_text(HARNESS)
    source = build_contracts.standard_input()
    source["sources"][NAME] = {"content": HARNESS}
    source["settings"]["outputSelection"] = {
        NAME: {"*": ["abi", "evm.bytecode", "evm.deployedBytecode.object"]}
    }
    compiler = next(build_contracts.compilers(build_contracts.version()))
    texts = build_contracts.build(source, compiler)
    return Deployed(artifacts.parse(texts[build_contracts.ARTIFACTS / "RuleHarness.json"]))


def main(name: str) -> None:
    """Compare the kinds of all rules, and the new one's shares for every number of updates."""
    contract = compiled()
    for rule in Rule:
        kinds = (rule.is_softmax, rule.is_elected, rule.is_on_ranks, rule.is_attested)
        assert tuple(map(bool, contract.call("kinds", int(rule)))) == kinds, rule

    config = default_terms(name, 64, 3, 3)
    for count in range(1, 129):
        found = contract.one("onRanks", int(config.rule), count, TOTAL)
        assert list(found) == rank_shares(count, config), count

    sys.stdout.write(f"{name}: the same shares for 1 to 128 updates\n")


if __name__ == "__main__":
    main(sys.argv[1])
