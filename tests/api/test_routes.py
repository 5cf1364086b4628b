"""What the API answers about a history with a lie, a Void, silence and an open round."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from chainfl.api import schemas
from chainfl.api.settings import ApiSettings
from chainfl.codec import merkle
from chainfl.codec.cid import Cid
from chainfl.sim.memory import MemoryStore
from chainfl.workflows.model import statement_path, verify_model
from tests.api.scene import LIE_AT, Scene, client_of, play_lie, play_plain, scene
from tests.protocol.scene import address
from tests.roles.test_way_back import NOWHERE, capture, lose_head

LIAR, ACCOMPLICE = 3, 10


def get(client: TestClient, path: str) -> dict[str, object]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


def rows_of(page: dict[str, object]) -> list[dict[str, Any]]:
    items = page["items"]
    assert isinstance(items, list)
    return items


def block(client: TestClient, number: int) -> schemas.Block:
    return schemas.Block.model_validate(get(client, f"/blocks/1/{number}"))


def test_a_task_is_found_by_number_and_by_address_in_any_case(client: TestClient, made: Scene) -> None:
    by_number = client.get("/tasks/1")
    by_address = client.get(f"/tasks/{made.task}")
    shouted = client.get(f"/tasks/0x{made.task[2:].upper()}")

    assert by_number.json() == by_address.json() == shouted.json()
    task = schemas.Task.model_validate(by_number.json())
    assert (task.rounds_final, task.rounds_void, task.lies, task.phase) == (4, 1, 1, "train")


def test_a_task_that_lost_its_head_is_told_and_audited(tmp_path: Path) -> None:
    """A root without bytes that a captured committee made head, the round that left it, and one after it."""
    made = scene(rounds=6)
    play_plain(made.net)
    capture(made.net)
    lose_head(made.net)
    play_plain(made.net)

    with client_of(made, tmp_path) as client:
        audits = [get(client, f"/blocks/1/{number}/audit?wait=30") for number in range(1, 5)]
        left, task = block(client, 3), schemas.Task.model_validate(get(client, "/tasks/1"))

    assert [audit["verdict"] for audit in audits] == ["ok", "mismatch", "ok", "ok"]
    assert (left.outcome, left.head_root) == ("void", "0x" + NOWHERE.hex())
    assert [step.event for step in left.steps].count("HeadDropped") == 1
    assert task.head_root == "0x" + made.net.task.head_root.hex() != "0x" + NOWHERE.hex()


def test_the_task_adds_up_its_rounds(client: TestClient) -> None:
    task = schemas.Task.model_validate(get(client, "/tasks/1"))
    rounds = schemas.Page[schemas.RoundSummary].model_validate(get(client, "/tasks/1/rounds")).items

    assert [one.outcome for one in rounds] == ["final", "final", "final", "void", "final", "open"]
    assert int(task.paid) == sum(int(one.paid) for one in rounds)
    assert int(task.slashed) == sum(int(one.slashed) for one in rounds)
    losses = [one.head_loss for one in rounds if one.head_loss is not None]
    assert losses == sorted(losses, reverse=True)


def test_a_lie_is_shown_with_position_values_and_convictions(client: TestClient) -> None:
    lying, honest = block(client, 3).attempt_list

    assert (lying.outcome, honest.outcome) == ("lie proven", "final")
    assert lying.lie is not None
    assert (lying.lie.position, lying.lie.found - lying.lie.expected) == (LIE_AT, 1)
    assert [(c.account.id, c.part) for c in lying.lie.convictions] == [
        (LIAR, "proposed"),
        (ACCOMPLICE, "attested"),
    ]
    for conviction in lying.lie.convictions:
        split = (conviction.burned, conviction.to_escrow, conviction.to_finder)
        assert int(conviction.slashed) == sum(map(int, split))


def test_a_void_round_has_no_model_and_no_pay(client: TestClient) -> None:
    void = block(client, 4)

    assert (void.outcome, void.model_root, void.block, void.paid) == ("void", None, None, "0")
    assert any("once more" in step.text for step in void.steps)


def test_silence_is_told_apart_by_phase_and_kind(client: TestClient) -> None:
    slashes = block(client, 5).slashes

    assert [(s.phase, s.kind) for s in slashes] == [("reveal", "no-reveal"), ("challenge", "liveness")]
    hidden = next(u for u in block(client, 5).updates if u.worker == slashes[0].account)
    assert (hidden.root, hidden.included, hidden.share) == (None, None, None)


def test_shares_of_a_round_are_the_whole(client: TestClient) -> None:
    answer = schemas.ShareTable.model_validate(get(client, "/blocks/1/2/shares"))

    assert sum(share.share for share in answer.shares) == 2**31
    assert answer.decided_by == "contract"


def test_parts_of_a_block_have_routes_of_their_own(client: TestClient) -> None:
    whole = client.get("/blocks/1/2").json()

    for part in ("updates", "scores", "shares"):
        assert client.get(f"/blocks/1/2/{part}").json() == whole[part]


def test_rewards_of_a_round_add_up_to_what_its_end_says(client: TestClient, made: Scene) -> None:
    page = schemas.Page[schemas.Reward].model_validate(get(client, "/tasks/1/rewards?round=3&limit=500"))
    by_kind = {
        kind: sum(int(row.amount) for row in page.items if row.kind == kind)
        for kind in ("worker", "validator", "miner")
    }

    ended = get(client, "/tasks/1/events?round=3&event=RoundEnded")["items"]
    assert isinstance(ended, list)
    values = ended[0]["values"]
    assert by_kind == {
        "worker": int(values["workers_paid"]),
        "validator": int(values["committee_paid"]),
        "miner": int(values["miner_paid"]),
    }
    assert made.task == page.items[0].task


def test_a_participant_is_followed_through_its_rounds(client: TestClient) -> None:
    account = "0x" + LIAR.to_bytes(20, "big").hex()

    one = schemas.Participant.model_validate(get(client, f"/tasks/1/participants/{account}"))
    parts = schemas.Page[schemas.Part].model_validate(get(client, f"/tasks/1/participants/{account}/rounds"))
    everywhere = get(client, f"/participants/{account}")["items"]

    assert everywhere == [one.model_dump()]
    assert one.rounds == len(parts.items)
    assert int(one.earned) == sum(int(part.earned) for part in parts.items)
    guilty = next(part for part in parts.items if part.convicted)
    assert (guilty.round, guilty.roles, guilty.slashed) == (3, ["miner"], one.slashed)


def test_stakes_after_the_last_movement_are_the_participants(client: TestClient) -> None:
    moves = schemas.Page[schemas.StakeChange].model_validate(get(client, "/tasks/1/stakes?limit=500")).items
    people = (
        schemas.Page[schemas.Participant].model_validate(get(client, "/tasks/1/participants?limit=500")).items
    )

    last = {move.account: move.bonded for move in moves}

    assert last == {person.account: person.bonded for person in people}


def test_gas_of_a_round_is_that_of_its_transactions(client: TestClient) -> None:
    rows = schemas.Page[schemas.Gas].model_validate(get(client, "/tasks/1/gas?round=2&limit=500")).items

    assert sum(row.gas for row in rows) == block(client, 2).gas
    assert sum(line.gas for line in block(client, 2).gas_by_action) == block(client, 2).gas


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_every_round_is_verified(client: TestClient, number: int) -> None:
    audit = schemas.Audit.model_validate(get(client, f"/blocks/1/{number}/audit"))

    assert (audit.state, audit.verdict) == ("done", "ok")
    assert {finding.verdict for finding in audit.findings} == {"ok"}
    assert audit.findings[-1].check == "index"


def test_verdicts_are_kept_for_settled_rounds_only(client: TestClient) -> None:
    for number in (5, 6):
        get(client, f"/blocks/1/{number}/audit")

    kept = schemas.Page[schemas.AuditLine].model_validate(get(client, "/tasks/1/audits")).items

    assert 5 in [line.round for line in kept]
    assert 6 not in [line.round for line in kept]


def test_evidence_leads_to_the_roots_and_shows_the_wrong_parameter(client: TestClient) -> None:
    leaf = merkle.leaf_of(LIE_AT)

    lying = schemas.Evidence.model_validate(get(client, f"/blocks/1/3/proof/{leaf}?attempt=1"))
    honest = schemas.Evidence.model_validate(get(client, f"/blocks/1/3/proof/{leaf}"))

    assert [wrong.position for wrong in lying.wrong] == [LIE_AT]
    assert (honest.attempt, honest.wrong) == (2, [])
    assert [path.what for path in lying.paths] == ["model"] + ["update"] * 8
    for path in (*lying.paths, *honest.paths):
        siblings = [bytes.fromhex(each[2:]) for each in path.siblings]
        merkle.verify(bytes.fromhex(path.root[2:]), lying.depth, leaf, bytes.fromhex(path.leaf[2:]), siblings)


def test_a_final_rounds_model_is_a_file_with_its_statement(
    client: TestClient, made: Scene, tmp_path: Path
) -> None:
    answer = client.get("/blocks/1/2/model.safetensors")
    out = tmp_path / "round-2.safetensors"
    out.write_bytes(answer.content)
    statement_path(out).write_bytes(client.get("/blocks/1/2/model.safetensors.intoto.json").content)

    done = verify_model(out)
    model_root = block(client, 2).model_root
    last = (
        schemas.Page[schemas.EventRow].model_validate(get(client, "/tasks/1/events?round=2&limit=500")).items
    )

    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="round-2.safetensors"'
    assert "0x" + done.file.about.root.hex() == model_root
    assert "0x" + done.file.about.task.hex() == made.task
    assert done.statement is not None
    assert done.statement.claims["block"]["hash"] == last[-1].block_hash


def test_a_round_that_made_no_model_has_no_file(client: TestClient) -> None:
    for number in (4, 6):
        answer = client.get(f"/blocks/1/{number}/model.safetensors")

        assert answer.status_code == 404
        assert "made no model" in answer.json()["detail"]


def test_pages_follow_one_another_without_gap_or_repeat(client: TestClient) -> None:
    whole = client.get("/tasks/1/events?limit=500").json()["items"]
    found: list[object] = []
    after = ""
    while True:
        page = client.get(f"/tasks/1/events?limit=37{after}").json()
        found += page["items"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"

    assert found == whole
    newest = client.get("/tasks/1/events?limit=5&order=newest").json()["items"]
    assert newest == whole[::-1][:5]


def test_filters_choose_rows(client: TestClient) -> None:
    account = "0x" + LIAR.to_bytes(20, "big").hex()

    lies = client.get(f"/tasks/1/slashes?kind=lie&account={account}").json()["items"]
    voids = client.get("/tasks/1/rounds?outcome=void").json()["items"]
    none = client.get("/tasks?rule=median").json()["items"]

    assert [row["account"]["id"] for row in lies] == [LIAR]
    assert [row["round"] for row in voids] == [4]
    assert none == []


def test_what_the_client_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/blocks/1/2")
    again = client.get("/blocks/1/2", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
    other = client.get("/blocks/1/2", headers={"If-None-Match": '"other"'})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert other.status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/tasks/9", 404, "not-found"),
        ("/tasks/0x" + "9" * 40, 404, "not-found"),
        ("/tasks/zero", 400, "input"),
        ("/blocks/1/7", 404, "not-found"),
        ("/blocks/1/0", 400, "input"),
        ("/blocks/1/7/audit", 404, "not-found"),
        ("/blocks/1/4/proof/0", 404, "not-found"),
        ("/blocks/1/3/proof/4", 400, "input"),
        ("/tasks/1/events?limit=0", 400, "input"),
        ("/tasks/1/participants/0x" + "9" * 40, 404, "not-found"),
        ("/nowhere", 404, "not-found"),
    ],
)
def test_refusals_are_problems(client: TestClient, path: str, status: int, kind: str) -> None:
    answer = client.get(path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = schemas.Problem.model_validate(answer.json())
    assert (problem.status, problem.type) == (status, f"urn:chainfl:{kind}")
    assert problem.detail


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_route_changes_anything(client: TestClient, method: str) -> None:
    document = client.get("/openapi.json").json()

    assert {verb for path in document["paths"].values() for verb in path} == {"get"}
    assert client.request(method, "/tasks").status_code == 405


def test_huge_requests_are_refused_before_they_are_read(client: TestClient) -> None:
    assert client.request("GET", "/tasks", content=b"x" * 10).status_code == 413
    assert client.get("/tasks?rule=" + "x" * 5000).status_code == 414


def test_every_answer_carries_the_strict_policy(client: TestClient) -> None:
    for path in ("/", "/tasks", "/static/app.js", "/nowhere"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy


def test_the_stream_says_hello_and_ends_when_asked(client: TestClient) -> None:
    answer = client.get("/live?seconds=0")

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("id: ")
    assert "event: hello" in answer.text


def test_the_openapi_document_has_examples_and_problems(client: TestClient) -> None:
    document = client.get("/openapi.json").json()

    for path, operations in document["paths"].items():
        described = operations["get"]
        assert described["description"], path
        for parameter in described.get("parameters", []):
            has_example = "examples" in parameter or "example" in parameter or "enum" in str(parameter)
            assert has_example or "examples" in parameter["schema"] or "pattern" in str(parameter), path
        assert "application/problem+json" in str(described["responses"]), path


def test_what_a_finder_gets_for_a_proven_lie_is_part_of_what_it_earned(tmp_path: Path) -> None:
    noted = scene()
    finder = address(12)
    play_plain(noted.net)
    play_lie(noted.net, finder)
    with client_of(noted, tmp_path) as client:
        name = "0x" + finder.hex()
        rewards = rows_of(get(client, f"/tasks/1/rewards?account={name}"))
        bounty = [row for row in rewards if row["kind"] == "finder"]
        slashed = rows_of(get(client, "/tasks/1/slashes?kind=lie"))

        assert len(bounty) == len(slashed) == 2
        total = sum(int(row["amount"]) for row in bounty)
        assert total == sum(int(row["to_finder"]) for row in slashed) > 0

        one = schemas.Participant.model_validate(get(client, f"/tasks/1/participants/{name}"))
        parts = rows_of(get(client, f"/tasks/1/participants/{name}/rounds"))
        assert int(one.earned) == sum(int(row["amount"]) for row in rewards)
        assert int(one.earned) == sum(int(part["earned"]) for part in parts)
        assert "finder" in parts[-1]["roles"]

        # A liar's stake is not paid by the task.
        played = schemas.RoundSummary.model_validate(rows_of(get(client, "/tasks/1/rounds"))[1])
        others = rows_of(get(client, "/tasks/1/rewards?round=2&limit=500"))
        assert int(played.paid) == sum(
            int(row["amount"]) for row in others if row["kind"] not in ("finder", "caller")
        )


def test_the_manifest_says_what_a_task_trains(client: TestClient) -> None:
    found = schemas.Manifest.model_validate(get(client, "/tasks/1/manifest"))

    assert (found.model, found.dataset, found.digest) == ("quadratic", "points", None)
    assert (found.settings["learning_rate"], found.settings["batch"]) == ("0.5", "1")
    assert [(one.name, one.shape, one.first) for one in found.tensors] == [("w", [200], 0)]
    assert get(client, "/tasks/1/manifest") == found.model_dump()


def test_a_manifest_that_nobody_has_is_said_to_be_missing(tmp_path: Path) -> None:
    made = scene()
    play_plain(made.net)
    assert isinstance(made.net.store, MemoryStore)
    del made.net.store._blobs[Cid.dag_cbor(made.net.task.config.manifest)]
    with client_of(made, tmp_path) as client:
        answer = client.get("/tasks/1/manifest")

        assert answer.status_code == 503
        assert "these bytes were never stored" in answer.json()["detail"]


def test_everything_that_has_a_name_is_found_by_it(client: TestClient, made: Scene) -> None:
    block = schemas.Block.model_validate(get(client, "/blocks/1/3"))
    task = schemas.Task.model_validate(get(client, "/tasks/1"))
    update = block.updates[0]
    drawn = block.draw
    assert drawn is not None
    assert update.root is not None

    def found(name: str) -> list[tuple[object, object, object]]:
        hits = [schemas.Hit.model_validate(row) for row in rows_of(get(client, f"/search?q={name}"))]
        return [(hit.what, hit.text, hit.round) for hit in hits]

    assert found("1") == found(made.task) == [("task", "task 1", None)]
    assert found(task.sponsor) == [("sponsor", "sponsor of task 1", None)]
    assert found(update.worker.account) == [
        ("participant", f"participant {update.worker.id} of task 1", None)
    ]
    assert found(update.root) == [
        ("record", f"root of participant {update.worker.id}'s update in round 3", 3)
    ]
    assert found(update.root.upper().replace("0X", "0x")) == found(update.root)
    assert found(str(block.block)) == [("record", "block of attempt 2 in round 3", 3)]
    assert found(drawn.place.transaction) == [("transaction", "transaction: Drawn", 3)]
    assert found(task.terms.manifest) == [("record", "manifest of the task", None)]
    assert found("0x" + "77" * 32) == found("0x" + "77" * 20) == found("99") == []
    assert client.get("/search?q=nonsense").status_code == 400


def test_the_server_says_which_explorer_its_dashboard_links_to(made: Scene, tmp_path: Path) -> None:
    with client_of(made, tmp_path, explorer="https://explorer.example/") as client:
        assert get(client, "/about")["explorer"] == "https://explorer.example"
    with pytest.raises(ValueError, match="explorer"):
        ApiSettings.model_validate({"explorer": "javascript:alert(1)"})
