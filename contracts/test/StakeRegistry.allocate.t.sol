// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {StakeRegistryTest} from "./StakeRegistry.base.t.sol";

contract StakeRegistryAllocateTest is StakeRegistryTest {
    function testFuzz_allocate_freeStake_isBondedAndTheTaskIsTold(uint256 paid, uint256 amount) external {
        paid = _bound(paid, 1, 90 ether);
        amount = _bound(amount, 1, paid);
        vm.prank(_ada);
        _registry.deposit{value: paid}();

        vm.expectEmit();
        emit IStakeRegistry.Allocated(address(_task), _ada, amount);
        vm.prank(_ada);
        _registry.allocate(address(_task), amount);

        vm.assertEq(_registry.bonded(address(_task), _ada), 10 ether + amount);
        vm.assertEq(_registry.free(_ada), paid - amount);
        vm.assertEq(_task.told(_ada), 10 ether + amount);
        _assertAllAccountedFor();
    }

    function testFuzz_allocate_moreThanFree_reverts(uint256 paid, uint256 amount) external {
        paid = _bound(paid, 0, 90 ether);
        amount = _bound(amount, paid + 1, type(uint256).max);

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.NotEnoughFree.selector, _ada, paid, amount));
        vm.prank(_ada);
        _registry.allocate{value: paid}(address(_task), amount);
    }

    function testFuzz_allocate_toWhatIsNoTask_reverts(address other) external {
        vm.assume(other != address(_task));

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.NotATask.selector, other));
        vm.prank(_ada);
        _registry.allocate{value: 1}(other, 1);
    }

    function test_allocate_nothing_reverts() external {
        vm.expectRevert(IStakeRegistry.ZeroAmount.selector);
        vm.prank(_ada);
        _registry.allocate{value: 1}(address(_task), 0);
    }

    function test_deposit_nothing_reverts() external {
        vm.expectRevert(IStakeRegistry.ZeroAmount.selector);
        _registry.deposit();
    }

    function test_constructor_whoDeploys_isTheFactory() external view {
        vm.assertEq(_registry.factory(), address(_list));
    }
}
