"""Every tutorial of docs/tutorials, typed as it stands there, in a folder of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chainfl.chain.abi import as_address
from chainfl.chain.keys import address_of
from chainfl.chain.randomness import HEADERS
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.codec.text import ETHER
from chainfl.devnet.pids import is_running
from chainfl.devnet.processes import Devnet, fund, load_devnet, start_anvil
from chainfl.protocol.views import unclaimed_rounds
from chainfl.types import Phase
from tests.integration.test_readme import clean, typed
from tests.processes import await_that

PAGES = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
SEPOLIA = 11155111
ZERO_ADDRESS, ZERO_HASH = "0x" + 40 * "0", "0x" + 64 * "0"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
PLAYED = {"own-model", "own-data", "sponsor", "audit", "compare-rules", "lora"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def blocks(page: str, language: str = "") -> dict[str, list[str]]:
    """The commands of a page, or its blocks in a language, by the heading that they stand under."""
    sections = re.split(r"^## (.+)\n", (PAGES / f"{page}.md").read_text(), flags=re.MULTILINE)
    found = zip(["", *sections[1::2]], sections[::2], strict=True)
    return {
        heading: [code for tag, code in FENCED.findall(section) if tag == language]
        for heading, section in found
    }


def does(folder: Path, *scripts: str) -> str:
    """Type blocks in one shell; what they print."""
    done = typed("\n".join(scripts), folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def task_of(net: Devnet) -> TaskReader:
    return TaskReader(open_rpc(net.rpc_url), as_address(net.task), net.chain_id, net.from_block)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder as a checkout is after set-up, but for the code."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    yield tmp_path
    if (tmp_path / ".chainfl" / "devnet" / "devnet.json").exists():
        typed("chainfl devnet down", tmp_path)


@contextmanager
def terminal(script: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another terminal, in which something goes on running; what it says is in the file `said`."""
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            ["bash", "-e", "-c", f". .venv/bin/activate\n{script}"],
            cwd=folder, env=clean(), stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def test_every_page_of_the_list_is_played_here() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")} - {"index"}
    listed = set(re.findall(r"^\| \[.+\]\((.+)\.md\)", (PAGES / "index.md").read_text(), flags=re.MULTILINE))

    assert pages == listed == PLAYED


def test_a_model_of_ones_own_is_made_changed_and_given_other_data(folder: Path) -> None:
    page = blocks("own-model")

    does(folder, *page["Make one"], *page["Play it"])
    compared = does(folder, *page["Change it"])
    played = does(folder, *page["Use your own data"])

    assert "app config" in compared.replace("_", " ")
    assert re.findall(r"^ ([12]) +final", played, flags=re.MULTILINE) == ["1", "2"]


def test_a_guest_with_data_of_its_own_is_paid_and_leaves(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    page, home = blocks("own-data"), folder / ".chainfl" / "devnet"
    said = folder / "said"

    with terminal("\n".join(page["Data"] + page["Join"]), folder) as node:
        await_that(lambda: node.poll() is not None or "ready as" in said.read_text(), 240, "a running node")
        assert node.poll() is None, said.read_text()
        net = load_devnet(home)
        shown = does(folder, *page["Look"])
        me, reader = address_of(home / "keys" / "guest.json"), task_of(net)
        await_that(lambda: bool(unclaimed_rounds(reader.refresh(), me)), 240, "pay for a round")
        ended = does(folder, ". .chainfl/devnet/guest.env", *page["Be paid, and leave"])
        os.killpg(node.pid, signal.SIGINT)
        assert node.wait(30) in (0, -signal.SIGINT)

    assert net.dashboard in shown
    assert float(re.findall(r"^claimed: ([\d.]+) ETH", ended, flags=re.MULTILINE)[0]) > 0
    assert [name for name, pid in net.processes.items() if is_running(pid)] == []


def test_a_liar_is_convicted_and_everything_is_proven_without_a_network(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    page, home = blocks("audit"), folder / ".chainfl" / "devnet"
    begin, look = page["A liar"]

    does(folder, begin)
    net = load_devnet(home)
    reader = task_of(net)
    await_that(lambda: reader.refresh().round.phase is Phase.ENDED, 240, "the end of the task", 0.5)
    guest = ". .chainfl/devnet/guest.env"
    convicted = does(folder, look)
    redone = does(folder, guest, *page["Redo everything"])
    standing = does(folder, guest, *page["Challenge by hand"])
    export, verify = page["Without a network"]
    written = does(folder, guest, f"{export} 2>&1")
    block_hash = open_rpc(net.rpc_url).eth.get_block(_number(written))["hash"].to_0x_hex()
    origin = "\n".join(page["A model and its origin"]).replace(ZERO_HASH, block_hash)
    proven = does(folder, verify.replace(ZERO_HASH, block_hash), guest, origin)
    refused = typed(verify, folder)

    assert re.search(r"round 1\.1: .*convicted", convicted)
    assert "total: 2 rounds" in redone
    assert json.loads(redone[redone.index("\n{") :])["metrics"]
    assert "there is no proposal to challenge" in standing
    assert "total: 2 rounds" in proven
    assert re.search(r"proven by +[^ -]", proven)
    assert refused.returncode == 4


def _number(written: str) -> int:
    return int(re.findall(r"rests on block (\d+)", written)[0])


def test_a_sponsor_deploys_creates_a_task_and_gets_its_escrow_back(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    page = blocks("sponsor")
    chain, url = start_anvil(folder / "anvil", 1, ("--block-time", "1"), SEPOLIA)
    try:
        settings = page["Settings"][0].replace("http://127.0.0.1:8545", url)
        does(folder, settings, *page["A key"])
        w3 = open_rpc(url)
        fund(w3, address_of(folder / "sponsor.json"), ETHER)
        await_that(lambda: w3.eth.block_number >= HEADERS, 60, "as many headers as `deploy` reads", 0.2)
        deploy, name_factory = page["Contracts"]
        factory = re.findall(r"^factory +(0x\w+)", does(folder, settings, deploy), flags=re.MULTILINE)[0]
        settings += name_factory.replace(ZERO_ADDRESS, factory)

        made = does(folder, settings, *page["A task"])
        task = re.findall(r"^task +(0x\w+)", made, flags=re.MULTILINE)[0]
        there = page["Participants"][0].replace(ZERO_ADDRESS, task)
        shown = does(folder, settings, there)
        ended = does(folder, settings, there, *page["End it"])
    finally:
        chain.kill()
        chain.wait(10)

    assert "7 more must enrol with 0.050000 ETH or more each" in shown
    assert re.search(r"^refunded +0.030000 ETH", ended, flags=re.MULTILINE)


def test_rules_are_compared_side_by_side_and_over_seeds(folder: Path) -> None:
    page = blocks("compare-rules")
    (folder / "mine.toml").write_text(blocks("compare-rules", "toml")["Several seeds"][0])

    compared = does(folder, *page["Three runs"], *page["Side by side"])
    does(folder, *page["Several seeds"])
    rules = does(folder, *page["What a chain can prove"])

    assert [word for word in ("softmax", "median", "mean") if word not in compared] == []
    assert (folder / "compared.html").stat().st_size > 1000
    assert len(list((folder / "runs" / "mine" / "cells").iterdir())) == 9
    assert "±" in (folder / "runs" / "mine" / "report.md").read_text()
    assert "krum" in rules


def test_adapters_of_a_transformer_are_checked_and_fine_tuned(
    folder: Path, require_extra: Callable[[str], None]
) -> None:
    require_extra("hf")
    page = blocks("lora")

    checked = does(folder, *page["An app and a base"])
    played = does(folder, *page["Play it"])

    losses = [
        float(loss) for loss in re.findall(r"^ [12] +final +none +([\d.]+)", played, flags=re.MULTILINE)
    ]
    assert "114688 trained values" in checked
    assert losses[1] < losses[0]
