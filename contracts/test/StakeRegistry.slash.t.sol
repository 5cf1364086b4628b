// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry, Slash} from "../src/interfaces/IStakeRegistry.sol";
import {StakeRegistryTest} from "./StakeRegistry.base.t.sol";

contract StakeRegistrySlashTest is StakeRegistryTest {
    function testFuzz_slash_withinItsLimit_isBurnedWhole(uint256 share, bool noReveal) external {
        Slash kind = noReveal ? Slash.NoReveal : Slash.Liveness;
        share = _bound(share, 0, noReveal ? 0.05e18 : 0.01e18);

        (uint256 amount, uint256 left) = _task.slash(_ada, kind, share);

        vm.assertEq(amount, 10 ether * share / 1e18);
        vm.assertEq(_registry.burned(), amount);
        vm.assertEq(_stake().bonded, 10 ether - amount);
        vm.assertEq(left, 10 ether - amount);
        _assertAllAccountedFor();
    }

    function testFuzz_slash_aboveItsLimit_reverts(uint256 share, uint256 kind) external {
        Slash which = Slash(kind % 3);
        uint256 limit = which == Slash.Liveness ? 0.01e18 : which == Slash.NoReveal ? 0.05e18 : 0;
        share = _bound(share, limit + 1, type(uint256).max);

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.SlashTooHigh.selector, which, share, limit));
        _task.slash(_ada, which, share);
    }

    function testFuzz_slashLie_anySplit_goesWhereItShould(uint256 share, uint256 finderPart, uint256 burnPart)
        external
    {
        share = _bound(share, 0, 1e18);
        finderPart = _bound(finderPart, 0, 0.3e18);
        burnPart = _bound(burnPart, 0.5e18, 1e18 - finderPart);

        uint256 amount = _task.slashLie(_ada, share, _finder, finderPart, burnPart);

        vm.assertEq(amount, 10 ether * share / 1e18);
        vm.assertEq(_registry.free(_finder), amount * finderPart / 1e18);
        vm.assertEq(_registry.free(address(_task)), amount * (1e18 - finderPart - burnPart) / 1e18);
        vm.assertGe(_registry.burned() * 2, amount);
        _assertAllAccountedFor();
    }

    function test_slashLie_withoutFinder_burnsTheFindersPart() external {
        _task.slashLie(_ada, 0.5e18, address(0), 0.3e18, 0.5e18);

        vm.assertEq(_registry.burned(), 4 ether);
        vm.assertEq(_registry.free(address(_task)), 1 ether);
        vm.assertEq(_registry.free(address(0)), 0);
    }

    function testFuzz_slashLie_splitOutOfBounds_reverts(uint256 finderPart, uint256 burnPart) external {
        finderPart = _bound(finderPart, 0, 2e18);
        burnPart = _bound(burnPart, 0, 2e18);
        vm.assume(finderPart > 0.3e18 || burnPart < 0.5e18 || finderPart + burnPart > 1e18);

        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.BadSplit.selector, finderPart, burnPart));
        _task.slashLie(_ada, 1e18, _finder, finderPart, burnPart);
    }

    function test_slashLie_splitByOneWeiOutOfBounds_reverts() external {
        _assertBadSplit(0.3e18 + 1, 0.5e18);
        _assertBadSplit(0, 0.5e18 - 1);
        _assertBadSplit(0.3e18, 0.7e18 + 1);
    }

    function test_slashLie_moreThanAll_reverts() external {
        vm.expectRevert(
            abi.encodeWithSelector(IStakeRegistry.SlashTooHigh.selector, Slash.Lie, 1e18 + 1, 1e18)
        );
        _task.slashLie(_ada, 1e18 + 1, _finder, 0, 1e18);
    }

    function testFuzz_slashLie_byAnybodyElse_takesNothing(address caller) external {
        vm.assume(caller != address(_task));

        vm.prank(caller);
        uint256 amount = _registry.slashLie(_ada, 1e18, caller, 0.3e18, 0.5e18);

        vm.assertEq(amount, 0);
        vm.assertEq(_stake().bonded, 10 ether);
    }

    function test_slashLie_byAnotherTask_takesNothing() external {
        uint256 amount = _list.createTask(_registry).slashLie(_ada, 1e18, _finder, 0.3e18, 0.5e18);

        vm.assertEq(amount, 0);
        vm.assertEq(_stake().bonded, 10 ether);
    }

    function test_takeEscrow_byTheTask_isItsPart() external {
        _task.slashLie(_ada, 0.5e18, _finder, 0.3e18, 0.5e18);

        _task.takeEscrow(1 ether);

        vm.assertEq(address(_task).balance, 1 ether);
        _assertAllAccountedFor();
    }

    function _assertBadSplit(uint256 finderPart, uint256 burnPart) private {
        vm.expectRevert(abi.encodeWithSelector(IStakeRegistry.BadSplit.selector, finderPart, burnPart));
        _task.slashLie(_ada, 1e18, _finder, finderPart, burnPart);
    }
}
