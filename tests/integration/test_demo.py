"""The demonstration with real processes on a real chain, and the same run played again in memory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import chainfl


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
