"""Nodes die by SIGKILL at every place that matters, come back, and lose nothing."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chainfl.audit.verify import Verdict
from chainfl.blobs import name_model, put_model
from chainfl.chain.abi import functions
from chainfl.chain.contracts import allocate, create_task, set_operator
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.send import checksum
from chainfl.codec import merkle
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.commitments import keccak256
from chainfl.codec.vector import encode
from chainfl.devnet.processes import CHAIN_ID
from chainfl.protocol.admission import admit, list_root
from chainfl.protocol.events import Convicted, RoundEnded, Silent, Tallied, UpdateRevealed, Voted
from chainfl.protocol.state import Round
from chainfl.protocol.views import voters
from chainfl.roles.turn import Duty
from chainfl.store.address import open_store
from chainfl.types import WAD, Address, Id, Outcome, Phase, Role, Rule
from chainfl.workflows.audit import audit
from tests.integration.again import expect_the_same_roots_again
from tests.integration.chain import Devchain, devchain
from tests.integration.crashing_node import ACTIONS
from tests.processes import await_that, paused, stall
from tests.protocol.scene import ETHER, config
from tests.sim.network import LAYOUT
from tests.store.ipfs_node import ipfs_node

ROOT = Path(__file__).resolve().parents[2]
LIGHT = os.environ | {"CHAINFL_NO_NUMBA": "1"}
"""Vectors are tiny here, and a node that was killed shall be back at once."""
PAUSE = 20
PHASES = tuple(f"{phase}_seconds" for phase in ("train", "reveal", "score", "tally", "propose", "challenge"))
ROOMY: dict[str, Any] = dict.fromkeys(PHASES, 120)
"""An outage takes a good part of a phase, and a busy machine does not take the rest."""
PATIENT: dict[str, Any] = dict.fromkeys(PHASES, 600)
"""However long a node takes to come back on a busy machine, it is in time."""
PLACES = [
    f"{action}: {when}" for action in ACTIONS for when in ("before send", "after send", "after receipt")
]
PLACES += [
    f"{action}: {when} journal"
    for action in ("commit_update", "commit_scores")
    for when in ("before", "after")
]


@dataclass(slots=True)
class Swarm:
    """Nodes as processes, started again whenever they die."""

    home: Path
    plans: dict[str, Path] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a node, or start it again."""
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.crashing_node", str(self.plans[name])],
                cwd=ROOT, env=LIGHT, stdout=log, stderr=log,
            )  # fmt: skip

    def revive(self) -> None:
        """Start again whoever was killed; anything else that ended is a defect."""
        for name, process in list(self.running.items()):
            code = process.poll()
            if code == -9:
                self.start(name)
            else:
                assert code in (None, 0), (self.home / f"{name}.log").read_text()[-2000:]

    def stop(self) -> None:
        """End all that runs."""
        for process in self.running.values():
            process.kill()
            process.wait(10)

    def crashed(self) -> list[str]:
        """Where nodes died so far."""
        return [place for plan in self.plans.values() for place in json.loads(plan.read_text())["crashed"]]


def open_swarm(
    chain: Devchain,
    home: Path,
    rounds: int,
    crashes: Callable[[int], list[str]],
    address: str | None = None,
    enrolled: Callable[[Swarm, str], None] = lambda *_: None,
    more: Mapping[str, object] | None = None,
    rule: Rule = Rule.SOFTMAX,
    entries: Sequence[Entry] = (),
    operated: Collection[int] = (),
    **changes: object,
) -> tuple[Swarm, TaskReader]:
    """A task with seven nodes that have places to crash at; `enrolled` hears of each that has enrolled.

    Those of `operated` act by a key that holds no stake; `entries` is the list of who may join, where there is one.
    """
    address = address or f"dir:{home / 'store'}"
    store = open_store(address)
    head = encode([0.0] * LAYOUT.d, 20)
    first = name_model(head, 20, LAYOUT)
    put_model(store, first)
    terms = config(
        rule,
        first_root=merkle.root(head),
        first_model=first.cid.digest,
        rounds=rounds,
        **ROOMY | changes,
    )
    made = create_task(chain.sender("sponsor"), chain.deployment.factory_address, terms, rounds * ETHER // 8)
    swarm, registry = Swarm(home), chain.deployment.registry_address
    reader = TaskReader(chain.w3, made.address, CHAIN_ID, made.block)
    ledgers = []
    for number in range(1, 8):
        name, key = f"node{number}", f"crash {number}"
        sender, owner = chain.sender(key), None
        allocate(sender, registry, made.address, ETHER)
        if number in operated:
            owner, key = sender.address, f"operator {number}"
            set_operator(sender, registry, made.address, chain.sender(key).address)
            sender = chain.sender(key)
        ledgers.append(ChainLedger(chain.w3, sender, reader, made.address, owner))
        (home / f"{name}.key").write_bytes(keccak256(key.encode()))
        swarm.plans[name] = home / f"{name}.json"
        swarm.plans[name].write_text(
            json.dumps(
                {
                    "rpc_url": chain.url,
                    "chain_id": CHAIN_ID,
                    "task": checksum(made.address),
                    "from_block": made.block,
                    "secret_file": str(home / f"{name}.key"),
                    "owner": owner and checksum(owner),
                    "home": str(home / name),
                    "store": address,
                    "seed": number,
                    "crashes": crashes(number),
                    "crashed": [],
                    **(more or {}),
                }
            )
        )
    for name in swarm.plans:
        swarm.start(name)
    for name, ledger in zip(swarm.plans, ledgers, strict=True):
        ledger.enrol(admit(entries, ledger.me) if entries else None)
        enrolled(swarm, name)
    return swarm, reader


def run_out(chain: Devchain, swarm: Swarm, reader: TaskReader, seconds: float) -> None:
    """Let the nodes play the task to its end, reviving the dead."""
    until(chain, swarm, reader, Phase.ENDED, seconds)


def until(chain: Devchain, swarm: Swarm, reader: TaskReader, phase: Phase, seconds: float = 120) -> None:
    """Wait until the round stands in this phase, reviving the dead and passing over what is left of a window."""

    def is_there() -> bool:
        swarm.revive()
        now = reader.refresh().round
        if now.phase is not phase:
            pass_window(chain, now)
        return now.phase is phase

    await_that(is_there, seconds, f"{phase!r}; nodes died at {swarm.crashed()}")


def pass_window(chain: Devchain, round_: Round) -> None:
    """Once everybody has voted, let the chain's clock run to the end of the challenge window."""
    if round_.phase is Phase.CHALLENGE and set(voters(round_, round_.proposer)) <= set(round_.votes):
        pass_deadline(chain, round_)


def pass_deadline(chain: Devchain, round_: Round) -> None:
    """Let the chain's clock run to the end of the phase."""
    now = int(chain.w3.eth.get_block("latest")["timestamp"])
    if now < round_.deadline:
        chain.skip(round_.deadline - now)


def assert_nothing_was_lost(chain: Devchain, reader: TaskReader, rounds: int) -> None:
    """All rounds are final, nobody was slashed, and no action went out twice."""
    log = [logged.event for logged in reader.log]
    ended = [event for event in log if isinstance(event, RoundEnded)]
    assert [event.outcome for event in ended] == [Outcome.FINAL] * rounds
    assert [event for event in log if isinstance(event, Silent | Convicted)] == []
    assert _repeated(chain, reader.task.address) == []


def _repeated(chain: Devchain, task: Address) -> list[str]:
    """Actions that somebody sent twice in a round, successful or not."""
    own = {functions("TrainingTask")[name].selector: name for name in (
        "commitUpdate", "revealUpdate", "commitScores", "revealScores", "propose", "attest",
    )}  # fmt: skip
    seen: set[tuple[str, bytes]] = set()
    repeated = []
    for number in range(chain.w3.eth.block_number + 1):
        block = chain.w3.eth.get_block(number, full_transactions=True)
        for transaction in block["transactions"]:
            assert not isinstance(transaction, bytes)
            data = bytes(transaction["input"])
            if transaction.get("to") != checksum(task) or data[:4] not in own:
                continue
            key = (transaction["from"], data[:36])
            if key in seen:
                repeated.append(own[data[:4]])
            seen.add(key)
    return repeated


@pytest.mark.slow
def test_a_chain_that_stands_still_for_a_while_costs_nobody_anything(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    with devchain(tmp_path) as chain:
        swarm, reader = open_swarm(chain, tmp_path, 1, lambda _: [])
        try:
            until(chain, swarm, reader, Phase.TRAIN)
            stall(chain.pid, PAUSE)
            run_out(chain, swarm, reader, 120)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, 1)


@pytest.mark.slow
def test_a_store_that_is_away_for_a_while_costs_nobody_anything(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    with devchain(tmp_path) as chain, ipfs_node(require("ipfs"), tmp_path / "ipfs") as node:
        swarm, reader = open_swarm(chain, tmp_path, 1, lambda _: [], node.address)
        try:
            until(chain, swarm, reader, Phase.TRAIN)
            stall(node.pid, PAUSE)
            run_out(chain, swarm, reader, 180)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, 1)


@pytest.mark.deep
@pytest.mark.parametrize("phase", [Phase.SCORE, Phase.CHALLENGE])
def test_a_store_that_is_away_longer_than_any_call_waits_turns_no_opinion_around(
    phase: Phase, tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    with devchain(tmp_path) as chain, ipfs_node(require("ipfs"), tmp_path / "ipfs") as node:
        swarm, reader = open_swarm(chain, tmp_path, 1, lambda _: [], node.address)
        try:
            until(chain, swarm, reader, phase)
            stall(node.pid, 2 * PAUSE)
            run_out(chain, swarm, reader, 180)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, 1)
        log = [logged.event for logged in reader.log]
        (tallied,) = (event for event in log if isinstance(event, Tallied))
        assert tallied.included.bit_count() == len([one for one in log if isinstance(one, UpdateRevealed)])
        assert [event.attests for event in log if isinstance(event, Voted)] == [True] * 3


@pytest.mark.slow
def test_a_validator_that_misses_its_deadline_is_slashed_alone(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    with devchain(tmp_path) as chain:
        swarm, reader = open_swarm(chain, tmp_path, 1, lambda _: [], **PATIENT)
        try:
            until(chain, swarm, reader, Phase.TRAIN)
            late = reader.task.round.committee[0]
            with paused(swarm.running[f"node{late}"].pid):
                until(chain, swarm, reader, Phase.SCORE)
                await_that(lambda: others_scored(reader, late), 120, "scores of the others")
                pass_deadline(chain, reader.task.round)
                until(chain, swarm, reader, Phase.TALLY)
            run_out(chain, swarm, reader, 120)
        finally:
            swarm.stop()

        log = [logged.event for logged in reader.log]
        assert [event.outcome for event in log if isinstance(event, RoundEnded)] == [Outcome.FINAL]
        assert [(event.id, event.phase) for event in log if isinstance(event, Silent)] == [
            (late, Phase.SCORE)
        ]


def others_scored(reader: TaskReader, late: Id) -> bool:
    """Whether the whole committee but this member has committed to scores."""
    round_ = reader.refresh().round
    return set(round_.committee) - set(round_.scores) == {late}


SEED = 20_261_116
"""Decides who dies where in the long run; the same seed gives the same plan."""
LONG = 100


def planned(seed: int, rounds: int) -> dict[int, dict[int, str]]:
    """For each round a few nodes and the place where each dies in it: one to three of the seven."""
    rng = random.Random(seed)
    return {
        round_: {node: rng.choice(PLACES) for node in rng.sample(range(1, 8), rng.randint(1, 3))}
        for round_ in range(1, rounds + 1)
    }


def crashes_of(node: int, plan: Mapping[int, Mapping[int, str]]) -> list[str]:
    """The places of one node, each with its round."""
    return [f"{round_} {places[node]}" for round_, places in plan.items() if node in places]


@pytest.mark.slow
def test_nodes_that_are_killed_anywhere_come_back_and_lose_nothing(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    """Every place is reached by somebody within three rounds, whatever the draws."""
    require("anvil")
    shared = tmp_path / "places"
    shared.mkdir()
    for place in PLACES:
        (shared / place).touch()
    with devchain(tmp_path) as chain:
        swarm, reader = open_swarm(chain, tmp_path, 3, lambda _: [], more={"shared": str(shared)}, **PATIENT)
        try:
            run_out(chain, swarm, reader, 300)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, 3)
        assert sorted(swarm.crashed()) == sorted(PLACES)


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("rule", [Rule.VARSEL, Rule.SOFTMAX])
def test_nodes_of_a_task_with_internals_are_killed_anywhere_and_lose_nothing(
    rule: Rule, tmp_path: Path, require: Callable[[str], Path]
) -> None:
    """Three internals judge and train; one of them and an outsider act by operators' keys."""
    require("anvil")
    shared = tmp_path / "places"
    shared.mkdir()
    for place in PLACES:
        (shared / place).touch()
    with devchain(tmp_path) as chain:
        named: list[Entry] = [(chain.sender(f"crash {n}").address, Role.INTERNAL) for n in INTERNALS]
        entries = [(ANYONE, Role.PARTICIPANT), *named]
        swarm, reader = open_swarm(
            chain, tmp_path, 3, lambda _: [],
            more={"shared": str(shared)}, rule=rule, entries=entries, operated=OPERATED,
            admission_root=list_root(entries), min_internals=len(INTERNALS), internals_train=True,
            **of_rule(rule), **PATIENT,
        )  # fmt: skip
        try:
            run_out(chain, swarm, reader, 900)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, 3)
        assert sorted(swarm.crashed()) == sorted(PLACES)
        store = open_store(f"dir:{tmp_path / 'store'}")
        assert [one.verdict for one in audit(reader, store)] == [Verdict.OK] * 3
        expect_the_same_roots_again(reader)


INTERNALS = (1, 2, 3)
OPERATED = (3, 7)


def of_rule(rule: Rule) -> dict[str, Any]:
    """All outsiders may count whole under VaRSeL; the head has a part under the softmax."""
    return {"budget": 4, "alpha": WAD} if rule is Rule.VARSEL else {"beta": 10 * WAD}


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_a_hundred_rounds_with_seeded_deaths_lose_nothing(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    rounds = int(os.environ.get("CHAINFL_CRASH_ROUNDS", LONG))
    plan = planned(int(os.environ.get("CHAINFL_CRASH_SEED", SEED)), rounds)
    with devchain(tmp_path) as chain:
        swarm, reader = open_swarm(
            chain, tmp_path, rounds, lambda number: crashes_of(number, plan), **PATIENT
        )
        try:
            run_out(chain, swarm, reader, 70.0 * rounds)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, rounds)
        assert swarm.crashed(), "nobody died: the plan hit no role that was played"


@pytest.mark.deep
def test_rounds_on_a_testnet_that_reorganises_finish_and_cost_nobody_anything(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    with devchain(tmp_path) as chain:
        swarm, reader = open_swarm(chain, tmp_path, 1, lambda _: [], more={"confirmations": 2}, **PATIENT)
        chain.rpc("evm_setIntervalMining", [1])
        try:
            for phase in (Phase.TRAIN, Phase.SCORE, Phase.CHALLENGE):
                until(chain, swarm, reader, phase, 180)
                chain.rpc("anvil_reorg", [2, []])
            run_out(chain, swarm, reader, 300)
        finally:
            swarm.stop()

        log = [logged.event for logged in reader.log]
        assert [event.outcome for event in log if isinstance(event, RoundEnded)] == [Outcome.FINAL]
        assert [event for event in log if isinstance(event, Silent | Convicted)] == []


@pytest.mark.slow
def test_validators_and_miners_need_nothing_of_the_workers_but_chain_and_store(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    """Each role is a process of its own with a home of its own; those before are dead and their homes gone."""
    require("anvil")
    with devchain(tmp_path) as chain:
        worker = (Duty.WORK | Duty.KEEP).value
        swarm, reader = open_swarm(chain, tmp_path, 1, lambda _: [], more={"duty": worker}, **PATIENT)
        try:
            until(chain, swarm, reader, Phase.SCORE, 150)
            bury(swarm)
            committee = [f"node{id_}" for id_ in reader.task.round.committee]
            for name in committee:
                reborn(swarm, name, Duty.VALIDATE)
            until(chain, swarm, reader, Phase.PROPOSE, 150)
            reborn(swarm, f"node{reader.task.round.proposer}", Duty.MINE)
            run_out(chain, swarm, reader, 120)
        finally:
            swarm.stop()

        assert_nothing_was_lost(chain, reader, 1)


def bury(swarm: Swarm) -> None:
    """Kill everybody and remove all they had, keys excepted."""
    swarm.stop()
    swarm.running.clear()
    for name in swarm.plans:
        shutil.rmtree(swarm.home / name)


def reborn(swarm: Swarm, name: str, duty: Duty) -> None:
    """Start a process for one of an account's roles, in a home of its own."""
    plan = json.loads(swarm.plans[name].read_text())
    home = swarm.home / f"{name}-{duty.name}"
    swarm.plans[home.name] = swarm.home / f"{home.name}.json"
    swarm.plans[home.name].write_text(
        json.dumps(plan | {"home": str(home), "duty": (duty | Duty.KEEP).value})
    )
    swarm.start(home.name)
