"""A task on a chain of our own with everybody enrolled, and what its calls cost: the scene of the benches of gas."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chainfl.artifacts import load
from chainfl.chain.abi import functions
from chainfl.chain.evidence import encode_header
from chainfl.codec.commitments import commitment, keccak256, validator_payload, worker_payload
from chainfl.codec.text import hex_of
from chainfl.protocol.shares import head_share
from chainfl.protocol.term_table import TERMS, Unit
from chainfl.protocol.terms import default_terms
from chainfl.types import TOTAL, WAD, Address, Digest, Phase, Rule, Statistic, TaskConfig
from scripts.benches._gas_internals import enrolment, whole_shares, with_internals
from scripts.benches._gas_node import DEPTH, Known, Node, known

COMMITTEE = 5
BATCH = 100
CHAIN_ID = 31337
SALT = b"\x07" * 32
CID = b"\x0c" * 32
PHASE_SECONDS = 10_000
ETHER = 10**18


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

    def draw(self, caller: Address) -> int:
        """Draw with the header of the block that the opening named, once it is there."""
        at = int(self.node.read("TrainingTask", self.task, "place")[4])
        while int(self.node.rpc("eth_blockNumber"), 16) < at:
            self.node.rpc("evm_mine")
        return self.call(caller, "draw", encode_header(self.node.rpc("eth_getBlockByNumber", hex(at), False)))

    def play_to_propose(self) -> dict[int, Known]:
        """Everybody acts until the proposer's turn; answers the updates by id."""
        number = self.number
        caller = who(1)
        self.draw(caller)
        committee = self.ids("committee")
        proposers = self.ids("proposers")
        apart = [] if self.config.internals_train else committee
        out = set() if self.config.rule.is_elected else {*apart, proposers[0]}

        count = self.node.read("TrainingTask", self.task, "accountCount")
        depth = self.config.depth
        updates = {i: known(f"{number}/{i}", depth) for i in range(1, count + 1) if i not in out}

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

    def propose(self, model: Known, attesters: int = COMMITTEE) -> None:
        """The proposer posts a model, with shares where the rule leaves them to it; so many attest it."""
        number = self.number
        root = model.root
        block = hashlib.sha256(model.root).digest()
        proposer = self.node.read("TrainingTask", self.task, "currentProposer")
        shares = posted_shares(self.config, len(self.ids("order")))
        digest = keccak256(b"".join(each.to_bytes(32, "big") for each in shares)) if shares else bytes(32)
        self.call(who(proposer), "propose", number, 1, root, block, shares)
        for id_ in [each for each in self.ids("committee") if each != proposer][:attesters]:
            self.call(who(id_), "attest", number, 1, root, block, digest)

    def finish(self) -> None:
        """Challenge runs out and the round is final."""
        self.node.rpc("evm_increaseTime", PHASE_SECONDS)
        self.call(who(1), "advance", self.number)

    def prove(self, updates: dict[int, Known], lie: Known) -> tuple[int, int]:
        """Show that the proposal is wrong; answers gas and bytes of the transaction."""
        order, (_, shares) = self.ids("order"), self.node.read("TrainingTask", self.task, "tallied")
        items = [lie.item, *([known("head", self.config.depth).item] if shares[0] else [])]
        on_ranks = self.config.rule.is_on_ranks
        items += [
            updates[id_].item for id_, share in zip(order, shares[1:], strict=True) if share or on_ranks
        ]
        evidence = b"".join(items)
        return self.call(who(1), "prove", self.number, 1, 0, evidence, SALT), len(evidence) + 260


def scores_of(rule: Rule, member: int, updates: int) -> bytes:
    """A validator's scores: near each other, never equal."""
    head = (10**12 + member).to_bytes(8, "big")
    if not rule.is_softmax and not rule.is_elected:
        return head + ((1 << updates) - 1).to_bytes((updates + 7) // 8, "little")
    size = 8 if rule.is_softmax else 16
    entries = (
        (10**12 + 7_919_000_003 * (17 * i + 31 * member) % 10**11).to_bytes(size, "big")
        for i in range(updates)
    )
    return head + b"".join(entries)


def posted_shares(config: TaskConfig, updates: int) -> list[int]:
    """What a proposer posts where shares are attested: equal parts for the first ones."""
    if not config.rule.is_attested:
        return []
    if config.rule is Rule.VARSEL:
        return whole_shares(updates, COMMITTEE)
    chosen = 1 if config.rule is Rule.KRUM else config.selected
    head = head_share(config.alpha)
    part, rest = divmod(TOTAL - head, chosen)
    return [head, part + rest, *[part] * (chosen - 1), *[0] * (updates - chosen)]


def who(id_: int) -> Address:
    """The address that enrols as number `id_`."""
    return Address((0x10_0000 + id_).to_bytes(20, "big"))


def terms(rule: Rule, statistic: Statistic, updates: int, depth: int = DEPTH, alpha: int = WAD) -> TaskConfig:
    """Terms for this many workers, all of whom train and have a part where the rule allows it."""
    phases: dict[str, Any] = {term.name: PHASE_SECONDS for term in TERMS if term.unit is Unit.SECONDS}

    config = replace(
        default_terms(rule.name_text, 64 << depth, COMMITTEE, updates),
        manifest=CID,
        first_root=known("head", depth).root,
        first_model=CID,
        statistic=statistic,
        beta=WAD,
        alpha=alpha,
        tolerated=0,
        selected=updates if rule is Rule.MULTI_KRUM else 0,
        keep=WAD,
        min_updates=updates,
        max_updates=updates,
        max_samples=10_000,
        rounds=10,
        caller_fee=10**12,
        **phases,
    )
    return with_internals(config, internals()) if rule is Rule.VARSEL else config


def internals() -> tuple[Address, ...]:
    """Who is internal where a rule asks for internals."""
    return tuple(who(id_) for id_ in range(1, COMMITTEE + 1))


def scene(node: Node, config: TaskConfig) -> Scene:
    """Deploy everything, create a task, enrol as many as its terms let work."""
    built, registry = empty_scene(node, config)
    people = config.max_updates + (not config.rule.is_elected) + COMMITTEE * (not config.internals_train)
    allocate = functions("StakeRegistry")["allocate"].call_data(built.task, ETHER)
    for id_ in range(1, people + 1):
        node.rpc("anvil_setBalance", hex_of(who(id_)), hex(10**24))
        node.send(who(id_), registry, allocate, ETHER)
        built.call(who(id_), *(enrolment(who(id_), internals()) if config.is_appointed else ("enrol",)))
    return built


def empty_scene(node: Node, config: TaskConfig) -> tuple[Scene, Address]:
    """A task in which nobody is enrolled yet, and its registry."""
    libraries: dict[str, str] = {}

    def deploy(name: str, arguments: bytes = b"") -> Address:
        artifact = load(name)
        for library in artifact.links:
            if library not in libraries:
                libraries[library] = hex_of(deploy(library))
        code = bytes.fromhex(artifact.link(libraries).removeprefix("0x"))
        return _address(node.send(who(0), None, code + arguments)["contractAddress"])

    node.rpc("anvil_setBalance", hex_of(who(0)), hex(10**24))
    factory = deploy("TaskFactory", (1).to_bytes(32, "big") + (2).to_bytes(32, "big"))
    registry = _address(node.read("TaskFactory", factory, "registry"))
    data = functions("TaskFactory")["createTask"].call_data(config.as_tuple())
    created = node.send(who(0), factory, data, ETHER)
    built = Scene(node, _address(node.read("TaskFactory", factory, "taskAt", 1)), config)
    built.gas["createTask"] = [int(created["gasUsed"], 16)]
    return built, registry


def enrol_many(built: Scene, registry: Address, ids: Sequence[int]) -> None:
    """Enrol a crowd, many to a block."""
    node = built.node
    gas = hex(290_000)
    node.rpc("evm_setAutomine", False)
    allocate = hex_of(functions("StakeRegistry")["allocate"].call_data(built.task, ETHER))
    enrol = hex_of(functions("TrainingTask")["enrol"].call_data())

    for first in range(0, len(ids), BATCH):
        accounts = [hex_of(who(id_)) for id_ in ids[first : first + BATCH]]
        node.batch([("anvil_setBalance", account, hex(10**19)) for account in accounts])
        for to, data, value in ((registry, allocate, ETHER), (built.task, enrol, 0)):
            calls = [
                {"from": account, "to": hex_of(to), "data": data, "value": hex(value), "gas": gas}
                for account in accounts
            ]
            node.batch([("eth_sendTransaction", call, None) for call in calls])
            node.rpc("evm_mine")

    node.rpc("evm_setAutomine", True)


def _address(text: str) -> Address:
    return Address(bytes.fromhex(text.removeprefix("0x")))
