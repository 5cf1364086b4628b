"""The stake registry: free, bonded to a task, or unbonding from it (docs/protocol.md 3). `StakeRegistry` in Python."""

from dataclasses import dataclass, field, replace

from chainfl.protocol import errors, events
from chainfl.protocol.events import Event
from chainfl.protocol.shared import SharedMap
from chainfl.protocol.state import NO_ADDRESS
from chainfl.types import WAD, Address, Slash

_WORTHLESS_BITS = 32


@dataclass(frozen=True, slots=True)
class Allocation:
    """An account's stake in one task. `shares` are claims on the unbonding pool; a slash makes each worth less."""

    bonded: int = 0
    unbonding: int = 0
    shares: int = 0
    generation: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One deallocation on its way out."""

    shares: int
    release_at: int
    generation: int


@dataclass(slots=True)
class Registry:
    """Everybody's stake."""

    free: SharedMap[Address, int] = field(default_factory=SharedMap)
    allocations: SharedMap[tuple[Address, Address], Allocation] = field(default_factory=SharedMap)
    requests: SharedMap[tuple[Address, Address, int], Request] = field(default_factory=SharedMap)
    operators: SharedMap[tuple[Address, Address], Address] = field(default_factory=SharedMap)
    burned: int = 0
    events: list[Event] = field(default_factory=list)

    def draft(self) -> "Registry":
        """A copy that can be changed without touching this one; it shares what it does not change.

        Its list of events starts empty.
        """
        return replace(
            self,
            free=self.free.copy(),
            allocations=self.allocations.copy(),
            requests=self.requests.copy(),
            operators=self.operators.copy(),
            events=[],
        )

    def allocation(self, task: Address, account: Address) -> Allocation:
        """The account's stake in a task."""
        return self.allocations.get((task, account), Allocation())

    def operator_of(self, task: Address, account: Address) -> Address:
        """Whom the account named in a task; the zero address: nobody."""
        return self.operators.get((task, account), NO_ADDRESS)

    def held(self) -> int:
        """All the ether the registry must hold."""
        bound = sum(a.bonded + a.unbonding for a in self.allocations.values())
        return sum(self.free.values()) + bound + self.burned


def deposit(registry: Registry, account: Address, value: int) -> None:
    """Add to the account's free stake."""
    if value == 0:
        raise errors.ZeroAmountError()

    registry.free[account] = registry.free.get(account, 0) + value
    registry.events.append(events.Deposited(account, value))


def allocate(registry: Registry, account: Address, task: Address, amount: int, value: int) -> None:
    """Bond free stake to a task; ether sent along is deposited first."""
    if amount == 0:
        raise errors.ZeroAmountError()

    if value:
        deposit(registry, account, value)
    _take_free(registry, account, amount)
    stake = registry.allocation(task, account)
    registry.allocations[task, account] = replace(stake, bonded=stake.bonded + amount)
    registry.events.append(events.Allocated(task, account, amount))


def deallocate(
    registry: Registry, account: Address, task: Address, amount: int, now: int, unbonding_seconds: int
) -> int:
    """Start to take stake out of a task; it stays slashable until it is released."""
    stake = registry.allocation(task, account)
    if amount == 0:
        raise errors.ZeroAmountError()
    if stake.bonded < amount:
        raise errors.NotEnoughBondedError(task, account, stake.bonded, amount)

    # A request is a part of the pool of all stake on its way out, so that a slash reaches every request alike.
    shares = amount if stake.shares == 0 else amount * stake.shares // stake.unbonding
    number = stake.requests
    release_at = now + unbonding_seconds
    registry.allocations[task, account] = Allocation(
        stake.bonded - amount, stake.unbonding + amount, stake.shares + shares, stake.generation, number + 1
    )
    registry.requests[task, account, number] = Request(shares, release_at, stake.generation)
    registry.events.append(events.Deallocated(task, account, number, amount, shares, release_at))
    return number


def release(registry: Registry, account: Address, task: Address, number: int, now: int, locked: bool) -> int:
    """Free a request that has waited long enough; it is worth what slashes left of it."""
    request = registry.requests.get((task, account, number))
    if request is None:
        raise errors.NoSuchRequestError(task, account, number)
    if now < request.release_at:
        raise errors.StillUnbondingError(request.release_at)
    if locked:
        raise errors.StakeLockedError(task, account)

    stake = registry.allocation(task, account)
    amount = _worth(stake, request)
    del registry.requests[task, account, number]

    # A request of a pool that was closed is worth nothing, and takes nothing from the pool after it.
    if request.generation == stake.generation:
        registry.allocations[task, account] = replace(
            stake, unbonding=stake.unbonding - amount, shares=stake.shares - request.shares
        )
    registry.free[account] = registry.free.get(account, 0) + amount
    registry.events.append(events.Released(task, account, number, amount))
    return amount


def withdraw(registry: Registry, account: Address, amount: int, to: Address) -> None:
    """Send free stake to an account."""
    if amount == 0:
        raise errors.ZeroAmountError()

    _take_free(registry, account, amount)
    registry.events.append(events.Withdrawn(account, to, amount))


def set_operator(registry: Registry, account: Address, task: Address, operator: Address) -> None:
    """Name the key that may act for the account in a task; the zero address: none."""
    registry.operators[task, account] = operator
    registry.events.append(events.OperatorNamed(task, account, operator))


def slash(
    registry: Registry,
    task: Address,
    account: Address,
    kind: Slash,
    share: int,
    finder: Address = NO_ADDRESS,
    finder_part: int = 0,
    burn_part: int = WAD,
) -> tuple[int, int]:
    """Take a share of all that is allocated to the task, unbonding included; answers (amount, part of the task).

    Liveness and no-reveal slashes are burned whole; of a lie slash part goes to the finder, the rest to the task.
    """
    stake = registry.allocation(task, account)
    whole = stake.bonded + stake.unbonding
    amount = whole * share // WAD
    if amount == 0:
        return 0, 0

    # Bonded and unbonding lose the same part: stake cannot be saved by taking it out first.
    from_unbonding = stake.unbonding * amount // whole
    to_finder = 0 if finder == NO_ADDRESS else amount * finder_part // WAD
    to_escrow = amount * (WAD - finder_part - burn_part) // WAD
    burned = amount - to_finder - to_escrow

    bonded = stake.bonded - (amount - from_unbonding)
    unbonding = stake.unbonding - from_unbonding

    # A pool that is worth next to nothing would let a later request buy shares without bound: it is closed.
    closed = unbonding << _WORTHLESS_BITS < stake.shares
    left = replace(stake, bonded=bonded, unbonding=unbonding)
    if closed:
        left = replace(
            stake, bonded=bonded + unbonding, unbonding=0, shares=0, generation=stake.generation + 1
        )
    registry.allocations[task, account] = left
    registry.burned += burned
    for who, part in ((finder, to_finder), (task, to_escrow)):
        if part:
            registry.free[who] = registry.free.get(who, 0) + part
    registry.events.append(
        events.Slashed(
            task, account, kind, amount - from_unbonding, from_unbonding, finder, to_finder, to_escrow, burned
        )
    )
    if closed:
        registry.events.append(events.PoolClosed(task, account, unbonding))
    return amount, to_escrow


def _take_free(registry: Registry, account: Address, amount: int) -> None:
    free = registry.free.get(account, 0)
    if free < amount:
        raise errors.NotEnoughFreeError(account, free, amount)

    registry.free[account] = free - amount


def _worth(stake: Allocation, request: Request) -> int:
    if request.shares == 0 or request.generation != stake.generation:
        return 0
    return request.shares * stake.unbonding // stake.shares
