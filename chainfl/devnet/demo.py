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
from chainfl.devnet.cast import Cast, open_cast
from chainfl.devnet.processes import (
    Devnet,
    clear,
    enrol,
    make_keys,
    open_task,
    start_anvil,
    start_api,
    start_node,
    stop,
    write_guest,
)
from chainfl.devnet.story import Story
from chainfl.errors import InputError, LedgerError
from chainfl.execution import floats, head_model
from chainfl.protocol.events import LieProven, RoundEnded
from chainfl.protocol.state import Task
from chainfl.protocol.terms import parse_rule
from chainfl.protocol.views import earnings
from chainfl.store.directory import DirectoryStore
from chainfl.types import OnProgress, Rule
from chainfl.workflows.audit import AuditedRound, audit, trace_task

OPEN, SELFISH = "open", "selfish"
"""The two stories: drawn validators judge, or a stakeholder's own clients do (docs/selfish.md)."""
STORIES = (OPEN, SELFISH)
INTERNAL_MARK = "^"
SELFISH_RULES = (Rule.SOFTMAX, Rule.VARSEL)
SECONDS_PER_ROUND = 120


@dataclass(slots=True)
class DemoResult:
    """What the demonstration showed."""

    rounds: list[dict[str, object]] = field(default_factory=list)
    rule: str = ""
    gas: dict[int, int] = field(default_factory=dict)
    earned: dict[str, int] = field(default_factory=dict)
    stake: dict[str, int] = field(default_factory=dict)
    audit: dict[int, str] = field(default_factory=dict)
    accuracy: float = 0.0
    convicted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Who proposed what the committee did not attest, though no proof convicts it: wrong weights."""
    comparison: dict[str, list[float]] = field(default_factory=dict)
    """Accuracies of other methods on the same data, where the story compares them."""
    home: str = ""
    dashboard: str = ""
    people: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """All rounds played to the end, the lie was proven or got no quorum, and every audit agrees."""
        is_caught = bool(self.convicted or self.refused)
        return is_caught and bool(self.audit) and set(self.audit.values()) == {Verdict.OK.value}


def run_demo(
    rule: str | None,
    rounds: int,
    on_progress: OnProgress,
    *,
    story: str = OPEN,
    home: Path | None = None,
    keep: bool = False,
) -> DemoResult:
    """Play `rounds` rounds and one more, in which the miner lies; with `keep` the chain stays up, with a dashboard.

    Raises:
        InputError: the story has other rules.
    """
    if story == SELFISH and rule is not None and parse_rule(rule)[0] not in SELFISH_RULES:
        raise InputError(
            "--story selfish is played by softmax or varsel: give one of them with its values, or leave out --rule"
        )
    folder = home.resolve() if home is not None else Path(tempfile.mkdtemp(prefix="chainfl-demo-"))
    clear(folder)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # end what was started, also when told to stop
    process, url = start_anvil(folder, 1)
    net = Devnet(str(folder), url)
    net.started("anvil", process.pid)

    try:
        result = _play(net, _cast(story, rule, folder, rounds + 1), on_progress)
        if keep:
            stop(net, keep=["anvil"])
            result.dashboard = start_api(net, on_progress)
            write_guest(net, result.people[0])
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


def _cast(story: str, rule: str | None, folder: Path, rounds: int) -> Cast:
    if story != SELFISH:
        return open_cast(rule or "softmax", rounds)

    from chainfl.devnet.selfish import selfish_cast

    return selfish_cast(folder, rounds, rule)


def _play(net: Devnet, cast: Cast, on_progress: OnProgress) -> DemoResult:
    w3 = open_rpc(net.rpc_url)
    home = Path(net.home)
    keys = make_keys(home, ["sponsor", *cast.names])
    terms = cast.terms_for(home, keys)
    on_progress(f"anvil at {net.rpc_url}; deploying the contracts")
    created = open_task(net, w3, keys, cast.people, terms, on_progress)

    marks = "hostile ones are marked *" + (f", internals {INTERNAL_MARK}" if cast.internals else "")
    on_progress(f"starting a process for each of {len(cast.people)} participants ({marks})")
    for person in cast.people:
        one = cast.described[person.name]
        start_node(
            net,
            person,
            one.client,
            one.clients,
            one.partition,
            one.partition_seed,
            {"master-seed": one.master_seed, "dataset": one.dataset},
        )
    enrol(net, w3, keys, cast.people, on_progress, cast.entries(keys))
    on_progress("all are enrolled; those that enrolled after the first draw had opened join from round 2 on")

    names = {bytes(address_of(keys[name])): name for name in cast.names}
    hostile = frozenset(account for account, name in names.items() if name in cast.hostile)
    marked = {account: _marked(cast, name) for account, name in names.items()}

    reader = TaskReader(w3, created.address, net.chain_id, created.block)
    story = Story(reader.created, marked, hostile, on_progress)

    _follow(net, w3, reader, story, on_progress)

    result = DemoResult(
        [asdict(facts) for facts in story.rounds], terms.rule, home=net.home, people=cast.names
    )
    result.convicted = [name for facts in story.rounds for name in facts.convicted]
    result.refused = [name for facts in story.rounds for name in facts.refused]
    _sum_up(net, w3, reader, names, result, on_progress)
    _write_replay(home, reader, cast)
    if cast.internals:
        _compare(result, terms.rounds, on_progress)

    captured = [str(facts.number) for facts in story.rounds if facts.is_captured]
    if captured:
        on_progress(
            f"captured: round {', '.join(captured)}. Hostile validators were the majority of {terms.committee_size}, "
            "and their scores decided; more seats make that rare (docs/security.md)"
        )
    return result


def _follow(net: Devnet, w3: Web3, reader: TaskReader, story: Story, on_progress: OnProgress) -> None:
    rounds = reader.created.config.rounds
    shown = 0
    until = time.monotonic() + SECONDS_PER_ROUND * rounds

    while not story.is_over:
        reader.refresh()
        for logged in reader.log[shown:]:
            story.take(logged.event, logged.block_number)
            if isinstance(logged.event, LieProven):
                finder = story.name_of(logged.event.finder)
                gas = gas_of(w3, [logged.transaction])
                on_progress(f"  proof      by {finder}, in one transaction of {gas:,} gas")
            if isinstance(logged.event, RoundEnded):
                on_progress(f"  gas        {gas_of_round(w3, reader, logged.event.round):,}")
        shown = len(reader.log)

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
        f"the model now gets {100 * result.accuracy:.1f}% of 2,000 digits right that were not used in training"
    )
    on_progress("audit: every round redone from the chain and the blobs alone")
    for one in audit(reader, DirectoryStore(Path(net.home) / "store")):
        result.audit[one.played.number] = one.verdict.value
        on_progress(f"  round {one.played.number}: {_say(one)}")


def _marked(cast: Cast, name: str) -> str:
    return f"{name}{INTERNAL_MARK}" if name in cast.internals else name


def _compare(result: DemoResult, rounds: int, on_progress: OnProgress) -> None:
    """The other methods on the same data, in the simulator."""
    from chainfl.devnet.selfish import compare, tell_comparison

    result.comparison = compare(rounds)
    tell_comparison(result.comparison, result.accuracy, on_progress)


def _write_replay(home: Path, reader: TaskReader, cast: Cast) -> None:
    """What `chainfl simulate --replay` needs to play this run again."""
    trace = trace_task(reader, DirectoryStore(home / "store"))
    (home / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    (home / "participants.json").write_text(json.dumps(cast.participants()), encoding="utf-8")


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
