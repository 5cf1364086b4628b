"""Node processes that begin at once: forks of one process that has everything imported.

Starting Python with web3 takes seconds of a core, and in a chaos run nodes are killed and started again all the time.
`python -m tests.integration.forked_nodes` reads one JSON line for each request (`start`, `ended`) and answers with one;
when its input ends, so do all its nodes.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from chainfl.logs import set_up_logs
from chainfl.node.loop import persist, serve
from chainfl.node.status import Status
from chainfl.node.wiring import READY, Node
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty
from chainfl.store.address import open_store
from chainfl.store.ipfs import IpfsSettings
from chainfl.store.pin_book import SqlitePinBook
from chainfl.store.pins import RecordingStore
from tests.integration.crashing_node import Crashes, wire

ROOT = Path(__file__).resolve().parents[2]
CLOCK = "clock"
"""A file in a node's home: the seconds by which its clock is wrong."""
_KEPT_ROUNDS = 3
_FETCH_SECONDS = 120.0
"""How long a daemon may look for bytes before they count as withheld; by default 30, too short for ten busy tests."""


class ForkServer:
    """The process that all nodes are forks of, from outside."""

    def __init__(self) -> None:
        """Start it; the first request waits until it has imported everything."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.forked_nodes"],
            cwd=ROOT, env=os.environ | {"CHAINFL_NO_NUMBA": "1"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start(self, plan: Path, log: Path) -> int:
        """Start the node of a plan; its process id."""
        return int(self._ask({"ask": "start", "plan": str(plan), "log": str(log)}))

    def ended(self) -> dict[int, int]:
        """The exit codes of nodes that ended since the last call; negative: by that signal."""
        return {int(pid): code for pid, code in self._ask({"ask": "ended"}).items()}

    def close(self) -> None:
        """End all nodes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """Fork and reap as asked; at the end kill what is left."""
    alive = set[int]()
    for line in sys.stdin:
        request = json.loads(line)
        if request["ask"] == "start":
            pid = _fork(Path(request["plan"]), Path(request["log"]))
            alive.add(pid)
            answer: object = pid
        else:
            answer = _reaped(alive)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def _fork(plan: Path, log: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # Nothing of the server's pipes may stay open in the node.
        into = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((nothing, 0), (into, 1), (into, 2)):
            os.dup2(old, new)
        play(plan)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _reaped(alive: set[int]) -> dict[int, int]:
    codes = {}
    for pid in list(alive):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            alive.discard(pid)
            codes[pid] = os.waitstatus_to_exitcode(status)
    return codes


def play(plan: Path) -> None:
    """Take part as the plan says until the task ends."""
    crashes, stop = Crashes(plan), threading.Event()
    home = Path(crashes.plan["home"])
    move_clock(home / CLOCK)
    set_up_logs(as_json=False)
    node = persist(lambda: _as_shipped(wire(crashes), crashes), stop, Status())
    assert node is not None
    (home / READY).touch()
    serve(node, Duty.ALL, stop, poll_seconds=0.1)


def _as_shipped(node: Node, crashes: Crashes) -> Node:
    """The same node with a list of pins, as the shipped one has it, and a store that is patient on a busy machine."""
    plan, me, ledger = crashes.plan, node.participant, node.ledger
    task = ledger.reader.task
    book = SqlitePinBook(Path(plan["home"]) / "pins.sqlite", task.chain_id, task.address, ledger.me)
    patient = open_store(plan["store"], IpfsSettings(fetch_seconds=_FETCH_SECONDS))
    store = RecordingStore(patient, book, lambda: ledger.reader.task.round.number, _KEPT_ROUNDS)
    return replace(
        node,
        participant=Participant(me.ledger, store, me.trainer, me.journal),
        let_go=store.let_go,
    )


def move_clock(file: Path) -> None:
    """From now on this process's wall clock is wrong by what the file says; right while there is none."""
    real = time.time

    def moved() -> float:
        try:
            return real() + float(file.read_text())
        except (OSError, ValueError):
            return real()

    time.time = moved


if __name__ == "__main__":
    main()
