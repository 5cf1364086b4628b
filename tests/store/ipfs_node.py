"""Real IPFS daemons for tests: private, on loopback, on free ports, ended with the test."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from chainfl.store import IpfsSettings, IpfsStore, open_store

LIMITS = IpfsSettings(fetch_seconds=20, pin_seconds=60, look_seconds=0.3, tries=2)


@dataclass(frozen=True, slots=True)
class Node:
    """A running daemon: its store address, a store on it, and its RPC for what a store does not do."""

    address: str
    store: IpfsStore
    pid: int

    def rpc(self, command: str, **query: str) -> list[Any]:
        """The JSON lines that the daemon answers."""
        connection = HTTPConnection("127.0.0.1", int(self.address.rsplit("/", 1)[1]), timeout=20)
        try:
            connection.request("POST", f"/api/v0/{command}?{urlencode(query)}")
            return [json.loads(line) for line in connection.getresponse().read().splitlines()]
        finally:
            connection.close()

    def connect(self, other: "Node") -> None:
        """Meet another daemon."""
        self.rpc("swarm/connect", arg=other.rpc("id")[0]["Addresses"][0])


@contextmanager
def ipfs_node(program: Path, repo: Path) -> Iterator[Node]:
    """A daemon with its blocks in `repo`; `program` is `ipfs-daemon`, or Kubo's `ipfs`."""
    command, environment = _command(program, repo)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        address = next((word for line in process.stdout for word in _api_address(line)), None)
        assert address is not None, f"{program} ended before it was ready"
        store = open_store(f"ipfs:{address}", LIMITS)
        assert isinstance(store, IpfsStore)
        yield Node(f"ipfs:{address}", store, process.pid)
        store.close()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def _command(program: Path, repo: Path) -> tuple[list[str], dict[str, str]]:
    if program.name == "ipfs-daemon":
        return [str(program), "--repo", str(repo), "--api", "0", "--swarm", "0"], dict(os.environ)
    environment = os.environ | {"IPFS_PATH": str(repo)}
    if not (repo / "config").exists():
        subprocess.run(
            [program, "init", "--profile=test"], env=environment, check=True, stdout=subprocess.DEVNULL
        )
    return [str(program), "daemon"], environment


def _api_address(line: str) -> Iterator[str]:
    """The multiaddr in `ready /ip4/…` or in Kubo's `RPC API server listening on: /ip4/…`."""
    if line.startswith(("ready ", "RPC API server")):
        yield from (word for word in line.split() if word.startswith("/ip4/"))
