"""The index is what the events give: after restarts, after reorgs, and when somebody changes it."""

import json
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from chainfl.api.follower import Follower
from chainfl.api.index import Index
from chainfl.api.indexer import TaskLine
from chainfl.api.live import Hub
from chainfl.api.past import KEPT_STATES
from chainfl.api.source import EventSource, Snapshot
from chainfl.audit.history import rounds
from chainfl.errors import LedgerError, StoreError
from chainfl.types import Address, Digest, Phase
from tests.api.scene import (
    Scene,
    client_of,
    follower_of,
    history,
    lose_update,
    play_lie,
    play_open,
    play_plain,
    play_void,
    scene,
)


class FixedSource:
    """A source that says what it is told to say."""

    def __init__(self, source: EventSource) -> None:
        self.source, self.snapshot = source, source.refresh()
        self.chain_id = source.chain_id
        self.trouble = ""

    def refresh(self) -> Snapshot:
        if self.trouble:
            raise LedgerError(self.trouble)
        return self.snapshot

    def reread(self, tasks: Collection[Address]) -> None:
        """Nothing is kept that could be read anew."""

    def mix_hash(self, number: int) -> Digest | None:
        return self.source.mix_hash(number)


def dump(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM rows ORDER BY task, kind, number").fetchall()


def followed(source: EventSource, path: Path) -> tuple[Follower, Index]:
    index = Index(path)
    follower = Follower(source, index, Hub(1))
    follower.step()
    return follower, index


def test_event_by_event_gives_the_same_index_as_all_at_once(made: Scene, tmp_path: Path) -> None:
    whole = made.source.refresh()
    fixed = FixedSource(made.source)
    ((address, log),) = whole.tasks.items()

    slow = Index(tmp_path / "slow")
    follower = Follower(fixed, slow, Hub(1))
    blocks = sorted({event.block_number for event in log.events})
    for number in blocks:
        seen = tuple(event for event in log.events if event.block_number <= number)
        fixed.snapshot = Snapshot(number, {address: type(log)(log.created, log.created_block, seen)})
        follower.step()
    _, quick = followed(made.source, tmp_path / "quick")

    assert dump(tmp_path / "slow") == dump(tmp_path / "quick")
    slow.close()
    quick.close()


def test_rounds_are_cut_as_the_audit_cuts_them(made: Scene) -> None:
    (log,) = made.source.refresh().tasks.values()
    line = TaskLine(log)

    line.extend(log.events)

    expected = list(rounds(log.created, log.events))
    found = [line.round(number) for number in range(1, 7)]
    assert found == expected
    assert line.round(7) is None


def test_the_past_is_kept_in_few_states_however_many_rounds_there_were() -> None:
    made = scene(rounds=80)
    for _ in range(70):
        play_void(made.net)
    (log,) = made.source.refresh().tasks.values()
    line = TaskLine(log)

    kept = []
    for logged in log.events:
        line.extend((logged,))
        kept.append(line.past.states)

    assert KEPT_STATES / 2 < kept[-1] <= max(kept) <= KEPT_STATES
    assert len(line.past) == 70
    assert [line.round(number) for number in range(1, 71)] == list(rounds(log.created, log.events))[:70]


def test_a_reorg_leaves_no_trace_of_what_is_gone(tmp_path: Path) -> None:
    one, other = scene(), scene()
    for made in (one, other):
        play_plain(made.net)
    play_lie(one.net)
    other.net.chain.now += 5
    play_void(other.net)
    play_open(other.net, Phase.TRAIN)
    fixed = FixedSource(one.source)
    follower, index = followed(fixed, tmp_path / "reorged")

    fixed.snapshot = other.source.refresh()
    follower.step()

    _, fresh = followed(other.source, tmp_path / "fresh")
    assert dump(tmp_path / "reorged") == dump(tmp_path / "fresh")
    assert follower.round(other.task, 2) is not None
    index.close()
    fresh.close()


def test_a_task_whose_creation_is_undone_disappears(made: Scene, tmp_path: Path) -> None:
    fixed = FixedSource(made.source)
    follower, index = followed(fixed, tmp_path / "index")

    fixed.snapshot = Snapshot(1, {})
    follower.step()

    assert dump(tmp_path / "index") == []
    index.close()


def test_a_restart_repairs_what_was_changed_meanwhile(made: Scene, tmp_path: Path) -> None:
    _, index = followed(made.source, tmp_path / "index")
    right = dump(tmp_path / "index")
    index.close()
    with closing(sqlite3.connect(tmp_path / "index")) as connection, connection:
        connection.execute("UPDATE rows SET document = '{}' WHERE kind = 'block' AND number = 2")
        connection.execute("DELETE FROM rows WHERE kind = 'event' AND number = 3")

    _, again = followed(made.source, tmp_path / "index")

    assert dump(tmp_path / "index") == right
    again.close()


@pytest.mark.parametrize(
    ("kind", "number", "field", "value"),
    [
        ("block", 2, "included", 7),
        ("round", 2, "paid", "1"),
        ("event", 40, "log_index", 99),
        ("task", 1, "lies", 0),
        ("participant", 3, "slashed", "0"),
        ("slash", 3_000_000, "amount", "5"),
        ("reward", 3_000_004, "amount", "5"),
        ("gas", 0, "gas", 1),
        ("stake", 0, "bonded", "3"),
    ],
)
def test_a_changed_value_is_found_and_named(
    made: Scene, tmp_path: Path, kind: str, number: int, field: str, value: object
) -> None:
    with client_of(made, tmp_path) as client:
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection, connection:
            where = "WHERE kind = ? AND number = ?"
            document, round_ = connection.execute(
                f"SELECT document, round FROM rows {where}", (kind, number)
            ).fetchone()
            changed = json.dumps(json.loads(document) | {field: value})
            connection.execute(f"UPDATE rows SET document = ? {where}", (changed, kind, number))

        audit = client.get(f"/blocks/1/{round_ or 2}/audit").json()

    finding = audit["findings"][-1]
    assert audit["verdict"] == finding["verdict"] == "mismatch"
    assert finding["expected"].startswith(f"{kind} {number}: {field} = ")
    assert finding["found"] == json.dumps(value)


def test_a_removed_and_an_invented_row_are_found(made: Scene, tmp_path: Path) -> None:
    with client_of(made, tmp_path) as client:
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection, connection:
            connection.execute("DELETE FROM rows WHERE kind = 'slash' AND round = 3")
            connection.execute(
                "INSERT INTO rows SELECT task, kind, 77, 1, account, name, document FROM rows "
                "WHERE kind = 'reward' AND round = 2 LIMIT 1"
            )

        removed = client.get("/blocks/1/3/audit").json()["findings"][-1]
        invented = client.get("/blocks/1/1/audit").json()["findings"][-1]

    assert (removed["verdict"], removed["found"]) == ("mismatch", "nothing")
    assert invented["expected"] == "reward 77 = no such row"


@pytest.mark.parametrize(
    "forgery",
    [
        "UPDATE audits SET document = replace(document, '\"ok\"', '\"mismatch\"')",
        "UPDATE audits SET verdict = 'mismatch'",
        "UPDATE audits SET seal = ''",
        "UPDATE audits SET seal = CAST(x'ff00' AS TEXT)",
        "UPDATE audits SET round = 7",
    ],
)
def test_a_forged_verdict_is_not_believed(made: Scene, tmp_path: Path, forgery: str) -> None:
    with client_of(made, tmp_path) as client:
        assert client.get("/blocks/1/2/audit").json()["verdict"] == "ok"
        kept = client.get("/tasks/1/audits").json()["items"]

        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection, connection:
            connection.execute(forgery)

        assert [line["round"] for line in kept] == [2]
        assert client.get("/tasks/1/audits").json()["items"] == []
        assert client.get("/index").json()["differences"][0]["where"].startswith("verdict on round")
        assert client.get("/blocks/1/2/audit").json()["verdict"] == "ok"


def test_verdicts_of_an_earlier_process_are_reached_anew(made: Scene, tmp_path: Path) -> None:
    with client_of(made, tmp_path) as client:
        client.get("/blocks/1/2/audit")

    with client_of(made, tmp_path) as client:
        assert client.get("/tasks/1/audits").json()["items"] == []
        assert client.get("/index").json()["verdict"] == "ok"


def test_rows_that_are_moved_removed_or_invented_are_found_in_the_whole_index(
    made: Scene, tmp_path: Path
) -> None:
    with client_of(made, tmp_path) as client:
        with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection, connection:
            connection.execute("UPDATE rows SET number = 99 WHERE kind = 'block' AND number = 2")
            connection.execute("UPDATE rows SET account = '0x00' WHERE kind = 'part' AND number = 1000000")
            connection.execute("UPDATE rows SET document = 'no JSON' WHERE kind = 'gas' AND number = 0")
            connection.execute(
                "UPDATE rows SET document = CAST(x'22ff22' AS TEXT) WHERE kind = 'event' AND number = 0"
            )
            connection.execute("UPDATE rows SET task = '0x01' WHERE kind = 'stake' AND number = 0")

        fixed = client.get("/index").json()

    assert fixed["verdict"] == "mismatch"
    found = {each["where"]: (each["expected"], each["found"]) for each in fixed["differences"]}
    assert found["block 2"] == ("a row", "nothing")
    assert found["block 99"][0] == "no such row"
    assert found["part 1000000: account"][1] == "0x00"
    assert found["gas 0"][1] == "no JSON"
    assert found["event 0"][1] == json.dumps("\ufffd")
    assert found["stake 0"] == ("a row", "nothing")
    assert found["task 0x01"] == ("no such task", "rows of it")


def test_bytes_that_are_gone_are_named_and_looked_for_again(tmp_path: Path) -> None:
    made = history()
    cid = lose_update(made.net, 2)
    with client_of(made, tmp_path) as client:
        audit = client.get("/blocks/1/2/audit").json()
        proof = client.get("/blocks/1/2/proof/0")

        assert audit["verdict"] == "data unavailable"
        assert cid in audit["findings"][2]["found"]
        assert proof.status_code == 503
        assert cid in proof.json()["detail"]
        assert client.get("/tasks/1/audits").json()["items"] == []


def test_a_chain_that_fails_is_waited_for_and_the_index_still_answers(made: Scene, tmp_path: Path) -> None:
    fixed = FixedSource(made.source)
    with client_of(Scene(made.net, fixed), tmp_path) as client:
        fixed.trouble = "the endpoint does not answer"
        follower_of(client).try_step()
        behind = client.get("/health").json()
        answer = client.get("/blocks/1/3")
        fixed.trouble = ""
        follower_of(client).try_step()

        assert (behind["status"], behind["detail"]) == ("degraded", "the endpoint does not answer")
        assert answer.status_code == 200
        assert client.get("/health").json()["status"] == "ok"


def test_an_index_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(b"not a database at all, but long enough to look like one" * 40)

    with pytest.raises(StoreError, match="delete the file"):
        Index(tmp_path / "index")


def test_new_rounds_appear_while_the_app_runs(tmp_path: Path) -> None:
    made = scene()
    play_plain(made.net)
    with client_of(made, tmp_path) as client:
        before = rounds_of(client)
        play_plain(made.net)
        follower_of(client).step()

        assert (before, rounds_of(client)) == ([1, 2], [1, 2, 3])


def rounds_of(client: TestClient) -> list[int]:
    return [row["round"] for row in client.get("/tasks/1/rounds").json()["items"]]
