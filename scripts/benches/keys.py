"""Measure what operators' keys and a list of who may join cost: scripts/bench keys [--quick] [--json].

Receipts of anvil: the same worker's commitment and reveal, sent by itself where nobody has an operator and by its
operator; and an enrolment in a task for all beside one with a proof of a list.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

from chainfl.errors import ChainflError
from chainfl.report import Report, bar, narrate, report
from scripts.benches._command import bench_parser, plain_table, show
from scripts.benches._list_gas import enrolments_gas
from scripts.benches._operator_gas import operated_gas

OPERATOR_GAS: Final = 2_300
"""A cold read and what it takes to use it."""
LIST_SLACK: Final = 0.15
ACCOUNTS, FEW = 2**16, 2**10


def measure(quick: bool) -> Report:
    """Both, held against their bars."""
    started = time.perf_counter()
    accounts = FEW if quick else ACCOUNTS
    narrate("a worker and its operator")
    owner, operator = operated_gas()
    narrate(f"enrolments with a list of {accounts:,} accounts")
    freely, by_proof = enrolments_gas(accounts)

    metrics: dict[str, object] = {f"{name}, owner": gas for name, gas in owner.items()}
    metrics |= {f"{name}, operator": gas for name, gas in operator.items()}
    metrics |= {"enrol": round(freely), f"enrolAdmitted, {accounts:,}": round(by_proof)}
    bars = [
        bar(f"gas.operator of {name}", operator[name] - gas, "<=", OPERATOR_GAS)
        for name, gas in owner.items()
    ]
    bars.append(bar("gas.proof of a list", round(by_proof / freely - 1, 4), "<=", LIST_SLACK))
    return report("bench-keys", metrics, bars, seconds=time.perf_counter() - started)


def main(argv: Sequence[str]) -> int:
    """Run the command; answers its exit code."""
    options = bench_parser("keys", __doc__ or "", quick=f"a list of {FEW:,} accounts").parse_args(argv)
    try:
        found = measure(options.quick)
    except ChainflError as error:
        narrate(f"keys: {error}")
        return error.exit_code
    return show(found, plain_table, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
