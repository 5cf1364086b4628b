"""A chain of one's own on this machine: anvil, contracts, keys, a task, and one process per participant.

Everything that is started is written to `devnet.json` by process id and ended by it; nothing else is touched.
"""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from web3 import Web3

from chainfl.chain.abi import as_address, functions
from chainfl.chain.contracts import CreatedTask, allocate, create_task
from chainfl.chain.deploy import Deployment, deploy
from chainfl.chain.keys import new_key, unlock
from chainfl.chain.rpc import open_rpc, outside
from chainfl.chain.send import Sender, checksum
from chainfl.codec.admission import Entry
from chainfl.codec.text import ETHER
from chainfl.devnet.pids import birth_of, is_running, send_signal
from chainfl.errors import InputError, LedgerError
from chainfl.node.wiring import READY
from chainfl.protocol.admission import admit
from chainfl.protocol.terms import needed_accounts
from chainfl.store.directory import DirectoryStore
from chainfl.tools import require
from chainfl.types import Address, OnProgress
from chainfl.workflows.sponsor import Terms, check_terms, prepare_task

CHAIN_ID = 31337
PASSWORD = "devnet"
PHASE_FLOOR = 1
QUIET_SECONDS = 10.0
"""A wait that is longer than this is reported again."""

_FUNDS = 10_000 * ETHER
_LEFT_BEHIND = (
    *("devnet.json", f"{CHAIN_ID}.json", "guest.env", "nodes", "store", "logs", "keys"),
    *("trace.json", "participants.json"),
    *("audit-index.sqlite", "audit-index.sqlite-wal", "audit-index.sqlite-shm"),
)
"""What an ended devnet leaves in its folder; without its chain it is worth nothing."""


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
    dashboard: str = ""
    processes: dict[str, int] = field(default_factory=dict)
    births: dict[str, str] = field(default_factory=dict)

    def started(self, name: str, pid: int) -> None:
        """Write down what was started before going on, so that `down` finds everything and nothing else."""
        self.processes[name] = pid
        self.births[name] = birth_of(pid)
        self.save()

    def runs(self, name: str) -> bool:
        """Whether this very process is alive: another that was given its number since does not count."""
        pid = self.processes[name]
        return is_running(pid) and birth_of(pid) == self.births.get(name, birth_of(pid))

    @property
    def file(self) -> Path:
        """Where this is written."""
        return Path(self.home) / "devnet.json"

    @property
    def store(self) -> str:
        """The blob store that all share."""
        return f"dir:{self.home}/store"

    def save(self) -> None:
        """Write all of it to the file."""
        self.file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def guest_settings(net: Devnet, key: str = "guest") -> dict[str, object]:
    """What a shell needs to look around and act by a key of this net, by the names of the settings."""
    return {
        "RPC_URL": net.rpc_url,
        "CHAIN_ID": net.chain_id,
        "TASK": net.task,
        "FROM_BLOCK": net.from_block,
        "FACTORY": net.factory,
        "STORE": net.store,
        "KEYSTORE": f"{net.home}/keys/{key}.json",
        "PASSWORD_FILE": f"{net.home}/password",
    }


def own_environment(net: Devnet) -> dict[str, str]:
    """What a devnet's processes see: a shell that was a guest of another devnet decides nothing in this one."""
    foreign = {f"CHAINFL_{name}" for name in guest_settings(net)}
    return {name: value for name, value in os.environ.items() if name not in foreign}


def write_guest(net: Devnet, key: str = "guest") -> Path:
    """The settings as a file to be read with `.`"""
    path = Path(net.home) / "guest.env"
    lines = (
        f"export CHAINFL_{name}={shlex.quote(str(value))}\n"
        for name, value in guest_settings(net, key).items()
    )
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


def clear(home: Path) -> None:
    """Make room for a new devnet: what an ended one left here is removed, its journals above all.

    Raises:
        InputError: one runs here.
    """
    if not (home / "devnet.json").exists():
        return
    old = load_devnet(home)
    if any(map(old.runs, old.processes)):
        raise InputError(f"a devnet runs in {home}: end it first with: chainfl devnet down --home {home}")

    # Journals of an ended chain would look like a node's own commitments on the new one.
    for name in _LEFT_BEHIND:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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
    program = require("anvil")
    home.mkdir(parents=True, exist_ok=True)
    _hide_from_git(home)
    port = free_port()
    arguments = [str(program), "--port", str(port), "--host", "127.0.0.1", "--chain-id", str(chain_id)]
    arguments += ["--accounts", str(accounts), "--balance", str(_FUNDS // ETHER), "--silent", *extra]

    # A session of its own: Ctrl-C at the terminal ends the command, which then ends anvil in order.
    with (home / "anvil.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    _await_rpc(process, url, home / "anvil.log")
    return process, url


def _hide_from_git(home: Path) -> None:
    """Keys and chain data belong in no repository: git ignores the folder, whatever project it is in."""
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _await_rpc(process: subprocess.Popen[bytes], url: str, log: Path, seconds: float = 20) -> None:
    w3 = open_rpc(url, timeout=2)
    until = time.monotonic() + seconds
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
    # Where the folder lies in somebody's repository, `git add .` leaves keys and password alone.
    (home / ".gitignore").write_text("*\n", encoding="utf-8")
    password = home / "password"
    # Made with its mode before anything is in it: others on the machine see no password for a moment.
    password.touch(0o600)
    password.write_text(PASSWORD + "\n", encoding="utf-8")
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
    net: Devnet,
    w3: Web3,
    keys: dict[str, Path],
    people: Sequence[Person],
    terms: Terms,
    on_progress: OnProgress,
) -> CreatedTask:
    """Deploy, create the task, and bond everybody's stake."""
    home = Path(net.home)
    sponsor = Sender(w3, unlock(keys["sponsor"], PASSWORD), net.chain_id)
    fund(w3, sponsor.address, _FUNDS)

    config = prepare_task(DirectoryStore(home / "store"), terms)
    check_terms(config, terms.escrow, PHASE_FLOOR)

    file = home / f"{net.chain_id}.json"
    deployment: Deployment = deploy(w3, sponsor, file, PHASE_FLOOR, net.chain_id, on_progress)
    created = create_task(sponsor, deployment.factory_address, config, terms.escrow)

    net.factory = deployment.factory
    net.registry = deployment.registry
    net.task = checksum(created.address)
    net.from_block = created.block
    net.save()
    on_progress(f"task {created.task_id}: {net.task} ({created.gas:,} gas)")

    missing = needed_accounts(config) - len(people)
    if missing > 0:
        on_progress(f"{missing} more must enrol before a first round is drawn")

    for person in people:
        sender = Sender(w3, unlock(keys[person.name], PASSWORD), net.chain_id)
        fund(w3, sender.address, _FUNDS)
        allocate(sender, deployment.registry_address, created.address, person.stake)
    on_progress(f"{len(people)} participants have put stake on it")
    return created


def enrol(
    net: Devnet,
    w3: Web3,
    keys: dict[str, Path],
    people: Sequence[Person],
    on_progress: OnProgress = lambda _: None,
    entries: Sequence[Entry] = (),
) -> None:
    """Enrol everybody once their nodes are wired, so that the first draw finds them all at work.

    `entries` is the task's list of who may join, if it has one.
    """
    await_nodes(net, people, on_progress)
    for person in people:
        sender = Sender(w3, unlock(keys[person.name], PASSWORD), net.chain_id)
        sender.send(as_address(net.task), _enrolment(sender.address, entries))


def _enrolment(who: Address, entries: Sequence[Entry]) -> bytes:
    """The call that enrols an account, with its proof where there is a list."""
    shown = admit(entries, who) if entries else None
    if shown is None:
        return functions("TrainingTask")["enrol"].call_data()
    return functions("TrainingTask")["enrolAdmitted"].call_data(who, shown.role, shown.proof)


def await_nodes(net: Devnet, people: Sequence[Person], on_progress: OnProgress, seconds: float = 180) -> None:
    """Wait until every node is wired; a long wait is reported every few seconds.

    Raises:
        LedgerError: a node has ended, or is not ready in time.
    """
    began = time.monotonic()
    said = began
    waiting = {person.name for person in people}
    while waiting:
        before = len(waiting)
        waiting = {name for name in waiting if not (Path(net.home) / "nodes" / name / READY).exists()}
        now = time.monotonic()
        if len(waiting) < before or now - said >= QUIET_SECONDS:
            on_progress(
                f"{len(people) - len(waiting)} of {len(people)} nodes ready, after {now - began:.0f} s"
            )
            said = now

        ended = [name for name in waiting if not net.runs(name)]
        if ended:
            raise LedgerError(
                f"node {ended[0]} ended before it was ready; see {net.home}/logs/{ended[0]}.log"
            )

        if now - began > seconds:
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

    # Many nodes share one machine: one thread each is faster than all on every core.
    return _start(net, person.name, arguments, {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})


def _start(
    net: Devnet, name: str, arguments: Sequence[str], variables: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start one process of a devnet; its log is a file of its own."""
    logs = Path(net.home) / "logs"
    logs.mkdir(exist_ok=True)
    with (logs / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            arguments,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=own_environment(net) | variables,
        )
    net.started(name, process.pid)
    return process


def start_api(net: Devnet, on_progress: OnProgress, seconds: float = 60) -> str:
    """Start the audit API with its dashboard and wait until it listens; answers its address, or nothing."""
    port = free_port()
    home = Path(net.home)
    arguments = [sys.executable, "-m", "chainfl", "serve", "--devnet", str(home), "--port", str(port)]

    process = _start(net, "audit-api", arguments, {})

    until = time.monotonic() + seconds
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > until:
            on_progress(f"the audit API does not answer; the rest runs; see {home}/logs/audit-api.log")
            return ""
        time.sleep(0.05)
    net.dashboard = f"http://127.0.0.1:{port}"
    net.save()
    return net.dashboard


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stop(net: Devnet, seconds: float = 10, keep: Sequence[str] = ()) -> list[str]:
    """End exactly what was started but `keep`, nodes first, politely and then not; answers who was ended."""
    running = [name for name in net.processes if name not in keep and net.runs(name)]
    order = sorted(running, key=lambda name: name == "anvil")
    ended = [name for name in order if send_signal(net.processes[name], signal.SIGTERM)]
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(map(net.runs, ended)):
        time.sleep(0.05)
    for name in filter(net.runs, ended):
        send_signal(net.processes[name], signal.SIGKILL)
    net.processes = {name: pid for name, pid in net.processes.items() if name in keep}
    net.births = {name: born for name, born in net.births.items() if name in keep}
    net.save()
    return ended
