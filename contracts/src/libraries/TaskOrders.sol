// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TaskLists} from "./TaskLists.sol";

/// @title TaskOrders
/// @notice The ids of a round's updates, ascending. Sixteen in a word while all of them fit 16 bits, else as `TaskLists` keeps
/// them: every round keeps its list for good, and a word of storage that was zero is the dearest thing there is.
/// @dev Ids start at 1, so the first word of a list with 16 bits each is never zero; that of a wide list always is.
library TaskOrders {
    using TaskLists for mapping(uint256 => uint256);

    uint256 private constant NARROW_MAX = type(uint16).max;
    /// Bits of a word beside one narrow id.
    uint256 private constant REST = 240;
    /// The word before the first of a wide list.
    uint256 private constant WIDE_WORD = 1 << 64;
    /// The same in entries of a wide list.
    uint256 private constant WIDE = WIDE_WORD << 3;

    /// @notice Writes the list of a round, which has none yet.
    function save(mapping(uint256 => uint256) storage list, uint32[] memory ids) internal {
        unchecked {
            uint256 count = ids.length;
            bool isWide = count != 0 && TaskLists.entry(ids, count - 1) > NARROW_MAX;
            if (isWide) return list.saveFrom(WIDE_WORD, ids);

            uint256 word = 0;
            for (uint256 i = 0; i < count; ++i) {
                word |= TaskLists.entry(ids, i) << (REST - ((i & 15) << 4));
                if (i & 15 == 15 || i + 1 == count) {
                    list[i >> 4] = word;
                    word = 0;
                }
            }
        }
    }

    /// @notice The first `count` ids: all of them.
    function load(mapping(uint256 => uint256) storage list, uint256 count)
        internal
        view
        returns (uint32[] memory ids)
    {
        if (count == 0) return new uint32[](0);
        uint256 word = list[0];
        if (word == 0) return list.load(WIDE, count);

        ids = new uint32[](count);
        unchecked {
            for (uint256 i = 0; i < count; ++i) {
                if (i & 15 == 0 && i != 0) word = list[i >> 4];
                TaskLists.set(ids, i, word >> REST);
                word <<= 16;
            }
        }
    }

    /// @notice Entry `i`, which has to be there.
    function get(mapping(uint256 => uint256) storage list, uint256 i) internal view returns (uint256) {
        uint256 word = list[0];
        if (word == 0) return list.get(WIDE + i);
        if (i > 15) word = list[i >> 4];
        return word << ((i & 15) << 4) >> REST;
    }

    /// @notice Where `id` stands among the `count` ids; `count` when it does not.
    function find(mapping(uint256 => uint256) storage list, uint256 count, uint256 id)
        internal
        view
        returns (uint256)
    {
        return TaskLists.find(load(list, count), id);
    }
}
