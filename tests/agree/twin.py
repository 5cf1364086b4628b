"""One action, two worlds: the rules in Python and the contracts' bytecode must answer, refuse and tell alike."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field
from enum import IntEnum
from typing import Any, Final

from chainfl.artifacts import load
from chainfl.chain.abi import decode_log, decode_revert, functions
from chainfl.codec.commitments import keccak256, roots_hash
from chainfl.protocol.admission import Admission
from chainfl.protocol.enrolment import unbonding_seconds
from chainfl.protocol.errors import BadProofError, RuleError
from chainfl.protocol.events import Event
from chainfl.protocol.proof import Evidence
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.state import Call, Round, Task
from chainfl.protocol.terms import Floors
from chainfl.protocol.views import earnings, internals, ordered_roots
from chainfl.protocol.world import World
from chainfl.types import Address, Digest, Id, Phase, Role, Rule, TaskConfig
from tests.agree.evm import Answer, Chain, Word, dynamic, packed, static
from tests.protocol.scene import REACH, header_of

CHAIN_ID: Final = 31337
DEPLOYER: Final = Address(b"\xde" * 20)
LOW: Final = Floors(1)
"""A factory that lets phases be as short as one second."""
_PROPOSER_STANDS: Final = (Phase.PROPOSE, Phase.CHALLENGE)


@dataclass(slots=True)
class Twin:
    """The same contracts twice, and a clock for both."""

    chain: Chain
    world: World
    factory: Address
    registry: Address
    now: int = 1_000
    block: int = 10
    seen: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    trace: list[str] = field(default_factory=list)
    result: object = None
    """What the last action answered."""
    refusal: RuleError | None = None
    """What the last action was refused with."""

    # Factory and registry

    def create_task(self, sender: Address, config: TaskConfig, escrow: int) -> Address | None:
        """Create a task in both worlds, at the address that the factory chose; None when both refuse."""
        call = self._tick(sender)
        data = functions("TaskFactory")["createTask"].call_data(config.as_tuple())
        answer = self.chain.send(sender, self.factory, data, escrow)
        task = Address(bytes(20))
        if answer.ok:
            _, found = functions("TaskFactory")["createTask"].result(answer.output)
            task = Address(bytes.fromhex(found.removeprefix("0x")))
        refused = _tried(lambda: self.world.create_task(call, task, config, escrow))[1]
        self.refusal = refused
        if self._refused("createTask", answer, refused):
            return None
        (told,) = _told(answer.logs)
        assert told == (self.factory, self.world.log[-1][1])
        assert self.chain.read("TrainingTask", task, "config") == config.as_tuple()
        self.check(task)
        return task

    def registry_call(
        self,
        sender: Address,
        name: str,
        arguments: Sequence[object],
        act: Callable[[Call], object],
        value: int = 0,
    ) -> str | None:
        """An action on the stake registry."""
        return self._both(sender, "StakeRegistry", self.registry, name, arguments, act, value)

    def deposit(self, sender: Address, value: int) -> str | None:
        """Add to free stake."""
        return self.registry_call(sender, "deposit", (), lambda call: self.world.deposit(call, value), value)

    def allocate(self, sender: Address, task: Address, amount: int, value: int) -> str | None:
        """Bond stake to a task."""
        return self.registry_call(
            sender,
            "allocate",
            (task, amount),
            lambda call: self.world.allocate(call, task, amount, value),
            value,
        )

    def deallocate(self, sender: Address, task: Address, amount: int) -> str | None:
        """Start to take stake out."""
        return self.registry_call(
            sender, "deallocate", (task, amount), lambda call: self.world.deallocate(call, task, amount)
        )

    def release(self, sender: Address, task: Address, number: int) -> str | None:
        """Free a request."""
        return self.registry_call(
            sender, "release", (task, number), lambda call: self.world.release(call, task, number)
        )

    def withdraw(self, sender: Address, amount: int) -> str | None:
        """Send free stake to its owner."""
        return self.registry_call(
            sender, "withdraw", (amount, sender), lambda call: self.world.withdraw(call, amount, sender)
        )

    def set_operator(self, sender: Address, task: Address, operator: Address) -> str | None:
        """Name who may act for the sender's stake."""
        return self.registry_call(
            sender,
            "setOperator",
            (task, operator),
            lambda call: self.world.set_operator(call, task, operator),
        )

    # Task

    def enrol_for(self, sender: Address, task: Address, owner: Address) -> str | None:
        """Act for an owner who named the sender."""
        return self._task(
            sender, task, "enrolFor", (owner,), lambda call: self.world.enrol_for(call, task, owner)
        )

    def enrol(self, sender: Address, task: Address) -> str | None:
        """Take part."""
        return self._task(sender, task, "enrol", (), lambda call: self.world.enrol(call, task))

    def enrol_admitted(
        self, sender: Address, task: Address, owner: Address, admission: Admission
    ) -> str | None:
        """Take part in a task that has a list of who may join."""
        return self._task(
            sender,
            task,
            "enrolAdmitted",
            (owner, admission.role, admission.proof),
            lambda call: self.world.enrol_admitted(call, task, owner, admission),
        )

    def leave(self, sender: Address, task: Address) -> str | None:
        """Take no part."""
        return self._task(sender, task, "leave", (), lambda call: self.world.leave(call, task))

    def apply_change(self, sender: Address, task: Address, who: Address) -> str | None:
        """Apply a queued change."""
        return self._task(
            sender, task, "applyChange", (who,), lambda call: self.world.apply_change(call, task, who)
        )

    def draw(self, sender: Address, task: Address, header: bytes | None = None) -> str | None:
        """Draw the round's roles, with the right header unless told otherwise."""
        at = self.world.tasks[task].round.draw_block
        right = header_of(at)
        given = right if header is None else header
        self.chain.keep_hash(at, keccak256(right))

        def act(call: Call) -> None:
            is_known = call.block_number - at <= REACH
            self.world.draw(call, task, given, keccak256(right) if is_known else None)

        return self._task(sender, task, "draw", (given,), act)

    def note_absent(self, sender: Address, task: Address, round_: int, ids: Sequence[Id]) -> str | None:
        """Note who did not commit."""
        return self._task(
            sender,
            task,
            "noteAbsent",
            (round_, ids),
            lambda call: self.world.note_absent(call, task, round_, ids),
        )

    def commit_update(self, sender: Address, task: Address, round_: int, digest: Digest) -> str | None:
        """Commit to an update."""
        return self._task(
            sender,
            task,
            "commitUpdate",
            (round_, digest),
            lambda call: self.world.commit_update(call, task, round_, digest),
        )

    def reveal_update(
        self,
        sender: Address,
        task: Address,
        round_: int,
        root: Digest,
        cid: Digest,
        samples: int,
        salt: Digest,
    ) -> str | None:
        """Open an update."""
        values = (round_, root, cid, samples, salt)
        return self._task(
            sender, task, "revealUpdate", values, lambda call: self.world.reveal_update(call, task, *values)
        )

    def commit_scores(self, sender: Address, task: Address, round_: int, digest: Digest) -> str | None:
        """Commit to scores."""
        return self._task(
            sender,
            task,
            "commitScores",
            (round_, digest),
            lambda call: self.world.commit_scores(call, task, round_, digest),
        )

    def reveal_scores(
        self, sender: Address, task: Address, round_: int, scores: bytes, salt: Digest
    ) -> str | None:
        """Open scores."""
        values = (round_, scores, salt)
        return self._task(
            sender, task, "revealScores", values, lambda call: self.world.reveal_scores(call, task, *values)
        )

    def tally(self, sender: Address, task: Address, round_: int, vectors: Sequence[bytes]) -> str | None:
        """Turn scores into shares."""
        return self._task(
            sender,
            task,
            "tally",
            (round_, vectors),
            lambda call: self.world.tally(call, task, round_, vectors),
        )

    def propose(
        self,
        sender: Address,
        task: Address,
        round_: int,
        attempt: int,
        root: Digest,
        block: Digest,
        shares: Sequence[int],
    ) -> str | None:
        """Post a model."""
        values = (round_, attempt, root, block, shares)
        return self._task(
            sender, task, "propose", values, lambda call: self.world.propose(call, task, *values)
        )

    def vote(
        self,
        sender: Address,
        task: Address,
        round_: int,
        attempt: int,
        root: Digest,
        block: Digest,
        shares_digest: Digest,
        attests: bool,
    ) -> str | None:
        """Attest or object."""
        values = (round_, attempt, root, block, shares_digest)
        return self._task(
            sender,
            task,
            "attest" if attests else "object",
            values,
            lambda call: self.world.vote(call, task, *values, attests),
        )

    def note_finding(self, sender: Address, task: Address, note: Digest) -> str | None:
        """Seal a finding."""
        return self._task(
            sender, task, "noteFinding", (note,), lambda call: self.world.note_finding(call, task, note)
        )

    def prove(
        self,
        sender: Address,
        task: Address,
        round_: int,
        attempt: int,
        position: int,
        evidence: Evidence,
        salt: Digest,
    ) -> str | None:
        """Show a lie."""
        return self._task(
            sender,
            task,
            "prove",
            (round_, attempt, position, evidence.to_bytes(), salt),
            lambda call: self.world.prove(call, task, round_, attempt, position, evidence, salt),
        )

    def advance(self, sender: Address, task: Address, round_: int) -> str | None:
        """Leave a phase."""
        return self._task(
            sender, task, "advance", (round_,), lambda call: self.world.advance(call, task, round_)
        )

    def claim(self, sender: Address, task: Address, rounds: Sequence[int]) -> str | None:
        """Pull pay."""
        return self._task(sender, task, "claim", (rounds,), lambda call: self.world.claim(call, task, rounds))

    def abandon(self, sender: Address, task: Address) -> str | None:
        """Give up."""
        return self._task(sender, task, "abandon", (), lambda call: self.world.abandon(call, task))

    def refund(self, sender: Address, task: Address) -> str | None:
        """Pull what is left."""
        return self._task(sender, task, "refund", (), lambda call: self.world.refund(call, task))

    # Comparing

    def _task(
        self,
        sender: Address,
        task: Address,
        name: str,
        arguments: Sequence[object],
        act: Callable[[Call], object],
    ) -> str | None:
        refusal = self._both(sender, "TrainingTask", task, name, arguments, act)
        self._compare_place(task)
        return refusal

    def _both(
        self,
        sender: Address,
        contract: str,
        to: Address,
        name: str,
        arguments: Sequence[object],
        act: Callable[[Call], object],
        value: int = 0,
    ) -> str | None:
        """Act in both worlds; answers the name of the refusal that both gave, or None."""
        call, before = self._tick(sender), len(self.world.log)
        self.trace.append(f"{name} by {sender.hex()[-4:]} at {self.now}/{self.block}: {arguments!r:.150}")
        function = functions(contract)[name]
        answer = self.chain.send(sender, to, function.call_data(*arguments), value)
        result, refused = _tried(lambda: act(call))
        self.result, self.refusal = result, refused
        if self._refused(name, answer, refused):
            return refused.solidity_name() if refused else None
        if function.outputs:
            assert function.result(answer.output) == (result,), name
        assert _by_contract(_told(answer.logs)) == _by_contract(self.world.log[before:]), name
        self.seen[f"did {name}"] += 1
        return None

    def _refused(self, name: str, answer: Answer, refused: RuleError | None) -> bool:
        """Whether both worlds refused, for the same reason; that only one did is the failure we look for."""
        if refused is None:
            assert answer.ok, f"{name}: only the contract refuses: {decode_revert(answer.output)!r}"
            return False
        assert not answer.ok, f"{name}: only the rules refuse: {refused!r}"
        found = decode_revert(answer.output)
        assert _refusal(refused) == _refusal(found), f"{name}: {refused!r} against {found!r}"
        self.seen[f"refused {refused.solidity_name()}"] += 1
        return True

    def _tick(self, sender: Address) -> Call:
        self.steps += 1
        self.block += 1
        self.chain.at(self.block, self.now)
        return Call(sender, self.now, self.block)

    def _compare_place(self, task: Address) -> None:
        """The words that every action may change."""
        ours = self.world.tasks[task]
        self._expect(task, "place", static(_place(ours)))
        self._expect(task, "seats", static(_seats(ours.round)))
        self._expect(task, "escrow", static([ours.escrow]))
        self._expect(task, "owed", static([ours.owed]))

    def check(self, task: Address) -> None:
        """Everything that the task and the registry can be asked."""
        ours, round_ = self.world.tasks[task], self.world.tasks[task].round
        self._compare_place(task)
        expected = {
            "taskId": static([ours.task_id]),
            "sponsor": static([ours.sponsor]),
            "headRoot": ours.head_root,
            "headBlock": ours.head_block,
            "olderHead": static(_older_head(ours)),
            "seedDelay": static([ours.seed_delay]),
            "accountCount": static([len(ours.addresses)]),
            "eligible": static([ours.eligible]),
            "totalWeight": static([ours.total_weight]),
            "internals": dynamic(internals(ours) if ours.config.is_appointed else ()),
            "committee": dynamic(round_.committee),
            "proposers": dynamic(round_.drawn.proposers if round_.drawn else ()),
            "workers": dynamic((round_.drawn.workers or ()) if round_.drawn else ()),
            "currentProposer": static([round_.proposer if round_.phase in _PROPOSER_STANDS else 0]),
            "elected": dynamic(ours.elected or ()),
            "order": dynamic(round_.order),
            "tallied": dynamic(*_tallied(ours)),
            "proposal": static(_proposal(round_)),
            "unbondingSeconds": static([unbonding_seconds(ours)]),
            "budget": static(astuple(round_budget(ours.funded, ours.config))),
        }
        if Phase.SCORE <= round_.phase <= Phase.CHALLENGE:
            expected["rootsHash"] = roots_hash(ordered_roots(ours))
        for name, value in expected.items():
            self._expect(task, name, value)
        for address in ours.addresses:
            self._compare_account(ours, address)
        for key, operator in ours.operators.items():
            told = (operator.owner, operator.since, operator.until)
            self._expect(task, "operates", static(told), key)
        assert self.chain.balance(task) == self.world.balances[task] == ours.escrow + ours.owed
        assert self.chain.balance(self.registry) == self.world.registry.held()
        burned = static([self.world.registry.burned])
        self.chain.expect("StakeRegistry", self.registry, "burned", (), burned)

    def check_credit(self, task: Address, who: Address) -> None:
        """What an account could claim now, of all rounds that were settled."""
        ours = self.world.tasks[task]
        rounds = sorted(ours.pays)
        found = self.chain.read("TrainingTask", task, "creditOf", who, rounds)
        assert found == earnings(ours, who), f"creditOf {who.hex()}: the contract says {found}"

    def _compare_account(self, ours: Task, address: Address) -> None:
        account, task = ours.accounts[address], ours.address
        told = (account.id, account.weight, account.active_from, account.is_enrolled, account.missed)
        role = ours.roles.get(address, Role.NONE)
        self._expect(task, "account", static([*told, ours.credits.get(address, 0), role]), address)
        self._expect(task, "update", static(_update(ours, account.id)), account.id)
        self._expect(task, "scoresOf", static(_scores(ours.round, account.id)), account.id)
        self._expect(task, "isLocked", static([self.world.is_locked(task, address)]), address)
        stake = self.world.registry.allocation(task, address)
        allocation = (stake.bonded, stake.unbonding, stake.shares, stake.generation, stake.requests)
        self.chain.expect("StakeRegistry", self.registry, "allocation", (task, address), static(allocation))

    def _expect(self, task: Address, name: str, expected: bytes, *arguments: Word) -> None:
        self.chain.expect("TrainingTask", task, name, arguments, expected)


def _older_head(task: Task) -> list[bytes]:
    older = task.older_head
    return [bytes(32), bytes(32)] if older is None else [older.root, older.block]


def new_twin(chain: Chain, floors: Floors = LOW) -> Twin:
    """A fresh factory and registry on the chain, and a fresh world."""
    chain.at(1, 1)
    chain.keep_history()
    made_with = packed(["uint32", "uint64"], [floors.phase_seconds, floors.seed_delay])
    factory = chain.deploy(load("TaskFactory"), DEPLOYER, made_with)
    registry = Address(bytes.fromhex(chain.read("TaskFactory", factory, "registry")[2:]))
    return Twin(chain, World(CHAIN_ID, registry, floors), factory, registry)


def _tried(act: Callable[[], object]) -> tuple[object, RuleError | None]:
    try:
        return act(), None
    except RuleError as error:
        return None, error


def _told(logs: Iterable[Any]) -> list[tuple[Address, Event]]:
    told = []
    for log in logs:
        event = decode_log(log.topics, log.data)
        assert event is not None, log
        told.append((log.address, event))
    return told


def _by_contract(told: Sequence[tuple[Address, Event]]) -> dict[Address, list[Event]]:
    """Events in order, per contract: between contracts the rules keep no order."""
    found: dict[Address, list[Event]] = {}
    for address, event in told:
        found.setdefault(address, []).append(event)
    return found


def _refusal(error: Exception) -> tuple[str, tuple[object, ...]]:
    """Name and values. The contract also says which item of a proof is bad."""
    if isinstance(error, BadProofError):
        return "BadProof", ()
    if isinstance(error, RuleError):
        return error.solidity_name(), tuple(_plain(value) for value in error.values)
    return str(error), ()


def _plain(value: object) -> object:
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value[2:])
    return value


def _place(task: Task) -> tuple[Word, ...]:
    round_ = task.round
    limited = round_.drawn is not None and round_.drawn.workers is not None
    return (
        round_.number,
        round_.attempt,
        round_.phase,
        round_.deadline,
        round_.draw_block,
        round_.expected,
        round_.extended,
        task.ending,
        limited,
        len(round_.order),
    )


def _seats(round_: Round) -> tuple[int, ...]:
    committee = round_.committee

    def bits(members: Iterable[Id]) -> int:
        return sum(1 << committee.index(id_) for id_ in set(members) if id_ in committee)

    return (
        bits(round_.scores),
        bits(id_ for id_, scores in round_.scores.items() if scores.revealed is not None),
        bits(id_ for id_, attests in round_.votes.items() if attests),
        bits(round_.votes),
        bits(round_.convicted),
        bits(round_.absent),
    )


def _update(task: Task, id_: Id) -> tuple[Word, ...]:
    """What the contract keeps of an update; sample counts only where shares may depend on them."""
    update = task.round.updates.get(id_)
    if update is None:
        return False, False, bytes(32), 0
    revealed = update.revealed
    if revealed is None:
        return True, False, update.commitment, 0
    counts = task.config.rule is Rule.FEDAVG or task.config.rule.is_elected
    return True, True, revealed.root, revealed.samples if counts else 0


def _scores(round_: Round, id_: Id) -> tuple[Word, ...]:
    scores = round_.scores.get(id_)
    if scores is None:
        return False, False, bytes(32)
    shown = scores.revealed
    return True, shown is not None, scores.commitment if shown is None else keccak256(shown)


def _tallied(task: Task) -> tuple[tuple[bool, ...], tuple[int, ...]]:
    round_ = task.round
    if round_.phase not in (Phase.PROPOSE, Phase.CHALLENGE):
        return (), ()
    assert round_.tally is not None
    posted = round_.proposal.shares if round_.proposal else ()
    return round_.tally.included, posted or round_.tally.shares


def _proposal(round_: Round) -> tuple[Word, ...]:
    if round_.phase is not Phase.CHALLENGE:
        return 0, bytes(32), bytes(32), bytes(32)
    proposal = round_.proposal
    assert proposal is not None
    return proposal.proposer, proposal.model_root, proposal.block, proposal.shares_digest
