"""`chainfl watch` as a process of its own, which somebody without stake or data runs."""

import signal
import subprocess
import sys
from pathlib import Path

from chainfl.chain.contracts import free_stake
from chainfl.chain.keys import address_of
from chainfl.devnet.processes import free_port
from chainfl.protocol.events import LieProven
from tests.audit.scene import LIE_AT, History
from tests.processes import await_that

ROOT = Path(__file__).resolve().parents[2]


def start(played: History, log: Path, url: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A watcher of the task at this endpoint, and its key."""
    keystore, password = played.keystore(f"watcher-{log.stem}")
    arguments = [sys.executable, "-m", "chainfl", "watch", "--poll-seconds", "0.1", "--rpc-url", url]
    arguments += ["--task", played.address, "--store", played.store]
    arguments += ["--keystore", str(keystore), "--password-file", str(password)]
    with log.open("wb") as out:
        return subprocess.Popen(arguments, cwd=ROOT, stdout=out, stderr=out), keystore


def test_a_watcher_waits_for_an_endpoint_that_is_away(standing: History, tmp_path: Path) -> None:
    said = tmp_path / "away.log"
    process, _ = start(standing, said, f"http://127.0.0.1:{free_port()}")
    try:
        await_that(lambda: "retrying until stopped" in said.read_text(), 60, "a word on it")
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    assert code == 0
    assert "Traceback" not in said.read_text()


def test_a_standing_lie_is_proven_and_the_watcher_goes_on_until_it_is_told_to_stop(
    standing: History, tmp_path: Path
) -> None:
    reader, said = standing.task.reader(), tmp_path / "lie.log"

    def proven() -> list[LieProven]:
        reader.refresh()
        return [logged.event for logged in reader.log if isinstance(logged.event, LieProven)]

    process, keystore = start(standing, said, standing.chain.url)
    try:
        await_that(lambda: bool(proven()) or process.poll() is not None, 90, "a proof")
        assert process.poll() is None, said.read_text()
        await_that(lambda: "round 3.1: convicted" in said.read_text(), 30, "a word on it")
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)

    finder = address_of(keystore)
    assert [(event.round, event.position, event.finder) for event in proven()] == [(3, LIE_AT, finder)]
    assert free_stake(standing.chain.w3, standing.chain.deployment.registry_address, finder) > 0
    assert code == 0
    assert "Traceback" not in said.read_text()
