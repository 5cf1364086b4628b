"""Plant small bugs, one at a time, and see which tests find each.

Contracts: all mutants are compiled once and switched on one by one. Package: a changed module is compiled from changed
source. By default each mutant stops at the first net that finds it, the one that its row names tried first;
`--all-nets` asks every net. Ends with 1 when a mutant survives all nets that were asked.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chainfl.errors import ChainflError, InputError, VerificationError
from scripts.mutation import nets, table
from scripts.mutation.nets import CONTRACT_NETS, PYTHON_NETS, Net, Switch
from scripts.mutation.table import Mutant
from scripts.mutation.tree import tree

SURVIVED = 1
SIDES = (frozenset(["invariants"]), frozenset(["rules", "attacks"]))
"""Of some bugs is asked that the contracts' own tests find them, and the comparison with the rules too."""

Turn = Callable[[Mutant | None], Switch]


@dataclass(frozen=True, slots=True)
class Result:
    """Which nets were asked about a mutant, and the first test of each that failed."""

    mutant: Mutant
    group: str
    answers: dict[str, str | None]

    @property
    def found_by(self) -> list[str]:
        """The nets that find it."""
        return [net for net, failed in self.answers.items() if failed is not None]

    def is_caught(self, wanted: Sequence[Net]) -> bool:
        """Whether enough nets find it: one, or one of each side where both are asked."""
        found = set(self.found_by)
        if not self.mutant.from_both_sides:
            return bool(found)
        asked = {net.name for net in wanted}
        return all(found & side for side in SIDES if side & asked) and bool(found)


def hunt(mutant: Mutant, group: str, asked: Sequence[Net], turn: Turn, every: bool) -> Result:
    """Ask nets about a mutant until enough of them find it, first the one test that is known to."""
    result = Result(mutant, group, {})
    for net in sorted(asked, key=lambda each: each.name != mutant.net):
        if not every and result.is_caught(asked):
            break
        if not every and mutant.from_both_sides and _is_superfluous(net, result):
            continue
        failed = None
        if mutant.test and net.name == mutant.net:
            failed = nets.run(net.narrowed(mutant.test), turn(mutant))
        result.answers[net.name] = failed or nets.run(net, turn(mutant))
    return result


def _is_superfluous(net: Net, result: Result) -> bool:
    """Whether this net could only say what is known: its side has found the bug, or it belongs to neither."""
    sides = [side for side in SIDES if net.name in side]
    return not sides or bool(sides[0] & set(result.found_by))


def expect_quiet(asked: Sequence[Net], turn: Turn, pool: ThreadPoolExecutor) -> None:
    """Without a mutant no net may fail, or nothing that it says counts."""
    for net, failed in zip(asked, pool.map(lambda net: nets.run(net, turn(None)), asked), strict=True):
        if failed is not None:
            raise VerificationError(f"mutants: {net.name} fails without any mutant: {failed}")


def play(
    mutants: Sequence[Mutant], group: str, asked: Sequence[Net], turn: Turn, options: argparse.Namespace
) -> list[Result]:
    """Try all these mutants, some at a time."""
    with ThreadPoolExecutor(options.workers) as pool:
        expect_quiet(asked, turn, pool)

        def one(mutant: Mutant) -> Result:
            started = time.perf_counter()
            result = hunt(mutant, group, asked, turn, options.all_nets)
            _say(f"{mutant.name}: {_verdict(result, asked)}, {time.perf_counter() - started:.0f} s")
            return result

        return list(pool.map(one, mutants))


def _verdict(result: Result, asked: Sequence[Net]) -> str:
    if not result.is_caught(asked):
        return f"SURVIVES (found by {', '.join(result.found_by) or 'none'})"
    return "found by " + ", ".join(f"{net} ({result.answers[net]})" for net in result.found_by)


def markdown(results: Sequence[Result], asked: Sequence[Net]) -> str:
    """The table: `x` found, `-` not found, empty not asked."""
    lines = [
        f"| mutant | kind | {' | '.join(net.name for net in asked)} |",
        f"|---|---|{'---|' * len(asked)}",
    ]
    for result in results:
        marks = (_mark(result, net) for net in asked)
        lines.append(f"| {result.mutant.name} | {result.mutant.kind} | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


def _mark(result: Result, net: Net) -> str:
    if net.name not in result.answers:
        return ""
    return "-" if result.answers[net.name] is None else "x"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line of scripts/mutants."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants to try; all when none is named")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--contracts", action="store_true", help="mutants of the contracts only")
    group.add_argument("--python", action="store_true", help="mutants of the package only")
    every = sorted({net.name for net in (*CONTRACT_NETS, *PYTHON_NETS)})
    parser.add_argument("--net", action="append", choices=every, help="only this net, as often as wanted")
    parser.add_argument("--all-nets", action="store_true", help="ask every net about every mutant")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--json", action="store_true", help="results as JSON on standard output")
    parser.add_argument("--workers", type=int, default=2, help="mutants side by side (default 2)")
    return parser.parse_args(arguments)


def select(options: argparse.Namespace) -> tuple[list[Mutant], list[Mutant]]:
    """The mutants of contracts and of the package that are asked for."""
    contracts = [] if options.python else table.load(table.CONTRACTS)
    python = [] if options.contracts else table.load(table.PYTHON)
    if options.names:
        known = {each.name for each in (*contracts, *python)}
        unknown = [name for name in options.names if name not in known]
        if unknown:
            raise InputError(f"no mutant is named {unknown[0]!r}; scripts/mutants --list names them")
        contracts, python = (table.pick(each, options.names) for each in (contracts, python))
    return contracts, python


def run(options: argparse.Namespace) -> int:
    """Try what is asked for and print the outcome; answers the exit code."""
    contracts, python = select(options)
    if options.list:
        for mutant in (*contracts, *python):
            sys.stdout.write(f"{mutant.name}: {mutant.why}\n")
        return 0

    results = list[tuple[Sequence[Net], list[Result]]]()
    if contracts:
        asked = _asked(CONTRACT_NETS, options)
        with tree(table.load(table.CONTRACTS)) as folder:
            turn: Turn = lambda mutant: nets.on_contracts(folder, mutant)  # noqa: E731
            results.append((asked, play(contracts, "contracts", asked, turn, options)))
    if python:
        asked = _asked(PYTHON_NETS, options)
        results.append((asked, play(python, "python", asked, nets.on_python, options)))

    return _report(results, options)


def _asked(known: Sequence[Net], options: argparse.Namespace) -> list[Net]:
    chosen = [net for net in known if not options.net or net.name in options.net]
    if not chosen:
        raise InputError(f"--net {options.net[0]}: there is none for these mutants")
    return chosen


def _report(results: Sequence[tuple[Sequence[Net], list[Result]]], options: argparse.Namespace) -> int:
    survivors = [r.mutant.name for asked, group in results for r in group if not r.is_caught(asked)]
    count = sum(len(group) for _, group in results)

    if options.json:
        rows = [
            {
                "name": r.mutant.name,
                "group": r.group,
                "kind": r.mutant.kind,
                "why": r.mutant.why,
                "nets": r.answers,
            }
            for _, group in results
            for r in group
        ]
        sys.stdout.write(json.dumps({"mutants": rows, "survivors": survivors}, indent=1) + "\n")
    else:
        for asked, group in results:
            sys.stdout.write(markdown(group, asked) + "\n")
        if survivors:
            sys.stdout.write(f"survivors: {', '.join(survivors)}\n")
        sys.stdout.write(f"{count - len(survivors)} caught, {len(survivors)} survived\n")

    return SURVIVED if survivors else 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; answers its exit code."""
    try:
        return run(parse(arguments))
    except ChainflError as error:
        _say(f"mutants: {error}")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
