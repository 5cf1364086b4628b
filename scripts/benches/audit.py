"""Measure the audit of a large block: scripts/bench audit [--quick] [--json].

One round on a real chain (anvil, the contracts, the roles) with 20 updates of 1,663,370 parameters in a directory
store. Its audit, the one that `chainfl audit verify` runs, takes turns with the bare work that nobody can spare: tree
and CIDs of every update, and combining them, from bytes that are in memory already. The audit's time holds all ten
checks: files read, the block's own model and record, the seed's block asked of the chain, tally, shares and rewards
redone. Losses are the validators' word and are not computed again. Memory is that of the command in a process of its
own.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from chainfl.audit.history import PlayedRound
from chainfl.audit.verify import Verdict
from chainfl.blobs import get_model_node, name_model, put_model
from chainfl.chain.contracts import allocate, create_task
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.codec import merkle, vector
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import CHUNK_BYTES, Layout, Tensor
from chainfl.errors import VerificationError
from chainfl.ports import BlobStore, Floats
from chainfl.protocol.combine import combine
from chainfl.report import Report, bar, narrate, report
from chainfl.roles.participant import Participant
from chainfl.sim.memory import MemoryJournal
from chainfl.store.directory import DirectoryStore
from chainfl.types import Rule
from chainfl.workflows.audit import audit_round, played_rounds
from scripts.benches._command import bench_parser, plain_table, show

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the chain with everybody on it belongs to the tests

D, K, SCALE = 1_663_370, 20, 20
COMMITTEE = 5
ETHER = 10**18
SEED = 7
LAYOUT = Layout((Tensor("w", (D,)),))
LAUNCH = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
"""
"""A small process that starts the command: a child's peak counts what its parent held when it was born."""


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    options = bench_parser("audit", "The audit of a large block.", quick="fewer turns").parse_args(argv)
    found = measure(turns=5 if options.quick else 15)
    return show(found, plain_table, as_json=options.json)


# The round


@dataclass(frozen=True, slots=True)
class Judged:
    """How good a model is."""

    loss: float
    correct: int
    samples: int


@dataclass(frozen=True, slots=True)
class Drifting:
    """Trains by a random step and judges by the first parameters: models of full size at no cost."""

    seed: int
    layout: Layout = LAYOUT
    samples: int = 100

    def train(self, head_D: Floats, round_: int) -> Floats:
        """The head and a little noise."""
        rng = np.random.default_rng((SEED, self.seed, round_))
        return head_D + np.float32(0.01) * rng.standard_normal(D, np.float32)

    def score(self, models_KD: Sequence[Floats]) -> list[Judged]:
        """A number that differs from model to model."""
        return [Judged(float(np.mean(np.square(model[:1000]))), 50, 100) for model in models_KD]


def play(folder: Path, measure_on: Callable[[TaskReader, str, Path], Report]) -> Report:
    """Play a round with K updates on a chain of its own, and measure while the chain is there."""
    from tests.integration.chain import ChainTask, devchain
    from tests.protocol.scene import config

    store = DirectoryStore(folder / "store")
    head = name_model(vector.encode(np.zeros(D, np.float32), SCALE), SCALE, LAYOUT)
    put_model(store, head)
    terms = config(
        Rule.SOFTMAX,
        first_root=head.node.root,
        first_model=head.cid.digest,
        dimension=D,
        depth=merkle.depth(D),
        committee_size=COMMITTEE,
        min_updates=K,
        max_updates=K,
        **{f"{phase}_seconds": 3600 for phase in ("train", "reveal", "score", "tally", "propose")},
    )
    with devchain(folder / "chain") as chain:
        made = create_task(chain.sender("sponsor"), chain.deployment.factory_address, terms, ETHER // 2)
        task = ChainTask(chain, made.address, made.block, {})
        for number in range(K + COMMITTEE + 1):
            sender = chain.sender(f"participant {number}")
            allocate(sender, chain.deployment.registry_address, made.address, ETHER)
            ledger = ChainLedger(chain.w3, sender, task.reader(), made.address)
            journal = MemoryJournal(keccak256(sender.address))
            task.people[sender.address] = Participant(ledger, store, Drifting(number), journal)
            ledger.enrol()
        task.live(2)
        return measure_on(task.reader(), chain.url, folder / "store")


# What is measured


def measure(turns: int) -> Report:
    """Play, then compare the audit of the newest block with the bare work, turn by turn."""
    started = time.perf_counter()
    narrate(f"playing a round with {K} updates of {D:,} parameters on a chain")
    with tempfile.TemporaryDirectory(prefix="chainfl-bench-") as folder:
        return play(Path(folder), lambda reader, url, at: compare(reader, url, at, turns, started))


def compare(reader: TaskReader, url: str, folder: Path, turns: int, started: float) -> Report:
    """The audit against the bare work, and the command's memory."""
    store = DirectoryStore(folder)
    played = next(one for one in reversed(played_rounds(reader)) if one.ended is not None)
    bare = bare_work(store, played)
    updates = len(bare.models)
    narrate(f"round {played.number} with {updates} updates: {turns} turns")

    # Turn by turn: a machine that slows down slows both.
    times: dict[str, list[float]] = {"audit": [], "bare": []}
    for turn in range(turns + 1):
        for name in times:
            begun = time.perf_counter()
            bare() if name == "bare" else redo(played, store, reader)
            if turn:  # the first warms up
                times[name].append(time.perf_counter() - begun)

    narrate("the command in a process of its own")
    command = peak_of_command(url, reader, folder, played.number)
    ratio = median(a / b for a, b in zip(times["audit"], times["bare"], strict=True))

    metrics: dict[str, object] = {
        "parameters": D,
        "updates": updates,
        "turns": turns,
        "audit_ms": [round(1000 * each, 1) for each in times["audit"]],
        "bare_ms": [round(1000 * each, 1) for each in times["bare"]],
        "command_seconds": round(command.seconds, 3),
        "command_peak_mb": round(command.peak_bytes / 2**20, 1),
        "losses_scored_again": False,
    }

    bars = (
        bar("audit.updates", updates, "==", K),
        bar("audit.time_ratio", round(ratio, 3), "<=", 1.5),
        bar("audit.peak_gb", round(command.peak_bytes / 2**30, 3), "<", 1.0),
    )
    return report("bench-audit", metrics, bars, seed=SEED, seconds=time.perf_counter() - started)


def redo(played: PlayedRound, store: BlobStore, reader: TaskReader) -> None:
    """The audit, which must find everything right."""
    audited = audit_round(played, store, reader.block_hash)
    if audited.verdict is not Verdict.OK:
        raise VerificationError(f"round {played.number}: {audited.findings}")


@dataclass(frozen=True, slots=True)
class BareWork:
    """For every update its tree and the CIDs of its chunks, then their combination with the round's shares."""

    models: list[tuple[bytes, bytes, tuple[Cid, ...]]]
    shares: list[int]

    def __call__(self) -> None:
        """Do it once."""
        for root, data, chunks in self.models:
            view = memoryview(data)
            parts = (view[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
            if not all(cid.matches(part) for cid, part in zip(chunks, parts, strict=True)):
                raise VerificationError("a chunk has another CID")
            if merkle.root_from_bytes(data, D) != root:
                raise VerificationError("an update has another root")
        combine(None, [vector.view_bytes(data, D) for _, data, _ in self.models], self.shares)


def bare_work(store: BlobStore, played: PlayedRound) -> BareWork:
    """The updates of a round, in memory."""
    round_ = played.standing().round
    models = []
    for id_ in round_.order:
        update = round_.revealed(id_)
        node = get_model_node(store, Cid.dag_cbor(update.cid), D)
        data = b"".join(store.get_many(node.chunks, CHUNK_BYTES))
        models.append((update.root, data, node.chunks))
    return BareWork(models, list(round_.decided.shares))


@dataclass(frozen=True, slots=True)
class Command:
    """What a run of `chainfl audit verify` took."""

    seconds: float
    peak_bytes: int


def peak_of_command(url: str, reader: TaskReader, folder: Path, round_: int) -> Command:
    """Run the command as a user would and ask the system for its largest resident size."""
    arguments = ["audit", "verify", "--rpc-url", url, "--task", "0x" + reader.created.address.hex()]
    arguments += ["--store", f"dir:{folder}", "--round", str(round_), "--json"]

    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCH, sys.executable, "-m", "chainfl", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    status, peak = (int(each) for each in done.stdout.split())
    if status != 0:
        raise VerificationError(f"chainfl audit verify refuses a round that is right: {done.stderr.strip()}")

    # macOS counts in bytes, Linux in KiB.
    scale = 1 if sys.platform == "darwin" else 1024
    return Command(time.perf_counter() - begun, peak * scale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
