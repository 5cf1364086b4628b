"""`chainfl watch` as a process of its own, which somebody without stake or data runs."""

import signal
import subprocess
import sys
from pathlib import Path

from chainfl.chain.contracts import free_stake
from chainfl.chain.keys import address_of
from chainfl.protocol.events import LieProven
from tests.audit.scene import LIE_AT, History
from tests.processes import await_that

ROOT = Path(__file__).resolve().parents[2]


def test_a_standing_lie_is_proven_and_the_watcher_goes_on_until_it_is_told_to_stop(standing: History) -> None:
    keystore, password = standing.keystore("watcher")
    arguments = [sys.executable, "-m", "chainfl", "watch", "--poll-seconds", "0.1"]
    arguments += ["--rpc-url", standing.chain.url, "--task", standing.address, "--store", standing.store]
    arguments += ["--keystore", str(keystore), "--password-file", str(password)]
    reader, said = standing.task.reader(), standing.home / "watcher.log"

    def proven() -> list[LieProven]:
        reader.refresh()
        return [logged.event for logged in reader.log if isinstance(logged.event, LieProven)]

    with said.open("wb") as log:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log)
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
