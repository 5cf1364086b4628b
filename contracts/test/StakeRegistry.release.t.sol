// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry, Slash} from "../src/interfaces/IStakeRegistry.sol";
import {StakeRegistryTest} from "./StakeRegistry.base.t.sol";

contract StakeRegistryReleaseTest is StakeRegistryTest {
    function testFuzz_deallocate_part_isUnbondingAndTheTaskIsTold(uint256 amount) external {
        amount = _bound(amount, 1, 10 ether);

        vm.expectEmit();
        emit IStakeRegistry.Deallocated(address(_task), _ada, 0, amount, amount, block.timestamp + 7 days);
        _deallocate(amount);

        vm.assertEq(_stake().bonded, 10 ether - amount);
        vm.assertEq(_stake().unbonding, amount);
        vm.assertEq(_task.told(_ada), 10 ether - amount);
        _assertAllAccountedFor();
    }

    function testFuzz_deallocate_moreThanBonded_reverts(uint256 amount) external {
        amount = _bound(amount, 10 ether + 1, type(uint256).max);

        vm.expectRevert(
            abi.encodeWithSelector(
                IStakeRegistry.NotEnoughBonded.selector, address(_task), _ada, 10 ether, amount
            )
        );
        _deallocate(amount);
    }

    function testFuzz_release_beforeItsTime_reverts(uint256 wait) external {
        wait = _bound(wait, 0, 7 days - 1);
        uint256 number = _deallocate(1 ether);
        uint256 releaseAt = vm.getBlockTimestamp() + 7 days;
        vm.warp(vm.getBlockTimestamp() + wait);

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.StillUnbonding.selector, releaseAt));
        _release(number);
    }

    function test_release_whileLocked_revertsHoweverLate() external {
        uint256 number = _deallocate(1 ether);
        _task.lock(_ada, true);
        vm.warp(vm.getBlockTimestamp() + 3650 days);

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.StakeLocked.selector, address(_task), _ada));
        _release(number);

        _task.lock(_ada, false);
        vm.assertEq(_release(number), 1 ether);
    }

    function test_release_twice_reverts() external {
        uint256 number = _deallocate(1 ether);
        vm.warp(vm.getBlockTimestamp() + 7 days);
        _release(number);

        vm.expectRevert(
            abi.encodeWithSelector(IStakeRegistry.NoSuchRequest.selector, address(_task), _ada, number)
        );
        _release(number);
    }

    function test_release_ofAnEndedTask_needsNoWait() external {
        _task.end();

        uint256 number = _deallocate(10 ether);

        vm.assertEq(_release(number), 10 ether);
        vm.assertEq(_registry.free(_ada), 10 ether);
    }

    function testFuzz_release_slashedWhileUnbonding_losesInProportion(
        uint256 first,
        uint256 second,
        uint256 share
    ) external {
        first = _bound(first, 1e9, 4 ether);
        second = _bound(second, 1e9, 4 ether);
        share = _bound(share, 0, 0.99e18);
        _deallocate(first);
        _deallocate(second);

        _task.slashLie(_ada, share, address(0), 0, 1e18);
        vm.warp(vm.getBlockTimestamp() + 7 days);
        uint256 gotFirst = _release(0);
        uint256 gotSecond = _release(1);

        // Each part rounds by a wei or two.
        vm.assertLe(gotFirst, first - first * share / 1e18 + 2);
        vm.assertGe(gotFirst + 2, first - first * share / 1e18);
        vm.assertLe(gotSecond, second - second * share / 1e18 + 2);
        vm.assertGe(gotSecond + 2, second - second * share / 1e18);
        vm.assertEq(_stake().unbonding, 0);
        _assertAllAccountedFor();
    }

    function test_release_afterAllWasSlashed_isDoneWithNothing() external {
        uint256 number = _deallocate(4 ether);
        _task.slashLie(_ada, 1e18, address(0), 0, 1e18);
        vm.warp(vm.getBlockTimestamp() + 7 days);

        uint256 amount = _release(number);

        vm.assertEq(amount, 0);
        vm.assertEq(_registry.burned(), 10 ether);
        _assertAllAccountedFor();
    }

    function test_release_ofAClosedPool_doesNotTouchLaterRequests() external {
        uint256 old = _deallocate(4 ether);
        _task.slashLie(_ada, 1e18, address(0), 0, 1e18);
        vm.prank(_ada);
        _registry.allocate{value: 5 ether}(address(_task), 5 ether);
        uint256 fresh = _deallocate(3 ether);
        vm.warp(vm.getBlockTimestamp() + 7 days);

        vm.assertEq(_release(old), 0);
        vm.assertEq(_release(fresh), 3 ether);
        vm.assertEq(_stake().bonded, 2 ether);
    }

    function test_release_manyHardSlashesAndRequests_neverOverflow() external {
        for (uint256 i = 0; i < 60; ++i) {
            _deallocate(_stake().bonded / 2 + 1);
            _task.slashLie(_ada, 0.999999999e18, address(0), 0, 1e18);
            vm.prank(_ada);
            _registry.allocate{value: 1 ether}(address(_task), 1 ether);
        }
        vm.warp(vm.getBlockTimestamp() + 7 days);

        for (uint256 i = 0; i < 60; ++i) {
            _release(i);
        }

        vm.assertEq(_stake().unbonding, 0);
        _assertAllAccountedFor();
    }

    function testFuzz_worth_anyTime_isWhatReleaseGives(uint256 amount, uint256 share) external {
        amount = _bound(amount, 1, 10 ether);
        share = _bound(share, 0, 0.05e18);
        uint256 number = _deallocate(amount);
        _task.slash(_ada, Slash.NoReveal, share);
        vm.warp(vm.getBlockTimestamp() + 7 days);

        uint256 worth = _registry.worth(address(_task), _ada, number);

        vm.assertEq(_release(number), worth);
    }
}
