"""Every rule's rounds are shown, verified and proven alike."""

from pathlib import Path

import pytest

from chainfl.api import schemas
from chainfl.types import Rule
from tests.api.scene import client_of, play_lie, play_plain, scene


@pytest.mark.parametrize("rule", Rule)
def test_rounds_of_every_rule_are_shown_verified_and_proven(rule: Rule, tmp_path: Path) -> None:
    made = scene(rule)
    play_plain(made.net)
    play_lie(made.net)

    with client_of(made, tmp_path) as client:
        plain, lying = (schemas.Block.model_validate(client.get(f"/blocks/1/{n}").json()) for n in (1, 2))
        verdicts = [client.get(f"/blocks/1/{number}/audit").json()["verdict"] for number in (1, 2)]
        proofs = [client.get(f"/blocks/1/{where}").json() for where in ("2/proof/1?attempt=1", "1/proof/1")]

    assert verdicts == ["ok", "ok"]
    assert plain.shares is not None
    assert sum(share.share for share in plain.shares.shares) == 2**31
    assert plain.shares.decided_by == ("proposer" if rule.is_attested else "contract")
    # A committee that elects proposes too: with two of three convicted nobody is left to vote, and the round is void.
    outcomes = ["lie proven"] if rule.is_elected else ["lie proven", "final"]
    assert [attempt.outcome for attempt in lying.attempt_list] == outcomes
    assert lying.outcome == ("void" if rule.is_elected else "final")
    assert [len(proof["wrong"]) for proof in proofs] == [1, 0]
    assert {part["what"] for part in proofs[0]["paths"]} >= {"model", "update"}


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.MEDIAN])
def test_the_updates_of_an_appointed_committee_count_by_the_word_of_the_others(
    rule: Rule, tmp_path: Path
) -> None:
    made = scene(rule, internals=3)
    play_plain(made.net)

    with client_of(made, tmp_path) as client:
        block = schemas.Block.model_validate(client.get("/blocks/1/1").json())
        account = client.get(f"/tasks/1/participants/{block.updates[0].worker.account}/rounds").json()

    assert [update.worker.id for update in block.updates][:3] == [1, 2, 3]
    assert not any(update.member for update in block.updates)
    assert all(update.included for update in block.updates)
    assert [update.vouches for update in block.updates] == [2] * 3 + [3] * (len(block.updates) - 3)
    assert account["items"][0]["roles"] == ["validator", "worker"]
    assert {reward.id for reward in block.rewards if reward.kind == "worker"}.isdisjoint({1, 2, 3})
