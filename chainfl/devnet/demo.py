"""The demonstration: a real chain, real processes, a lie and its proof, and an audit of it all."""

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hexbytes import HexBytes
from web3 import Web3

from chainfl.audit.verify import Verdict
from chainfl.blobs import get_record
from chainfl.chain.abi import as_address
from chainfl.chain.contracts import bonded_stake, free_stake
from chainfl.chain.keys import address_of
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc, outside
from chainfl.codec.cid import Cid
from chainfl.codec.records import Manifest
from chainfl.codec.text import ETHER
from chainfl.devnet.processes import (
    Devnet,
    Person,
    clear,
    enrol,
    make_keys,
    open_task,
    start_anvil,
    start_api,
    start_node,
    stop,
)
from chainfl.devnet.story import Story
from chainfl.errors import LedgerError
from chainfl.execution import floats, head_model
from chainfl.protocol.events import LieProven, RoundEnded
from chainfl.protocol.state import Task
from chainfl.protocol.views import earnings
from chainfl.sim.replay import DEVNET_SEED, participants_of
from chainfl.store.directory import DirectoryStore
from chainfl.types import OnProgress
from chainfl.workflows.audit import AuditedRound, audit, trace_task
from chainfl.workflows.sponsor import Terms

PARTICIPANTS, HOSTILE = 12, 3
HOSTILE_STAKE = ETHER * 4 // 3
HONEST_STAKE = 4 * ETHER
SECONDS_PER_ROUND = 120


@dataclass(slots=True)
class DemoResult:
    """What the demonstration showed."""

    rounds: list[dict[str, object]] = field(default_factory=list)
    gas: dict[int, int] = field(default_factory=dict)
    earned: dict[str, int] = field(default_factory=dict)
    stake: dict[str, int] = field(default_factory=dict)
    audit: dict[int, str] = field(default_factory=dict)
    accuracy: float = 0.0
    convicted: list[str] = field(default_factory=list)
    home: str = ""
    dashboard: str = ""

    @property
    def ok(self) -> bool:
        """All rounds played to the end, the lie was proven, and every audit agrees."""
        return bool(self.convicted) and bool(self.audit) and set(self.audit.values()) == {Verdict.OK.value}


def people_of(rounds: int) -> list[Person]:
    """Nine honest, three hostile with a tenth of the stake; the last round's first proposer is set to lie."""
    names = ["ada", "ben", "cleo", "dan", "eve", "finn", "gus", "hana", "ivo", "mal", "max", "moe"]
    hostile = names[PARTICIPANTS - HOSTILE :]
    return [
        Person(
            name,
            HOSTILE_STAKE if name in hostile else HONEST_STAKE,
            "label-flip" if name in hostile else None,
            rounds,
        )
        for name in names
    ]


def demo_terms(rule: str, rounds: int) -> Terms:
    """A small model on the embedded digits, a short window for challenges, and 0.2 ether a round."""
    return Terms(
        rule=rule,
        rounds=rounds,
        escrow=rounds * ETHER // 5,
        learning_rate=0.3,
        local_epochs=2,
        challenge_seconds=6,
    )


def run_demo(
    rule: str, rounds: int, on_progress: OnProgress, *, home: Path | None = None, keep: bool = False
) -> DemoResult:
    """Play `rounds` rounds and one more, in which the miner lies; with `keep` the chain stays up, with a dashboard."""
    folder = home.resolve() if home is not None else Path(tempfile.mkdtemp(prefix="chainfl-demo-"))
    clear(folder)
    people = people_of(rounds + 1)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end what was started, also when told to stop
    process, url = start_anvil(folder, 1)
    net = Devnet(str(folder), url)
    net.started("anvil", process.pid)

    try:
        result = _play(net, people, demo_terms(rule, rounds + 1), on_progress)
        if keep:
            stop(net, keep=["anvil"])
            result.dashboard = start_api(net, on_progress)
    except BaseException:
        # What is kept is a demonstration that went well, never half of one.
        stop(net)
        raise
    finally:
        if not keep:
            stop(net)
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)

    return result


def _play(net: Devnet, people: Sequence[Person], terms: Terms, on_progress: OnProgress) -> DemoResult:
    w3 = open_rpc(net.rpc_url)
    keys = make_keys(Path(net.home), ["sponsor", *(person.name for person in people)])
    on_progress(f"anvil at {net.rpc_url}; deploying the contracts")
    created = open_task(net, w3, keys, people, terms, on_progress)

    on_progress(f"starting a process for each of {len(people)} participants (hostile ones are marked *)")
    for number, person in enumerate(people):
        start_node(net, person, number, len(people), "iid", DEVNET_SEED)
    enrol(net, w3, keys, people, on_progress)
    on_progress("all are enrolled; those that enrolled after the first draw had opened join from round 2 on")

    names = {bytes(address_of(keys[person.name])): person.name for person in people}
    hostile = frozenset(a for a, n in names.items() for p in people if p.name == n and p.attack)

    reader = TaskReader(w3, created.address, net.chain_id, created.block)
    story = Story(reader.created, names, hostile, on_progress)

    _follow(net, w3, reader, story, on_progress)

    result = DemoResult([asdict(facts) for facts in story.rounds], home=net.home)
    result.convicted = [name for facts in story.rounds for name in facts.convicted]
    _sum_up(net, w3, reader, names, result, on_progress)

    captured = [str(facts.number) for facts in story.rounds if facts.is_captured]
    if captured:
        on_progress(
            f"captured: round {', '.join(captured)}. Hostile validators were the majority of {terms.committee_size}, "
            "and their scores decided; more seats make that rare (docs/security.md)"
        )
    return result


def _follow(net: Devnet, w3: Web3, reader: TaskReader, story: Story, on_progress: OnProgress) -> None:
    rounds = reader.created.config.rounds
    told = 0
    until = time.monotonic() + SECONDS_PER_ROUND * rounds

    while not story.is_over:
        reader.refresh()
        for logged in reader.log[told:]:
            story.take(logged.event, logged.block_number)
            if isinstance(logged.event, LieProven):
                finder = story.name_of(logged.event.finder)
                gas = gas_of(w3, [logged.transaction])
                on_progress(f"  proof      by {finder}, in one transaction of {gas:,} gas")
            if isinstance(logged.event, RoundEnded):
                on_progress(f"  gas        {gas_of_round(w3, reader, logged.event.round):,}")
        told = len(reader.log)

        # A node that ended explains a round that stands still better than the time limit below.
        dead = [name for name in net.processes if not net.runs(name)]
        if dead and not story.is_over:
            raise LedgerError(f"{', '.join(dead)} ended early; see {net.home}/logs")
        if time.monotonic() > until:
            raise LedgerError(f"the rounds take too long; see {net.home}/logs")
        time.sleep(0.2)


def _sum_up(
    net: Devnet,
    w3: Web3,
    reader: TaskReader,
    names: dict[bytes, str],
    result: DemoResult,
    on_progress: OnProgress,
) -> None:
    task = reader.refresh()
    result.gas = gas_by_round(w3, reader)
    for account, name in names.items():
        address = as_address(account.hex())
        registry = as_address(net.registry)
        # Nobody takes stake out here: what is free is a finder's part.
        result.earned[name] = earnings(task, address) + free_stake(w3, registry, address)
        result.stake[name] = bonded_stake(w3, registry, task.address, address)

    result.accuracy = test_accuracy(task, DirectoryStore(Path(net.home) / "store"))
    on_progress(
        f"the model now gets {100 * result.accuracy:.1f}% of 2,000 digits right that nobody trained on"
    )
    on_progress("audit: every round redone from the chain and the blobs alone")
    _write_trace(Path(net.home), reader, list(names.values()))
    for one in audit(reader, DirectoryStore(Path(net.home) / "store")):
        result.audit[one.played.number] = one.verdict.value
        on_progress(f"  round {one.played.number}: {_say(one)}")


def _write_trace(home: Path, reader: TaskReader, names: Sequence[str]) -> None:
    """What `chainfl simulate --replay` needs to play this run again."""
    trace = trace_task(reader, DirectoryStore(home / "store"))
    (home / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    people = participants_of(names, dict.fromkeys(names[PARTICIPANTS - HOSTILE :], "label-flip"))
    (home / "participants.json").write_text(json.dumps(people), encoding="utf-8")


def _say(one: AuditedRound) -> str:
    bad = [finding for finding in one.findings if not finding.is_ok]
    if not bad:
        return f"ok ({len(one.findings)} checks)"
    return "; ".join(
        f"check {f.number} ({f.check}): {f.verdict.value}: expected {f.expected}, found {f.found}"
        for f in bad
    )


def test_accuracy(task: Task, store: DirectoryStore) -> float:
    """How many of the data set's test samples the head gets right."""
    from chainfl.learning.datasets import load
    from chainfl.learning.evaluate import score

    manifest = get_record(store, Cid.dag_cbor(task.config.manifest), Manifest)
    judged = score(manifest.model, [floats(head_model(store, task), task)], load(manifest.dataset).test())[0]
    return judged.correct / judged.samples


def gas_by_round(w3: Web3, reader: TaskReader) -> dict[int, int]:
    """The gas that each round's transactions used, by the rounds that their events name."""
    numbers = {number for logged in reader.log if (number := getattr(logged.event, "round", None))}
    return {number: gas_of_round(w3, reader, number) for number in sorted(numbers)}


def gas_of_round(w3: Web3, reader: TaskReader, number: int) -> int:
    """The gas of the transactions whose first event with a round names this one."""
    rounds: dict[bytes, int] = {}
    for logged in reader.log:
        named = getattr(logged.event, "round", None)
        if named is not None:
            rounds.setdefault(logged.transaction, named)
    return gas_of(w3, [transaction for transaction, named in rounds.items() if named == number])


def gas_of(w3: Web3, transactions: Sequence[bytes]) -> int:
    """The gas that these transactions used."""
    with outside("reading receipts"):
        return sum(int(w3.eth.get_transaction_receipt(HexBytes(one))["gasUsed"]) for one in transactions)
