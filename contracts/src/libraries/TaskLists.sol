// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title TaskLists
/// @notice Lists of 32-bit numbers (ids, shares), eight in a word, the first lowest.
library TaskLists {
    uint256 private constant LANE = type(uint32).max;

    /// @notice Entry `i`.
    function get(mapping(uint256 => uint256) storage list, uint256 i) internal view returns (uint256) {
        return list[i >> 3] >> ((i & 7) << 5) & LANE;
    }

    /// @notice `count` entries from `first` on.
    function load(mapping(uint256 => uint256) storage list, uint256 first, uint256 count)
        internal
        view
        returns (uint32[] memory values)
    {
        values = new uint32[](count);
        uint256 word = 0;
        for (uint256 i = 0; i < count; ++i) {
            uint256 place = first + i;
            if (i == 0 || place & 7 == 0) word = list[place >> 3];
            // Casts cut out one lane.
            // forge-lint: disable-next-line(unsafe-typecast)
            values[i] = uint32(word >> ((place & 7) << 5));
        }
    }

    /// @notice Writes a list from its start; what stood there before is gone.
    function save(mapping(uint256 => uint256) storage list, uint32[] memory values) internal {
        uint256 word = 0;
        for (uint256 i = 0; i < values.length; ++i) {
            word |= uint256(values[i]) << ((i & 7) << 5);
            if (i & 7 == 7 || i + 1 == values.length) {
                list[i >> 3] = word;
                word = 0;
            }
        }
    }

    /// @notice Where `value` stands among the `count` entries from `first` on, counted from there; `count` when it does not.
    function find(mapping(uint256 => uint256) storage list, uint256 first, uint256 count, uint256 value)
        internal
        view
        returns (uint256)
    {
        uint256 word = 0;
        for (uint256 i = 0; i < count; ++i) {
            uint256 place = first + i;
            if (i == 0 || place & 7 == 0) word = list[place >> 3];
            if (word >> ((place & 7) << 5) & LANE == value) return i;
        }
        return count;
    }

    /// @notice Where `value` stands in a list in memory; its length when it does not.
    function find(uint32[] memory list, uint256 value) internal pure returns (uint256) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == value) return i;
        }
        return list.length;
    }
}
