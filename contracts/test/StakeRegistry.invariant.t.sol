// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Allocation, IStakeRegistry, Slash} from "../src/interfaces/IStakeRegistry.sol";
import {BaseTest, Vm} from "./Base.t.sol";
import {Reentrant, StakeTask, TaskList} from "./StakeScene.sol";

/// @notice Plays random accounts against the registry: five people and one contract that starts over.
contract StakeRegistryHandler {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    IStakeRegistry private immutable _registry;
    StakeTask[2] private _tasks;
    address[6] public accounts;

    /// Stake that a lock has held, and whether any of it ever left.
    bool public lockedStakeLeft;
    mapping(bytes4 action => uint256) public calls;
    mapping(bytes4 action => uint256) public successes;

    constructor(IStakeRegistry registry, StakeTask first, StakeTask second) {
        _registry = registry;
        _tasks = [first, second];
        for (uint256 i = 0; i < 5; ++i) {
            accounts[i] = address(uint160(0xacc0 + i));
        }
        accounts[5] = address(new Reentrant(registry));
    }

    modifier counted() {
        ++calls[msg.sig];
        _;
    }

    function allocate(uint256 who, uint256 which, uint256 amount, uint256 paid) external counted {
        address account = accounts[who % 6];
        paid %= 10 ether;
        uint256 has = _registry.free(account) + paid;
        if (has == 0) return;
        vm.deal(account, paid);
        vm.prank(account);
        _registry.allocate{value: paid}(address(_tasks[which % 2]), 1 + amount % has);
        ++successes[msg.sig];
    }

    function deallocate(uint256 who, uint256 which, uint256 amount) external counted {
        address task = address(_tasks[which % 2]);
        for (uint256 i = 0; i < 6; ++i) {
            address account = accounts[(who % 6 + i) % 6];
            uint256 has = _registry.bonded(task, account);
            if (has == 0) continue;
            vm.prank(account);
            _registry.deallocate(task, 1 + amount % has);
            ++successes[msg.sig];
            return;
        }
    }

    function release(uint256 who, uint256 which, uint256 wait) external counted {
        StakeTask task = _tasks[which % 2];
        vm.warp(vm.getBlockTimestamp() + wait % 8 days);
        for (uint256 i = 0; i < 6; ++i) {
            address account = accounts[(who % 6 + i) % 6];
            uint256 requests = _registry.allocation(address(task), account).requests;
            for (uint256 number = 0; number < requests; ++number) {
                if (_registry.request(address(task), account, number).releaseAt == 0) continue;
                vm.prank(account);
                try _registry.release(address(task), number) {
                    if (task.isLocked(account)) lockedStakeLeft = true;
                    ++successes[msg.sig];
                    return;
                } catch {}
            }
        }
    }

    function withdraw(uint256 who, uint256 amount) external counted {
        for (uint256 i = 0; i < 6; ++i) {
            address account = accounts[(who % 6 + i) % 6];
            uint256 has = _registry.free(account);
            if (has == 0) continue;
            vm.prank(account);
            _registry.withdraw(1 + amount % has, account);
            ++successes[msg.sig];
            return;
        }
    }

    function slash(uint256 who, uint256 which, uint256 share, bool noReveal) external counted {
        Slash kind = noReveal ? Slash.NoReveal : Slash.Liveness;
        _tasks[which % 2].slash(accounts[who % 6], kind, share % (noReveal ? 0.05e18 : 0.01e18));
        ++successes[msg.sig];
    }

    function slashLie(uint256 who, uint256 which, uint256 share, uint256 finder, uint256 finderPart)
        external
        counted
    {
        finderPart %= 0.3e18;
        share = share % 5 == 0 ? 1e18 : share % 1e18;
        _tasks[which % 2].slashLie(accounts[who % 6], share, accounts[finder % 6], finderPart, 0.5e18);
        ++successes[msg.sig];
    }

    function lock(uint256 who, uint256 which, bool locked) external counted {
        _tasks[which % 2].lock(accounts[who % 6], locked);
        ++successes[msg.sig];
    }

    function owed() external view returns (uint256 sum) {
        sum = _registry.burned() + _registry.free(address(_tasks[0])) + _registry.free(address(_tasks[1]));
        for (uint256 i = 0; i < 6; ++i) {
            sum += _registry.free(accounts[i]);
            for (uint256 j = 0; j < 2; ++j) {
                Allocation memory stake = _registry.allocation(address(_tasks[j]), accounts[i]);
                sum += uint256(stake.bonded) + stake.unbonding;
            }
        }
    }

    /// @dev Where the open requests of a pool add up to more or less than the pool, by more than rounding.
    function unbackedPool() external view returns (bool) {
        for (uint256 i = 0; i < 6; ++i) {
            for (uint256 j = 0; j < 2; ++j) {
                address task = address(_tasks[j]);
                Allocation memory stake = _registry.allocation(task, accounts[i]);
                uint256 sum = 0;
                for (uint256 number = 0; number < stake.requests; ++number) {
                    sum += _registry.worth(task, accounts[i], number);
                }
                if (sum > stake.unbonding || sum + stake.requests < stake.unbonding) return true;
            }
        }
        return false;
    }
}

contract StakeRegistryInvariantTest is BaseTest {
    TaskList private immutable _list = new TaskList();
    IStakeRegistry private immutable _registry = _list.deploy(vm.getCode("StakeRegistry.sol:StakeRegistry"));
    StakeRegistryHandler private _handler;
    bytes4[] private _actions;

    function setUp() external {
        _handler =
            new StakeRegistryHandler(_registry, _list.createTask(_registry), _list.createTask(_registry));
        _actions = [
            StakeRegistryHandler.allocate.selector,
            StakeRegistryHandler.deallocate.selector,
            StakeRegistryHandler.release.selector,
            StakeRegistryHandler.withdraw.selector,
            StakeRegistryHandler.slash.selector,
            StakeRegistryHandler.slashLie.selector,
            StakeRegistryHandler.lock.selector
        ];
        _target(address(_handler), _actions);
    }

    function invariant_balance_isWhatIsOwed() external view {
        vm.assertEq(address(_registry).balance, _handler.owed());
    }

    function invariant_openRequests_areWorthTheirPool() external view {
        vm.assertFalse(_handler.unbackedPool());
    }

    function invariant_lockedStake_neverLeaves() external view {
        vm.assertFalse(_handler.lockedStakeLeft());
    }

    /// @dev Handlers that always fail would prove nothing: in a long random play each succeeds in a tenth of its calls.
    function test_handlers_inALongPlay_succeedOftenEnough() external {
        for (uint256 i = 0; i < 700; ++i) {
            bytes4 action = _actions[uint256(keccak256(abi.encode("action", i))) % _actions.length];
            // Each argument is a number or a flag, and none of them reads more than five words.
            bytes memory arguments =
                abi.encode(_random(i, 0), _random(i, 1), _random(i, 2), _random(i, 3) & 1, _random(i, 4));
            if (action == StakeRegistryHandler.lock.selector) {
                arguments = abi.encode(_random(i, 0), i, _random(i, 2) & 1);
            }
            (bool done,) = address(_handler).call(bytes.concat(action, arguments));
            vm.assertTrue(done);
        }

        for (uint256 i = 0; i < _actions.length; ++i) {
            vm.assertGe(_handler.successes(_actions[i]) * 10, _handler.calls(_actions[i]));
        }
        vm.assertEq(address(_registry).balance, _handler.owed());
    }

    function _random(uint256 i, uint256 k) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(i, k)));
    }
}
