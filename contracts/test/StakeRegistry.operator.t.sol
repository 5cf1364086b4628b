// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {StakeRegistryTest} from "./StakeRegistry.base.t.sol";

contract StakeRegistryOperatorTest is StakeRegistryTest {
    function testFuzz_setOperator_ofATask_isKeptAndTold(address operator) external {
        vm.prank(_ada);
        _registry.setOperator(address(_task), operator);

        vm.assertEq(_registry.operatorOf(address(_task), _ada), operator);
        vm.assertEq(_task.operator(_ada), operator);
        _assertAllAccountedFor();
    }

    function test_setOperator_ofSomethingElse_reverts() external {
        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.NotATask.selector, _finder));
        vm.prank(_ada);
        _registry.setOperator(_finder, _account(3));
    }

    function test_setOperator_doesNotLetTheKeyTouchTheStake() external {
        address key = _account(3);
        vm.prank(_ada);
        _registry.setOperator(address(_task), key);

        vm.expectRevert(
            abi.encodeWithSelector(IStakeRegistry.NotEnoughBonded.selector, address(_task), key, 0, 1)
        );
        vm.prank(key);
        _registry.deallocate(address(_task), 1);
    }
}
