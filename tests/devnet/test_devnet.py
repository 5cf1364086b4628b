"""What a devnet tells its guest, what it leaves behind, and whom it ends."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainfl.devnet import processes
from chainfl.devnet.pids import is_running
from chainfl.devnet.processes import Devnet, clear, load_devnet, stop, write_guest
from chainfl.errors import InputError
from chainfl.node.settings import NodeSettings
from chainfl.node.wiring import READY
from tests.processes import await_that


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its input to end."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate(timeout=10)


def test_the_guests_file_sets_what_a_node_and_its_commands_need(tmp_path: Path) -> None:
    home = tmp_path / "a folder with spaces"
    home.mkdir()
    net = Devnet(str(home), "http://127.0.0.1:8545", factory="0xf", registry="0xr", task="0xt", from_block=9)

    lines = write_guest(net).read_text().splitlines()

    words = [shlex.split(line) for line in lines]
    assert {word[0] for word in words} == {"export"}
    told = dict(word[1].split("=", 1) for word in words)
    assert told["CHAINFL_STORE"] == f"dir:{home}/store"
    assert told["CHAINFL_KEYSTORE"] == f"{home}/keys/guest.json"
    names = {name.removeprefix("CHAINFL_").lower() for name in told} - {"factory"}
    assert names <= set(NodeSettings.model_fields)
    required = {name for name, field in NodeSettings.model_fields.items() if field.is_required()}
    assert required <= names


def test_keys_of_a_devnet_inside_a_repository_are_ignored_by_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    home = tmp_path / ".chainfl" / "devnet"
    home.mkdir(parents=True)

    processes.make_keys(home, ["guest"])

    shown = subprocess.run(
        ["git", "-C", tmp_path, "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == ""


def test_a_shell_that_was_a_guest_elsewhere_decides_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Devnet(str(tmp_path), "http://127.0.0.1:8545")
    for line in write_guest(net).read_text().splitlines():
        monkeypatch.setenv(line.removeprefix("export ").partition("=")[0], "of another devnet")
    monkeypatch.setenv("CHAINFL_DATA", "data")

    found = processes.own_environment(net)

    assert found["CHAINFL_DATA"] == "data"
    assert "of another devnet" not in found.values()


def test_stop_ends_what_was_started_and_nobody_who_got_its_number_since(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    own = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    net = Devnet(str(tmp_path), "http://127.0.0.1:8545")
    net.started("own", own.pid)
    net.started("gone", bystander.pid)
    net.births["gone"] = "another time"
    net.save()

    known = load_devnet(tmp_path)
    runs = {name: known.runs(name) for name in known.processes}
    ended = stop(known)
    own.communicate(timeout=10)

    assert runs == {"own": True, "gone": False}
    assert ended == ["own"]
    assert bystander.poll() is None
    assert not is_running(own.pid)
    assert load_devnet(tmp_path).processes == {}
    assert stop(load_devnet(tmp_path)) == []


def test_who_waits_for_nodes_is_told_that_the_wait_goes_on(
    tmp_path: Path, bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Devnet(str(tmp_path), "http://127.0.0.1:8545")
    net.started("p01", bystander.pid)
    said = list[str]()

    def listen(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            (tmp_path / "nodes" / "p01").mkdir(parents=True)
            (tmp_path / "nodes" / "p01" / READY).touch()

    monkeypatch.setattr(processes, "QUIET_SECONDS", 0.0)
    processes.await_nodes(net, [processes.Person("p01")], listen)

    assert [line.partition(",")[0] for line in said] == ["0 of 1 nodes ready"] * 2 + ["1 of 1 nodes ready"]


def test_a_process_that_has_ended_and_is_not_collected_does_not_run() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import os; print(os.fork() or os._exit(0), flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert parent.stdout is not None
    child = int(parent.stdout.readline())

    await_that(lambda: not is_running(child), 10, "the child has ended")

    parent.communicate(b"\n", timeout=10)


def test_a_new_devnet_finds_nothing_of_an_old_one_and_leaves_the_rest(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    net = Devnet(str(tmp_path), "http://127.0.0.1:8545")
    for name in ("nodes/p01/journal.sqlite", "nodes/p01/ready", "keys/guest.json", "31337.json", "mine.npz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    clear(tmp_path)
    untouched = sorted(tmp_path.iterdir())
    net.started("node", bystander.pid)

    with pytest.raises(InputError, match="a devnet runs in"):
        clear(tmp_path)
    net.births["node"] = "another time"
    net.save()
    clear(tmp_path)

    assert len(untouched) == 4  # no devnet was here, so nothing was ours to remove
    assert [path.name for path in tmp_path.iterdir()] == ["mine.npz"]
