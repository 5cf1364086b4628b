"""The published scores (tests/vectors): what a validator posts for what it measured, and what a committee decides."""

import json
import struct
from pathlib import Path

import pytest

from chainfl.codec.scores import ScoreKind, accuracy_score, decode_scores, loss_score, scores_length, vouches
from chainfl.protocol import shares
from chainfl.protocol.draw import Drawn
from chainfl.protocol.state import Round, Scores, Task, Update, new_task
from chainfl.protocol.tally import decide, score_kind
from chainfl.types import Address, Id, Rule, Statistic
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
    kind, updates = KINDS[int(row["kind"])], int(row["updates"])
    reveals = reveals_of(row, kind)
    task = judged(row, kind, reveals)

    decide(task)

    assert task.round.tally is not None
    assert sum(1 << i for i, counts in enumerate(task.round.tally.included) if counts) == int(row["included"])
    assert task.round.tally.head_score == int(row["head"])
    assert list(task.round.tally.deviations.values()) == words(row["deviations"])
    assert len(words(row["statistics"])) == updates


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


def judged(row: Row, kind: ScoreKind, reveals: list[bytes]) -> Task:
    """A task whose committee has revealed these scores of updates with roots that all differ."""
    terms = config(
        RULES[kind],
        committee_size=int(row["committee"]),
        statistic=Statistic(int(row["statistic"])),
        dev_cap=int(row["dev_cap"]),
        min_updates=128,
    )
    task = new_task(1, Address(bytes(20)), 1, Address(bytes(20)), terms, 0, 1)
    members = [Id(1000 + j) for j in range(terms.committee_size)]
    workers = [Id(1 + i) for i in range(int(row["updates"]))]
    task.round = Round(1, drawn=Drawn(tuple(members), (), None), order=tuple(workers))
    task.round.updates = {id_: Update(bytes(32), id_.to_bytes(32, "big"), bytes(32), 1) for id_ in workers}
    task.round.scores = {
        member: Scores(bytes(32), scores) for member, scores in zip(members, reveals, strict=False)
    }
    assert score_kind(terms.rule) is kind
    return task
