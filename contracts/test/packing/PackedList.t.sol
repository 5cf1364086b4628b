// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PackedList} from "../../src/packing/PackedList.sol";
import {PackedIds} from "../../src/packing/PackedIds.sol";
import {BaseTest} from "../Base.t.sol";

/// @notice Packed lists against plain arrays.
contract TaskListsTest is BaseTest {
    using PackedList for mapping(uint256 => uint256);

    mapping(uint256 word => uint256) private _list;

    /// @dev Few different values, so that searches succeed; those at the ends of 32 bits and their neighbours among them.
    function _value(uint256 random) private pure returns (uint32) {
        uint32[8] memory values = [0, 1, 2, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, type(uint32).max];
        return values[random % 8];
    }

    function _values(uint256 seed, uint256 count) private pure returns (uint32[] memory values) {
        values = new uint32[](count);
        for (uint256 i = 0; i < count; ++i) {
            values[i] = _value(uint256(keccak256(abi.encode(seed, i))));
        }
    }

    function testFuzz_find_anyPartOfAnyList_isTheFirstThatEquals(
        uint256 seed,
        uint256 length,
        uint256 first,
        uint256 count,
        uint256 wanted
    ) external {
        uint32[] memory values = _values(seed, _bound(length, 0, 40));
        first = _bound(first, 0, values.length);
        count = _bound(count, 0, values.length - first);
        uint32 value = _value(wanted);
        _list.save(values);

        uint256 found = _list.find(first, count, value);

        uint256 expected = 0;
        while (expected < count && values[first + expected] != value) {
            ++expected;
        }
        vm.assertEq(found, expected);
    }

    function testFuzz_load_anyPartOfAnyList_isWhatWasSaved(uint256 seed, uint256 length, uint256 first)
        external
    {
        uint32[] memory values = _values(seed, _bound(length, 0, 40));
        first = _bound(first, 0, values.length);
        _list.save(values);

        uint32[] memory loaded = _list.load(first, values.length - first);

        vm.assertEq(loaded.length, values.length - first);
        for (uint256 i = 0; i < loaded.length; ++i) {
            vm.assertEq(loaded[i], values[first + i]);
            vm.assertEq(_list.get(first + i), values[first + i]);
        }
    }
}

/// @notice The ids of a round's updates, with ids up to and beyond 16 bits.
contract TaskOrdersTest is BaseTest {
    using PackedIds for mapping(uint256 => uint256);

    uint256 private constant MOST_UPDATES = 128;

    mapping(uint256 word => uint256) private _order;

    /// @dev Ascending ids of which the last is `last`.
    function _ids(uint256 count, uint256 last) private pure returns (uint32[] memory ids) {
        ids = new uint32[](count);
        for (uint256 i = 0; i < count; ++i) {
            // At most 2^32 - 1.
            // forge-lint: disable-next-line(unsafe-typecast)
            ids[i] = uint32(last + 1 + i - count);
        }
        // The first of a list may be far below the others.
        if (count > 1) ids[0] = 1;
    }

    function _expectKept(uint32[] memory ids) private {
        _order.save(ids);

        uint32[] memory loaded = _order.load(ids.length);

        vm.assertEq(loaded.length, ids.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            vm.assertEq(loaded[i], ids[i]);
            vm.assertEq(_order.get(i), ids[i]);
            vm.assertEq(_order.find(ids.length, ids[i]), i);
        }
        uint256 absent = ids.length == 0 ? 1 : uint256(ids[ids.length - 1]) + 1;
        vm.assertEq(_order.find(ids.length, absent), ids.length);
    }

    function testFuzz_save_idsOfAnySize_keepsThemInOrder(uint256 count, uint256 last) external {
        count = _bound(count, 0, MOST_UPDATES);
        _expectKept(_ids(count, _bound(last, count, type(uint32).max)));
    }

    function test_save_idsAtTheLimitOf16Bits_takesOneWord() external {
        _expectKept(_ids(15, type(uint16).max));

        vm.assertTrue(_order[0] << 16 != 0);
        vm.assertEq(_order[1], 0);
    }

    function test_save_oneIdMore_takesAnotherWord() external {
        _expectKept(_ids(16, type(uint16).max));

        vm.assertTrue(_order[1] != 0);
        vm.assertEq(_order[2], 0);
    }

    function test_save_idsBeyond16Bits_keepsThemWide() external {
        _expectKept(_ids(15, uint256(type(uint16).max) + 1));

        vm.assertEq(_order[0] << 16, 0);
    }

    function testFuzz_settle_keepsTheIdsAndSaysHow(uint256 count, uint256 last, bool byShares) external {
        count = _bound(count, 0, MOST_UPDATES);
        uint32[] memory ids = _ids(count, _bound(last, count, type(uint32).max));
        _order.save(ids);
        (bool isSettled,,) = _order.settlement();
        vm.assertFalse(isSettled);

        _order.settle(byShares);

        (bool settled, bool areShares, uint256 kept) = _order.settlement();
        vm.assertTrue(settled);
        vm.assertEq(areShares, byShares);
        vm.assertEq(kept, count);
        uint32[] memory loaded = _order.load(count);
        for (uint256 i = 0; i < count; ++i) {
            vm.assertEq(loaded[i], ids[i]);
            vm.assertEq(_order.get(i), ids[i]);
        }
    }
}
