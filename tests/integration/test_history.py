"""A history with everything in it on a real chain: every verdict is right, and whatever somebody changes is found.

One proposer lies, one round is void, participants are silent and lose stake, one update's bytes are never published,
and one that counted is lost afterwards. The same history is read through the audit, the API's index and a bundle.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from chainfl.api.app import create_app
from chainfl.api.chain import ChainSource
from chainfl.api.follower import Follower
from chainfl.api.settings import ApiSettings
from chainfl.audit.verify import Verdict
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.codec.cid import Cid
from chainfl.codec.vector import Vector
from chainfl.devnet.demo import gas_by_round
from chainfl.devnet.processes import CHAIN_ID
from chainfl.errors import BundleError, VerificationError
from chainfl.node.watcher import Watcher
from chainfl.protocol.events import UpdateRevealed
from chainfl.protocol.state import Task
from chainfl.roles.miner import propose
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, Step, next_step
from chainfl.store.directory import DirectoryStore
from chainfl.types import Outcome, Phase, Rule
from chainfl.workflows.audit import audit, audit_round, played_rounds
from chainfl.workflows.bundle import export_bundle, verify_bundle
from tests.integration.chain import ChainTask, Devchain, devchain, open_task
from tests.protocol.scene import ETHER

pytestmark = pytest.mark.slow

LIE_AT = 123
SEED = 7
Behave = Callable[[Task, Participant, Step], Step | None]


# How participants behave in a round


def honest(_task: Task, _me: Participant, step: Step) -> Step | None:
    """Everybody does what the round asks for."""
    return step


def one_lies(task: Task, _me: Participant, step: Step) -> Step | None:
    """The first proposer changes one parameter; a validator attests it without looking."""
    if task.round.attempt > 1:
        return step
    if step.name == "propose":
        return Step("propose", lambda liar: propose(liar, _tampered))
    if step.name == "vote":
        return Step("vote", _attest_blindly) if not task.round.votes else None
    return step


def too_few_commit(task: Task, _me: Participant, step: Step) -> Step | None:
    """One update is not enough for a round."""
    return None if step.name == "commit update" and task.round.updates else step


def some_are_silent(task: Task, me: Participant, step: Step) -> Step | None:
    """The last worker does not reveal, the last of the committee does not vote."""
    own = task.accounts[me.ledger.me].id
    is_last_worker = step.name == "reveal update" and own == max(task.round.updates)
    is_last_validator = step.name == "vote" and own == task.round.committee[-1]
    return None if is_last_worker or is_last_validator else step


def one_keeps_its_bytes(task: Task, me: Participant, step: Step) -> Step | None:
    """The last worker shows its root, but publishes nothing."""
    is_last = step.name == "reveal update" and task.accounts[me.ledger.me].id == max(task.round.updates)
    return Step("reveal update", _reveal_only) if is_last else step


def _tampered(model_D: Vector) -> Vector:
    wrong = model_D.copy()
    wrong[LIE_AT] += 1
    return wrong


def _attest_blindly(me: Participant) -> None:
    task = me.ledger.task()
    proposal, round_ = task.round.proposal, task.round
    assert proposal is not None
    named = (proposal.model_root, proposal.block, proposal.shares_digest)
    me.ledger.vote(round_.number, round_.attempt, *named, True)


def _reveal_only(me: Participant) -> None:
    number = me.ledger.task().round.number
    sealed = me.journal.update(number)
    assert sealed is not None
    me.ledger.reveal_update(number, sealed.root, sealed.cid, sealed.samples, sealed.salt)


# The history


@dataclass(slots=True)
class History:
    """What was played, where everything lies, and which round is which."""

    task: ChainTask
    reader: TaskReader
    store: DirectoryStore
    folder: Path
    rounds: int
    special: dict[str, int] = field(default_factory=dict)
    lost: Cid | None = None

    @property
    def verdicts(self) -> dict[int, Verdict]:
        """What an audit must find."""
        right = dict.fromkeys(range(1, self.rounds + 1), Verdict.OK)
        return right | {self.special["lost"]: Verdict.UNAVAILABLE}

    def block_file(self, cid: Cid) -> Path:
        """Where the store keeps a block."""
        return next((self.folder / "store" / "blocks").glob(f"*/{cid}"))


BEHAVIOURS: dict[str, Behave] = {
    "lie": one_lies,
    "void": too_few_commit,
    "slash": some_are_silent,
    "hidden": one_keeps_its_bytes,
    "lost": honest,
}


def play_history(chain: Devchain, folder: Path, rounds: int) -> History:
    """Rounds in which special ones stand at places of their own, the first and the last one being plain."""
    store = DirectoryStore(folder / "store")
    task = open_task(chain, Rule.SOFTMAX, 10, store=store, rounds=rounds + 1, min_stake=ETHER // 2)
    reader = task.reader()
    for me in task.people.values():
        assert isinstance(me.ledger, ChainLedger)
        me.ledger.reader = reader  # one process, one view of the chain
    places = random.Random(SEED).sample(range(2, rounds), len(BEHAVIOURS))
    made = History(task, reader, store, folder, rounds, dict(zip(BEHAVIOURS, places, strict=True)))
    behaviours = {number: BEHAVIOURS[name] for name, number in made.special.items()}
    for number in range(1, rounds + 1):
        _play_round(made, number, behaviours.get(number, honest))
    made.lost = _lose_update(made, made.special["lost"])
    return made


def _play_round(made: History, number: int, behave: Behave) -> None:
    """Everybody takes steps in turn, a watcher looks at every proposal, and the clock runs when nobody can act."""
    chain, people = made.task.chain, list(made.task.people.values())
    stranger = ChainLedger(chain.w3, chain.sender("watcher"), made.reader, made.task.address)
    watcher = Watcher(stranger, made.store)
    while (task := made.reader.refresh()).round.number == number:
        now = int(chain.w3.eth.get_block("latest")["timestamp"])
        if task.round.votes and task.round.phase is Phase.CHALLENGE and watcher.look(task):
            continue
        for me in people:
            wanted = next_step(me, task, now, Duty.ALL)
            step = behave(task, me, wanted) if wanted is not None else None
            if step is not None:
                step.take(me)
                break
        else:
            chain.skip(max(1, task.round.deadline - now))
            continue
        if step.name == "draw":  # who enrolled after the first draw had opened joins now
            for waiting in [each for each in task.accounts.values() if not each.weight]:
                people[0].ledger.apply_change(waiting.address)


def _lose_update(made: History, number: int) -> Cid:
    """Remove the bytes of an update that counted."""
    shown = (e.event for e in made.reader.log if isinstance(e.event, UpdateRevealed))
    cid = Cid.dag_cbor(next(event.cid for event in shown if event.round == number))
    made.block_file(cid).unlink()
    return cid


@pytest.fixture(scope="module", params=[8, pytest.param(30, marks=pytest.mark.deep)])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]
) -> Iterator[History]:
    require("anvil")
    folder = tmp_path_factory.mktemp("history")
    with devchain(folder / "chain") as chain:
        yield play_history(chain, folder, request.param)


@contextmanager
def serving(made: History, index: Path) -> Iterator[TestClient]:
    """The API over the history."""
    chain = made.task.chain
    source = ChainSource(chain.w3, CHAIN_ID, chain.deployment.factory_address)
    settings = ApiSettings(index=index, poll_seconds=3600)
    with TestClient(create_app(source, made.store, settings)) as client:
        yield client


@pytest.fixture(scope="module")
def client(made: History) -> Iterator[TestClient]:
    """An API that tests only read."""
    with serving(made, made.folder / "index.sqlite") as found:
        yield found


# Verdicts


def test_every_verdict_is_right(made: History) -> None:
    audited = {one.played.number: one for one in audit(made.reader, made.store)}

    assert {number: one.verdict for number, one in audited.items()} == made.verdicts
    outcomes = {number for number, one in audited.items() if one.played.outcome is Outcome.VOID}
    assert outcomes == {made.special["void"]}
    (named,) = (
        f for f in audited[made.special["lost"]].findings if f.verdict is not Verdict.OK and f.number == 3
    )
    assert str(made.lost) in named.found


def test_the_api_tells_the_same_and_shows_what_happened(made: History, client: TestClient) -> None:
    verdicts = {n: client.get(f"/blocks/1/{n}/audit?wait=30").json()["verdict"] for n in made.verdicts}
    blocks = {name: client.get(f"/blocks/1/{number}").json() for name, number in made.special.items()}
    task = client.get("/tasks/1").json()

    assert verdicts == {number: verdict.value for number, verdict in made.verdicts.items()}
    assert (task["rounds_final"], task["rounds_void"], task["lies"]) == (made.rounds - 1, 1, 1)
    lie = blocks["lie"]["attempt_list"][0]["lie"]
    assert (lie["position"], lie["found"] - lie["expected"]) == (LIE_AT, 1)
    assert [each["part"] for each in lie["convictions"]] == ["proposed", "attested"]
    assert all(int(each["to_finder"]) > 0 for each in lie["convictions"])
    assert blocks["void"]["outcome"] == "void"
    assert {each["kind"] for each in blocks["slash"]["slashes"]} == {"no-reveal", "liveness"}
    assert [each["vouches"] for each in blocks["hidden"]["updates"] if not each["included"]] == [0]


def test_gas_is_the_same_wherever_it_is_told(made: History, client: TestClient) -> None:
    told = gas_by_round(made.task.chain.w3, made.reader)

    shown = {n: client.get(f"/blocks/1/{n}").json() for n in range(1, made.rounds + 1)}
    lines = _pages(client, "/tasks/1/gas")

    assert {number: block["gas"] for number, block in shown.items()} == {n: told[n] for n in shown}
    for block in shown.values():
        assert sum(line["gas"] for line in block["gas_by_action"]) == block["gas"]
    assert sum(line["gas"] for line in lines) == client.get("/tasks/1").json()["gas"]
    assert sum(line["gas"] for line in lines if line["round"] is not None) == sum(told.values())


def _pages(client: TestClient, path: str) -> list[dict[str, Any]]:
    rows, after = list[dict[str, Any]](), 0
    while True:
        page = client.get(path, params={"limit": 500} | ({"after": after} if rows else {})).json()
        rows += page["items"]
        if page["next"] is None:
            return rows
        after = page["next"]


# Whatever is changed is found and named


def test_every_row_of_the_index_is_watched_and_every_change_named(made: History, tmp_path: Path) -> None:
    with serving(made, tmp_path / "index.sqlite") as client:
        follower = client.app.state.services.follower  # type: ignore[attr-defined]
        assert isinstance(follower, Follower)
        before = client.get("/index").json()

        changed = _change_every_row(tmp_path / "index.sqlite")

        found = {each.where: each.found for each in follower.check_index()}
        told = client.get("/index").json()
    assert (before["verdict"], before["changed"]) == ("ok", 0)
    assert found == changed
    assert (told["verdict"], told["changed"]) == ("mismatch", len(changed))
    assert {each["where"] for each in told["differences"]} <= changed.keys()


def _change_every_row(path: Path) -> dict[str, str]:
    """Change one value of each row, drawn anew each time; answers their names and what they are now."""
    rng, changed = random.Random(SEED), dict[str, str]()
    with closing(sqlite3.connect(path)) as connection, connection:
        rows = connection.execute("SELECT task, kind, number, document FROM rows").fetchall()
        for task, kind, number, text in rows:
            document = json.loads(text)
            place, holder, key = rng.choice(list(_leaves(document)))
            holder[key] = _other(holder[key])
            changed[f"{kind} {number}: {place}"] = json.dumps(holder[key])
            where = (json.dumps(document), task, kind, number)
            connection.execute("UPDATE rows SET document = ? WHERE (task, kind, number) = (?, ?, ?)", where)
    assert len(changed) == len(rows) > 500
    return changed


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every single value of a document: its path, what holds it, and under which key."""
    keyed = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in keyed:
        place = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}".removeprefix(".")
        if isinstance(each, dict | list) and each:
            yield from _leaves(each, place)
        else:
            yield place, value, key


def _other(value: object) -> object:
    """Something else of the same kind where there is one."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}0" if isinstance(value, str) else "something"


class Noting:
    """A store that notes what is read from it."""

    def __init__(self, store: DirectoryStore) -> None:
        self._store, self.read = store, list[Cid]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        self.read.append(cid)
        return self._store.get(cid, max_bytes)

    def get_many(self, cids: Any, max_bytes: int) -> Iterator[bytes]:
        return (self.get(cid, max_bytes) for cid in cids)


def test_a_changed_byte_of_any_stored_block_is_found_and_named(made: History) -> None:
    """Of every block that an audit reads, one byte; the round that lost bytes would tell of those first."""
    rng = random.Random(SEED)
    settled = (one for one in played_rounds(made.reader) if one.ended is not None)
    played = {one.number: one for one in settled if one.number != made.special["lost"]}
    read = dict[Cid, int]()
    for number, one in played.items():
        noting = Noting(made.store)
        audit_round(one, noting, made.reader.block_hash)
        read |= dict.fromkeys(noting.read, number)
    assert len(read) > 10 * len(played)

    for cid, number in sorted(read.items()):
        with _flipped(made.block_file(cid), rng):
            audited = audit_round(played[number], made.store, made.reader.block_hash)

        assert audited.verdict is Verdict.MISMATCH, f"{cid} of round {number}"
        assert any(str(cid) in finding.found for finding in audited.findings), f"{cid} of round {number}"


@contextmanager
def _flipped(path: Path, rng: random.Random) -> Iterator[int]:
    """One bit of a file changed inside the block, and put back after it; answers the byte's place."""
    whole = path.read_bytes()
    at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
    try:
        yield at
    finally:
        path.write_bytes(whole)


def test_a_bundle_of_the_history_tells_the_same_and_no_byte_of_it_can_change(
    made: History, tmp_path: Path
) -> None:
    chain, path = made.task.chain, tmp_path / "history.car"
    done = export_bundle(chain.w3, CHAIN_ID, made.task.address, made.store, path, from_block=made.task.block)
    trusted = done.subject.hash

    told = verify_bundle(path, trusted)

    assert {one.played.number: one.verdict for one in told.rounds} == made.verdicts
    assert made.lost in done.missing
    rng = random.Random(SEED)
    for _ in range(30):
        with _flipped(path, rng) as at, pytest.raises((BundleError, VerificationError)) as refused:
            verify_bundle(path, trusted)
        assert str(refused.value), f"byte {at}"
