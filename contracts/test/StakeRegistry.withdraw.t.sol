// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {StakeRegistryTest} from "./StakeRegistry.base.t.sol";
import {Reentrant, Refuser} from "./StakeScene.sol";

contract StakeRegistryWithdrawTest is StakeRegistryTest {
    function testFuzz_withdraw_freeStake_arrives(uint256 paid, uint256 amount) external {
        paid = _bound(paid, 1, 90 ether);
        amount = _bound(amount, 1, paid);
        vm.prank(_ada);
        _registry.deposit{value: paid}();

        vm.prank(_ada);
        _registry.withdraw(amount, _finder);

        vm.assertEq(_finder.balance, amount);
        vm.assertEq(_registry.free(_ada), paid - amount);
        _assertAllAccountedFor();
    }

    function testFuzz_withdraw_moreThanFree_reverts(uint256 amount) external {
        amount = _bound(amount, 1, type(uint256).max);

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.NotEnoughFree.selector, _ada, 0, amount));
        vm.prank(_ada);
        _registry.withdraw(amount, _ada);
    }

    function test_withdraw_toOneWhoStartsOver_paysOnce() external {
        Reentrant thief = new Reentrant(_registry);
        thief.deposit{value: 1 ether}();

        thief.withdraw(1 ether);

        vm.assertEq(thief.taken(), 1 ether);
        _assertAllAccountedFor();
    }

    function test_withdraw_toOneWhoRefuses_revertsAndKeepsTheStake() external {
        address refuser = address(new Refuser());
        vm.prank(_ada);
        _registry.deposit{value: 1 ether}();

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.TransferFailed.selector, refuser, 1 ether));
        vm.prank(_ada);
        _registry.withdraw(1 ether, refuser);

        vm.assertEq(_registry.free(_ada), 1 ether);
    }
}
