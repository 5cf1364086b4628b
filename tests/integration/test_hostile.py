"""Hostile neighbours: a node refuses in one clear line, stays up, loses nothing, and goes on once they behave."""

import json
import resource
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chainfl.blobs import get_record, put_record
from chainfl.chain.contracts import allocate, create_task
from chainfl.chain.keys import new_key
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.send import checksum
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import BlockNode, Manifest, ModelNode
from chainfl.devnet.processes import CHAIN_ID, fund
from chainfl.node.loop import persist
from chainfl.node.settings import load_settings
from chainfl.node.status import Status
from chainfl.node.wiring import READY, build_node, connect, open_key
from chainfl.protocol.events import Convicted, RoundEnded, Silent, Slashed
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, next_step
from chainfl.sim.memory import MemoryJournal
from chainfl.store.directory import DirectoryStore
from chainfl.types import Outcome, Phase, TaskConfig
from chainfl.workflows.sponsor import Terms, prepare_task
from tests.integration.chain import Devchain
from tests.integration.test_crashes import Swarm, open_swarm
from tests.processes import await_that
from tests.protocol.scene import ETHER
from tests.sim.network import Quadratic

Require = Callable[[str], Path]
ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse"
LARGEST = 1 << 20
"""Bytes of a model's chunk."""


class Waiting:
    """A node before its first round, in a thread of this process: it looks at its neighbours until they behave."""

    def __init__(self, home: Path, task: str, url: str, trainer: str = "none") -> None:
        """Make a key and start to look."""
        home.mkdir()
        new_key(home / "key.json", PASSWORD, iterations=2)
        (home / "password").write_text(PASSWORD)
        self.settings = load_settings(
            {
                "task": task, "rpc_url": url, "chain_id": CHAIN_ID, "keystore": home / "key.json",
                "password_file": home / "password", "store": f"dir:{home.parent / 'store'}", "home": home,
                "trainer": trainer,
            }
        )  # fmt: skip
        self.stop, self.status, self.node = threading.Event(), Status(), list[object]()
        self.thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Waiting":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)

    def _look(self) -> None:
        signer = open_key(self.settings)
        connections = persist(lambda: connect(self.settings, signer), self.stop, self.status)
        if connections is not None:
            self.node.append(persist(lambda: build_node(self.settings, connections), self.stop, self.status))

    def is_ready(self) -> bool:
        """Whether it found everything as it should be."""
        return bool(self.node and self.node[0])

    def refuses(self, text: str, said: pytest.LogCaptureFixture) -> None:
        """Wait for its line: there is one, health tells it too, and the node is up."""
        await_that(lambda: text in said.text, 60, f"{text!r}; it says {said.text}")
        healthy, body = self.status.health()
        assert not healthy
        assert text in str(body["last_error"])
        assert len([line for line in said.text.splitlines() if text in line]) == 1
        assert self.thread.is_alive()
        assert not self.is_ready()


def sponsored(chain: Devchain, store: DirectoryStore, **changes: object) -> tuple[TaskConfig, str]:
    """A task whose sponsor may have changed its terms."""
    terms = Terms(escrow=ETHER // 2)
    config = replace(prepare_task(store, terms), **changes)  # type: ignore[arg-type]
    made = create_task(chain.sender("sponsor"), chain.deployment.factory_address, config, terms.escrow)
    return config, checksum(made.address)


def chunk_file(store: Path, config: TaskConfig) -> Path:
    """Where the first model's bytes lie."""
    node = get_record(DirectoryStore(store), Cid.dag_cbor(config.first_model), ModelNode)
    (found,) = store.glob(f"blocks/*/{node.chunks[0]}")
    return found


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (bytes(LARGEST + 1), f"is larger than the {LARGEST} bytes allowed"),
        (b"not what was promised", "its bytes hash to another name"),
    ],
)
def test_blobs_that_are_too_large_or_wrong_are_refused_until_they_are_right(
    chain: Devchain, tmp_path: Path, data: bytes, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    config, task = sponsored(chain, DirectoryStore(tmp_path / "store"))
    blob = chunk_file(tmp_path / "store", config)
    right = blob.read_bytes()
    blob.write_bytes(data)

    with Waiting(tmp_path / "node", task, chain.url) as node:
        node.refuses(line, caplog)

        blob.write_bytes(right)
        await_that(node.is_ready, 60, "ready")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model": "backdoor-net"}, "the task's manifest: no model is called 'backdoor-net'"),
        ({"optimiser": "os.system"}, "the task's manifest: no optimiser is called 'os.system'"),
    ],
)
def test_a_manifest_that_names_unknown_code_is_refused(
    chain: Devchain, tmp_path: Path, changes: dict[str, object], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = DirectoryStore(tmp_path / "store")
    honest = get_record(store, Cid.dag_cbor(prepare_task(store, Terms()).manifest), Manifest)
    hostile = put_record(store, replace(honest, **changes))  # type: ignore[arg-type]
    _, task = sponsored(chain, store, manifest=hostile.digest)

    with Waiting(tmp_path / "node", task, chain.url) as node:
        node.refuses(line, caplog)


def test_a_task_whose_config_is_not_what_its_manifest_says_is_refused(
    chain: Devchain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, task = sponsored(
        chain, DirectoryStore(tmp_path / "store"), dimension=1_000_000, depth=14, max_updates=20
    )

    with Waiting(tmp_path / "node", task, chain.url) as node:
        node.refuses("the task's dimension is 1000000, its manifest says", caplog)


def test_a_task_that_is_too_large_is_refused_before_its_manifest_is_read(
    chain: Devchain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, task = sponsored(
        chain, DirectoryStore(tmp_path / "elsewhere"), dimension=2**32 - 1, depth=26, max_updates=20
    )

    with Waiting(tmp_path / "node", task, chain.url) as node:
        node.refuses("the task's models have 4294967295 parameters, more than the 134217728", caplog)


def test_a_task_that_asks_for_endless_training_is_refused(
    chain: Devchain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = DirectoryStore(tmp_path / "store")
    honest = get_record(store, Cid.dag_cbor(prepare_task(store, Terms()).manifest), Manifest)
    endless = put_record(store, replace(honest, local_epochs=10**9))
    _, task = sponsored(chain, store, manifest=endless.digest)

    with Waiting(tmp_path / "node", task, chain.url, "torch") as node:
        node.refuses("the task asks for 1000000000 passes", caplog)


class Liar(ThreadingHTTPServer):
    """An endpoint that passes everything on, and says that it serves another chain while it lies."""

    daemon_threads = True
    lies = True

    def __init__(self, truth: str) -> None:
        self.truth = truth
        super().__init__(("127.0.0.1", 0), Passing)


class Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Liar

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        if asked["method"] == "eth_chainId" and self.server.lies:
            answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": "0x1"}).encode()
        else:
            onward = urllib.request.Request(self.server.truth, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(onward, timeout=20) as reply:
                answer = reply.read()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Tests do not need it."""


def test_an_endpoint_that_lies_about_its_chain_is_refused_until_it_stops(
    chain: Devchain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, task = sponsored(chain, DirectoryStore(tmp_path / "store"))
    liar = Liar(chain.url)
    threading.Thread(target=liar.serve_forever, daemon=True).start()
    try:
        with Waiting(tmp_path / "node", task, f"http://127.0.0.1:{liar.server_port}") as node:
            node.refuses("serves chain 1, but chain 31337 is meant", caplog)
            liar.lies = False
            await_that(node.is_ready, 60, "ready")
    finally:
        liar.shutdown()
        liar.server_close()


def test_a_disk_without_room_is_waited_for(chain: Devchain, tmp_path: Path) -> None:
    _, task = sponsored(chain, DirectoryStore(tmp_path / "store"))
    home, log = tmp_path / "node", tmp_path / "log"
    home.mkdir()
    new_key(home / "key.json", PASSWORD, iterations=2)
    (home / "password").write_text(PASSWORD)
    arguments = [sys.executable, "-m", "chainfl", "node", "run", "--task", task, "--rpc-url", chain.url]
    arguments += ["--keystore", str(home / "key.json"), "--password-file", str(home / "password")]
    arguments += ["--store", f"dir:{tmp_path / 'store'}", "--home", str(home), "--trainer", "none"]
    whole = resource.RLIM_INFINITY

    def few_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, whole))

    with log.open("wb") as out:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=out, stderr=out, preexec_fn=few_bytes)
    try:
        await_that(lambda: "journal" in log.read_text(), 90, f"a line on the journal in {log.read_text()}")
        assert process.poll() is None

        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (whole, whole))
        await_that((home / READY).exists, 60, "ready")
        assert len([line for line in log.read_text().splitlines() if "journal" in line]) == 1
        assert "Traceback" not in log.read_text()
    finally:
        process.terminate()
        assert process.wait(20) == 0


class Swindler(DirectoryStore):
    """Announces right names over bytes that are too many."""

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Keep something else under the name."""
        cid = super().put(data, codec)
        if codec is Codec.RAW:
            self._path(cid).write_bytes(bytes(LARGEST + 1))
        return cid


@pytest.mark.deep
def test_rounds_with_bad_blobs_a_poor_account_and_a_full_disk_cost_nobody_anything(
    chain: Devchain, tmp_path: Path
) -> None:
    poor, cramped, whole = "node1", "node5", resource.RLIM_INFINITY

    def trouble(swarm: Swarm, name: str) -> None:
        if name == poor:
            fund(chain.w3, chain.sender("crash 1").address, 0)
        if name == cramped:
            await_that((tmp_path / cramped / READY).exists, 60, "a journal")
            resource.prlimit(swarm.running[cramped].pid, resource.RLIMIT_FSIZE, (50_000, whole))

    swarm, reader = open_swarm(
        chain, tmp_path, 2, lambda _: [], enrolled=trouble, challenge_seconds=8, train_seconds=120
    )
    swindler = join(chain, reader, Swindler(tmp_path / "store"))
    try:
        live_until_ended(chain, swarm, reader, swindler, poor, cramped)
    finally:
        swarm.stop()

    log = [logged.event for logged in reader.log]
    ended = [event.outcome for event in log if isinstance(event, RoundEnded)]
    assert ended[-1] is Outcome.FINAL  # the first draw may give just enough workers, the swindler one of them
    assert [event for event in log if isinstance(event, Silent | Convicted | Slashed)] == []
    assert "has 0.000000 ETH, too little for its next transaction: fund it" in said(swarm, poor)
    head = Cid.dag_cbor(reader.task.head_block)
    block = get_record(DirectoryStore(tmp_path / "store"), head, BlockNode)
    assert {update.cid for update in block.updates if update.worker == swindler.ledger.me} <= {None}
    assert all("Traceback" not in said(swarm, name) for name in swarm.plans)


def join(chain: Devchain, reader: TaskReader, store: DirectoryStore) -> Participant:
    """Somebody in this process who takes part with this store."""
    sender, task = chain.sender("swindler"), reader.task.address
    allocate(sender, chain.deployment.registry_address, task, ETHER)
    own = TaskReader(chain.w3, task, CHAIN_ID, reader.log[0].block_number if reader.log else 0)
    ledger = ChainLedger(chain.w3, sender, own, task)
    ledger.enrol()
    return Participant(ledger, store, Quadratic(99), MemoryJournal(keccak256(b"swindler")))


def live_until_ended(
    chain: Devchain, swarm: Swarm, reader: TaskReader, me: Participant, poor: str, cramped: str
) -> None:
    """The swindler acts; whoever complains is helped."""
    helped = set[str]()

    def is_over() -> bool:
        swarm.revive()
        task = reader.refresh()
        if "too little for its next transaction" in said(swarm, poor) and poor not in helped:
            helped.add(poor)
            fund(chain.w3, chain.sender("crash 1").address, ETHER)
        is_stuck = "journal" in said(swarm, cramped) or task.round.phase is Phase.PROPOSE
        if is_stuck and cramped not in helped:
            helped.add(cramped)
            whole = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(swarm.running[cramped].pid, resource.RLIMIT_FSIZE, whole)
        mine = me.ledger.task()
        waits = mine.accounts[me.ledger.me].weight == 0 and task.round.phase is Phase.TRAIN
        if waits and "swindler" not in helped:
            helped.add("swindler")
            me.ledger.apply_change(me.ledger.me)
        step = next_step(me, mine, me.ledger.now(), Duty.WORK | Duty.VALIDATE | Duty.MINE)
        if step is not None:
            step.take(me)
        return task.round.phase is Phase.ENDED

    await_that(is_over, 200, "the end of the task")


def said(swarm: Swarm, name: str) -> str:
    """What a node has logged."""
    return (swarm.home / f"{name}.log").read_text()
