"""The stake registry: every wei accounted for, no request stranded (docs/protocol.md section 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chainfl.protocol import errors, events, stake
from chainfl.protocol.stake import Registry
from chainfl.protocol.state import NO_ADDRESS
from chainfl.types import WAD, Address, Slash
from tests.protocol.scene import ETHER, STRANGER, address, config, enrol, scene

TASK, OTHER = Address(b"\x7a" * 20), Address(b"\x7b" * 20)
ANNE, BOB = address(1), address(2)
WAIT = 100

accounts = st.sampled_from([address(n) for n in range(1, 4)])
tasks = st.sampled_from([TASK, OTHER])
amounts = st.integers(1, 5) | st.integers(1, 10**19)


def staked(bonded: int, unbonding: int = 0) -> Registry:
    """A registry in which Anne has stake in the task."""
    registry = Registry()
    stake.allocate(registry, ANNE, TASK, bonded + unbonding, bonded + unbonding)
    if unbonding:
        stake.deallocate(registry, ANNE, TASK, unbonding, 0, WAIT)
    return registry


def test_stake_goes_free_to_bonded_to_unbonding_to_free_and_away() -> None:
    registry = Registry()
    stake.deposit(registry, ANNE, 10)
    stake.allocate(registry, ANNE, TASK, 7, 0)
    number = stake.deallocate(registry, ANNE, TASK, 4, 5, WAIT)

    assert stake.release(registry, ANNE, TASK, number, 5 + WAIT, locked=False) == 4
    stake.withdraw(registry, ANNE, 7, BOB)

    assert (registry.free[ANNE], registry.allocation(TASK, ANNE).bonded) == (0, 3)
    assert registry.held() == 3


def test_ether_sent_along_is_deposited_before_it_is_allocated() -> None:
    registry = Registry()

    stake.allocate(registry, ANNE, TASK, 7, 10)

    assert (registry.free[ANNE], registry.allocation(TASK, ANNE).bonded) == (3, 7)


def test_nobody_can_use_more_than_it_has() -> None:
    registry = staked(5)

    with pytest.raises(errors.NotEnoughFreeError):
        stake.withdraw(registry, ANNE, 1, ANNE)
    with pytest.raises(errors.NotEnoughFreeError):
        stake.allocate(registry, BOB, TASK, 1, 0)
    with pytest.raises(errors.NotEnoughBondedError):
        stake.deallocate(registry, ANNE, TASK, 6, 0, WAIT)
    with pytest.raises(errors.NotEnoughBondedError):
        stake.deallocate(registry, ANNE, OTHER, 1, 0, WAIT)


def test_a_change_of_nothing_is_refused() -> None:
    registry = staked(5)

    with pytest.raises(errors.ZeroAmountError):
        stake.deposit(registry, ANNE, 0)
    with pytest.raises(errors.ZeroAmountError):
        stake.allocate(registry, ANNE, TASK, 0, 1)
    with pytest.raises(errors.ZeroAmountError):
        stake.deallocate(registry, ANNE, TASK, 0, 0, WAIT)
    with pytest.raises(errors.ZeroAmountError):
        stake.withdraw(registry, ANNE, 0, ANNE)


def test_a_request_waits_is_released_once_and_only_by_its_owner() -> None:
    registry = staked(5, 5)

    with pytest.raises(errors.StillUnbondingError):
        stake.release(registry, ANNE, TASK, 0, WAIT - 1, locked=False)
    with pytest.raises(errors.StakeLockedError):
        stake.release(registry, ANNE, TASK, 0, WAIT, locked=True)
    with pytest.raises(errors.NoSuchRequestError):
        stake.release(registry, BOB, TASK, 0, WAIT, locked=False)
    stake.release(registry, ANNE, TASK, 0, WAIT, locked=False)
    with pytest.raises(errors.NoSuchRequestError):
        stake.release(registry, ANNE, TASK, 0, WAIT, locked=False)


@given(st.integers(0, 10**20), st.integers(0, 10**20), st.integers(0, WAD))
def test_a_slash_takes_bonded_and_unbonding_stake_in_proportion(
    bonded: int, unbonding: int, share: int
) -> None:
    registry = staked(bonded, unbonding) if bonded + unbonding else Registry()
    whole = bonded + unbonding

    amount, _ = stake.slash(registry, TASK, ANNE, Slash.LIE, share)

    left = registry.allocation(TASK, ANNE)
    assert amount == whole * share // WAD
    assert left.bonded + left.unbonding == whole - amount
    if left.generation == 0 and whole:
        assert left.unbonding == unbonding - unbonding * amount // whole


def test_the_parts_of_a_lie_slash_add_up() -> None:
    registry = staked(1001)

    amount, to_escrow = stake.slash(registry, TASK, ANNE, Slash.LIE, WAD // 2, BOB, WAD // 5, WAD // 2)

    assert (amount, registry.free[BOB], to_escrow, registry.burned) == (500, 100, 150, 250)
    assert registry.free[TASK] == 150
    assert registry.held() == 1001


def test_without_a_finder_its_part_is_burned() -> None:
    registry = staked(1000)

    amount, to_escrow = stake.slash(registry, TASK, ANNE, Slash.LIE, WAD // 2, NO_ADDRESS, WAD // 5, WAD // 2)

    assert (amount, to_escrow, registry.burned) == (500, 150, 350)


def test_silence_is_burned_whole() -> None:
    registry = staked(1000)

    assert stake.slash(registry, TASK, ANNE, Slash.LIVENESS, WAD // 100) == (10, 0)
    assert registry.burned == 10


def test_a_task_cannot_reach_stake_in_another() -> None:
    registry = staked(1000)

    assert stake.slash(registry, OTHER, ANNE, Slash.LIE, WAD) == (0, 0)
    assert registry.allocation(TASK, ANNE).bonded == 1000


def test_a_request_is_worth_what_slashes_left_of_it_and_a_later_one_all_of_its_own() -> None:
    registry = staked(60, 40)
    stake.slash(registry, TASK, ANNE, Slash.LIE, WAD // 2)
    later = stake.deallocate(registry, ANNE, TASK, 10, 0, WAIT)

    assert stake.release(registry, ANNE, TASK, later, WAIT, locked=False) == 10
    assert stake.release(registry, ANNE, TASK, 0, WAIT, locked=False) == 20
    assert registry.allocation(TASK, ANNE) == stake.Allocation(20, 0, 0, 0, 2)


def test_a_request_that_was_slashed_to_nothing_can_be_closed_and_new_stake_is_untouched() -> None:
    registry = staked(0, 100)
    stake.slash(registry, TASK, ANNE, Slash.LIE, WAD)
    stake.allocate(registry, ANNE, TASK, 50, 50)
    later = stake.deallocate(registry, ANNE, TASK, 50, 0, WAIT)

    assert stake.release(registry, ANNE, TASK, 0, WAIT, locked=False) == 0
    assert stake.release(registry, ANNE, TASK, later, WAIT, locked=False) == 50


def test_the_dust_of_a_pool_that_is_closed_is_bonded_again() -> None:
    registry = staked(0, 10**18)
    stake.slash(registry, TASK, ANNE, Slash.LIE, WAD - 10)

    left = registry.allocation(TASK, ANNE)

    assert (left.bonded, left.unbonding, left.shares, left.generation) == (10, 0, 0, 1)
    assert registry.events[-1] == events.PoolClosed(TASK, ANNE, 10)


class Stakes(RuleBasedStateMachine):
    """Everybody does anything; ether in minus ether out is what the registry holds."""

    def __init__(self) -> None:
        """An empty registry at time 0."""
        super().__init__()
        self.registry, self.now, self.paid = Registry(), 0, 0

    @rule(account=accounts, amount=amounts)
    def deposit(self, account: Address, amount: int) -> None:
        stake.deposit(self.registry, account, amount)
        self.paid += amount

    @rule(account=accounts, task=tasks, amount=amounts)
    def allocate(self, account: Address, task: Address, amount: int) -> None:
        stake.allocate(self.registry, account, task, amount, amount)
        self.paid += amount

    @rule(account=accounts, task=tasks, part=st.integers(1, WAD), wait=st.integers(0, WAIT))
    def deallocate(self, account: Address, task: Address, part: int, wait: int) -> None:
        amount = self.registry.allocation(task, account).bonded * part // WAD
        if amount:
            number = stake.deallocate(self.registry, account, task, amount, self.now, wait)
            assert self.registry.requests[task, account, number].shares >= amount

    @rule(account=accounts, part=st.integers(1, WAD))
    def withdraw(self, account: Address, part: int) -> None:
        amount = self.registry.free.get(account, 0) * part // WAD
        if amount:
            stake.withdraw(self.registry, account, amount, account)
            self.paid -= amount

    @rule(
        account=accounts,
        task=tasks,
        share=st.sampled_from([WAD // 100, WAD // 20, WAD // 2, WAD - 1, WAD]),
        finder=accounts,
        kind=st.sampled_from(Slash),
    )
    def slash(self, account: Address, task: Address, share: int, finder: Address, kind: Slash) -> None:
        before = self.registry.allocation(task, account)
        others = {key: value for key, value in self.registry.allocations.items() if key != (task, account)}

        if kind is Slash.LIE:
            amount, to_escrow = stake.slash(
                self.registry, task, account, kind, share, finder, WAD // 5, WAD // 2
            )
        else:
            amount, to_escrow = stake.slash(self.registry, task, account, kind, share)
            assert to_escrow == 0

        assert amount == (before.bonded + before.unbonding) * share // WAD
        assert others == {k: v for k, v in self.registry.allocations.items() if k != (task, account)}
        if to_escrow:
            stake.withdraw(self.registry, task, to_escrow, task)
            self.paid -= to_escrow

    @rule(seconds=st.integers(1, WAIT))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @precondition(lambda self: self.registry.requests)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        task, account, number = data.draw(st.sampled_from(sorted(self.registry.requests)))
        before = self.registry.allocation(task, account)
        matured = self.now >= self.registry.requests[task, account, number].release_at
        if not matured:
            with pytest.raises(errors.StillUnbondingError):
                stake.release(self.registry, account, task, number, self.now, locked=False)
            return

        amount = stake.release(self.registry, account, task, number, self.now, locked=False)

        assert amount <= before.unbonding
        assert (task, account, number) not in self.registry.requests

    @invariant()
    def every_wei_is_accounted_for(self) -> None:
        assert self.registry.held() == self.paid

    @invariant()
    def nothing_is_negative_and_pools_match_their_requests(self) -> None:
        for (task, account), allocation in self.registry.allocations.items():
            assert min(allocation.bonded, allocation.unbonding, allocation.shares) >= 0
            assert (allocation.unbonding == 0) == (allocation.shares == 0)
            live = [
                request.shares
                for (t, a, _), request in self.registry.requests.items()
                if (t, a) == (task, account) and request.generation == allocation.generation
            ]
            assert sum(live) == allocation.shares

    def teardown(self) -> None:
        """Whatever happened, everybody gets out: no matured request is stranded."""
        self.now += WAIT
        for task, account, number in sorted(self.registry.requests):
            stake.release(self.registry, account, task, number, self.now, locked=False)
        assert all(a.unbonding == a.shares == 0 for a in self.registry.allocations.values())
        self.every_wei_is_accounted_for()


TestStakes = Stakes.TestCase


# Together with a task


def test_stake_goes_only_to_tasks_that_exist() -> None:
    played = scene()

    with pytest.raises(errors.NotATaskError):
        played.world.allocate(played.call(STRANGER), OTHER, 1, 1)


def test_unbonding_takes_the_longest_round_and_nothing_once_the_task_has_ended() -> None:
    played = scene(stakes=(1,) * 6)
    played.world.deallocate(played.call(ANNE), played.task_address, 1)
    waiting = played.world.registry.requests[played.task_address, ANNE, 0].release_at - played.now
    played.world.abandon(played.call(played.task.sponsor), played.task_address)
    played.world.deallocate(played.call(ANNE), played.task_address, 1)

    assert waiting == config().longest_round()
    assert played.world.registry.requests[played.task_address, ANNE, 1].release_at == played.now
    assert played.world.release(played.call(ANNE), played.task_address, 1) == 1


def test_a_full_tree_takes_what_still_fits() -> None:
    played = scene(stakes=(1,))
    whale = address(77)

    enrol(played, whale, 5_000_000 * ETHER)

    assert played.task.accounts[whale].weight == 2**32 - 1 - played.task.accounts[ANNE].weight
    assert played.task.total_weight == 2**32 - 1


def test_a_weight_that_falls_makes_room_for_a_stake_that_did_not_fit() -> None:
    played = scene(stakes=(1,))
    whale = address(77)
    enrol(played, whale, 5_000_000 * ETHER)

    played.world.leave(played.call(ANNE), played.task_address)
    played.world.apply_change(played.call(STRANGER), played.task_address, whale)

    assert played.task.accounts[whale].weight == 2**32 - 1
