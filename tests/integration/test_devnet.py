"""A devnet by command: up, a task to its end, its trace played again in memory, down."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chainfl.devnet.pids import is_running
from tests.processes import await_that, chainfl


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if (tmp_path / ".chainfl" / "devnet" / "devnet.json").exists():
        chainfl("devnet", "down", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("rule", "rounds"),
    [
        ("committee-near", 1),
        pytest.param("softmax", 5, marks=pytest.mark.deep),
        pytest.param("committee-near", 2, marks=pytest.mark.deep),
        pytest.param("fedrob:b=1,alpha=0.9", 2, marks=pytest.mark.deep),
    ],
)
def test_what_a_devnet_plays_the_simulator_plays_again_to_the_same_roots(
    rule: str, rounds: int, folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    asked = ("--participants", "8", "--rule", rule, "--rounds", str(rounds))
    net = chainfl("devnet", "up", *asked, folder=folder)["metrics"]
    running = chainfl("devnet", "status", folder=folder, codes=(0, 1))["metrics"]["running"]
    named = (net["task"], "--rpc-url", net["rpc_url"])

    def has_ended() -> bool:
        return bool(chainfl("task", "show", *named, folder=folder)["metrics"]["phase"] == "Ended")

    await_that(has_ended, 120 * rounds + 60, "the end of the task")
    trace = chainfl("task", "trace", *named, "--store", net["store"], folder=folder)
    (folder / "t.json").write_text(json.dumps(trace))
    told = ("--replay", "t.json", "--participants", f"{net['home']}/participants.json")
    again = chainfl("simulate", *told, folder=folder)
    pids = json.loads((Path(net["home"]) / "devnet.json").read_text())["processes"]
    ended = chainfl("devnet", "down", folder=folder)["metrics"]["ended"]

    assert set(running) == {"anvil", "audit-api", *(f"p{number:02}" for number in range(1, 9))}
    assert running["anvil"]  # a short task may be over by now, and its nodes with it
    assert running["audit-api"]
    assert [one["outcome"] for one in trace["metrics"]["rounds"]] == ["final"] * rounds
    roots = [one["model_root"] for one in trace["metrics"]["rounds"]]
    assert [one["model_root"] for one in again["metrics"]["rounds"]] == roots
    assert all(one["same"] for one in again["metrics"]["rounds"])
    assert {"anvil", "audit-api"} <= set(ended)  # nodes end by themselves with the task
    assert [name for name, pid in pids.items() if is_running(pid)] == []
