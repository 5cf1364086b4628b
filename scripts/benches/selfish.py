"""Selfish learning on a chain and again in the simulator: scripts/bench selfish [--quick] [--json].

Deals of Fashion-MNIST to three internals with 30 samples each and nine outsiders with 300, four of whom train on
flipped labels. Every deal is played on anvil under VaRSeL and under the internals' softmax, with the real contracts,
roles and records; then the trace of what happened is played again in the simulator, which has to come to the same model
root in every round. Both rules are compared with local training, the internals alone, and with plain averaging of all
updates, on the same samples with the same seeds.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from chainfl.blobs import get_record
from chainfl.chain.contracts import allocate, create_task
from chainfl.chain.ledger import ChainLedger
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import Manifest
from chainfl.codec.text import ETHER, hex_of
from chainfl.devnet.selfish import deal_of, set_up, write_deal
from chainfl.errors import ChainflError
from chainfl.execution import floats, head_model
from chainfl.learning.dataset import Dataset
from chainfl.learning.datasets import load
from chainfl.learning.evaluate import score
from chainfl.learning.partition import partition
from chainfl.learning.recipe import Recipe
from chainfl.learning.trainer import Trainer, spec_of_manifest
from chainfl.ports import BlobStore
from chainfl.protocol.admission import admit
from chainfl.protocol.state import Task
from chainfl.report import Report, bar, narrate, report
from chainfl.roles.participant import Participant
from chainfl.sim.dealing import ReplayParticipant
from chainfl.sim.experiment import Selfish
from chainfl.sim.memory import MemoryJournal, MemoryStore
from chainfl.sim.replay import read_trace, replay
from chainfl.sim.selfish import play_selfish
from chainfl.types import Id, Role
from chainfl.workflows.audit import audit, trace_task
from chainfl.workflows.sponsor import Terms, prepare_task
from scripts.benches._command import bench_parser, show

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the chain with everybody on it belongs to the tests

INTERNALS, CLIENTS = 3, 12
RULES = {"varsel": "varsel:budget=9", "softmax": "softmax:beta=20"}
OTHERS = {"local": "local", "averaging": "fedavg"}
"""What the rules are compared with, as the simulator calls it."""
FAR = 0.10
"""So much better than plain averaging is far better."""
RECIPE = Recipe(learning_rate=0.1, batch=32, local_epochs=2)
WHOLE, SHORT = (8, 10), (1, 2)
"""How many deals, and rounds of each; the short form has the embedded digits."""


def experiment_of(dataset: str, seed: int, rounds: int) -> Selfish:
    """The setting as the simulator knows it; the method is local training."""
    return Selfish(
        dataset=dataset,
        partition="iid",
        recipe=RECIPE,
        method="local",
        clients=CLIENTS,
        internal=INTERNALS,
        internal_samples=30,
        external_samples=300,
        budget=CLIENTS - INTERNALS,
        drawn=CLIENTS - INTERNALS,
        hostile=0.45,
        rounds=rounds,
        seed=seed,
    )


def play_deal(chain: Any, experiment: Selfish, folder: Path) -> dict[str, Any]:
    """One deal under every rule: accuracies after the last round, and how many rounds differ when played again."""
    dealt = deal_of(experiment)
    file = write_deal(dealt, folder / f"deal-{experiment.seed}.npz")
    found: dict[str, Any] = {"deal": experiment.seed}
    for name, method in OTHERS.items():
        *_, last = play_selfish(set_up(dealt, replace(experiment, method=method)))
        found[name] = last.accuracy
    for name, rule in RULES.items():
        found[name] = play_rule(chain, experiment, rule, dealt, file)
    return found


def play_rule(chain: Any, experiment: Selfish, rule: str, dealt: Dataset, file: Path) -> dict[str, Any]:
    """Play on the chain, audit, and play again."""
    store = MemoryStore()
    people = [chain.sender(f"{rule} {experiment.seed} {client}") for client in range(CLIENTS)]
    internals = file.with_suffix(".txt")
    internals.write_text("".join(f"{hex_of(each.address)}\n" for each in people[:INTERNALS]))
    terms = terms_of(experiment, rule, str(internals))
    task = enrolled(chain, store, terms, people, f"npz:{file}", experiment.seed)
    task.live(1 + experiment.rounds)

    reader = task.reader()
    ended = reader.refresh()
    verdicts = {one.verdict.value for one in audit(reader, store)}
    trace = file.with_suffix(".json")
    trace.write_text(json.dumps(trace_task(reader, store)), encoding="utf-8")
    again = list(replay(read_trace(trace), described(f"npz:{file}", experiment.seed)))
    return {
        "accuracy": accuracy(ended, store, dealt),
        "final": [one.outcome for one in again].count("final"),
        "roots": len({one.model_root for one in again}),
        "differ": sum(not one.same for one in again) + experiment.rounds - len(again),
        "audit": sorted(verdicts),
    }


def terms_of(experiment: Selfish, rule: str, internals: str) -> Terms:
    """Every round waits for everybody: all hand in an update but the outsider who proposes."""
    return Terms(
        rule=rule,
        rounds=experiment.rounds,
        escrow=experiment.rounds * ETHER // 5,
        model=experiment.model,
        dataset=experiment.dataset,
        learning_rate=RECIPE.learning_rate,
        batch=RECIPE.batch,
        local_epochs=RECIPE.local_epochs,
        seed=experiment.seed,
        internals=internals,
        min_internals=INTERNALS,
        min_updates=CLIENTS - 1,
        max_updates=CLIENTS,
    )


def enrolled(
    chain: Any, store: BlobStore, terms: Terms, people: Sequence[Any], dataset: str, seed: int
) -> Any:
    """The task on the chain with everybody in it, internals first; each trains on its own part."""
    from tests.integration.chain import ChainTask

    config = prepare_task(store, terms)
    spec = spec_of_manifest(get_record(store, Cid.dag_cbor(config.manifest), Manifest))
    parts = partition(load(dataset), "natural", CLIENTS, seed)
    entries: list[Entry] = [(ANYONE, Role.PARTICIPANT)]
    entries += [(each.address, Role.INTERNAL) for each in people[:INTERNALS]]

    made = create_task(chain.sender("sponsor"), chain.deployment.factory_address, config, terms.escrow)
    task = ChainTask(chain, made.address, made.block, {})
    for client, sender in enumerate(people):
        allocate(sender, chain.deployment.registry_address, made.address, 4 * ETHER)
        ledger = ChainLedger(chain.w3, sender, task.reader(), made.address)
        trainer = Trainer.of_rows(spec, load(dataset), parts[client], master_seed=seed, id_=client)
        journal = MemoryJournal(keccak256(sender.address))
        task.people[sender.address] = Participant(ledger, store, trainer, journal)
        ledger.enrol(admit(entries, sender.address))
    return task


def described(dataset: str, seed: int) -> dict[Id, ReplayParticipant]:
    """Everybody as the replay needs it."""
    return {
        Id(1 + client): ReplayParticipant(client, CLIENTS, "natural", seed, seed, dataset)
        for client in range(CLIENTS)
    }


def accuracy(task: Task, store: BlobStore, dealt: Dataset) -> float:
    """How many of the test samples the head gets right."""
    judged = score("varsel-logistic", [floats(head_model(store, task), task)], dealt.test())[0]
    return judged.accuracy


def measure(quick: bool) -> Report:
    """All deals, held against what must be true of them."""
    from tests.integration.chain import devchain

    started = time.perf_counter()
    deals, rounds = SHORT if quick else WHOLE
    dataset = "mnist-embedded" if quick else "fashion-mnist"
    rows = []
    with tempfile.TemporaryDirectory(prefix="chainfl-bench-") as at, devchain(Path(at) / "chain") as chain:
        for seed in range(deals):
            rows.append(play_deal(chain, experiment_of(dataset, seed, rounds), Path(at)))
            narrate(json.dumps(rows[-1]))

    played = [row[name] for row in rows for name in RULES]
    bars = [
        bar("selfish.roots that differ", sum(one["differ"] for one in played), "==", 0),
        bar("selfish.rounds not final", rounds * len(played) - sum(one["final"] for one in played), "==", 0),
        bar("selfish.audits not ok", sum(one["audit"] != ["ok"] for one in played), "==", 0),
    ]
    # Two rounds say nothing of what is learnt.
    for name in RULES if not quick else ():
        for other, least in (("local", 0.0), ("averaging", FAR)):
            gains = [row[name]["accuracy"] - row[other] for row in rows]
            bars.append(bar(f"selfish.{name} over {other}", mean(gains), ">=", least))
    metrics = {"dataset": dataset, "rounds": rounds, "rules": RULES, "deals": rows}
    return report("bench-selfish", metrics, bars, seconds=time.perf_counter() - started)


def table(found: Report) -> str:
    """A line for each deal, then the bars."""
    rows = found.metrics["deals"]
    assert isinstance(rows, list)
    lines = [
        f"| deal | {' | '.join([*OTHERS, *RULES])} | rounds with another root |",
        "|---" * (2 + len(OTHERS) + len(RULES)) + "|",
    ]
    for row in rows:
        lines.append(line_of(str(row["deal"]), row))
    lines.append("")
    lines += [
        f"{'ok' if each.ok else 'MISSED':<7}{each.id:<28}{each.value:.4f} {each.op} {each.limit}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def line_of(name: str, row: Mapping[str, Any]) -> str:
    """One line of the table, in per cent."""
    values = [*(row[other] for other in OTHERS), *(row[rule]["accuracy"] for rule in RULES)]
    differ = sum(row[rule]["differ"] for rule in RULES)
    return f"| {name} | {' | '.join(f'{100 * value:.1f}' for value in values)} | {differ} |"


def main(argv: Sequence[str]) -> int:
    """Run the command; answers its exit code."""
    quick = "one deal of the embedded digits, two rounds"
    options = bench_parser("selfish", __doc__ or "", quick=quick).parse_args(argv)
    try:
        found = measure(options.quick)
    except ChainflError as error:
        narrate(f"selfish: {error}")
        return error.exit_code
    return show(found, table, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
