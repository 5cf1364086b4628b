"""The odds that a hostile coalition gets the roles that decide a round: python -m scripts.odds [--json].

Prints two Markdown tables, one for a number of accounts of equal stake and one for the limit of many: for each
committee size the probability of a hostile majority of the committee, and of one together with the miner, in one round
and at least once in a task. Exact fractions, rounded when they are printed.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from chainfl.errors import ChainflError, InputError
from chainfl.protocol.odds import Odds, hostile_accounts, limit_odds, round_odds

COMMITTEES = (3, 5, 7, 11, 15, 21, 31, 45)
PARTS = (Fraction(10, 100), Fraction(20, 100), Fraction(33, 100))


def main(argv: Sequence[str]) -> int:
    """Compute and print; ends 2 where a value is wrong."""
    known = argparse.ArgumentParser(prog="odds", description=(__doc__ or "").partition("\n")[0])
    known.add_argument("--accounts", type=int, default=100, help="accounts of equal stake [100]")
    known.add_argument("--rounds", type=int, default=100, help="rounds of a task [100]")
    known.add_argument("--committee", type=int, nargs="+", default=list(COMMITTEES), help="committee sizes")
    known.add_argument("--json", action="store_true", help="one JSON object in place of the tables")
    options = known.parse_args(argv)

    try:
        found = odds(options.accounts, options.rounds, options.committee)
    except ChainflError as error:
        print(f"odds: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(json.dumps(found) if options.json else markdown(found))  # noqa: T201
    return 0


def odds(accounts: int, rounds: int, committees: Sequence[int]) -> dict[str, Any]:
    """All odds as data; probabilities are floats nearest to the exact ones.

    Raises:
        InputError: a committee does not fit, or there are no rounds.
    """
    if rounds < 1:
        raise InputError(f"rounds: expected at least 1, found {rounds}")
    rows = [
        {
            "committee": size,
            "part": float(part),
            "accounts": _plain(round_odds(hostile_accounts(part, accounts), accounts, size), rounds),
            "limit": _plain(limit_odds(part, size), rounds),
        }
        for size in committees
        for part in PARTS
    ]
    return {"accounts": accounts, "rounds": rounds, "rows": rows}


def _plain(each: Odds, rounds: int) -> dict[str, float]:
    task = each.in_rounds(rounds)
    return {
        "majority_round": float(each.majority),
        "majority_task": float(task.majority),
        "majority_and_miner_round": float(each.majority_and_miner),
        "majority_and_miner_task": float(task.majority_and_miner),
    }


def markdown(found: dict[str, Any]) -> str:
    """Two tables for docs/security.md."""
    accounts = found["accounts"]
    rounds = found["rounds"]
    return "\n".join(
        [
            f"From {accounts} accounts of equal stake; each cell: in one round / at least once in {rounds} rounds.",
            "",
            *_table(found["rows"], "accounts"),
            "",
            "The limit of many accounts.",
            "",
            *_table(found["rows"], "limit"),
        ]
    )


def _table(rows: Sequence[dict[str, Any]], which: str) -> list[str]:
    parts = [f"{float(part):.0%}" for part in PARTS]
    head = [f"majority, {part} hostile" for part in parts]
    head += [f"majority and miner, {part}" for part in parts]
    lines = [f"| C | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for size in dict.fromkeys(row["committee"] for row in rows):
        mine = [row[which] for row in rows if row["committee"] == size]
        cells = [
            f"{shown(each[f'{kind}_round'])} / {shown(each[f'{kind}_task'])}"
            for kind in ("majority", "majority_and_miner")
            for each in mine
        ]
        lines.append(f"| {size} | {' | '.join(cells)} |")
    return lines


def shown(chance: float) -> str:
    """A probability for people: percent where that is short, else a power of ten."""
    if chance == 0:
        return "0"
    if chance >= 0.99:
        return "> 99.9 %" if chance > 0.999 else f"{100 * chance:.1f} %"
    return f"{100 * chance:.2g} %" if chance >= 0.0001 else f"{chance:.1e}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
