"""What every bench's command line shares: its options, and how it answers people and machines."""

import argparse
import sys
from collections.abc import Callable

from chainfl.report import Report, emit


def bench_parser(name: str, what: str, quick: str) -> argparse.ArgumentParser:
    """The options of `scripts/bench NAME`; `quick` says what the short form leaves out."""
    made = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=what)
    made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return made


def show(found: Report, table: Callable[[Report], str], *, as_json: bool) -> int:
    """Print a table for people or one JSON object for machines; 0 when every bar is kept."""
    if as_json:
        return emit(found)
    sys.stdout.write(table(found))
    return found.exit_code


def plain_table(found: Report) -> str:
    """Every metric, then every bar, a line each."""
    lines = [f"{name:<26} {value}" for name, value in found.metrics.items()]
    lines += [
        f"{'ok' if each.ok else 'MISSED':<6} {each.id:<18} {each.value:.3f} {each.op} {each.limit}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"
