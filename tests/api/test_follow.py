"""The follower outlives everything, says what is wrong, keeps one task's trouble from the others, and recovers."""

import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from chainfl.api.app import create_app
from chainfl.api.follower import Follower
from chainfl.api.index import Index
from chainfl.api.live import Hub
from chainfl.api.settings import ApiSettings
from chainfl.api.source import EventSource, PlacedEvent, Snapshot, TaskLog
from chainfl.codec.commitments import commitment, validator_payload, worker_payload
from chainfl.errors import LedgerError, StoreError
from chainfl.protocol import events
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest, Id, Phase
from tests.api.scene import Scene, client_of, follower_of, play_plain, scene
from tests.processes import await_that

OTHER = Address(b"\x22" * 20)
Events = tuple[PlacedEvent, ...]
Alter = Callable[[Events], Events]


@dataclass(slots=True)
class Lying:
    """Two tasks with the same history; what is told of the first one may be altered."""

    source: EventSource
    alter: Alter = lambda told: told
    fails: BaseException | None = None
    behind: int = 0
    unreadable: dict[Address, str] = field(default_factory=dict)
    reread_tasks: list[Address] = field(default_factory=list)
    reread_fails: BaseException | None = None

    @property
    def chain_id(self) -> int:
        return self.source.chain_id

    def refresh(self) -> Snapshot:
        if self.fails is not None:
            raise self.fails
        told = self.source.refresh()
        ((address, log),) = told.tasks.items()
        created = replace(log.created.at_creation(), address=OTHER, task_id=2)
        other = TaskLog(created, log.created_block, resealed(created, log.events))
        return Snapshot(
            told.block_number,
            {address: replace(log, events=self.alter(log.events)), OTHER: other},
            told.block_number + self.behind,
            unreadable=dict(self.unreadable),
        )

    def reread(self, tasks: Collection[Address]) -> None:
        if self.reread_fails is not None:
            raise self.reread_fails
        self.reread_tasks += tasks

    def mix_hash(self, number: int) -> Digest | None:
        return self.source.mix_hash(number)


def resealed(task: Task, told: Sequence[PlacedEvent]) -> tuple[PlacedEvent, ...]:
    """The same history as another task's: only the commitments, which name their task, differ."""
    who = {each.event.id: each.event.account for each in told if isinstance(each.event, events.Enrolled)}
    shown = [each.event for each in told if isinstance(each.event, events.UpdateRevealed)]
    opened = [each.event for each in told if isinstance(each.event, events.ScoresRevealed)]

    def seal(event: events.UpdateRevealed | events.ScoresRevealed, phase: Phase, payload: Digest) -> Digest:
        named = (task.chain_id, task.address, task.task_id, event.round, phase, who[event.id])
        return commitment(*named, payload, event.salt)

    seals = dict[tuple[type[events.Event], int, int], Digest]()
    for update in shown:
        payload = worker_payload(update.root, update.cid, update.samples)
        seals[events.UpdateCommitted, update.round, update.id] = seal(update, Phase.TRAIN, payload)
    for scores in opened:
        roots = [one.root for one in sorted(shown, key=lambda one: one.id) if one.round == scores.round]
        payload = validator_payload(roots, scores.scores)
        seals[events.ScoresCommitted, scores.round, scores.id] = seal(scores, Phase.SCORE, payload)

    def under_its_name(placed: PlacedEvent) -> PlacedEvent:
        event = placed.event
        if not isinstance(event, events.UpdateCommitted | events.ScoresCommitted):
            return placed
        return replace(placed, event=replace(event, commitment=seals[type(event), event.round, event.id]))

    return tuple(map(under_its_name, told))


@pytest.fixture(scope="module")
def played() -> Scene:
    made = scene()
    play_plain(made.net)
    return made


@pytest.fixture
def lying(played: Scene) -> Lying:
    return Lying(played.source)


@pytest.fixture
def client(played: Scene, lying: Lying, tmp_path: Path) -> Iterator[TestClient]:
    with client_of(Scene(played.net, lying), tmp_path) as found:
        yield found


def without(kind: type[events.Event]) -> Alter:
    return lambda told: tuple(each for each in told if not isinstance(each.event, kind))


def health(client: TestClient) -> tuple[int, dict[str, object]]:
    answer = client.get("/health")
    return answer.status_code, answer.json()


# Failures of any kind


class OursError(Exception):
    """An error of nobody's tree."""


@pytest.mark.parametrize(
    "error",
    [
        LedgerError("the endpoint is away"),
        KeyError(4),
        AssertionError(),
        RecursionError("too deep"),
        MemoryError(),
        OursError("line one\nline two \udcff"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
        StopIteration(),
    ],
    ids=repr,
)
def test_whatever_fails_is_told_and_waited_out(client: TestClient, lying: Lying, error: Exception) -> None:
    lying.fails = error
    assert not follower_of(client).try_step()
    status, told = health(client)
    served = client.get("/blocks/1/1").status_code

    lying.fails = None
    assert follower_of(client).try_step()

    assert (status, told["status"], told["follower"], served) == (200, "degraded", "running", 200)
    assert told["detail"]
    assert "\n" not in str(told["detail"])
    assert health(client)[1]["status"] == "ok"


def test_the_thread_lives_on_and_comes_back_by_itself(played: Scene, lying: Lying, tmp_path: Path) -> None:
    with client_of(Scene(played.net, lying), tmp_path, poll_seconds=0.02) as client:
        lying.fails = KeyError("no such thing")
        await_that(lambda: health(client)[1]["status"] == "degraded", 20, "the trouble to be told")
        lying.fails = None
        await_that(lambda: health(client)[1]["status"] == "ok", 20, "the recovery")

        assert follower_of(client).is_alive


def test_a_task_that_does_not_fold_recovers_in_the_running_thread(
    played: Scene, lying: Lying, tmp_path: Path
) -> None:
    lying.alter = without(events.UpdateCommitted)
    with client_of(Scene(played.net, lying), tmp_path, poll_seconds=0.02) as client:
        await_that(lambda: health(client)[1]["unreadable"] == 1, 20, "the task to be named")
        lying.alter = lambda told: told
        await_that(lambda: health(client)[1]["status"] == "ok", 30, "the recovery")

        assert client.get("/index").json()["verdict"] == "ok"


# How long, and how far


def test_a_chain_out_of_reach_for_long_is_failing_with_503(
    played: Scene, lying: Lying, tmp_path: Path
) -> None:
    with client_of(Scene(played.net, lying), tmp_path, stale_seconds=1e-9) as client:
        fine = health(client)
        lying.fails = LedgerError("the endpoint is away")
        follower_of(client).try_step()
        status, told = health(client)
        retry = client.get("/health").headers["retry-after"]
        lying.fails = None
        follower_of(client).try_step()

        assert (fine[0], fine[1]["status"]) == (200, "ok")
        assert (status, told["status"], told["detail"]) == (503, "failing", "the endpoint is away")
        assert isinstance(told["seconds_behind"], float)
        assert told["seconds_behind"] > 0
        assert int(retry) > 0
        assert health(client)[0] == 200


def test_a_dead_thread_is_failing(client: TestClient) -> None:
    follower = follower_of(client)
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    running, follower._thread = follower._thread, ended

    status, told = health(client)
    follower._thread = running

    assert (status, told["status"], told["follower"]) == (503, "failing", "dead")
    assert "restart" in str(told["detail"])


def test_a_step_without_end_is_failing(played: Scene, lying: Lying, tmp_path: Path) -> None:
    with client_of(Scene(played.net, lying), tmp_path, stale_seconds=0.05) as client:
        entered, release = threading.Event(), threading.Event()

        def hang(told: Events) -> Events:
            entered.set()
            release.wait(30)
            return told

        lying.alter = hang
        stepping = threading.Thread(target=follower_of(client).try_step)
        stepping.start()
        assert entered.wait(10)
        await_that(lambda: health(client)[0] == 503, 20, "the hanging step to be told")
        detail = str(health(client)[1]["detail"])
        release.set()
        stepping.join(20)

        assert "under way" in detail
        assert health(client)[0] == 200


def test_blocks_that_are_still_to_be_read_are_counted(client: TestClient, lying: Lying) -> None:
    lying.behind = 7
    follower_of(client).try_step()
    status, told = health(client)

    assert (status, told["status"], told["blocks_behind"]) == (200, "degraded", 7)
    assert "7 blocks" in str(told["detail"])


def test_a_service_that_has_never_read_everything_is_starting(
    played: Scene, lying: Lying, tmp_path: Path
) -> None:
    lying.behind = 7
    with client_of(Scene(played.net, lying), tmp_path) as client:
        assert health(client)[1]["status"] == "starting"


def test_rows_of_an_earlier_process_stay_until_everything_is_read(
    played: Scene, lying: Lying, tmp_path: Path
) -> None:
    index = Index(tmp_path / "index.sqlite")
    follower = Follower(lying, index, Hub(1))
    follower.step()
    index.close()
    single = played.source
    assert isinstance(single.refresh(), Snapshot)

    class Half:
        """Knows only the first task so far, and that there is more to read."""

        behind = 1
        chain_id = lying.chain_id
        mix_hash = lying.mix_hash
        reread = lying.reread

        def refresh(self) -> Snapshot:
            told = single.refresh()
            return replace(told, newest=told.block_number + self.behind)

    index, half = Index(tmp_path / "index.sqlite"), Half()
    follower = Follower(half, index, Hub(1))
    follower.step()
    early = index.task_count()
    half.behind = 0
    follower.step()

    assert (early, index.task_count()) == (2, 1)
    index.close()


# One task's trouble is its own


def later(logged: PlacedEvent, event: events.Event) -> PlacedEvent:
    """Another event, right after this one."""
    return replace(logged, event=event, log_index=logged.log_index + 1)


TROUBLES: dict[str, Alter] = {
    "a kind is missing": without(events.UpdateCommitted),
    "the draw is missing": without(events.Drawn),
    "the tally is missing": without(events.Tallied),
    "the enrolments are missing": without(events.Enrolled),
    "backwards": lambda told: told[::-1],
    "the end comes first": lambda told: (told[-1], *told),
    "somebody leaves who never came": lambda told: (
        *told,
        later(told[-1], events.Left(Id(99), Address(b"\x99" * 20))),
    ),
    "a round beyond all numbers": lambda told: (
        *told,
        later(told[-1], events.TrainExtended(2**256 - 1, 2**256 - 1)),
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_does_not_fold_stays_with_its_task(
    client: TestClient, lying: Lying, played: Scene, trouble: str
) -> None:
    lying.alter = TROUBLES[trouble]
    assert follower_of(client).try_step()

    status, told = health(client)
    other = client.get("/blocks/2/1/audit?wait=30").json()
    refused = client.get("/blocks/1/1/audit")

    assert (status, told["status"], told["unreadable"]) == (200, "degraded", 1)
    assert told["unreadable_tasks"][0]["task"] == played.task  # type: ignore[index]
    assert other["state"] == "done"
    assert other["findings"][-1]["verdict"] == "ok"
    assert (refused.status_code, "cannot be read now" in refused.text) == (503, True)
    assert client.get("/blocks/1/1").status_code == 200
    assert client.get("/index").json()["unreadable"] == 1

    lying.alter = lambda told: told
    assert follower_of(client).try_step()

    assert health(client)[1]["status"] == "ok"
    assert lying.reread_tasks[-1:] == [bytes.fromhex(played.task[2:])]
    assert client.get("/blocks/1/1/audit?wait=30").json()["verdict"] == "ok"
    assert client.get("/index").json() == client.get("/index").json() | {"verdict": "ok", "unreadable": 0}


def test_tries_become_rare_while_a_task_stays_broken(client: TestClient, lying: Lying) -> None:
    lying.alter = without(events.Drawn)
    for _ in range(6):
        assert follower_of(client).try_step()

    (unread,) = follower_of(client).unread.values()

    assert unread.attempts == 2
    assert len(lying.reread_tasks) == 1
    retry = health(client)[1]["unreadable_tasks"][0]["retry_seconds"]  # type: ignore[index]
    assert retry > 0.5


def test_pauses_stay_finite_after_thousands_of_tries(client: TestClient, lying: Lying) -> None:
    lying.alter = without(events.Drawn)
    follower = follower_of(client)
    for _ in range(3):
        follower.try_step()
        follower._unread = {
            name: replace(each, attempts=5_000, again=0.0) for name, each in follower._unread.items()
        }

    assert follower.try_step()
    (unread,) = follower.unread.values()
    assert unread.attempts > 5_000


def test_a_source_that_cannot_read_a_task_anew_keeps_nobody_waiting(client: TestClient, lying: Lying) -> None:
    lying.alter = without(events.Drawn)
    lying.reread_fails = KeyError("no")
    for _ in range(2):
        assert follower_of(client).try_step()

    (unread,) = follower_of(client).unread.values()

    assert "reading it again fails" in unread.reason
    assert client.get("/blocks/2/1").status_code == 200


def test_what_the_source_itself_cannot_read_is_named(client: TestClient, lying: Lying) -> None:
    nobody = Address(b"\x33" * 20)
    lying.unreadable = {nobody: "its terms cannot be read", OTHER: "its receipt is missing"}
    assert follower_of(client).try_step()

    told = health(client)[1]
    lying.unreadable = {}
    assert follower_of(client).try_step()

    reasons = {each["task"]: each["reason"] for each in told["unreadable_tasks"]}  # type: ignore[attr-defined]
    assert reasons == {
        "0x" + nobody.hex(): "its terms cannot be read",
        "0x" + OTHER.hex(): "its receipt is missing",
    }
    assert set(lying.reread_tasks) == {nobody, OTHER}
    assert health(client)[1]["unreadable"] == 0


def test_an_index_that_fails_is_no_tasks_fault(client: TestClient, lying: Lying) -> None:
    follower = follower_of(client)
    real = follower._index
    lying.alter = lambda told: (*told[:-1], replace(told[-1], log_index=99))

    class Full:
        def write(self, *_: object, **__: object) -> None:
            raise StoreError("the disk is full")

    follower._index = Full()  # type: ignore[assignment]
    assert not follower.try_step()
    told = health(client)[1]
    follower._index = real
    assert follower.try_step()

    assert (told["status"], told["detail"], told["unreadable"]) == ("degraded", "the disk is full", 0)
    assert health(client)[1]["status"] == "ok"
    assert client.get("/index").json()["verdict"] == "ok"


def mutilate(told: Events, seed: int) -> Events:
    """Leave out, repeat, swap or move events at random."""
    chance = random.Random(seed)
    found = list(told)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found))
        what = chance.randrange(4)
        if what == 0:
            del found[at]
        elif what == 1:
            found.insert(chance.randrange(len(found)), found[at])
        elif what == 2:
            other = chance.randrange(len(found))
            found[at], found[other] = found[other], found[at]
        else:
            found[at] = replace(found[at], block_number=found[at].block_number + 5)
    return tuple(found)


def test_any_mutilated_history_leaves_the_other_task_alone_and_no_trace(
    played: Scene, lying: Lying, tmp_path: Path
) -> None:
    app = create_app(lying, played.net.store, ApiSettings(index=tmp_path / "index", poll_seconds=3600))
    follower = app.state.services.follower
    follower.step()
    rows = {task: list(app.state.services.index.rows(task)) for task in app.state.services.index.tasks()}

    for seed in range(60):
        lying.alter = lambda told, seed=seed: mutilate(told, seed)  # type: ignore[misc]
        assert follower.try_step(), seed
        assert list(app.state.services.index.rows("0x" + OTHER.hex())) == rows["0x" + OTHER.hex()]
        assert set(follower.unread) <= {played.task}

        lying.alter = lambda told: told
        follower._unread = {name: replace(each, again=0.0) for name, each in follower._unread.items()}
        assert follower.try_step(), seed
        assert follower.unread == {}
        assert list(app.state.services.index.rows(played.task)) == rows[played.task]

    app.state.services.auditor.pool.close()
    app.state.services.index.close()
