// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title TaskLists
/// @notice Lists of 32-bit numbers (ids, shares), eight in a word, the first lowest.
/// @dev Every call of a round reads such lists. Unchecked loops and raw memory take a third of the gas; indices stay below the
/// lengths that the loops themselves run to.
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
        unchecked {
            for (uint256 i = 0; i < count; ++i) {
                uint256 place = first + i;
                word = i == 0 || place & 7 == 0 ? list[place >> 3] >> ((place & 7) << 5) : word >> 32;
                set(values, i, word & LANE);
            }
        }
    }

    /// @notice Writes a list from its start; what stood there before is gone.
    function save(mapping(uint256 => uint256) storage list, uint32[] memory values) internal {
        saveFrom(list, 0, values);
    }

    /// @notice Writes a list from its start: the values from `first` on.
    function saveFrom(mapping(uint256 => uint256) storage list, uint256 first, uint32[] memory values)
        internal
    {
        unchecked {
            uint256 count = values.length;
            uint256 place = 0;
            for (uint256 i = first; i < count; ++place) {
                uint256 word = 0;
                for (uint256 lane = 0; lane < 256 && i < count; (lane += 32, ++i)) {
                    word |= entry(values, i) << lane;
                }
                list[place] = word;
            }
        }
    }

    /// @notice Where `value` stands among the `count` entries from `first` on, counted from there; `count` when it does not.
    function find(mapping(uint256 => uint256) storage list, uint256 first, uint256 count, uint256 value)
        internal
        view
        returns (uint256 i)
    {
        unchecked {
            uint256 word = 0;
            for (; i < count; ++i) {
                uint256 place = first + i;
                word = i == 0 || place & 7 == 0 ? list[place >> 3] >> ((place & 7) << 5) : word >> 32;
                if (word & LANE == value) return i;
            }
        }
    }

    /// @notice Where `value` stands in a list in memory; its length when it does not.
    function find(uint32[] memory list, uint256 value) internal pure returns (uint256 i) {
        unchecked {
            uint256 count = list.length;
            while (i < count && entry(list, i) != value) {
                ++i;
            }
        }
    }

    /// @notice Entry `i` of a list in memory. The caller keeps `i` below its length.
    function entry(uint32[] memory list, uint256 i) internal pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := mload(add(add(list, 32), shl(5, i)))
        }
    }

    /// @notice Sets entry `i` of a list in memory. The caller keeps `i` below its length and `value` in 32 bits.
    function set(uint32[] memory list, uint256 i, uint256 value) internal pure {
        assembly ("memory-safe") {
            mstore(add(add(list, 32), shl(5, i)), value)
        }
    }
}
