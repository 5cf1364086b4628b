"""Measure the gas of rounds and proofs on a chain of our own: scripts/bench gas [--quick] [--json].

Every number is a receipt's, from anvil: each call is a transaction, so nothing is warm that would not be. A round
counts from draw to Final, the second one of its task, without claims. Trees are one known leaf and a random path.
Proofs over the most updates have the deepest tree that the terms allow with them, and the head has a part.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from chainfl.chain.abi import functions
from chainfl.errors import ChainflError
from chainfl.report import Bar, Report, bar, narrate, report
from chainfl.types import WAD, Rule, Statistic, TaskConfig
from scripts.benches._command import bench_parser, show
from scripts.benches._gas_node import TRANSACTION_GAS, Node, anvil, known
from scripts.benches._gas_scene import (
    COMMITTEE,
    ETHER,
    PHASE_SECONDS,
    empty_scene,
    enrol_many,
    scene,
    terms,
    who,
)

MOST_UPDATES = 128
DEEPEST = 20
MANY = 10_000
TRANSACTION_BYTES = 128 * 1024

# What prototypes took; a quarter more is allowed.
SLACK = 1.25
AIMS = {
    "commitUpdate": 44_000,
    "revealUpdate": 69_000,
    "commitScores": 44_000,
    "revealScores": 51_000,
    "prove": 670_000,
}
TALLY_AIM = 182_000
# A change of stake; 5 + 1 out of 10,000, each a sixth of what the transaction itself leaves, for ours draws two
# backups too; and a tally by the mean.
STAKE_AIM = 50_000
TRANSACTION = 21_000
DRAW_AIM = (115_000 - TRANSACTION) / 6
MEAN_TALLY_AIM = 126_000
# The prototype's tally wrote its shares into words that it had used before; ours writes them where the round keeps
# them for good. What a word costs that was never written is left out of the comparison, and is in the bar of the round.
NEW_WORD = 17_100
KEPT_BY_A_TALLY = NEW_WORD * -(-20 // 8)
MAJORITY = COMMITTEE // 2 + 1
ATTESTERS = (0, MAJORITY, COMMITTEE)
BACKUPS = 2
ROUND_LIMITS = {"14": 2_600_000, "100": 11_000_000}


def round_gas(rule: Rule, statistic: Statistic, updates: int) -> tuple[dict[str, float], int]:
    """The second round of a task: mean gas by function, and all of it."""
    with anvil() as node:
        built = scene(node, terms(rule, statistic, updates))
        for number in (1, 2):
            built.gas.clear()
            built.play_to_propose()
            built.propose(known(f"model {number}"))
            built.finish()
        return {name: mean(each) for name, each in built.gas.items()}, sum(map(sum, built.gas.values()))


def proof_gas(rule: Rule, updates: int, attesters: int) -> tuple[int, int]:
    """What a proof takes that convicts the proposer and so many attesters: gas and bytes."""
    with anvil() as node:
        return _proof_gas(node, terms(rule, Statistic.MEDIAN, updates), attesters)


def largest_proof_gas(rule: Rule) -> tuple[int, int]:
    """The same over the most updates, in the deepest tree, with a part for the head, everybody convicted."""
    with anvil() as node:
        config = terms(rule, Statistic.MEDIAN, MOST_UPDATES, DEEPEST, 9 * WAD // 10)
        return _proof_gas(node, config, COMMITTEE)


def _proof_gas(node: Node, config: TaskConfig, attesters: int) -> tuple[int, int]:
    built = scene(node, config)
    lie = known("lie", config.depth)
    shown = built.play_to_propose()
    built.propose(lie, attesters)
    return built.prove(shown, lie)


def stake_gas() -> int:
    """A participant pays in more and allocates it to its task, at once."""
    with anvil() as node:
        built, registry = empty_scene(node, terms(Rule.SOFTMAX, Statistic.MEDIAN, 20))
        enrol_many(built, registry, range(1, COMMITTEE))
        more = functions("StakeRegistry")["allocate"].call_data(built.task, ETHER)
        return int(node.send(who(1), registry, more, ETHER)["gasUsed"], 16)


def draw_gas(people: int, updates: int) -> int:
    """A draw out of this many: committee, miner, two backups, and the workers that still have room.

    The first draw opens as soon as enough are enrolled, so the crowd comes during the first round, which ends Void.
    """
    with anvil() as node:
        config = replace(terms(Rule.SOFTMAX, Statistic.MEDIAN, updates), min_updates=1)
        built, registry = empty_scene(node, config)
        enough = COMMITTEE + 1 + config.min_updates
        enrol_many(built, registry, range(1, enough + 1))
        built.draw(who(1))
        enrol_many(built, registry, range(enough + 1, people + 1))
        for _ in ("Train is extended", "Void"):
            node.rpc("evm_increaseTime", PHASE_SECONDS)
            built.call(who(1), "advance", 1)
        return built.draw(who(1))


def measure(quick: bool) -> Report:
    """All numbers, held against their bars."""
    started = time.perf_counter()
    sizes = (14, 20) if quick else (14, 20, 40, 100)
    by_function: dict[str, dict[str, float]] = {}
    totals: dict[str, int] = {}

    for updates in sizes:
        narrate(f"a round of softmax, {updates} workers, {COMMITTEE} validators")
        by_function[str(updates)], totals[str(updates)] = round_gas(Rule.SOFTMAX, Statistic.MEDIAN, updates)

    narrate("a tally by the mean")
    by_mean, _ = round_gas(Rule.SOFTMAX, Statistic.MEAN, 20)
    stake = stake_gas()

    narrate("proofs")
    proofs = {f"softmax, 20 updates, {n} attested": proof_gas(Rule.SOFTMAX, 20, n) for n in ATTESTERS}

    draws = {}
    if not quick:
        for rule in Rule:
            proofs[largest(rule)] = largest_proof_gas(rule)
        narrate(f"draws out of {MANY:,}: everybody enrols first")
        draws = {f"{BACKUPS} workers": draw_gas(MANY, BACKUPS), "20 workers": draw_gas(MANY, 20)}

    by_function["20"]["prove"] = proofs[f"softmax, 20 updates, {MAJORITY} attested"][0]
    metrics = {
        "gas_by_function": by_function,
        "gas_by_round": totals,
        "gas_of_another_worker": slope(totals),
        "gas_of_a_tally_by_mean": by_mean["tally"],
        "gas_of_a_change_of_stake": stake,
        "gas_by_proof": {name: gas for name, (gas, _) in proofs.items()},
        "bytes_by_proof": {name: size for name, (_, size) in proofs.items()},
        "gas_by_draw": draws,
    }

    found = bars(by_function, totals, proofs, draws)
    found.append(bar("gas.change of stake", stake, "<=", SLACK * STAKE_AIM))
    mean_tally = by_mean["tally"] - KEPT_BY_A_TALLY
    found.append(bar("gas.tally by mean, less its new words", mean_tally, "<=", SLACK * MEAN_TALLY_AIM))
    return report("gas", metrics, found, seconds=time.perf_counter() - started)


def largest(rule: Rule) -> str:
    """The name of a rule's largest proof."""
    return f"{rule.name_text}, {MOST_UPDATES} updates, depth {DEEPEST}"


def slope(totals: dict[str, int]) -> float:
    """What a round costs more for each more worker, from the smallest to the largest measured."""
    sizes = sorted(map(int, totals))
    return (totals[str(sizes[-1])] - totals[str(sizes[0])]) / (sizes[-1] - sizes[0])


def bars(
    by_function: dict[str, dict[str, float]],
    totals: dict[str, int],
    proofs: dict[str, tuple[int, int]],
    draws: dict[str, int],
) -> list[Bar]:
    """What the numbers have to keep."""
    found = [bar(f"gas.{name}", by_function["20"][name], "<=", SLACK * aim) for name, aim in AIMS.items()]
    tally = by_function["20"]["tally"] - KEPT_BY_A_TALLY
    found.append(bar("gas.tally, less its new words", tally, "<=", SLACK * TALLY_AIM))
    for updates, limit in ROUND_LIMITS.items():
        if updates in totals:
            found.append(bar(f"gas.round of {updates}", totals[updates], "<=", limit))
    if draws:
        each = (draws[f"{BACKUPS} workers"] - TRANSACTION) / (COMMITTEE + 1 + BACKUPS)
        found.append(bar("gas.draw out of 10,000, each", each, "<=", SLACK * DRAW_AIM))
    found += [bar(f"gas.proof: {name}", gas, "<=", TRANSACTION_GAS) for name, (gas, _) in proofs.items()]
    return found + [
        bar(f"bytes.proof: {name}", size, "<=", TRANSACTION_BYTES) for name, (_, size) in proofs.items()
    ]


def table(found: Report) -> str:
    """The report for people."""
    by_function = found.metrics["gas_by_function"]
    totals = found.metrics["gas_by_round"]
    assert isinstance(by_function, dict)
    assert isinstance(totals, dict)

    sizes = list(by_function)
    lines = [f"{'gas per call':16}" + "".join(f"{'K = ' + size:>14}" for size in sizes)]
    for name in by_function[sizes[0]]:
        lines.append(f"{name:16}" + "".join(f"{by_function[size].get(name, 0):14,.0f}" for size in sizes))
    lines.append(f"{'whole round':16}" + "".join(f"{totals[size]:14,}" for size in sizes))

    lines += ["", f"{'bar':52}{'value':>14}{'limit':>14}"]
    lines += [
        f"{each.id:52}{each.value:14,.0f}{each.limit:14,.0f}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str]) -> int:
    """Run the command; answers its exit code."""
    options = bench_parser("gas", __doc__ or "", quick="K = 14 and 20 only").parse_args(argv)
    try:
        found = measure(options.quick)
    except ChainflError as error:
        narrate(f"gas: {error}")
        return error.exit_code
    return show(found, table, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
