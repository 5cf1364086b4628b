// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Allocation, IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {BaseTest} from "./Base.t.sol";
import {StakeTask, TaskList} from "./StakeScene.sol";

/// @notice A registry with a task that Ada has bonded ten ether to.
abstract contract StakeRegistryTest is BaseTest {
    TaskList internal immutable _list = new TaskList();
    IStakeRegistry internal immutable _registry = _list.deploy(vm.getCode("StakeRegistry.sol:StakeRegistry"));
    StakeTask internal immutable _task = _list.createTask(_registry);

    address internal immutable _ada = _account(1);
    address internal immutable _finder = _account(2);

    function setUp() public virtual {
        vm.warp(1_000_000);
        vm.deal(_ada, 100 ether);
        vm.prank(_ada);
        _registry.allocate{value: 10 ether}(address(_task), 10 ether);
    }

    function _stake() internal view returns (Allocation memory) {
        return _registry.allocation(address(_task), _ada);
    }

    function _deallocate(uint256 amount) internal returns (uint256 number) {
        vm.prank(_ada);
        return _registry.deallocate(address(_task), amount);
    }

    function _release(uint256 number) internal returns (uint256 amount) {
        vm.prank(_ada);
        return _registry.release(address(_task), number);
    }

    /// @dev Every wei that came in is free, bonded, unbonding or burned.
    function _assertAllAccountedFor() internal view {
        uint256 free = _registry.free(_ada) + _registry.free(_finder) + _registry.free(address(_task));
        uint256 allocated = uint256(_stake().bonded) + _stake().unbonding;
        vm.assertEq(address(_registry).balance, free + allocated + _registry.burned());
    }
}
