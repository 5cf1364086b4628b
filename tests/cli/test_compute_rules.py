import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from chainfl.cli import run
from chainfl.cli.compute import compute
from chainfl.cli.compute_rules import draw, elect, reward, shares
from chainfl.cli.inputs import Json
from chainfl.codec.commitments import draw_seed, keccak256
from chainfl.errors import ChainflError
from chainfl.types import TOTAL, WAD, Phase, Rule
from tests.protocol import test_appointed as committees
from tests.protocol.scene import Scene, config, scene

ROOT = Path(__file__).resolve().parents[2]
REPORT = Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / "report.json").read_text()))
SEED = "0x" + keccak256(b"seed").hex()

DRAW: dict[str, Json] = {"seed": SEED, "weights": [1] * 6, "committee_size": 3, "max_updates": 8}

Answer = Mapping[str, Any]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


def words(roots: list[bytes]) -> list[Json]:
    return ["0x" + root.hex() for root in roots]


def question_of(played: Scene) -> dict[str, Json]:
    """What an outsider reads off the chain after the reveals of a round."""
    task, terms = played.task, played.task.config
    return {
        "rule": terms.rule.name_text,
        "committee_size": terms.committee_size,
        "scores": words([s.revealed for s in task.round.scores.values() if s.revealed]),
        "updates": len(task.round.order),
        "ids": [int(id_) for id_ in task.round.order],
        "weights": [task.by_id(id_).weight for id_ in task.round.order],
        "samples": [task.round.revealed(id_).samples for id_ in task.round.order],
        "roots": words([task.round.revealed(id_).root for id_ in task.round.order]),
        "head_root": "0x" + task.head_root.hex(),
        "beta": terms.beta,
        "alpha": str(terms.alpha),
        "tolerated": terms.tolerated,
        "keep": max(1, terms.keep),
        "min_updates": terms.min_updates,
        "dev_cap": hex(terms.dev_cap),
    }


def tallied(rule: Rule) -> tuple[dict[str, Json], Scene]:
    """A round after its tally, and what was known before it."""
    alpha = WAD if rule is Rule.VARSEL else 88 * WAD // 100
    played = scene(config(rule, alpha=alpha), stakes=(1, 2, 3) * 4)
    played.to(Phase.TALLY)
    for member in played.committee():
        played.reveal_scores(member)
    question = question_of(played)
    played.tally()
    return question, played


@pytest.mark.parametrize("rule", Rule)
def test_shares_are_those_of_the_round(rule: Rule) -> None:
    question, played = tallied(rule)
    expected = played.task.round.tally
    assert expected is not None

    answer = shares(question)

    assert answer["included"] == list(expected.included)
    assert answer["shares"] == list(expected.shares)
    assert answer["head_score"] == expected.head_score
    assert sorted(answer["deviations"]) == sorted(expected.deviations.values())


@pytest.mark.parametrize("rule", [Rule.COMMITTEE_NEAR, Rule.COMMITTEE_FAR])
def test_the_elected_are_those_of_the_round(rule: Rule) -> None:
    question, played = tallied(rule)

    assert elect(question)["elected"] == list(played.task.elected or ())


def test_an_election_takes_the_middle_and_needs_enough_who_are_staked() -> None:
    question: dict[str, Json] = {"committee_size": 3, "scores": [[9, 50, 10, 40, 20, 30]] * 2}

    assert elect(question)["elected"] == [4, 5, 3]
    assert elect(question | {"weights": [1, 1, 0, 1, 1]})["elected"] == [2, 4, 5]
    assert elect(question | {"weights": [1, 0, 0, 0, 1]})["elected"] is None


def test_scores_may_be_arrays_with_null_for_what_is_not_available() -> None:
    answer = shares({"committee_size": 3, "scores": [[None, 10**12, 5], [7, 10**12, None]]})

    assert answer == {
        "included": [True, False],
        "shares": [0, TOTAL, 0],
        "head_score": None,
        "deviations": [0, 0],
    }


def test_varsels_shares_follow_from_distances_and_internals() -> None:
    """Two internals 4 apart, and one external 3 and 10 from their middle, as in tests/protocol/test_varsel.py."""
    question: dict[str, Json] = {
        "committee_size": 3,
        "rule": "varsel",
        "budget": 1,
        "scores": [[9, 1, 1, 1, 0]] * 2,
        "internals": [True, True, False, False],
    }
    near: list[Json] = [[0, 16, 9], [16, 0, 1], [9, 1, 0]]

    assert shares(question)["shares"] == []
    equal = shares(question | {"distances": near})["shares"]
    nobody = shares(question | {"distances": near, "internals": [False] * 4})["shares"]
    none = shares(question | {"distances": near, "budget": 0})["shares"]

    assert equal == [0, 715827884, 715827882, 715827882, 0]
    assert (nobody, none) == ([], [0, 2**30, 2**30, 0, 0])
    with pytest.raises(ChainflError, match="internals: 2 for 4 updates"):
        shares(question | {"distances": near, "internals": [True, False]})


@pytest.mark.parametrize("rule", [Rule.SOFTMAX, Rule.MEAN])
@pytest.mark.parametrize("internals", [2, 4, 5])
def test_an_appointed_committee_of_any_number_decides_as_in_the_round(rule: Rule, internals: int) -> None:
    """Members praise their own updates, are at odds over the others', and the first one reveals nothing if it can."""
    played = committees.enrol(committees.appointed(rule, internals, min_updates=2), internals)
    played.to(Phase.SCORE)
    people = list(zip(played.task.round.committee, played.committee(), strict=True))
    loss = 1 if rule is Rule.MEAN else 10**11
    opinions = {
        id_: committees.said(played, {int(id_): 1, internals + 1: loss * (id_ % 2) or None})
        for id_, _ in people
    }
    silent = people[: internals > 2]
    for id_, member in people:
        played.commit_scores(member, opinions[id_])
    played.advance()
    for id_, member in people[len(silent) :]:
        played.reveal_scores(member, opinions[id_])
    question = question_of(played)
    to_tell = [int(id_) for id_, _ in [*people[len(silent) :], *silent]]
    question |= {"committee_size": internals, "appointed": list[Json](to_tell)}
    if silent:
        played.run_out()
    played.tally()
    expected = played.task.round.decided

    answer = shares(question)

    assert answer["included"] == list(expected.included)
    assert answer["shares"] == list(expected.shares)
    assert answer["deviations"] == list(expected.deviations.values())
    assert answer["included"].count(False) == 1


def test_an_appointed_committee_says_who_is_internal() -> None:
    near: list[Json] = [[0, 16, 9], [16, 0, 1], [9, 1, 0]]
    question: dict[str, Json] = {
        "committee_size": 2,
        "rule": "varsel",
        "budget": 1,
        "scores": [[9, 1, 1, 1]] * 2,
        "ids": [1, 2, 3],
        "appointed": [2, 1],
        "distances": near,
    }

    assert shares(question)["shares"] == [0, 715827884, 715827882, 715827882]
    with pytest.raises(ChainflError, match='give no "internals"'):
        shares(question | {"internals": [True, True, False]})


def test_without_a_majority_of_the_committee_nothing_is_included() -> None:
    answer = shares({"committee_size": 3, "scores": [[1, 2, 3]]})

    assert answer == {"included": [], "shares": [], "head_score": None, "deviations": [0]}


def test_krum_is_chosen_by_distances() -> None:
    points = [10, 11, 12, 13, 1000]
    distances: list[Json] = [[(a - b) ** 2 for b in points] for a in points]
    question: dict[str, Json] = {
        "rule": "krum",
        "tolerated": 1,
        "committee_size": 3,
        "scores": [[1] * 7, [1] * 7],
        "roots": words([bytes([n]) * 32 for n in (1, 2, 2, 3, 4, 5)]),
    }

    assert shares(question)["shares"] == []
    assert shares(question | {"distances": distances})["shares"] == [0, 0, TOTAL, 0, 0, 0, 0]


def test_the_draw_is_that_of_the_round() -> None:
    played = scene(config(max_updates=4), stakes=(1,) * 7)
    task = played.task
    weights: list[Json] = [[int(a.id), a.weight] for a in task.accounts.values()]
    mix_hash = keccak256(task.round.draw_block.to_bytes(32, "big"))
    played.draw()
    drawn = played.task.round.drawn
    assert drawn is not None

    answer = draw(
        {
            "chain_id": task.chain_id,
            "task": "0x" + task.address.hex(),
            "round": 1,
            "mix_hash": "0x" + mix_hash.hex(),
            "weights": weights,
            "committee_size": 3,
            "max_updates": 4,
        }
    )

    assert answer["seed"] == "0x" + draw_seed(task.chain_id, task.address, 1, mix_hash).hex()
    assert answer["committee"] == list(drawn.committee)
    assert answer["proposers"] == list(drawn.proposers)
    assert answer["workers"] == (None if drawn.workers is None else list(drawn.workers))


def test_an_elected_committee_is_not_drawn() -> None:
    answer = draw(
        {
            "seed": SEED,
            "weights": [1] * 9,
            "committee_size": 3,
            "max_updates": 4,
            "rule": "committee-far",
            "elected": [7, 2, 5],
        }
    )

    assert answer["committee"] == [7, 2, 5]
    assert sorted(answer["proposers"]) == [2, 5, 7]
    assert len(answer["workers"]) == 4


@pytest.mark.parametrize("internals", [2, 3, 4])
def test_an_appointed_committee_is_not_drawn(internals: int) -> None:
    played = committees.enrol(
        committees.appointed(internals=internals, max_updates=internals + 3), internals, 8
    )
    played.draw()
    played.apply_queued()
    played.play_round()
    played.draw()
    weights: list[Json] = [[int(a.id), a.weight] for a in played.task.accounts.values()]
    drawn = played.task.round.drawn
    assert drawn is not None

    answer = draw(
        {
            "seed": "0x" + played.task.round.seed.hex(),
            "weights": weights,
            "committee_size": internals,
            "max_updates": internals + 3,
            "appointed": list(range(internals, 0, -1)),
            "internals_train": True,
        }
    )

    assert answer["committee"] == list(drawn.committee) == list(range(1, internals + 1))
    assert answer["proposers"] == list(drawn.proposers)
    assert answer["workers"] == list(drawn.workers or ())


def test_a_reward_worked_by_hand() -> None:
    question: dict[str, Json] = {
        "escrow": 1000,
        "rounds": 3,
        "caller_fee": 5,
        "workers_part": str(6 * WAD // 10),
        "committee_part": 3 * WAD // 10,
        "shares": [TOTAL // 2, TOTAL // 8, 0, 3 * TOTAL // 8],
        "deviations": [1, 2, 3],
    }

    answer = reward(question)

    assert answer["budget"] == {"workers": 163, "committee": 81, "miner": 29}
    assert answer["workers"] == [40, 0, 122]
    assert answer["committee"] == [33, 27, 20]
    assert answer["miner"] == 29
    assert reward(question | {"outcome": "void"})["miner"] == 0


def test_on_ranks_the_included_are_paid_equally() -> None:
    answer = reward(
        {
            "escrow": 100,
            "rounds": 1,
            "workers_part": WAD,
            "committee_part": 0,
            "included": [True, False, True, True],
        }
    )

    assert answer["workers"] == [33, 0, 33, 33]


@pytest.mark.parametrize(
    ("command", "question", "message"),
    [
        ("shares", {}, "input.committee_size: this value is missing, and needed"),
        ("shares", {"committee_size": None}, "input.committee_size: expected an integer, found null"),
        (
            "shares",
            {"committee_size": 4, "scores": []},
            "input.committee_size: 4 is even; a committee is odd",
        ),
        ("shares", {"committee_size": 1, "scores": []}, "input.committee_size: 1 is too small"),
        ("shares", {"committee_size": 2, "appointed": [1], "scores": []}, "input.appointed: 1 ids for a "),
        ("shares", {"committee_size": 2, "appointed": [1, 1], "scores": []}, "input.appointed: each id once"),
        (
            "elect",
            {"committee_size": 2, "appointed": [1, 2], "scores": []},
            "input.appointed: committee-near elects its committee",
        ),
        ("draw", DRAW | {"appointed": [1, 2, 7]}, "input.appointed: a committee has those alone who have a "),
        (
            "draw",
            DRAW | {"appointed": [1, 2, 3], "internals_train": True, "max_updates": 3},
            "input.max_updates: give more than the committee trains",
        ),
        ("shares", {"committee_size": 3, "scores": []}, "input.scores: 0 members revealed"),
        ("shares", {"committee_size": 3, "scores": [[]]}, "input.scores[0]: the head's loss comes first"),
        (
            "shares",
            {"committee_size": 3, "scores": [[1, 2], [1]]},
            "input.scores: members scored 0 to 1 updates",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[2**64]]},
            "input.scores[0][0]: 18446744073709551616 is too large: give at most 18446744073709551615",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[1]], "rule": "luck"},
            "input.rule: expected one of softmax, ",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[1, 1]], "samples": [1, 2]},
            "input.samples: 2 for 1 updates",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[1, 1]], "roots": ["0x00"]},
            "input.roots[0]: expected 32 bytes",
        ),
        ("shares", {"committee_size": 3, "scores": [[1, 1]], "distances": []}, "input.distances: give krum"),
        (
            "shares",
            {"committee_size": 3, "scores": [[1, 1, 1]], "ids": [2, 1]},
            "input.ids: enrolment ids ascend",
        ),
        (
            "elect",
            {"committee_size": 3, "scores": [[1]], "rule": "mean"},
            'input.rule: only "committee-near"',
        ),
        ("draw", {"seed": "0x00"}, "input.seed: expected 32 bytes, found 1"),
        ("draw", DRAW | {"round": 1}, 'input: give either "seed" or what makes it'),
        ("draw", {**DRAW, "weights": [[1, 1], [1, 1]]}, "input.weights: ids ascend, each once"),
        ("draw", {**DRAW, "weights": [[1, 2, 3]]}, "input.weights[0]: 3 values, where there are at most 2"),
        ("draw", {**DRAW, "weights": [[1]]}, "input.weights[0][1]: this value is missing"),
        ("draw", {**DRAW, "weights": ["x"]}, "input.weights[0]: 'x' is not an integer"),
        ("draw", DRAW | {"elected": [1]}, 'input.elected: only "committee-near"'),
        ("draw", {**DRAW, "max_updates": 129}, "input.max_updates: 129 is too large: give at most 128"),
        (
            "draw",
            {"weights": [1] * 6, "committee_size": 3, "max_updates": 8},
            'input.chain_id: needed where no "seed" is given',
        ),
        (
            "draw",
            {"seed": SEED, "weights": [1, 1, 0, 1, 1], "committee_size": 3, "max_updates": 8},
            "input.weights: 4 accounts have a weight; a draw opens with 5 or more",
        ),
        ("reward", {"escrow": 1, "rounds": 0}, "input.rounds: 0 is too small: give at least 1"),
        (
            "reward",
            {"escrow": 12, "rounds": 1, "caller_fee": 2, "workers_part": 0, "committee_part": 0},
            "input.caller_fee: 2 is too large: give at most 1",
        ),
        (
            "reward",
            {"escrow": 1, "rounds": 1, "workers_part": WAD, "committee_part": 1},
            "input.committee_part: give at most 0, what the workers leave",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[1, True]]},
            "input.scores[0][1]: expected an integer, found a boolean",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [7]},
            "input.scores[0]: expected an array, found an integer",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[1]], "rule": "krum", "tolerated": 63},
            "input.tolerated: the rule needs 129 updates; a round has at most 128",
        ),
        (
            "shares",
            {"committee_size": 3, "scores": [[1]], "rule": "krum", "tolerated": 1, "min_updates": 4},
            "input.min_updates: 4 is too small: the rule needs 5",
        ),
        (
            "reward",
            {"escrow": 1, "rounds": 1, "workers_part": 0, "committee_part": 0},
            'input: give either "shares" or "included"',
        ),
        (
            "reward",
            {"escrow": 1, "rounds": 1, "workers_part": 0, "committee_part": 0, "shares": [1]},
            "input.shares: they sum to 1, not to 2^31",
        ),
    ],
)
def test_bad_input_is_refused_with_what_and_where(
    command: str, question: Json, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.json"
    file.write_text(json.dumps(question))

    code = run(["compute", command, str(file), "--json"])

    answer = json.loads(capsys.readouterr().out)
    REPORT.validate(answer)
    assert code == 2
    assert answer["error"]["message"].startswith(message)


def test_answers_for_people_keep_names_and_values_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"committee_size": 3, "scores": [[9, 1], [9, 1]]}')

    assert run(["compute", "shares", str(file)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[0] for line in lines] == ["included", "shares", "head_score", "deviations"]


@pytest.mark.parametrize("command", ["shares", "draw", "elect", "reward"])
def test_the_example_of_the_help_runs(command: str) -> None:
    context = click.Context(compute.commands[command], info_name=command, terminal_width=80)
    example_ = context.get_help().rpartition("Example:")[2]
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-c", example_], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}
    )

    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    REPORT.validate(answer)
    assert answer["schema"] == f"chainfl/compute-{command}/1"


_TERMS = (
    "rule",
    "committee_size",
    "scores",
    "updates",
    "samples",
    "ids",
    "weights",
    "statistic",
    "beta",
    "alpha",
)
_KEYS: dict[Callable[[dict[str, Json]], Answer], tuple[str, ...]] = {
    shares: (*_TERMS, "tolerated", "keep", "min_updates", "distances", "roots", "head_root"),
    elect: _TERMS,
    draw: (
        "seed",
        "chain_id",
        "task",
        "round",
        "block_hash",
        "weights",
        "committee_size",
        "max_updates",
        "elected",
    ),
    reward: (
        "escrow",
        "rounds",
        "workers_part",
        "committee_part",
        "shares",
        "included",
        "deviations",
        "outcome",
    ),
}


@given(st.sampled_from(list(_KEYS)), st.data())
def test_whatever_is_asked_the_command_answers_or_refuses(
    function: Callable[[dict[str, Json]], Answer], data: st.DataObject
) -> None:
    likely = {
        "committee_size": st.just(3),
        "rounds": st.just(1),
        "rule": st.sampled_from([r.name_text for r in Rule]),
    }
    rows = st.lists(st.lists(st.integers(0, 3) | st.none(), min_size=1, max_size=3), max_size=3)
    keys = _KEYS[function]
    question: dict[str, Any] = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                k: anything | likely.get(k, rows if k in ("scores", "distances") else anything) for k in keys
            },
        )
    )

    with suppress(ChainflError):
        json.dumps(function(question))


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9), st.sampled_from(list(Rule)))
@example([1, 0, 0], Rule.MEDIAN)
def test_small_rounds_of_every_rule_are_answered(row: list[int], rule: Rule) -> None:
    bits: list[Json] = [row[0], *(min(1, n) for n in row[1:])]

    answer = shares({"committee_size": 3, "rule": rule.name_text, "scores": [bits, bits]})

    assert sum(answer["shares"]) in (0, TOTAL)
