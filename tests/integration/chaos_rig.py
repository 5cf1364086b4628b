"""What a chaos run is played on: anvil, two IPFS daemons, seven nodes as processes, and links that can fail."""

import gzip
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from web3.types import RPCEndpoint

from chainfl.blobs import name_model, put_model
from chainfl.chain.abi import functions
from chainfl.chain.contracts import CreatedTask, allocate, create_task
from chainfl.chain.deploy import Deployment, deploy
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import checksum
from chainfl.codec import merkle
from chainfl.codec.commitments import keccak256
from chainfl.codec.vector import encode
from chainfl.devnet.processes import CHAIN_ID, start_anvil
from chainfl.sim.memory import MemoryStore
from chainfl.types import Rule
from tests.integration.chain import Devchain
from tests.integration.forked_nodes import CLOCK, ForkServer
from tests.integration.links import HOST, Link, Links, open_links
from tests.processes import await_that
from tests.protocol.scene import ETHER, config
from tests.sim.network import LAYOUT
from tests.store.ipfs_node import Node, ipfs_node

NODES = range(1, 8)
STAKE = 100 * ETHER
"""So much above the minimum that who is slashed for an excused silence is drawn again."""
PHASE_SECONDS = 1800
"""However long a fault lasts and however far a clock is moved, there is time to act."""
_PHASES = tuple(f"{phase}_seconds" for phase in ("train", "reveal", "score", "tally", "propose", "challenge"))
_REPLACE_AFTER = 3.0
"""Seconds until a transaction that a chain lost is sent again; by default 30, and nothing depends on it but time."""


class Nodes:
    """The nodes' processes by number, each started again when it was killed."""

    def __init__(self, home: Path) -> None:
        """None runs yet."""
        self.home = home
        self.down = set[int]()
        self.pids = dict[int, int]()
        self._forks = ForkServer()

    def plan(self, number: int) -> Path:
        """The file that describes a node."""
        return self.home / f"node{number}.json"

    def log(self, number: int) -> Path:
        """What a node says."""
        return self.home / f"node{number}.log"

    def clock(self, number: int) -> Path:
        """The file that moves a node's clock."""
        return self.home / f"node{number}" / CLOCK

    def start(self, number: int) -> None:
        """Start a node, or start it again."""
        self.down.discard(number)
        self.pids[number] = self._forks.start(self.plan(number), self.log(number))

    def kill(self, number: int) -> None:
        """SIGKILL; the node stays down until it is started."""
        self.down.add(number)
        self.signal(number, signal.SIGKILL)

    def signal(self, number: int, which: signal.Signals) -> None:
        """Send a signal to a node, if it is there."""
        with suppress(ProcessLookupError):
            os.kill(self.pids[number], which)

    def revive(self) -> None:
        """Start again whoever died by a kill; anything else that ended before the task is a defect."""
        by_pid = {pid: number for number, pid in self.pids.items()}
        for pid, code in self._forks.ended().items():
            number = by_pid.get(pid)
            assert code in (0, -signal.SIGKILL), f"node {number}: {code}: {self._said(number)}"
            if number is not None and code and number not in self.down:
                self.start(number)

    def deaths(self) -> list[str]:
        """Where nodes have killed themselves."""
        plans = (json.loads(self.plan(number).read_text()) for number in NODES)
        return [place for plan in plans for place in plan["crashed"]]

    def close(self) -> None:
        """End them all."""
        self._forks.close()

    def _said(self, number: int | None) -> str:
        return self.log(number).read_text()[-2000:] if number is not None else ""


class Daemon:
    """An IPFS daemon that can be killed and started again with what it has stored."""

    def __init__(self, program: Path, repo: Path) -> None:
        """Start it."""
        self._program, self._repo = program, repo
        self._running: AbstractContextManager[Node] | None = None
        self.start()

    def start(self) -> None:
        """Start, once more if need be: the lock of one that was killed is nobody's."""
        shutil.rmtree(self._repo / "repo.lock", ignore_errors=True)
        self._running = ipfs_node(self._program, self._repo)
        self.node = self._running.__enter__()
        self.address = str(self.node.rpc("id")[0]["Addresses"][0])

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            return bool(self.node.rpc("id"))
        except (OSError, HTTPException):
            return False

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.node.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """End it."""
        if self._running is not None:
            self._running.__exit__(None, None, None)
        self._running = None

    @property
    def api_port(self) -> int:
        """Where its RPC listens."""
        return int(self.node.address.rsplit("/", 1)[1])

    @property
    def swarm_port(self) -> int:
        """Where other daemons connect."""
        return int(self.address.split("/")[4])


class Anvil:
    """The chain's endpoint, which can be killed and started again with the chain that it had."""

    def __init__(self, home: Path, *arguments: str) -> None:
        """Start it, with an empty chain or with one that was written to disk."""
        self.process, self.url = start_anvil(home, 1, arguments)
        self.port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        """End it, even one that is paused."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(10)


@dataclass(slots=True)
class Rig:
    """Everything that runs, and the task that is played."""

    home: Path
    chain: Devchain
    anvil: Anvil
    daemons: Sequence[Daemon]
    nodes: Nodes
    to_chain: Mapping[int, Link]
    to_store: Mapping[int, Link]
    between: Link
    made: CreatedTask
    reader: TaskReader
    first_block: int = 0
    """The newest block when everybody had enrolled."""
    is_chain_away: bool = False
    restarted_at: int = 0
    """The newest block when anvil was started again: it does not know the states before that any more."""

    @property
    def places(self) -> Path:
        """A folder with a file for each place where the first node to come by kills itself."""
        return self.home / "places"

    def lead(self) -> int:
        """By how many seconds the chain's clock is ahead of this machine's."""
        return int(self.chain.w3.eth.get_block("latest")["timestamp"]) - int(time.time())

    def introduce(self) -> None:
        """Have the daemons meet, over the link between them."""
        one, two = self.daemons
        peer = two.address.rsplit("/", 1)[1]
        at = f"/ip4/{HOST}/tcp/{self.between.port}/p2p/{peer}"

        def have_met() -> bool:
            one.node.rpc("swarm/connect", arg=at)
            (peers,) = one.node.rpc("swarm/peers")
            return any(each["Peer"] == peer for each in peers["Peers"] or [])

        await_that(have_met, 30, "a connection between the daemons")

    def stop_mining(self) -> None:
        """No block is being made when this returns: anvil does not wait for one before it writes down or drops blocks.

        The state would have what a transaction did, and no block the transaction: a chain that cannot be.
        """
        self.chain.rpc("evm_setAutomine", [False])
        # The block asked for is made after all that were being made.
        self.chain.rpc("evm_mine", [])

    def kill_anvil(self) -> Callable[[], None]:
        """SIGKILL to the endpoint, just after its chain was written to disk; answers how it comes back."""
        self.stop_mining()
        state, lead = self.chain.rpc("anvil_dumpState", []), self.lead()
        number = self.chain.w3.eth.block_number
        file = self.home / "chain-state.json"
        file.write_bytes(gzip.decompress(bytes.fromhex(str(state)[2:])))
        self.anvil.kill()
        self.is_chain_away = True

        def restart() -> None:
            fresh = Anvil(self.home, "--load-state", str(file))
            # The clock that was moved is part of the chain, but not of what anvil writes down.
            open_rpc(fresh.url).provider.make_request(RPCEndpoint("evm_increaseTime"), [lead])
            self.anvil.process, self.anvil.port = fresh.process, fresh.port
            self.restarted_at = number
            self.is_chain_away = False

        return restart


@contextmanager
def open_rig(program: Path, home: Path, rounds: int) -> Iterator[Rig]:
    """Start everything: a task with seven enrolled nodes."""
    with ExitStack() as stack:
        links = stack.enter_context(open_links())
        nodes = Nodes(home)
        stack.callback(nodes.close)

        daemons = [Daemon(program, home / name) for name in ("ipfs-one", "ipfs-two")]
        for daemon in daemons:
            stack.callback(daemon.close)

        anvil = Anvil(home)
        stack.callback(anvil.close)
        control = links.add(lambda: anvil.port)
        chain = _deployed(control.url, home)
        made = _make_task(chain, daemons[0], rounds)

        rig = Rig(
            home, chain, anvil, daemons, nodes,
            {number: links.add(lambda: anvil.port) for number in NODES},
            {number: _store_link(links, daemons[number % 2]) for number in NODES},
            links.add(lambda: daemons[1].swarm_port),
            made, TaskReader(chain.w3, made.address, CHAIN_ID, made.block),
        )  # fmt: skip
        rig.introduce()
        rig.places.mkdir()
        for number in NODES:
            nodes.plan(number).write_text(json.dumps(_plan(rig, number)))
            _enrol(rig, number)
        rig.first_block = chain.w3.eth.block_number
        for number in NODES:
            nodes.start(number)
        yield rig


def _deployed(url: str, home: Path) -> Devchain:
    chain = Devchain(open_rpc(url), url, Deployment(CHAIN_ID, "", 1), MemoryStore(), 0)
    deployer = chain.sender("deployer")
    chain.deployment = deploy(chain.w3, deployer, home / "chain.json", 1, CHAIN_ID, lambda _: None)
    return chain


def _make_task(chain: Devchain, daemon: Daemon, rounds: int) -> CreatedTask:
    head = encode([0.0] * LAYOUT.d, 20)
    first = name_model(head, 20, LAYOUT)
    put_model(daemon.node.store, first)
    daemon.node.store.pin(first.cid)
    terms = config(
        Rule.SOFTMAX,
        first_root=merkle.root(head),
        first_model=first.cid.digest,
        rounds=rounds,
        **dict.fromkeys(_PHASES, PHASE_SECONDS),
    )
    sponsor = chain.sender("sponsor")
    return create_task(sponsor, chain.deployment.factory_address, terms, rounds * ETHER // 8)


def _enrol(rig: Rig, number: int) -> None:
    sender = rig.chain.sender(f"chaos {number}")
    allocate(sender, rig.chain.deployment.registry_address, rig.made.address, STAKE)
    sender.send(rig.made.address, functions("TrainingTask")["enrol"].call_data())


def _plan(rig: Rig, number: int) -> dict[str, Any]:
    secret = rig.home / f"node{number}.key"
    secret.write_bytes(keccak256(f"chaos {number}".encode()))
    return {
        "rpc_url": rig.to_chain[number].url,
        "chain_id": CHAIN_ID,
        "task": checksum(rig.made.address),
        "from_block": rig.made.block,
        "secret_file": str(secret),
        "home": str(rig.home / f"node{number}"),
        "store": f"ipfs:/ip4/{HOST}/tcp/{rig.to_store[number].port}",
        "seed": number,
        "replace_after": _REPLACE_AFTER,
        "shared": str(rig.places),
        "crashes": [],
        "crashed": [],
    }


def _store_link(links: Links, daemon: Daemon) -> Link:
    return links.add(lambda: daemon.api_port)
