"""What the API answers about a history with a lie, a Void, silence and an open round."""

import pytest
from fastapi.testclient import TestClient

from chainfl.api import schemas
from chainfl.codec import merkle
from tests.api.scene import LIE_AT, Scene

LIAR, ACCOMPLICE = 3, 10


def get(client: TestClient, path: str) -> dict[str, object]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


def block(client: TestClient, number: int) -> schemas.Block:
    return schemas.Block.model_validate(get(client, f"/blocks/1/{number}"))


def test_a_task_is_found_by_number_and_by_address_in_any_case(client: TestClient, made: Scene) -> None:
    by_number = client.get("/tasks/1")
    by_address = client.get(f"/tasks/{made.task}")
    shouted = client.get(f"/tasks/0x{made.task[2:].upper()}")

    assert by_number.json() == by_address.json() == shouted.json()
    task = schemas.Task.model_validate(by_number.json())
    assert (task.rounds_final, task.rounds_void, task.lies, task.phase) == (4, 1, 1, "train")


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
