"""The README's way from nothing to rounds of one's own learning, typed as it stands there, and their replay."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chainfl.chain.abi import as_address
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.devnet.processes import load_devnet
from tests.integration.test_readme import blocks, typed
from tests.processes import await_that

HEADING = "Train what you like"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder as a checkout is after set-up, but for the code."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    yield tmp_path
    if (tmp_path / ".chainfl").exists():
        typed("chainfl devnet down", tmp_path)


def test_it_is_two_commands_to_a_simulated_round_and_three_to_a_chain_with_guests() -> None:
    simulated, chained = blocks(HEADING)
    assert [line.split()[1] for line in simulated.splitlines()] == ["new", "simulate"]
    assert [line.split()[1:3] for line in chained.splitlines()[1:]] == [["devnet", "up"], ["devnet", "join"]]
    assert len(chained.splitlines()) == 3


@pytest.mark.slow
def test_two_commands_play_a_simulated_round(folder: Path) -> None:
    done = typed(blocks(HEADING)[0], folder)
    assert done.returncode == 0, done.stderr
    assert "final" in done.stdout
    assert "model root: " in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_three_commands_play_rounds_with_two_guests_and_a_replay_gives_the_same_roots(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    done = typed(f"export CHAINFL_TRACK=tensorboard:board\n{blocks(HEADING)[1]}", folder)
    assert done.returncode == 0, done.stderr
    home = folder / ".chainfl" / "devnet"
    net = load_devnet(home)
    reader = TaskReader(open_rpc(net.rpc_url), as_address(net.task), net.chain_id, net.from_block)
    await_that(lambda: reader.refresh().round.number >= 2, 240, "a round is over", 0.5)

    # The guests are there, and what a replay has to know of each is written down.
    described = json.loads((home / "participants.json").read_text())["participants"]
    assert len(reader.task.addresses) == 7
    assert sorted(described, key=int) == [str(number) for number in range(1, 8)]
    assert {one["threads"] for one in described.values()} == {1}

    # Each node says what the round was for it, and draws it.
    logs = list((home / "logs").glob("*.log"))
    await_that(
        lambda: len(_telling(logs, "round 1: settled: ")) >= 5
        and len(_telling(logs, r"round 1: settled: final as worker, train loss \d")) >= 2,
        60, "what the round was for its nodes", 0.5,
    )  # fmt: skip
    accounts = {f"0x{account.hex()[:8]}" for account in reader.task.addresses}
    await_that(lambda: _drawn(folder) == accounts, 60, "a board of each node", 0.5)

    # A node with another source is refused before it enrols; both digests are named.
    (folder / "other.py").write_text((folder / "digits" / "app.py").read_text() + "# mine\n")
    refused = typed(f". {home}/guest.env\nchainfl node run --app other.py --enrol", folder)
    assert refused.returncode == 2
    assert "is not the task's: the task names digits with digest" in refused.stderr
    assert "--accept-app" in refused.stderr

    audit = typed(f". {home}/guest.env\nchainfl audit verify\nchainfl task trace --json > trace.json", folder)
    assert audit.returncode == 0, audit.stderr
    typed("chainfl devnet down", folder)

    # A replay trains again with the same app, and every round has the chain's root.
    given = f"--participants {home}/participants.json --app digits/app.py"
    played = typed(f"chainfl simulate --replay trace.json {given} --store dir:{home}/store --json", folder)
    assert played.returncode == 0, played.stderr
    rounds = json.loads(played.stdout)["metrics"]["rounds"]
    assert len(rounds) >= 1
    assert all(one["same"] for one in rounds)


def _telling(logs: list[Path], pattern: str) -> list[Path]:
    """The logs that have such a line."""
    return [log for log in logs if re.search(pattern, log.read_text())]


def _drawn(folder: Path) -> set[str]:
    """The accounts whose nodes have drawn something."""
    return {run.name.rpartition("-")[2] for run in folder.rglob("board/*") if any(run.iterdir())}
