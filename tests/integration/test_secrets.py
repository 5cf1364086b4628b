"""Private keys and passphrases stay where they are: not in arguments, logs, errors, the journal or any answer."""

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eth_account import Account

from chainfl.chain.contracts import allocate, create_task
from chainfl.chain.keys import address_of, new_key, unlock
from chainfl.chain.ledger import ChainLedger
from chainfl.chain.reader import TaskReader
from chainfl.chain.send import checksum
from chainfl.cli import run
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import CHAIN_ID, free_port, fund
from chainfl.learning.trainer import record_layout
from chainfl.node.learning import Untrained
from chainfl.node.wiring import READY
from chainfl.roles.participant import Participant
from chainfl.roles.turn import Duty, next_step
from chainfl.sim.memory import MemoryJournal
from chainfl.store.directory import DirectoryStore
from chainfl.types import Phase
from chainfl.workflows.sponsor import Terms, prepare_task
from tests.integration.chain import Devchain, devchain
from tests.processes import await_that
from tests.protocol.scene import ETHER

ROOT = Path(__file__).resolve().parents[2]
PASSPHRASE = "Tr0ubadour-and-3-staples"
OTHERS = 6


def forms(secret: bytes) -> dict[str, bytes]:
    """A secret in every form in which software is known to spill one."""
    number = int.from_bytes(secret, "big")
    return {
        "raw": secret,
        "hex": secret.hex().encode(),
        "upper hex": secret.hex().upper().encode(),
        "0x hex": hex(number).encode(),
        "decimal": str(number).encode(),
        "base64": base64.b64encode(secret).rstrip(b"="),
        "url-safe base64": base64.urlsafe_b64encode(secret).rstrip(b"="),
        "repr": repr(secret).encode(),
        "passphrase": PASSPHRASE.encode(),
        "base64 of the passphrase": base64.b64encode(PASSPHRASE.encode()).rstrip(b"="),
    }


def spilled(places: dict[str, bytes], secret: bytes) -> list[str]:
    """Where the secret is seen, and in which form."""
    return [
        f"{form} in {place}"
        for place, seen in places.items()
        for form, text in forms(secret).items()
        if text in seen
    ]


def files_under(*folders: Path) -> Iterator[tuple[str, bytes]]:
    """All that lies in these folders, but for keystore and password file themselves."""
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and path.name not in ("key.json", "password"):
                yield str(path), path.read_bytes()


def test_the_search_itself_finds_a_spilled_key() -> None:
    secret = keccak256(b"a key")

    assert spilled({"log": b"key=" + secret.hex().encode()}, secret) == ["hex in log"]
    assert spilled({"log": f"0x{secret.hex().upper()}".encode()}, secret) == ["upper hex in log"]
    assert spilled({"log": str(int.from_bytes(secret, "big")).encode()}, secret) == ["decimal in log"]


@pytest.mark.slow
def test_a_node_at_work_shows_its_key_and_passphrase_nowhere(
    tmp_path: Path, require: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    require("anvil")
    home, store, log = tmp_path / "node", tmp_path / "store", tmp_path / "log"
    key, password = tmp_path / "key.json", tmp_path / "password"
    password.write_text(PASSPHRASE + "\n")
    new_key(key, PASSPHRASE, iterations=2)
    secret = bytes(Account.decrypt(json.loads(key.read_text()), PASSPHRASE))
    with devchain(tmp_path / "chain") as chain:
        config = prepare_task(DirectoryStore(store), Terms(rounds=2, challenge_seconds=4, escrow=ETHER // 5))
        made = create_task(chain.sender("sponsor"), chain.deployment.factory_address, config, ETHER // 5)
        reader = TaskReader(chain.w3, made.address, CHAIN_ID, made.block)
        fund(chain.w3, address_of(key), 100 * ETHER)
        named = ["--rpc-url", chain.url, "--task", checksum(made.address), "--keystore", str(key)]
        port = free_port()
        arguments = ["node", "run", *named, "--password-file", str(password), "--store", f"dir:{store}"]
        arguments += ["--home", str(home), "--trainer", "none", "--status-port", str(port)]
        arguments += ["--json-logs", "--log-level", "debug"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "chainfl", *arguments],
                cwd=ROOT, stdout=out, stderr=out, env=os.environ | {"CHAINFL_DEBUG": "1"},
            )  # fmt: skip
        try:
            await_that((home / READY).exists, 90, "ready")
            assert (
                run(["stake", "add", "5", "--enrol", *named, "--password-file", str(password), "--json"]) == 0
            )
            people = [join(chain, reader, DirectoryStore(store), number) for number in range(OTHERS)]
            places = {
                name: Path(f"/proc/{process.pid}/{name}").read_bytes()
                for name in ("cmdline", "environ")
                if Path("/proc/self").exists()
            }
            await_that(lambda: _plays(reader, people, 2), 150, "a round")
            places |= {path: _answer(port, path) for path in ("/health", "/metrics", "/")}
            await_that(lambda: _plays(reader, people, 3), 150, "two rounds")
            assert process.wait(60) == 0
        finally:
            process.kill()
        places |= _errors(tmp_path, named)
    shown = capfd.readouterr()
    places |= {"stdout": shown.out.encode(), "stderr": shown.err.encode(), "log": log.read_bytes()}
    places |= dict(files_under(home, store, tmp_path / "chain"))

    assert any("causes" in line for line in log.read_text().splitlines()), log.read_text()[-2000:]
    assert spilled(places, secret) == []


def _errors(folder: Path, named: list[str]) -> dict[str, bytes]:
    """What commands say when key or password are wrong, with and without debugging."""
    (folder / "wrong").write_text("Tr0ubadour\n")
    (folder / "not-a-key.json").write_text("{}")
    said = {}
    for number, more in enumerate(
        (["--password-file", str(folder / "wrong")], ["--password-file", "/nowhere"])
    ):
        done = subprocess.run(
            [sys.executable, "-m", "chainfl", "stake", "add", "1", *named, *more],
            cwd=ROOT, capture_output=True, timeout=60, check=False, env=os.environ | {"CHAINFL_DEBUG": "1"},
        )  # fmt: skip
        assert done.returncode == 2
        said[f"error {number}"] = done.stdout + done.stderr
    return said


def _answer(port: int, path: str) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            body: bytes = answer.read()
    except urllib.error.HTTPError as refused:
        body = refused.read()
    return body


def join(chain: Devchain, reader: TaskReader, store: DirectoryStore, number: int) -> Participant:
    """Somebody in this process, so that there are enough."""
    sender, task = chain.sender(f"other {number}"), reader.task.address
    allocate(sender, chain.deployment.registry_address, task, ETHER)
    ledger = ChainLedger(chain.w3, sender, TaskReader(chain.w3, task, CHAIN_ID, 0), task)
    ledger.enrol()
    trainer = Untrained(record_layout("mnist-mlp-small"), number)
    return Participant(ledger, store, trainer, MemoryJournal(keccak256(bytes([number]))))


def _plays(reader: TaskReader, people: list[Participant], until_round: int) -> bool:
    """Everybody here acts once; whether that round has come or the task is over."""
    for me in people:
        task = me.ledger.task()
        step = next_step(me, task, me.ledger.now(), Duty.WORK | Duty.VALIDATE | Duty.MINE)
        if step is not None:
            step.take(me)
    round_ = reader.refresh().round
    return round_.number >= until_round or round_.phase is Phase.ENDED


def test_a_signer_shows_its_address_alone(tmp_path: Path) -> None:
    new_key(tmp_path / "key.json", PASSPHRASE, secret=keccak256(b"a key"), iterations=2)

    signer = unlock(tmp_path / "key.json", PASSPHRASE)

    assert spilled({"repr": repr(signer).encode(), "str": str(signer).encode()}, keccak256(b"a key")) == []
