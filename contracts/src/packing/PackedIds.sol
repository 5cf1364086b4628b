// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PackedList} from "./PackedList.sol";

/// @title PackedIds
/// @notice The ids of a round's updates, ascending. Sixteen in a word while all of them fit 16 bits, else as `PackedList` keeps
/// them: every round keeps its list for good, and a word of storage that was zero is the dearest thing there is. So what else is
/// kept of a round stands before its first id, in 16 bits: how many there are, and how the round was settled.
library PackedIds {
    using PackedList for mapping(uint256 => uint256);

    uint256 private constant NARROW_MAX = type(uint16).max;
    /// Bits of a word beside one narrow id, or beside what stands before the first.
    uint256 private constant REST = 240;
    /// The first word of a wide list.
    uint256 private constant WIDE_WORD = 1 << 64;
    /// The same in entries of a wide list.
    uint256 private constant WIDE = WIDE_WORD << 3;
    /// In the first word, above the count of at most 128.
    uint256 private constant IS_WIDE = 1 << 255;
    uint256 private constant IS_SETTLED = 1 << 254;
    uint256 private constant BY_SHARES = 1 << 253;
    uint256 private constant COUNT = 0xff;

    /// @notice Writes the list of a round, which has none yet.
    function save(mapping(uint256 => uint256) storage list, uint32[] memory ids) internal {
        unchecked {
            uint256 count = ids.length;
            uint256 word = count << REST;
            if (count != 0 && PackedList.entry(ids, count - 1) > NARROW_MAX) {
                list[0] = word | IS_WIDE;
                return list.saveFrom(WIDE_WORD, ids);
            }

            for (uint256 place = 1; place <= count; ++place) {
                if (place & 15 == 0) {
                    list[(place >> 4) - 1] = word;
                    word = 0;
                }
                word |= PackedList.entry(ids, place - 1) << (REST - ((place & 15) << 4));
            }
            list[count >> 4] = word;
        }
    }

    /// @notice Notes that the round is settled, and whether its workers are paid by shares.
    function settle(mapping(uint256 => uint256) storage list, bool byShares) internal {
        list[0] |= byShares ? IS_SETTLED | BY_SHARES : IS_SETTLED;
    }

    /// @notice Whether and how the round was settled, and how many updates it has.
    function settlement(mapping(uint256 => uint256) storage list)
        internal
        view
        returns (bool isSettled, bool byShares, uint256 count)
    {
        uint256 word = list[0];
        (isSettled, byShares, count) = (word & IS_SETTLED != 0, word & BY_SHARES != 0, word >> REST & COUNT);
    }

    /// @notice The first `count` ids: all of them.
    function load(mapping(uint256 => uint256) storage list, uint256 count)
        internal
        view
        returns (uint32[] memory ids)
    {
        if (count == 0) return new uint32[](0);
        uint256 word = list[0];
        if (word & IS_WIDE != 0) return list.load(WIDE, count);

        ids = new uint32[](count);
        unchecked {
            for (uint256 place = 1; place <= count; ++place) {
                word = place & 15 == 0 ? list[place >> 4] : word << 16;
                PackedList.set(ids, place - 1, word >> REST);
            }
        }
    }

    /// @notice Entry `i`, which has to be there.
    function get(mapping(uint256 => uint256) storage list, uint256 i) internal view returns (uint256) {
        uint256 word = list[0];
        if (word & IS_WIDE != 0) return list.get(WIDE + i);
        unchecked {
            uint256 place = i + 1;
            if (place > 15) word = list[place >> 4];
            return word << ((place & 15) << 4) >> REST;
        }
    }

    /// @notice Where `id` stands among the `count` ids; `count` when it does not.
    function find(mapping(uint256 => uint256) storage list, uint256 count, uint256 id)
        internal
        view
        returns (uint256)
    {
        return PackedList.find(load(list, count), id);
    }
}
