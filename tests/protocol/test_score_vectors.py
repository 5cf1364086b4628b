"""The published scores (tests/vectors): what a validator posts for what it measured, and what a committee decides."""

import json
import struct
from pathlib import Path

import pytest

from chainfl.codec.scores import ScoreKind, accuracy_score, decode_scores, loss_score, scores_length, vouches
from chainfl.protocol import shares
from chainfl.protocol.state import RevealedUpdate, Tally
from chainfl.protocol.tally import as_set, decide, entries_of, score_kind
from chainfl.types import Id, Rule, Statistic
from tests.protocol.scene import config

VECTORS = Path(__file__).parents[1] / "vectors"
KINDS = [ScoreKind.LOSS, ScoreKind.DISTANCE, ScoreKind.VOUCH]
RULES = {ScoreKind.LOSS: Rule.SOFTMAX, ScoreKind.DISTANCE: Rule.COMMITTEE_NEAR, ScoreKind.VOUCH: Rule.MEAN}
Row = dict[str, str]


def rows(name: str) -> list[Row]:
    """One dictionary per row of a published file."""
    columns = json.loads((VECTORS / name).read_text())
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def words(text: str) -> list[int]:
    """Numbers of 32 bytes each."""
    data = bytes.fromhex(text[2:])
    return [int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data), 32)]


def reveals_of(row: Row, kind: ScoreKind) -> list[bytes]:
    """The bytes of each member that revealed."""
    data, length = bytes.fromhex(row["reveals"][2:]), scores_length(kind, int(row["updates"]))
    return [data[at : at + length] for at in range(0, len(data), length)]


@pytest.mark.parametrize("row", rows("losses.json"))
def test_published_losses_and_accuracies_hold(row: Row) -> None:
    (loss,) = struct.unpack(">d", bytes.fromhex(row["float64"][2:]))

    assert loss_score(loss) == int(row["loss"])
    assert accuracy_score(int(row["correct"]), int(row["samples"])) == int(row["accuracy"])


@pytest.mark.parametrize("row", rows("scores.json"))
def test_published_decisions_of_a_committee_hold(row: Row) -> None:
    kind = KINDS[int(row["kind"])]
    reveals = reveals_of(row, kind)

    tally = decided(row, kind, reveals)

    assert as_set(tally.included) == int(row["included"])
    assert tally.head_score == int(row["head"])
    assert list(tally.deviations.values()) == words(row["deviations"])
    assert len(words(row["statistics"])) == int(row["updates"])


@pytest.mark.parametrize("row", rows("scores.json"))
def test_published_statistics_hold(row: Row) -> None:
    kind, updates = KINDS[int(row["kind"])], int(row["updates"])
    decoded = [decode_scores(kind, each, updates).entries for each in reveals_of(row, kind)]
    factor = 1 if kind is ScoreKind.DISTANCE else shares.SCORE_TO_WAD

    for i, expected in enumerate(words(row["statistics"])):
        if kind is not ScoreKind.VOUCH and int(row["included"]) >> i & 1:
            numbers = [entries[i] for entries in decoded if vouches(kind, entries[i])]
            statistic, size = Statistic(int(row["statistic"])), int(row["committee"])
            assert shares.statistic_of(numbers, statistic, factor, size) == expected
        else:
            assert expected == 0


def decided(row: Row, kind: ScoreKind, reveals: list[bytes]) -> Tally:
    """What a committee decides that revealed these scores of updates with roots that all differ."""
    rule = RULES[kind]
    terms = config(
        rule,
        committee_size=int(row["committee"]),
        statistic=Statistic(int(row["statistic"])),
        dev_cap=int(row["dev_cap"]),
        min_updates=128,
    )
    workers = [Id(1 + i) for i in range(int(row["updates"]))]
    updates = [RevealedUpdate(id_.to_bytes(32, "big"), bytes(32), 1) for id_ in workers]
    scores = {Id(1000 + j): entries_of(rule, len(workers), given) for j, given in enumerate(reveals)}

    assert score_kind(rule) is kind
    return decide(terms, bytes(32), workers, updates, scores, workers)
