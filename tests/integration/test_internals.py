"""Tasks with a list of who may join and an appointed committee, by command, with a process for each participant."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import chainfl
from chainfl.chain.abi import as_address
from chainfl.chain.keys import address_of
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import checksum
from chainfl.cli import run
from chainfl.devnet.processes import CHAIN_ID, Devnet, Person, fund, make_keys, start_anvil, start_node, stop
from chainfl.protocol.state import Task
from chainfl.protocol.views import earnings
from chainfl.types import Phase, Role, Rule
from tests.processes import ROOT, await_that
from tests.protocol.scene import ETHER

INTERNALS = ("alice", "bert", "carla")
OUTSIDERS = ("dora", "emil", "frida")
EVERYBODY = INTERNALS + OUTSIDERS
STRANGER = "stranger"
OPERATOR = "operator"
"""Acts for the last of the internals, who keeps its own key to itself."""
ROUNDS = 2
SEED = 7
TERMS = (
    "--challenge-seconds",
    "6",
    "--escrow",
    "0.3",
    "--rounds",
    str(ROUNDS),
    "--min-updates",
    str(len(EVERYBODY) - 1),
)
"""So many updates that a first round waits for everybody: all train but the proposer."""


@dataclass(slots=True)
class Club:
    """A chain with the contracts, a sponsor, internals, outsiders, and a stranger, who act by command."""

    net: Devnet
    keys: dict[str, Path]
    capsys: pytest.CaptureFixture[str]
    numbers: dict[str, int] = field(default_factory=lambda: {n: i for i, n in enumerate(EVERYBODY)})
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where everything lies."""
        return Path(self.net.home)

    def answers(self, *words: str, code: int = 0) -> dict[str, Any]:
        """A command, run here; its JSON."""
        self.capsys.readouterr()
        assert run([*words, "--json"]) == code
        answer: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return answer

    def does(self, name: str, *words: str, code: int = 0) -> dict[str, Any]:
        """A command with somebody's key; its metrics, or what it was refused with."""
        key = ("--keystore", str(self.keys[name]), "--password-file", str(self.folder / "password"))
        answer = self.answers(*words, *key, "--rpc-url", self.net.rpc_url, code=code)
        told: dict[str, Any] = answer["metrics"] if code == 0 else answer["error"]
        return told

    def asks(self, *words: str) -> dict[str, Any]:
        """A command about the task that needs no key; the whole answer."""
        return self.answers(*words, "--task", self.net.task, "--rpc-url", self.net.rpc_url)

    def list_of(self, roles: dict[str, str]) -> Path:
        """A list of who may join, as a sponsor writes it."""
        lines = [f"{checksum(address_of(self.keys[name]))} {role}" for name, role in roles.items()]
        file = self.folder / "list.txt"
        file.write_text("\n".join(lines) + "\n")
        return file

    def create(self, *terms: str) -> None:
        """Deploy, and create the task, with everybody's stake behind it."""
        deployed = self.does(
            "sponsor", "deploy", "--phase-floor", "1", "--deployments", str(self.folder / "deployments")
        )
        self.net.factory = deployed["factory"]
        made = self.does(
            *("sponsor", "task", "create", "--factory", self.net.factory, "--store", self.net.store),
            *(*TERMS, *terms),
        )
        self.net.task, self.net.from_block = made["task"], made["block"]
        for name in (*EVERYBODY, STRANGER):
            self.does(name, "stake", "add", "5", "--task", self.net.task)

    def start(self) -> None:
        """A process for each participant, which enrols once it has rehearsed; the last internal's is its operator's."""
        owner = INTERNALS[-1]
        hot = checksum(address_of(self.keys[OPERATOR]))
        self.does(owner, "stake", "operator", "set", hot, "--task", self.net.task)
        acting = {"keystore": self.keys[OPERATOR], "owner": checksum(address_of(self.keys[owner]))}
        for name, number in self.numbers.items():
            more = {"enrol": True} | (acting if name == owner else {})
            process = start_node(self.net, Person(name), number, len(self.numbers), "iid", SEED, more)
            self.started.append(process)

    def now(self) -> Task:
        """The task as anybody reads it."""
        at = as_address(self.net.task)
        return TaskReader(open_rpc(self.net.rpc_url), at, CHAIN_ID, self.net.from_block).refresh()

    def has_ended(self) -> bool:
        """Whether the last round is over; a node that died would be waited for in vain."""
        task = self.now()
        if task.round.phase is not Phase.ENDED:
            ended = [name for name in EVERYBODY if not self.net.runs(name)]
            assert not ended, self.log(ended[0])
        return task.round.phase is Phase.ENDED

    def log(self, name: str) -> str:
        """What a node's process said."""
        return (self.folder / "logs" / f"{name}.log").read_text()

    def participants(self, task: Task) -> Path:
        """Who has which data, by the ids that enrolment gave, as a replay wants to know it."""
        described = {
            str(task.accounts[address_of(self.keys[name])].id): {
                "client": number,
                "clients": len(self.numbers),
                "partition_seed": SEED,
                "master_seed": SEED,
            }
            for name, number in self.numbers.items()
        }
        file = self.folder / "participants.json"
        file.write_text(json.dumps({"participants": described}))
        return file


@pytest.fixture
def club(tmp_path: Path, capsys: pytest.CaptureFixture[str], require: Any) -> Iterator[Club]:
    require("anvil")
    anvil, url = start_anvil(tmp_path, 1)
    net = Devnet(str(tmp_path), url)
    net.started("anvil", anvil.pid)
    keys = make_keys(tmp_path, ["sponsor", STRANGER, OPERATOR, *EVERYBODY])
    built = Club(net, keys, capsys, started=[anvil])
    try:
        for key in keys.values():
            fund(open_rpc(url), address_of(key), 100 * ETHER)
        yield built
    finally:
        stop(net)
        for process in built.started:
            process.wait(10)


def stranger_runs(club: Club) -> subprocess.CompletedProcess[str]:
    """The stranger's own node, as it would be typed."""
    words = ["node", "run", "--enrol", "--task", club.net.task, "--rpc-url", club.net.rpc_url]
    words += ["--keystore", str(club.keys[STRANGER]), "--password-file", str(club.folder / "password")]
    words += ["--store", club.net.store, "--home", str(club.folder / STRANGER)]
    return subprocess.run(
        [sys.executable, "-m", "chainfl", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def expect_rounds_by_the_internals(club: Club, task: Task) -> None:
    """Both rounds are Final, judged by the internals and trained by all but the proposer; outsiders earn by shares."""
    ids = {name: task.accounts[address_of(club.keys[name])].id for name in EVERYBODY}
    internals = {ids[name] for name in INTERNALS}
    shown = chainfl.Task.open(club.net.rpc_url, club.net.task).rounds()

    assert [one.outcome for one in shown] == ["final"] * ROUNDS
    for one in shown:
        pay = task.pays[one.number]
        shares = {task.accounts[as_address(who)].id: share for who, share in one.shares.items()}
        assert {task.accounts[as_address(who)].id for who in one.committee} == internals
        assert internals < set(shares)
        assert len(shares) == len(EVERYBODY) - 1
        assert set(pay.workers) == set(shares) - internals
        assert {id_: part / pay.whole for id_, part in pay.workers.items()} == {
            id_: shares[id_] for id_ in pay.workers
        }


def expect_the_same_from_outside(club: Club, task: Task) -> None:
    """An audit of the chain, one of a file, and a replay of the trace find what happened."""
    bundle, trace = club.folder / "task.car", club.folder / "trace.json"
    audited = club.asks("audit", "verify", "--store", club.net.store)["metrics"]
    exported = club.asks("audit", "export", "--store", club.net.store, "--out", str(bundle))["metrics"]
    offline = club.answers(
        *("audit", "verify", "--bundle", str(bundle), "--block-hash", exported["block"]["hash"]),
        *("--task", club.net.task),
    )["metrics"]
    told = club.asks("task", "trace", "--store", club.net.store)
    trace.write_text(json.dumps(told))
    again = club.answers("simulate", "--replay", str(trace), "--participants", str(club.participants(task)))[
        "metrics"
    ]

    for rounds in (audited["rounds"], offline["rounds"]):
        assert [one["verdict"] for one in rounds] == ["ok"] * ROUNDS
    assert exported["missing"] == []
    assert [one["same"] for one in again["rounds"]] == [True] * ROUNDS
    assert again["rounds"][-1]["model_root"] == task.head_root.hex()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_who_is_on_the_list_plays_and_who_is_not_is_refused(club: Club) -> None:
    file = club.list_of(dict.fromkeys(INTERNALS, "internal") | dict.fromkeys(OUTSIDERS, "participant"))
    admitted = club.answers("task", "admit", str(file))["metrics"]
    club.create("--admission", str(file), "--min-internals", str(len(INTERNALS)), "--internals-train")
    listed = ("stake", "add", "1", "--task", club.net.task, "--enrol", "--admission", str(file))
    unlisted = club.does(STRANGER, *listed, code=2)
    club.does("dora", *listed)  # by command; the others' nodes find their own proof
    club.start()
    refused = stranger_runs(club)
    await_that(club.has_ended, 300, "the end of the task")
    task = club.now()

    stranger = "0x" + address_of(club.keys[STRANGER]).hex()
    why = f"the list of who may join this task does not name {stranger}: ask its sponsor"
    assert (admitted["internals"], admitted["participants"]) == (len(INTERNALS), len(OUTSIDERS))
    assert admitted["root"] == "0x" + task.config.admission_root.hex()
    assert unlisted["message"] == why
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", f"error: {why}\n")
    assert len(task.accounts) == len(EVERYBODY)
    expect_rounds_by_the_internals(club, task)
    expect_the_same_from_outside(club, task)
    for name in INTERNALS:
        claimed = club.does(name, "stake", "claim", "--task", club.net.task)
        assert (claimed["rounds"], int(claimed["claimed_wei"]) > 0) == ([], True)  # as validators alone
    for name in OUTSIDERS:
        earned = earnings(task, address_of(club.keys[name]))
        claimed = club.does(name, "stake", "claim", "--task", club.net.task)
        assert int(claimed["claimed_wei"]) == earned > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_outsiders_are_weighed_against_the_sponsors_own_clients(club: Club) -> None:
    file = club.list_of(dict.fromkeys(INTERNALS, ""))
    club.create("--rule", "varsel:budget=2", "--internals", str(file))
    club.start()
    await_that(club.has_ended, 300, "the end of the task")
    task = club.now()

    assert (task.config.rule, task.config.budget, task.config.internals_train) == (Rule.VARSEL, 2, True)
    expect_rounds_by_the_internals(club, task)
    for one in chainfl.Task.open(club.net.rpc_url, club.net.task).rounds():
        shares = {task.accounts[as_address(who)].id: share for who, share in one.shares.items()}
        internals = {task.accounts[address_of(club.keys[name])].id for name in INTERNALS}
        outside = sum(share for id_, share in shares.items() if id_ not in internals)
        assert 0 < outside <= 2 / (2 + len(INTERNALS))
        assert min(shares[id_] for id_ in internals) >= max(shares[id_] for id_ in set(shares) - internals)
    expect_the_same_from_outside(club, task)


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.timeout(600)
def test_internals_by_their_file_alone_leave_a_task_open_to_anyone(club: Club) -> None:
    file = club.list_of(dict.fromkeys(INTERNALS, ""))
    club.create("--internals", str(file))
    club.start()
    await_that(club.has_ended, 300, "the end of the task")
    task = club.now()

    roles = {name: task.roles[address_of(club.keys[name])] for name in EVERYBODY}
    assert roles == dict.fromkeys(INTERNALS, Role.INTERNAL) | dict.fromkeys(OUTSIDERS, Role.PARTICIPANT)
    assert task.config.committee_part == 0
    expect_rounds_by_the_internals(club, task)
    expect_the_same_from_outside(club, task)
