"""Measure the gas of rounds and proofs on a chain of our own: scripts/bench gas [--quick] [--json].

Every number is a receipt's, from anvil: each call is a transaction, so nothing is warm that would not be. A round
counts from draw to Final, the second one of its task, without claims. Trees are one known leaf and a random path.
"""

import argparse
import hashlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from chainfl import tools
from chainfl.artifacts import load
from chainfl.chain.abi import functions
from chainfl.codec.commitments import commitment, validator_payload, worker_payload
from chainfl.codec.merkle import fold
from chainfl.errors import ChainflError, OutsideError
from chainfl.report import Bar, Report, bar, emit, narrate, report
from chainfl.types import WAD, Address, Digest, Phase, Rule, Statistic, TaskConfig

COMMITTEE = 5
DEPTH = 16
CHAIN_ID = 31337
SALT = b"\x07" * 32
CID = b"\x0c" * 32
PHASE_SECONDS = 10_000
ETHER = 10**18
MINING_SECONDS = 30
TRANSACTION_GAS = 16_777_216
TRANSACTION_BYTES = 128 * 1024

# What prototypes took; a quarter more is allowed.
SLACK = 1.25
AIMS = {
    "commitUpdate": 44_000,
    "revealUpdate": 69_000,
    "commitScores": 44_000,
    "revealScores": 51_000,
    "tally": 182_000,
    "prove": 670_000,
}
ROUND_LIMIT = 3_000_000
ROUND_UPDATES = 14


@dataclass(frozen=True, slots=True)
class Known:
    """A model of which one leaf is known: enough to prove what stands in it."""

    leaf: bytes
    siblings: tuple[Digest, ...]

    @property
    def root(self) -> Digest:
        """The root that leaf and path lead to."""
        return fold(0, self.leaf, self.siblings)

    @property
    def item(self) -> bytes:
        """The model's part of a proof."""
        return self.leaf + b"".join(self.siblings)


def known(name: str) -> Known:
    """A model that is a function of its name."""
    leaf = b"".join(hashlib.sha256(f"{name}/{i}".encode()).digest() for i in range(8))
    return Known(leaf, tuple(hashlib.sha256(f"{name}/path/{i}".encode()).digest() for i in range(DEPTH)))


HEAD = known("head")


@dataclass(slots=True)
class Node:
    """An anvil that lets anybody send."""

    connection: http.client.HTTPConnection

    def rpc(self, method: str, *parameters: object) -> Any:
        """One JSON-RPC call."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
        self.connection.request("POST", "/", body, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())
        if "error" in answer:
            raise OutsideError(f"anvil: {method}: {answer['error'].get('message', answer['error'])}")
        return answer["result"]

    def send(self, sender: Address, to: Address | None, data: bytes, value: int = 0) -> dict[str, Any]:
        """One transaction; answers its receipt."""
        fields = {"from": _hex(sender), "data": _hex(data), "value": hex(value), "gas": hex(TRANSACTION_GAS)}
        if to is not None:
            fields["to"] = _hex(to)
        digest = self.rpc("eth_sendTransaction", fields)
        end = time.monotonic() + MINING_SECONDS
        while (receipt := self.rpc("eth_getTransactionReceipt", digest)) is None:
            if time.monotonic() > end:
                raise OutsideError("anvil: a transaction is not mined; is the machine overloaded?")
        if receipt["status"] != "0x1":
            raise OutsideError(f"anvil: a transaction of {_hex(sender)} was refused: {data[:4].hex()}")
        found: dict[str, Any] = receipt
        return found

    def read(self, contract: str, at: Address, name: str, *values: object) -> Any:
        """A view's answer."""
        function = functions(contract)[name]
        call = {"to": _hex(at), "data": _hex(function.call_data(*values))}
        answer = function.result(bytes.fromhex(self.rpc("eth_call", call, "latest")[2:]))
        return answer[0] if len(answer) == 1 else answer


@contextmanager
def anvil() -> Iterator[Node]:
    """A fresh chain on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(tools.require("anvil")), "--port", str(port), "--silent", "--hardfork", "prague"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=MINING_SECONDS)
    try:
        node = Node(connection)
        _wait(node)
        node.rpc("anvil_autoImpersonateAccount", True)
        yield node
    finally:
        connection.close()
        process.terminate()
        process.wait(timeout=MINING_SECONDS)


def _wait(node: Node) -> None:
    end = time.monotonic() + MINING_SECONDS
    while True:
        try:
            node.rpc("eth_chainId")
            return
        except OSError as error:
            node.connection.close()
            if time.monotonic() > end:
                raise OutsideError(f"anvil does not answer: {error}") from None
            time.sleep(0.05)


@dataclass(slots=True)
class Scene:
    """A task with everybody enrolled, and what its calls cost."""

    node: Node
    task: Address
    config: TaskConfig
    gas: dict[str, list[int]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The running round."""
        return int(self.node.read("TrainingTask", self.task, "place")[0])

    def call(self, sender: Address, name: str, *values: object) -> int:
        """One call of the task; its gas is kept under its name."""
        data = functions("TrainingTask")[name].call_data(*values)
        gas = int(self.node.send(sender, self.task, data)["gasUsed"], 16)
        self.gas.setdefault(name, []).append(gas)
        return gas

    def ids(self, name: str) -> list[int]:
        """A list of ids that the task answers."""
        return list(self.node.read("TrainingTask", self.task, name))

    def seal(self, sender: Address, phase: Phase, payload: Digest) -> Digest:
        """A commitment."""
        return commitment(CHAIN_ID, self.task, 1, self.number, phase, sender, payload, SALT)

    def play_to_propose(self) -> dict[int, Known]:
        """Everybody acts until the proposer's turn; answers the updates by id."""
        number, caller = self.number, who(1)
        self.call(caller, "draw")
        committee, proposers = self.ids("committee"), self.ids("proposers")
        out = {*committee, proposers[0]}
        count = self.node.read("TrainingTask", self.task, "accountCount")
        updates = {i: known(f"{number}/{i}") for i in range(1, count + 1) if i not in out}
        for id_, update in updates.items():
            payload = worker_payload(update.root, CID, 100)
            self.call(who(id_), "commitUpdate", number, self.seal(who(id_), Phase.TRAIN, payload))
        self.call(caller, "advance", number)
        for id_, update in updates.items():
            self.call(who(id_), "revealUpdate", number, update.root, CID, 100, SALT)
        self.call(caller, "advance", number)
        roots = [updates[i].root for i in self.ids("order")]
        vectors = [scores_of(self.config.rule, member, len(roots)) for member in committee]
        for id_, scores in zip(committee, vectors, strict=True):
            payload = validator_payload(roots, scores)
            self.call(who(id_), "commitScores", number, self.seal(who(id_), Phase.SCORE, payload))
        self.call(caller, "advance", number)
        for id_, scores in zip(committee, vectors, strict=True):
            self.call(who(id_), "revealScores", number, scores, SALT)
        self.call(caller, "tally", number, vectors)
        return updates

    def propose(self, model: Known, attested: bool = True) -> None:
        """The proposer posts a model and the committee attests it."""
        number, root, block = self.number, model.root, hashlib.sha256(model.root).digest()
        proposer = self.node.read("TrainingTask", self.task, "currentProposer")
        self.call(who(proposer), "propose", number, 1, root, block, [])
        for id_ in self.ids("committee") if attested else []:
            self.call(who(id_), "attest", number, 1, root, block, bytes(32))

    def finish(self) -> None:
        """Challenge runs out and the round is final."""
        self.node.rpc("evm_increaseTime", PHASE_SECONDS)
        self.call(who(1), "advance", self.number)

    def prove(self, updates: dict[int, Known], head: Known, lie: Known) -> tuple[int, int]:
        """Show that the proposal is wrong; answers gas and bytes of the transaction."""
        order, (_, shares) = self.ids("order"), self.node.read("TrainingTask", self.task, "tallied")
        items = [lie.item, *([head.item] if shares[0] else [])]
        on_ranks = self.config.rule.is_on_ranks
        items += [
            updates[id_].item for id_, share in zip(order, shares[1:], strict=True) if share or on_ranks
        ]
        evidence = b"".join(items)
        return self.call(who(1), "prove", self.number, 1, 0, evidence, SALT), len(evidence) + 260


def scores_of(rule: Rule, member: int, updates: int) -> bytes:
    """A validator's scores: near each other, never equal."""
    head = (10**12 + member).to_bytes(8, "big")
    if not rule.is_softmax:
        return head + ((1 << updates) - 1).to_bytes((updates + 7) // 8, "little")
    entries = (
        (10**12 + 7_919_000_003 * (17 * i + 31 * member) % 10**11).to_bytes(8, "big") for i in range(updates)
    )
    return head + b"".join(entries)


def who(id_: int) -> Address:
    """The address that enrols as number `id_`."""
    return Address((0x10_0000 + id_).to_bytes(20, "big"))


def terms(rule: Rule, statistic: Statistic, updates: int) -> TaskConfig:
    """Terms for this many workers, all of whom train."""
    return TaskConfig(
        manifest=CID,
        first_root=HEAD.root,
        first_model=CID,
        dimension=64 << DEPTH,
        depth=DEPTH,
        scale=20,
        rule=rule,
        statistic=statistic,
        beta=WAD,
        alpha=WAD,
        tolerated=0,
        selected=0,
        keep=0,
        by_samples=False,
        unique_roots=True,
        committee_size=COMMITTEE,
        redraw_every=10,
        min_updates=updates,
        max_updates=updates,
        max_samples=10_000,
        rounds=10,
        target=0,
        min_stake=ETHER,
        train_seconds=PHASE_SECONDS,
        reveal_seconds=PHASE_SECONDS,
        score_seconds=PHASE_SECONDS,
        tally_seconds=PHASE_SECONDS,
        propose_seconds=PHASE_SECONDS,
        challenge_seconds=PHASE_SECONDS,
        workers_part=6 * WAD // 10,
        committee_part=3 * WAD // 10,
        caller_fee=10**12,
        dev_cap=WAD,
        lie_slash=WAD // 2,
        liveness_slash=WAD // 100,
        no_reveal_slash=WAD // 20,
        finder_part=WAD // 5,
        burn_part=WAD // 2,
    )


def scene(node: Node, rule: Rule, statistic: Statistic, updates: int) -> Scene:
    """Deploy everything, create a task, enrol everybody."""
    libraries: dict[str, str] = {}

    def deploy(name: str, arguments: bytes = b"") -> Address:
        artifact = load(name)
        for library in artifact.links:
            if library not in libraries:
                libraries[library] = _hex(deploy(library))
        code = bytes.fromhex(artifact.link(libraries).removeprefix("0x"))
        return _address(node.send(who(0), None, code + arguments)["contractAddress"])

    people = [who(i) for i in range(updates + COMMITTEE + 2)]
    for each in people:
        node.rpc("anvil_setBalance", _hex(each), hex(10**24))
    factory = deploy("TaskFactory", (1).to_bytes(32, "big"))
    registry = _address(node.read("TaskFactory", factory, "registry"))
    config = terms(rule, statistic, updates)
    data = functions("TaskFactory")["createTask"].call_data(config.as_tuple())
    created = node.send(who(0), factory, data, ETHER)
    task = _address(node.read("TaskFactory", factory, "taskAt", 1))
    built = Scene(node, task, config)
    built.gas["createTask"] = [int(created["gasUsed"], 16)]
    allocate = functions("StakeRegistry")["allocate"]
    for each in people[1:]:
        node.send(each, registry, allocate.call_data(task, ETHER), ETHER)
        built.call(each, "enrol")
    return built


def round_gas(rule: Rule, statistic: Statistic, updates: int) -> tuple[dict[str, float], int]:
    """The second round of a task: mean gas by function, and all of it."""
    with anvil() as node:
        built = scene(node, rule, statistic, updates)
        for number in (1, 2):
            built.gas.clear()
            built.play_to_propose()
            built.propose(known(f"model {number}"))
            built.finish()
        return {name: mean(each) for name, each in built.gas.items()}, sum(map(sum, built.gas.values()))


def proof_gas(rule: Rule, updates: int, attested: bool) -> tuple[int, int]:
    """What a proof takes that convicts the proposer and, if it attested, the whole committee: gas and bytes."""
    with anvil() as node:
        built = scene(node, rule, Statistic.MEDIAN, updates)
        shown = built.play_to_propose()
        built.propose(known("lie"), attested)
        return built.prove(shown, HEAD, known("lie"))


def measure(quick: bool) -> Report:
    """All numbers, held against their bars."""
    started = time.perf_counter()
    sizes = (ROUND_UPDATES, 20) if quick else (ROUND_UPDATES, 20, 40, 100)
    by_function: dict[str, dict[str, float]] = {}
    totals: dict[str, int] = {}
    for updates in sizes:
        narrate(f"a round of softmax, {updates} workers, {COMMITTEE} validators")
        by_function[str(updates)], totals[str(updates)] = round_gas(Rule.SOFTMAX, Statistic.MEDIAN, updates)
    narrate("proofs")
    alone = "softmax, 20 updates, nobody attested"
    proofs = {
        alone: proof_gas(Rule.SOFTMAX, 20, False),
        "softmax, 20 updates, all attested": proof_gas(Rule.SOFTMAX, 20, True),
    }
    if not quick:
        for rule in (Rule.MEAN, Rule.MEDIAN):
            proofs[f"{rule.name_text}, 128 updates, all attested"] = proof_gas(rule, 128, True)
    by_function["20"]["prove"] = proofs[alone][0]
    metrics = {
        "gas_by_function": by_function,
        "gas_by_round": totals,
        "gas_by_proof": {name: gas for name, (gas, _) in proofs.items()},
        "bytes_by_proof": {name: size for name, (_, size) in proofs.items()},
    }
    return report("gas", metrics, bars(by_function, totals, proofs), seconds=time.perf_counter() - started)


def bars(
    by_function: dict[str, dict[str, float]], totals: dict[str, int], proofs: dict[str, tuple[int, int]]
) -> list[Bar]:
    """What the numbers have to keep."""
    found = [bar(f"gas.{name}", by_function["20"][name], "<=", SLACK * aim) for name, aim in AIMS.items()]
    found.append(bar("gas.round", totals[str(ROUND_UPDATES)], "<=", ROUND_LIMIT))
    found += [bar(f"gas.proof: {name}", gas, "<=", TRANSACTION_GAS) for name, (gas, _) in proofs.items()]
    return found + [
        bar(f"bytes.proof: {name}", size, "<=", TRANSACTION_BYTES) for name, (_, size) in proofs.items()
    ]


def table(found: Report) -> str:
    """The report for people."""
    by_function = found.metrics["gas_by_function"]
    totals = found.metrics["gas_by_round"]
    assert isinstance(by_function, dict)
    assert isinstance(totals, dict)
    sizes = list(by_function)
    lines = [f"{'gas per call':16}" + "".join(f"{'K = ' + size:>14}" for size in sizes)]
    for name in by_function[sizes[0]]:
        lines.append(f"{name:16}" + "".join(f"{by_function[size].get(name, 0):14,.0f}" for size in sizes))
    lines.append(f"{'whole round':16}" + "".join(f"{totals[size]:14,}" for size in sizes))
    lines += ["", f"{'bar':52}{'value':>14}{'limit':>14}"]
    lines += [
        f"{each.id:52}{each.value:14,.0f}{each.limit:14,.0f}  {'ok' if each.ok else 'MISSED'}"
        for each in found.bars
    ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str]) -> int:
    """Run the command; answers its exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench gas", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="K = 14 and 20 only")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(argv)
    try:
        found = measure(options.quick)
    except ChainflError as error:
        narrate(f"gas: {error}")
        return error.exit_code
    if options.json:
        return emit(found)
    sys.stdout.write(table(found))
    return found.exit_code


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _address(text: str) -> Address:
    return Address(bytes.fromhex(text.removeprefix("0x")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
