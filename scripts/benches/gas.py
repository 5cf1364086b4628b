"""Measure the gas of rounds and proofs on a chain of our own: scripts/bench gas [--quick] [--json].

Every number is a receipt's, from anvil: each call is a transaction, so nothing is warm that would not be. A round
counts from draw to Final, the second one of its task, without claims. Trees are one known leaf and a random path.
Proofs over the most updates have the deepest tree that the terms allow with them, and the head has a part.
"""

import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from chainfl.artifacts import load
from chainfl.chain.abi import functions
from chainfl.chain.evidence import encode_header
from chainfl.codec.commitments import commitment, keccak256, validator_payload, worker_payload
from chainfl.codec.text import hex_of
from chainfl.errors import ChainflError
from chainfl.protocol.shares import head_share
from chainfl.protocol.term_table import TERMS, Unit
from chainfl.protocol.terms import default_terms
from chainfl.report import Bar, Report, bar, narrate, report
from chainfl.types import TOTAL, WAD, Address, Digest, Phase, Rule, Statistic, TaskConfig
from scripts.benches._command import bench_parser, show
from scripts.benches._gas_internals import enrolment, whole_shares, with_internals
from scripts.benches._gas_node import DEPTH, TRANSACTION_GAS, Known, Node, anvil, known

COMMITTEE = 5
MOST_UPDATES = 128
DEEPEST = 20
MANY = 10_000
BATCH = 100
CHAIN_ID = 31337
SALT = b"\x07" * 32
CID = b"\x0c" * 32
PHASE_SECONDS = 10_000
ETHER = 10**18
TRANSACTION_BYTES = 128 * 1024

# What prototypes took; a quarter more is allowed.
SLACK = 1.25
AIMS = {
    "commitUpdate": 44_000,
    "revealUpdate": 69_000,
    "commitScores": 44_000,
    "revealScores": 51_000,
    "prove": 670_000,
}
TALLY_AIM = 182_000
# A change of stake; 5 + 1 out of 10,000, each a sixth of what the transaction itself leaves, for ours draws two
# backups too; and a tally by the mean.
STAKE_AIM = 50_000
TRANSACTION = 21_000
DRAW_AIM = (115_000 - TRANSACTION) / 6
MEAN_TALLY_AIM = 126_000
# The prototype's tally wrote its shares into words that it had used before; ours writes them where the round keeps
# them for good. What a word costs that was never written is left out of the comparison, and is in the bar of the round.
NEW_WORD = 17_100
KEPT_BY_A_TALLY = NEW_WORD * -(-20 // 8)
MAJORITY = COMMITTEE // 2 + 1
ATTESTERS = (0, MAJORITY, COMMITTEE)
BACKUPS = 2
ROUND_LIMITS = {"14": 2_600_000, "100": 11_000_000}


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


def round_gas(rule: Rule, statistic: Statistic, updates: int) -> tuple[dict[str, float], int]:
    """The second round of a task: mean gas by function, and all of it."""
    with anvil() as node:
        built = scene(node, terms(rule, statistic, updates))
        for number in (1, 2):
            built.gas.clear()
            built.play_to_propose()
            built.propose(known(f"model {number}"))
            built.finish()
        return {name: mean(each) for name, each in built.gas.items()}, sum(map(sum, built.gas.values()))


def proof_gas(rule: Rule, updates: int, attesters: int) -> tuple[int, int]:
    """What a proof takes that convicts the proposer and so many attesters: gas and bytes."""
    with anvil() as node:
        return _proof_gas(node, terms(rule, Statistic.MEDIAN, updates), attesters)


def largest_proof_gas(rule: Rule) -> tuple[int, int]:
    """The same over the most updates, in the deepest tree, with a part for the head, everybody convicted."""
    with anvil() as node:
        config = terms(rule, Statistic.MEDIAN, MOST_UPDATES, DEEPEST, 9 * WAD // 10)
        return _proof_gas(node, config, COMMITTEE)


def _proof_gas(node: Node, config: TaskConfig, attesters: int) -> tuple[int, int]:
    built = scene(node, config)
    lie = known("lie", config.depth)
    shown = built.play_to_propose()
    built.propose(lie, attesters)
    return built.prove(shown, lie)


def stake_gas() -> int:
    """A participant pays in more and allocates it to its task, at once."""
    with anvil() as node:
        built, registry = empty_scene(node, terms(Rule.SOFTMAX, Statistic.MEDIAN, 20))
        enrol_many(built, registry, range(1, COMMITTEE))
        more = functions("StakeRegistry")["allocate"].call_data(built.task, ETHER)
        return int(node.send(who(1), registry, more, ETHER)["gasUsed"], 16)


def draw_gas(people: int, updates: int) -> int:
    """A draw out of this many: committee, miner, two backups, and the workers that still have room.

    The first draw opens as soon as enough are enrolled, so the crowd comes during the first round, which ends Void.
    """
    with anvil() as node:
        config = replace(terms(Rule.SOFTMAX, Statistic.MEDIAN, updates), min_updates=1)
        built, registry = empty_scene(node, config)
        enough = COMMITTEE + 1 + config.min_updates
        enrol_many(built, registry, range(1, enough + 1))
        built.draw(who(1))
        enrol_many(built, registry, range(enough + 1, people + 1))
        for _ in ("Train is extended", "Void"):
            node.rpc("evm_increaseTime", PHASE_SECONDS)
            built.call(who(1), "advance", 1)
        return built.draw(who(1))


def measure(quick: bool) -> Report:
    """All numbers, held against their bars."""
    started = time.perf_counter()
    sizes = (14, 20) if quick else (14, 20, 40, 100)
    by_function: dict[str, dict[str, float]] = {}
    totals: dict[str, int] = {}

    for updates in sizes:
        narrate(f"a round of softmax, {updates} workers, {COMMITTEE} validators")
        by_function[str(updates)], totals[str(updates)] = round_gas(Rule.SOFTMAX, Statistic.MEDIAN, updates)

    narrate("a tally by the mean")
    by_mean, _ = round_gas(Rule.SOFTMAX, Statistic.MEAN, 20)
    stake = stake_gas()

    narrate("proofs")
    proofs = {f"softmax, 20 updates, {n} attested": proof_gas(Rule.SOFTMAX, 20, n) for n in ATTESTERS}

    draws = {}
    if not quick:
        for rule in Rule:
            proofs[largest(rule)] = largest_proof_gas(rule)
        narrate(f"draws out of {MANY:,}: everybody enrols first")
        draws = {f"{BACKUPS} workers": draw_gas(MANY, BACKUPS), "20 workers": draw_gas(MANY, 20)}

    by_function["20"]["prove"] = proofs[f"softmax, 20 updates, {MAJORITY} attested"][0]
    metrics = {
        "gas_by_function": by_function,
        "gas_by_round": totals,
        "gas_of_another_worker": slope(totals),
        "gas_of_a_tally_by_mean": by_mean["tally"],
        "gas_of_a_change_of_stake": stake,
        "gas_by_proof": {name: gas for name, (gas, _) in proofs.items()},
        "bytes_by_proof": {name: size for name, (_, size) in proofs.items()},
        "gas_by_draw": draws,
    }

    found = bars(by_function, totals, proofs, draws)
    found.append(bar("gas.change of stake", stake, "<=", SLACK * STAKE_AIM))
    mean_tally = by_mean["tally"] - KEPT_BY_A_TALLY
    found.append(bar("gas.tally by mean, less its new words", mean_tally, "<=", SLACK * MEAN_TALLY_AIM))
    return report("gas", metrics, found, seconds=time.perf_counter() - started)


def largest(rule: Rule) -> str:
    """The name of a rule's largest proof."""
    return f"{rule.name_text}, {MOST_UPDATES} updates, depth {DEEPEST}"


def slope(totals: dict[str, int]) -> float:
    """What a round costs more for each more worker, from the smallest to the largest measured."""
    sizes = sorted(map(int, totals))
    return (totals[str(sizes[-1])] - totals[str(sizes[0])]) / (sizes[-1] - sizes[0])


def bars(
    by_function: dict[str, dict[str, float]],
    totals: dict[str, int],
    proofs: dict[str, tuple[int, int]],
    draws: dict[str, int],
) -> list[Bar]:
    """What the numbers have to keep."""
    found = [bar(f"gas.{name}", by_function["20"][name], "<=", SLACK * aim) for name, aim in AIMS.items()]
    tally = by_function["20"]["tally"] - KEPT_BY_A_TALLY
    found.append(bar("gas.tally, less its new words", tally, "<=", SLACK * TALLY_AIM))
    for updates, limit in ROUND_LIMITS.items():
        if updates in totals:
            found.append(bar(f"gas.round of {updates}", totals[updates], "<=", limit))
    if draws:
        each = (draws[f"{BACKUPS} workers"] - TRANSACTION) / (COMMITTEE + 1 + BACKUPS)
        found.append(bar("gas.draw out of 10,000, each", each, "<=", SLACK * DRAW_AIM))
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
    options = bench_parser("gas", __doc__ or "", quick="K = 14 and 20 only").parse_args(argv)
    try:
        found = measure(options.quick)
    except ChainflError as error:
        narrate(f"gas: {error}")
        return error.exit_code
    return show(found, table, as_json=options.json)


def _address(text: str) -> Address:
    return Address(bytes.fromhex(text.removeprefix("0x")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
