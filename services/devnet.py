"""A chain of one's own on this machine: anvil, contracts, keys, a task, and one process per participant.

Everything that is started is written to `devnet.json` by process id and ended by it; nothing else is touched.
"""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from web3 import Web3

from chainfl.chain.abi import functions
from chainfl.chain.contracts import CreatedTask, allocate, create_task
from chainfl.chain.deploy import Deployment, deploy
from chainfl.chain.keys import new_key, unlock
from chainfl.chain.reader import as_address
from chainfl.chain.rpc import open_rpc, outside
from chainfl.chain.send import Sender, checksum
from chainfl.errors import InputError, LedgerError, ToolMissingError
from chainfl.store.directory import DirectoryStore
from chainfl.tools import find
from chainfl.types import Address
from services.node.wiring import READY
from services.sponsor import ETHER, Terms, prepare_task

CHAIN_ID = 31337
PASSWORD = "devnet"
_FUNDS = 10_000 * ETHER
Tell = Callable[[str], None]


@dataclass(slots=True)
class Devnet:
    """What runs, where, and under which process ids."""

    home: str
    rpc_url: str
    chain_id: int = CHAIN_ID
    factory: str = ""
    registry: str = ""
    task: str = ""
    from_block: int = 0
    processes: dict[str, int] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Where this is written."""
        return Path(self.home) / "devnet.json"

    @property
    def store(self) -> str:
        """The blob store that all share."""
        return f"dir:{self.home}/store"

    def save(self) -> None:
        """Write it down before going on, so that `down` finds everything."""
        self.file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def write_guest(net: Devnet) -> Path:
    """What a shell has to know to take part as the guest, as a file to be read with `.`"""
    known = {
        "RPC_URL": net.rpc_url,
        "CHAIN_ID": net.chain_id,
        "TASK": net.task,
        "FROM_BLOCK": net.from_block,
        "FACTORY": net.factory,
        "STORE": net.store,
        "KEYSTORE": f"{net.home}/keys/guest.json",
        "PASSWORD_FILE": f"{net.home}/password",
    }
    path = Path(net.home) / "guest.env"
    lines = (f"export CHAINFL_{name}={shlex.quote(str(value))}\n" for name, value in known.items())
    path.write_text("".join(lines), encoding="utf-8")
    return path


def load_devnet(home: Path) -> Devnet:
    """A devnet from its folder."""
    try:
        return Devnet(**json.loads((home / "devnet.json").read_text(encoding="utf-8")))
    except OSError:
        raise InputError(f"no devnet in {home}: start one with: chainfl devnet up") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{home / 'devnet.json'} is damaged: {error}") from None


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_anvil(
    home: Path, accounts: int, extra: Sequence[str] = (), chain_id: int = CHAIN_ID
) -> tuple[subprocess.Popen[bytes], str]:
    """Start anvil on a free loopback port and wait until it answers.

    Raises:
        ToolMissingError: anvil is not installed; LedgerError: it does not come up.
    """
    program = find("anvil")
    if program is None:
        raise ToolMissingError("anvil is not installed: run scripts/setup, or install Foundry")
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    arguments = [str(program), "--port", str(port), "--host", "127.0.0.1", "--chain-id", str(chain_id)]
    arguments += ["--accounts", str(accounts), "--balance", str(_FUNDS // ETHER), "--silent", *extra]
    with (home / "anvil.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    _await_rpc(process, url, home / "anvil.log")
    return process, url


def _await_rpc(process: subprocess.Popen[bytes], url: str, log: Path, seconds: float = 20) -> None:
    w3, until = open_rpc(url, timeout=2), time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise LedgerError(f"anvil ended with {process.returncode}; see {log}")
        if w3.is_connected():
            return
        time.sleep(0.05)
    process.kill()
    raise LedgerError(f"anvil did not answer within {seconds:.0f} s; see {log}")


def fund(w3: Web3, account: Address, wei: int) -> None:
    """Give an account ether, as only a devnet can."""
    with outside("funding an account"):
        w3.provider.make_request("anvil_setBalance", [checksum(account), hex(wei)])  # type: ignore[arg-type]


def make_keys(home: Path, names: Sequence[str]) -> dict[str, Path]:
    """An encrypted key for each name, under the devnet's password. Light encryption: these keys hold nothing."""
    keys = {}
    (home / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    for name in names:
        path = home / "keys" / f"{name}.json"
        if not path.exists():
            new_key(path, PASSWORD, iterations=2)
        keys[name] = path
    return keys


@dataclass(frozen=True, slots=True)
class Person:
    """A participant of a devnet: its stake, and how it behaves."""

    name: str
    stake: int = 10 * ETHER
    attack: str | None = None
    lie_in_round: int | None = None


def open_task(
    net: Devnet, w3: Web3, keys: dict[str, Path], people: Sequence[Person], terms: Terms, tell: Tell
) -> CreatedTask:
    """Deploy, create the task, and put everybody's stake behind them."""
    home = Path(net.home)
    sponsor = Sender(w3, unlock(keys["sponsor"], PASSWORD), net.chain_id)
    fund(w3, sponsor.address, _FUNDS)
    deployment: Deployment = deploy(w3, sponsor, home / f"{net.chain_id}.json", 1, net.chain_id, tell)
    config = prepare_task(DirectoryStore(home / "store"), terms)
    created = create_task(sponsor, deployment.factory_address, config, terms.escrow)
    net.factory, net.registry = deployment.factory, deployment.registry
    net.task, net.from_block = checksum(created.address), created.block
    net.save()
    tell(f"task {created.task_id}: {net.task} ({created.gas:,} gas)")
    for person in people:
        sender = Sender(w3, unlock(keys[person.name], PASSWORD), net.chain_id)
        fund(w3, sender.address, _FUNDS)
        allocate(sender, deployment.registry_address, created.address, person.stake)
    return created


def enrol(net: Devnet, w3: Web3, keys: dict[str, Path], people: Sequence[Person]) -> None:
    """Enrol everybody once their nodes are wired, so that the first draw finds them all at work."""
    _await_nodes(net, people)
    data = functions("TrainingTask")["enrol"].call_data()
    for person in people:
        Sender(w3, unlock(keys[person.name], PASSWORD), net.chain_id).send(as_address(net.task), data)


def _await_nodes(net: Devnet, people: Sequence[Person], seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    waiting = {person.name for person in people}
    while waiting:
        waiting = {name for name in waiting if not (Path(net.home) / "nodes" / name / READY).exists()}
        ended = [name for name in waiting if not is_running(net.processes[name])]
        if ended:
            raise LedgerError(
                f"node {ended[0]} ended before it was ready; see {net.home}/logs/{ended[0]}.log"
            )
        if time.monotonic() > until:
            names = ", ".join(sorted(waiting))
            raise LedgerError(f"nodes {names} are not ready after {seconds:.0f} s; see {net.home}/logs")
        time.sleep(0.1)


def start_node(
    net: Devnet,
    person: Person,
    number: int,
    count: int,
    partition: str,
    seed: int,
    more: Mapping[str, object] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the process of one participant, with `more` options if need be; its log is a file of its own."""
    home = Path(net.home)
    arguments = [sys.executable, "-m", "chainfl", "node", "run"]
    options: dict[str, object] = {
        "rpc-url": net.rpc_url,
        "chain-id": net.chain_id,
        "task": net.task,
        "from-block": net.from_block,
        "keystore": home / "keys" / f"{person.name}.json",
        "password-file": home / "password",
        "store": net.store,
        "home": home / "nodes" / person.name,
        "partition": partition,
        "client": number,
        "clients": count,
        "partition-seed": seed,
        "master-seed": seed,
        "device": "cpu",
        "attack": person.attack,
        "lie-in-round": person.lie_in_round,
    }
    for name, value in (options | dict(more or {})).items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is not None:
            arguments += [f"--{name}", str(value)]
    logs = home / "logs"
    logs.mkdir(exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with (logs / f"{person.name}.log").open("ab") as log:
        process = subprocess.Popen(
            arguments,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
    net.processes[person.name] = process.pid
    net.save()
    return process


def start_api(net: Devnet) -> str:
    """Start the audit API with its dashboard for this devnet; answers its address."""
    port, home = free_port(), Path(net.home)
    arguments = [sys.executable, "-m", "chainfl", "serve", "--devnet", str(home), "--port", str(port)]
    (home / "logs").mkdir(exist_ok=True)
    with (home / "logs" / "audit-api.log").open("ab") as log:
        process = subprocess.Popen(
            arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    net.processes["audit-api"] = process.pid
    net.save()
    return f"http://127.0.0.1:{port}"


def stop(net: Devnet, seconds: float = 10) -> list[str]:
    """End exactly what was started, nodes first, politely and then not; answers who was ended."""
    order = sorted(net.processes, key=lambda name: name == "anvil")
    ended = [name for name in order if _signal(net.processes[name], signal.SIGTERM)]
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(is_running(net.processes[name]) for name in ended):
        time.sleep(0.05)
    for name in ended:
        if is_running(net.processes[name]):
            _signal(net.processes[name], signal.SIGKILL)
    net.processes = {}
    net.save()
    return ended


def is_running(pid: int) -> bool:
    """Whether this process is alive (one that has ended and waits to be collected is not)."""
    with contextlib.suppress(OSError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
