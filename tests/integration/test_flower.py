"""A Flower project as it is, run by node processes on a chain: its ClientApp is worker and validator."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chainfl.devnet.processes import load_devnet
from tests.integration.test_apps import folder as folder  # a bare checkout, its devnet ended at the end
from tests.integration.test_readme import ROOT, typed
from tests.processes import await_that

ROUNDS = 2
UP = f"chainfl devnet up --app flower:project --participants 7 --committee 3 --rounds {ROUNDS}"


@pytest.fixture(autouse=True)
def _flower(require_extra: Callable[[str], None]) -> None:
    require_extra("flower")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_flower_client_app_trains_and_judges_on_a_chain_and_a_replay_gives_the_same_roots(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    shutil.copytree(ROOT / "examples" / "flower", folder / "project")
    done = typed(UP, folder)
    assert done.returncode == 0, done.stderr
    home = folder / ".chainfl" / "devnet"
    last = f"round {ROUNDS}: settled: "
    logs = [home / "logs" / f"{name}.log" for name in load_devnet(home).processes if name.startswith("p")]
    assert len(logs) == 7
    await_that(lambda: all(last in log.read_text() for log in logs), 240, "all nodes saw the last round", 0.5)

    # Its train function made the updates and reported its own loss; its evaluate function judged the models.
    told = "\n".join(log.read_text() for log in logs)
    workers = re.findall(r"settled: final as worker, train_loss [\d.]+, head's score ([\d.]+)", told)
    assert len(workers) >= 3 * ROUNDS
    assert told.count("commit scores: done") >= 3 * ROUNDS
    heads = [
        {float(score) for score in re.findall(rf"round {number}: settled: .*head's score ([\d.]+)", told)}
        for number in (1, ROUNDS)
    ]
    assert max(heads[1]) < min(heads[0])

    audit = typed(f". {home}/guest.env\nchainfl audit verify\nchainfl task trace --json > trace.json", folder)
    assert audit.returncode == 0, audit.stderr
    typed("chainfl devnet down", folder)

    # Each participant's partition, seed and number of threads are written down: the ClientApps train again.
    given = f"--participants {home}/participants.json --app flower:project --store dir:{home}/store"
    played = typed(f"chainfl simulate --replay trace.json {given} --json", folder)
    assert played.returncode == 0, played.stderr
    assert [one["same"] for one in json.loads(played.stdout)["metrics"]["rounds"]] == [True] * ROUNDS
