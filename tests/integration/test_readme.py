"""The README's way into a devnet, typed as it stands there by somebody with data of their own."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from chainfl.chain.abi import as_address
from chainfl.chain.keys import address_of
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.devnet.pids import is_running
from chainfl.devnet.processes import load_devnet
from chainfl.learning.datasets import load
from chainfl.protocol.views import unclaimed_rounds
from tests.processes import await_that

ROOT = Path(__file__).resolve().parents[2]
FEW = 400


def blocks(heading: str) -> list[str]:
    """The code blocks under a heading of the README."""
    text = (ROOT / "README.md").read_text()
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    return re.findall(r"^```\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder as a checkout is after set-up, but for the code; with somebody's own digits in it."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    digits = load("mnist-embedded")
    np.savez(tmp_path / "mine.npz", x=digits.x[:FEW], y=digits.y[:FEW])
    yield tmp_path
    typed("chainfl devnet down", tmp_path)


def clean() -> dict[str, str]:
    """The environment of a shell in which nothing of chainfl is set."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CHAINFL_")}


def typed(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What somebody types, in a shell of its own."""
    return subprocess.run(
        ["bash", "-e"], input=f". .venv/bin/activate\n{script}", cwd=folder, env=clean(),
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip


def guest_of(folder: Path) -> dict[str, str]:
    """What guest.env sets."""
    lines = (folder / ".chainfl" / "devnet" / "guest.env").read_text().splitlines()
    return dict(shlex.split(line)[1].removeprefix("CHAINFL_").split("=", 1) for line in lines)


def test_the_way_in_takes_five_commands() -> None:
    first, second = blocks("Take part with your own data")

    assert len(first.splitlines()) <= 5
    assert first.splitlines()[-1].startswith("chainfl node run --dataset npz:mine.npz")
    assert second.splitlines()[-1].startswith("chainfl devnet down")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stranger_types_the_readme_takes_part_and_is_paid(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    first, second = blocks("Take part with your own data")
    said = folder / "said"
    with said.open("wb") as out:
        terminal = subprocess.Popen(
            ["bash", "-e", "-c", first],
            cwd=folder,
            env=clean(),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        await_that(
            lambda: terminal.poll() is not None or "ready as" in said.read_text(), 240, "a running node"
        )
        assert terminal.poll() is None, said.read_text()
        known = guest_of(folder)
        me = address_of(Path(known["KEYSTORE"]))
        reader = TaskReader(
            open_rpc(known["RPC_URL"]),
            as_address(known["TASK"]),
            int(known["CHAIN_ID"]),
            int(known["FROM_BLOCK"]),
        )
        await_that(lambda: bool(unclaimed_rounds(reader.refresh(), me)), 240, "pay for a worker's round")
        started = load_devnet(folder / ".chainfl" / "devnet").processes

        done = typed(second, folder)

        assert done.returncode == 0, done.stderr
        assert float(re.findall(r"^claimed: ([\d.]+) ETH", done.stdout, flags=re.MULTILINE)[0]) > 0
        assert f"ended {len(started)} processes" in done.stdout
        assert [name for name, pid in started.items() if is_running(pid)] == []
        assert terminal.poll() is None  # the guest's node is not the devnet's to end
        os.killpg(terminal.pid, signal.SIGINT)
        assert terminal.wait(30) in (0, -signal.SIGINT)
    finally:
        if terminal.poll() is None:
            os.killpg(terminal.pid, signal.SIGKILL)
            terminal.wait(10)
    told = said.read_text()
    assert "commit update: done" in told
    assert "Traceback" not in told
