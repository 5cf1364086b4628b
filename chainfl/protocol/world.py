"""All contracts of a chain together: factory, registry, tasks, and what a transaction is.

An action on the `World` is one transaction: it works on drafts of the contracts it touches, which replace the originals
only if nothing was raised. Balances of the contracts are kept, so that every wei can be accounted for.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from chainfl.protocol import actions, enrolment, errors, events, proposers, settlement, stake
from chainfl.protocol import round as rules
from chainfl.protocol.admission import Admission
from chainfl.protocol.proof import Evidence
from chainfl.protocol.state import NO_ADDRESS, Call, RevealedUpdate, Slashed, Task, new_task
from chainfl.protocol.terms import Floors, check_config
from chainfl.types import Address, Digest, Id, Slash, TaskConfig


@dataclass(slots=True)
class _Stakes:
    """The registry as a task sees it within one transaction."""

    registry: stake.Registry
    task: Task

    def stake_of(self, account: Address, task: Address) -> int:
        return self.registry.allocation(task, account).bonded

    def operator_of(self, account: Address, task: Address) -> Address:
        return self.registry.operator_of(task, account)

    def slash(self, account: Address, task: Address, kind: Slash, finder: Address | None) -> Slashed:
        config = self.task.config
        if kind is not Slash.LIE:
            share = config.liveness_slash if kind is Slash.LIVENESS else config.no_reveal_slash
            return Slashed(*stake.slash(self.registry, task, account, kind, share))
        # Only a proven lie has a finder; the other slashes are burned whole.
        parts = (finder or NO_ADDRESS, config.finder_part, config.burn_part)
        return Slashed(*stake.slash(self.registry, task, account, kind, config.lie_slash, *parts))


@dataclass(slots=True)
class World:
    """A chain's contracts. `log` holds the events of all transactions in order, with the contract that emitted them."""

    chain_id: int
    registry_address: Address
    floors: Floors
    registry: stake.Registry = field(default_factory=stake.Registry)
    tasks: dict[Address, Task] = field(default_factory=dict)
    balances: dict[Address, int] = field(default_factory=dict)
    log: list[tuple[Address, events.Event]] = field(default_factory=list)

    # Factory

    def create_task(self, call: Call, address: Address, config: TaskConfig, escrow: int) -> Task:
        """Create a task with frozen terms and its escrow."""
        check_config(config, escrow, self.floors)
        return self.open_task(call, address, config, escrow)

    def open_task(self, call: Call, address: Address, config: TaskConfig, escrow: int) -> Task:
        """Create a task whose terms are not checked: a simulator may play what a contract would refuse."""
        delay = self.floors.seed_delay
        task = new_task(self.chain_id, address, len(self.tasks) + 1, call.sender, config, escrow, delay)
        self.tasks[address] = task
        self.balances[address] = escrow
        self.log.append((address, events.TaskCreated(task.task_id, address, call.sender, escrow)))
        return task

    # Registry

    def deposit(self, call: Call, value: int) -> None:
        """Add to the sender's free stake."""
        registry = self.registry.draft()
        stake.deposit(registry, call.sender, value)
        self._keep(registry)

    def allocate(self, call: Call, task: Address, amount: int, value: int = 0) -> None:
        """Bond free stake to a task; the task takes note."""
        registry = self.registry.draft()
        if amount == 0:
            raise errors.ZeroAmountError()
        if task not in self.tasks:
            raise errors.NotATaskError(task)
        stake.allocate(registry, call.sender, task, amount, value)
        self._stake_changed(call, task, registry)

    def deallocate(self, call: Call, task: Address, amount: int) -> int:
        """Start to take stake out of a task; the task takes note."""
        registry = self.registry.draft()
        seconds = enrolment.unbonding_seconds(self.tasks[task]) if task in self.tasks else 0
        number = stake.deallocate(registry, call.sender, task, amount, call.now, seconds)
        self._stake_changed(call, task, registry)
        return number

    def release(self, call: Call, task: Address, number: int) -> int:
        """Free a matured request, unless a round holds the sender's stake."""
        registry = self.registry.draft()
        locked = task in self.tasks and self.is_locked(task, call.sender)
        amount = stake.release(registry, call.sender, task, number, call.now, locked)
        self._keep(registry)
        return amount

    def withdraw(self, call: Call, amount: int, to: Address) -> None:
        """Send the sender's free stake to an account."""
        registry = self.registry.draft()
        stake.withdraw(registry, call.sender, amount, to)
        self._keep(registry)

    def set_operator(self, call: Call, task: Address, operator: Address) -> None:
        """Name the key that may act for the sender in a task; the task takes note."""
        registry = self.registry.draft()
        if task not in self.tasks:
            raise errors.NotATaskError(task)
        stake.set_operator(registry, call.sender, task, operator)
        draft = self.tasks[task].draft()
        enrolment.operator_named(draft, call.sender, operator)
        self._keep(registry, draft)

    def is_locked(self, task: Address, account: Address) -> bool:
        """Whether an account's unbonding stake must stay: a round holds it, or the draw still counts it."""
        return enrolment.is_locked(self.tasks[task], _Stakes(self.registry, self.tasks[task]), account)

    # Task

    def enrol(self, call: Call, task: Address) -> None:
        """Take part from the next draw on."""
        with self._action(task) as (draft, stakes):
            enrolment.enrol(draft, call, stakes)

    def enrol_for(self, call: Call, task: Address, owner: Address) -> None:
        """Act for an owner who named the sender, from the next draw on."""
        with self._action(task) as (draft, stakes):
            enrolment.enrol_for(draft, call, stakes, owner)

    def enrol_admitted(self, call: Call, task: Address, owner: Address, admission: Admission) -> None:
        """Take part, or act for an owner, in a task that has a list of who may join."""
        with self._action(task) as (draft, stakes):
            enrolment.enrol_admitted(draft, call, stakes, owner, admission)

    def enrol_all(self, calls: Sequence[tuple[Call, int]], task: Address) -> None:
        """Allocate these amounts and enrol, all as one: the first draw waits for the last of them. For simulations."""
        with self._action(task) as (draft, stakes):
            for call, amount in calls:
                stake.allocate(stakes.registry, call.sender, task, amount, amount)
            enrolment.enrol_all(draft, [call for call, _ in calls], stakes)

    def leave(self, call: Call, task: Address) -> None:
        """Take no part in later draws."""
        with self._action(task) as (draft, stakes):
            enrolment.leave(draft, call, stakes)

    def apply_change(self, call: Call, task: Address, account: Address) -> None:
        """Bring an account's weight in line with its stake and wish."""
        with self._action(task) as (draft, stakes):
            enrolment.apply_change(draft, call, stakes, account)

    def note_absent(self, call: Call, task: Address, round_: int, ids: Sequence[Id]) -> None:
        """Note who was drawn to train and did not commit in time."""
        with self._action(task) as (draft, stakes):
            enrolment.note_absent(draft, call, stakes, round_, ids)

    def draw(self, call: Call, task: Address, header: bytes, block_hash: Digest | None) -> None:
        """Draw the roles of the round from the header of the block that the opening named; None: it is out of reach."""
        with self._action(task) as (draft, _):
            rules.draw(draft, call, header, block_hash)

    def draw_seeded(self, call: Call, task: Address, seed: Digest) -> None:
        """Draw the roles of the round from a seed that is known, as when a chain's run is played again."""
        with self._action(task) as (draft, _):
            rules.draw_seeded(draft, call, seed)

    def commit_update(self, call: Call, task: Address, round_: int, digest: Digest) -> None:
        """Commit to an update."""
        with self._action(task) as (draft, _):
            actions.commit_update(draft, call, round_, digest)

    def reveal_update(
        self, call: Call, task: Address, round_: int, root: Digest, cid: Digest, samples: int, salt: Digest
    ) -> None:
        """Open the commitment to an update."""
        with self._action(task) as (draft, _):
            actions.reveal_update(draft, call, round_, root, cid, samples, salt)

    def commit_updates(self, calls: Sequence[tuple[Call, Digest]], task: Address, round_: int) -> None:
        """Many workers' commitments, all as one. For simulations."""
        with self._action(task) as (draft, _):
            for call, digest in calls:
                actions.commit_update(draft, call, round_, digest)

    def reveal_updates(
        self, calls: Sequence[tuple[Call, RevealedUpdate]], task: Address, round_: int, salt: Digest
    ) -> None:
        """Many workers' reveals under one salt, all as one. For simulations."""
        with self._action(task) as (draft, _):
            for call, shown in calls:
                actions.reveal_update(draft, call, round_, shown.root, shown.cid, shown.samples, salt)

    def commit_scores(self, call: Call, task: Address, round_: int, digest: Digest) -> None:
        """Commit to scores."""
        with self._action(task) as (draft, _):
            actions.commit_scores(draft, call, round_, digest)

    def reveal_scores(self, call: Call, task: Address, round_: int, scores: bytes, salt: Digest) -> None:
        """Open the commitment to scores."""
        with self._action(task) as (draft, _):
            actions.reveal_scores(draft, call, round_, scores, salt)

    def tally(self, call: Call, task: Address, round_: int, vectors: Sequence[bytes]) -> None:
        """Turn the revealed scores into shares."""
        with self._action(task) as (draft, stakes):
            rules.tally(draft, call, stakes, round_, vectors)

    def propose(
        self,
        call: Call,
        task: Address,
        round_: int,
        attempt: int,
        model_root: Digest,
        block: Digest,
        shares: Sequence[int] = (),
    ) -> None:
        """Post the next model."""
        with self._action(task) as (draft, _):
            actions.propose(draft, call, round_, attempt, model_root, block, shares)

    def vote(
        self,
        call: Call,
        task: Address,
        round_: int,
        attempt: int,
        model_root: Digest,
        block: Digest,
        shares_digest: Digest,
        attests: bool,
    ) -> None:
        """Attest a proposal or object to it."""
        with self._action(task) as (draft, _):
            actions.vote(draft, call, round_, attempt, model_root, block, shares_digest, attests)

    def note_finding(self, call: Call, task: Address, note: Digest) -> None:
        """Seal a finding before showing it."""
        with self._action(task) as (draft, _):
            actions.note_finding(draft, call, note)

    def prove(
        self,
        call: Call,
        task: Address,
        round_: int,
        attempt: int,
        position: int,
        evidence: Evidence,
        salt: Digest,
    ) -> None:
        """Show one wrong parameter."""
        with self._action(task) as (draft, stakes):
            actions.prove(draft, call, stakes, round_, attempt, position, evidence, salt)
            # What a slash gives back to the escrow arrives as free stake of the task itself, as on the chain.
            received = stakes.registry.free.get(task, 0)
            if received:
                stake.withdraw(stakes.registry, task, received, task)
        self.balances[task] += received

    def advance(self, call: Call, task: Address, round_: int) -> None:
        """Leave a phase that is over."""
        with self._action(task) as (draft, stakes):
            rules.advance(draft, call, stakes, round_)

    def claim(self, call: Call, task: Address, rounds: Sequence[int]) -> int:
        """Pull what the sender earned."""
        with self._action(task) as (draft, _):
            amount = settlement.claim(draft, call, rounds)
        self.balances[task] -= amount
        return amount

    def abandon(self, call: Call, task: Address) -> None:
        """End the task with the current round."""
        with self._action(task) as (draft, _):
            proposers.abandon(draft, call)

    def refund(self, call: Call, task: Address) -> int:
        """Give the sponsor back what was not earned."""
        with self._action(task) as (draft, _):
            amount = settlement.refund(draft, call)
        self.balances[task] -= amount
        return amount

    # Transactions

    @contextmanager
    def _action(self, task: Address) -> Iterator[tuple[Task, _Stakes]]:
        """Drafts of a task and its stakes for one action: kept when it is done, dropped when it raises."""
        draft = self.tasks[task].draft()
        stakes = _Stakes(self.registry.draft(), draft)
        # An action that raises leaves through here: its drafts are never kept.
        yield draft, stakes
        self._keep(stakes.registry, draft)

    def _stake_changed(self, call: Call, task: Address, registry: stake.Registry) -> None:
        draft = self.tasks[task].draft()
        enrolment.stake_changed(draft, call, _Stakes(registry, draft), call.sender)
        self._keep(registry, draft)

    def _keep(self, registry: stake.Registry, draft: Task | None = None) -> None:
        self.log.extend((self.registry_address, event) for event in registry.events)
        registry.events = []
        self.registry = registry
        if draft is not None:
            self.log.extend((draft.address, event) for event in draft.events)
            draft.events = []
            self.tasks[draft.address] = draft
