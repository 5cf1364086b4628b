"""The demonstration with real processes on a real chain, and the same run played again in memory."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chainfl.devnet.selfish import HONEST, INTERNALS, POISONING
from tests.processes import chainfl

HELPING = HONEST[:3]
"""Outsiders who hold all digits."""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("rule", "rounds"),
    [
        ("softmax", 1),
        pytest.param("softmax", 5, marks=pytest.mark.deep),
        pytest.param("committee-near", 2, marks=pytest.mark.deep),
        pytest.param("fedrob:b=1,alpha=0.9", 2, marks=pytest.mark.deep),
        pytest.param("multi-krum", 1, marks=pytest.mark.deep),
    ],
)
def test_the_demonstration_convicts_the_liar_and_its_replay_gives_the_same_models(
    rule: str, rounds: int, tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    home = tmp_path / "demo"

    shown = chainfl("demo", "--rule", rule, "--rounds", str(rounds), "--home", str(home))

    metrics = shown["metrics"]
    assert shown["ok"]
    assert [one["outcome"] for one in metrics["rounds"]] == ["final"] * (rounds + 1)
    assert len(metrics["convicted"]) == 1
    assert metrics["rounds"][-1]["attempts"] == 2
    assert set(metrics["audit"].values()) == {"ok"}
    assert _still_running(home) == []

    told = ("--replay", str(home / "trace.json"), "--participants", str(home / "participants.json"))
    again = chainfl("simulate", *told)

    assert again["ok"]
    roots = [one["model_root"] for one in again["metrics"]["rounds"]]
    assert roots == [one["model_root"] for one in metrics["rounds"]]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_selfish_story_pays_who_helps_and_a_wrong_model_gets_no_quorum(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    home = tmp_path / "demo"

    shown = chainfl("demo", "--story", "selfish", "--rounds", "1", "--home", str(home))

    metrics = shown["metrics"]
    rounds, found = metrics["rounds"], metrics["comparison"]
    assert shown["ok"]
    assert [one["outcome"] for one in rounds] == ["final"] * 2
    assert set(metrics["audit"].values()) == {"ok"}
    for one in rounds:
        assert sorted(one["committee"]) == [f"{name}^" for name in INTERNALS]
        helping, outside = shares_of(one, HELPING), shares_of(one, (*HONEST, *POISONING))
        assert helping > 0.95 * outside > 0
        assert one["hostile_share"] < 0.05
    assert shares_of(rounds[0], HELPING) > 0.5

    # Of the second round this cannot be said: when dan proposes, an internal has most of it.

    # The wrong model of the last round is convicted; nobody inside attested it, and most attest the one after it.
    wrong, right = rounds[-1]["attested"]
    assert (wrong, len(metrics["convicted"]), rounds[-1]["attempts"]) == (0, 1, 2)
    assert 2 * right > len(INTERNALS)

    assert metrics["test_accuracy"] > found["VaRSeL"][0] + 0.05
    assert metrics["test_accuracy"] > found["local training"][0] + 0.1
    assert _still_running(home) == []

    told = ("--replay", str(home / "trace.json"), "--participants", str(home / "participants.json"))
    again = chainfl("simulate", *told)

    assert [one["model_root"] for one in again["metrics"]["rounds"]] == [one["model_root"] for one in rounds]


def shares_of(told: Mapping[str, Any], names: Iterable[str]) -> float:
    """What these have together of a round's model; who proposes has nothing."""
    parts = {name.rstrip("^*"): share for name, share in told["shares"].items()}
    return float(sum(parts.get(name, 0) for name in names))


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_the_selfish_story_under_varsel_refuses_wrong_weights(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    home = tmp_path / "demo"

    rule = "varsel:budget=9"
    shown = chainfl("demo", "--story", "selfish", "--rule", rule, "--rounds", "1", "--home", str(home))

    metrics = shown["metrics"]
    rounds, found = metrics["rounds"], metrics["comparison"]
    assert (shown["ok"], metrics["rule"]) == (True, rule)
    assert [one["outcome"] for one in rounds] == ["final"] * 2
    assert set(metrics["audit"].values()) == {"ok"}

    # No proof convicts who posts wrong weights; nobody inside attests them, and the next proposer's stand.
    wrong, right = rounds[-1]["attested"]
    assert (wrong, rounds[-1]["attempts"]) == (0, 2)
    assert 2 * right > len(INTERNALS)
    assert (len(metrics["refused"]), metrics["convicted"]) == (1, [])

    assert metrics["test_accuracy"] > found["local training"][0] > found["plain averaging"][0]
    assert _still_running(home) == []

    told = ("--replay", str(home / "trace.json"), "--participants", str(home / "participants.json"))
    again = chainfl("simulate", *told)

    assert [one["model_root"] for one in again["metrics"]["rounds"]] == [one["model_root"] for one in rounds]


def _still_running(home: Path) -> list[str]:
    """Processes that name this folder in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home) in line and "pytest" not in line:
            found.append(line)
    return found
