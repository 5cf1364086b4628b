// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title TaskLists
/// @notice Lists of 32-bit numbers (ids, shares), eight in a word, the first highest: a list of bytes, four for each number.
/// @dev Every call of a round reads such lists. Unchecked loops and raw memory take a third of the gas; indices stay below the
/// lengths that the loops themselves run to.
library TaskLists {
    /// Bits of a word beside one number.
    uint256 private constant REST = 224;
    /// Eight entries of 1, and eight of all bits but the top one.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant LOWER = 0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;

    /// @notice Entry `i`.
    function get(mapping(uint256 => uint256) storage list, uint256 i) internal view returns (uint256) {
        return list[i >> 3] << ((i & 7) << 5) >> REST;
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
                word = i == 0 || place & 7 == 0 ? list[place >> 3] << ((place & 7) << 5) : word << 32;
                set(values, i, word >> REST);
            }
        }
    }

    /// @notice Writes a list from its start; what stood there before is gone.
    function save(mapping(uint256 => uint256) storage list, uint32[] memory values) internal {
        saveFrom(list, 0, values);
    }

    /// @notice Writes a list from a word on.
    function saveFrom(mapping(uint256 => uint256) storage list, uint256 start, uint32[] memory values)
        internal
    {
        unchecked {
            uint256 count = values.length;
            for (uint256 first = 0; first < count; first += 8) {
                uint256 end = first + 8 < count ? first + 8 : count;
                uint256 word = 0;
                for (uint256 i = first; i < end; ++i) {
                    word = word << 32 | entry(values, i);
                }
                list[start + (first >> 3)] = word << ((first + 8 - end) << 5);
            }
        }
    }

    /// @notice Writes a list from its start: packed numbers from the one at `first` on. Behind them is room for a word of zeros.
    function savePacked(mapping(uint256 => uint256) storage list, bytes memory packed, uint256 first)
        internal
    {
        unchecked {
            uint256 place = 0;
            for (uint256 at = 4 * first; at < packed.length; (at += 32, ++place)) {
                uint256 word;
                assembly ("memory-safe") {
                    word := mload(add(add(packed, 32), at))
                }
                list[place] = word;
            }
        }
    }

    /// @notice Packs a number and, at the places that are set in `where`, further ones; at all other places up to `count`
    /// stands zero. Behind them is room for a word of zeros.
    function pack(uint256 first, uint256[] memory values, uint256 where, uint256 count)
        internal
        pure
        returns (bytes memory packed)
    {
        unchecked {
            packed = new bytes(4 * (count + 1) + 32);
        }
        assembly ("memory-safe") {
            mstore(packed, shl(2, add(count, 1)))
            let place := add(packed, 32)
            mstore(place, shl(REST, first))
            for { let value := add(values, 32) } where { where := shr(1, where) } {
                let isSet := and(where, 1)
                place := add(place, 4)
                mstore(place, shl(REST, mul(mload(value), isSet)))
                value := add(value, shl(5, isSet))
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
            uint256 wanted = value * ONES;
            while (i < count) {
                uint256 place = first + i;
                uint256 offset = place & 7;
                // All eight entries of a word at once, without those that stand before `first`.
                uint256 found = _zeros(list[place >> 3] ^ wanted) & type(uint256).max >> (offset << 5);
                if (found != 0) {
                    i += _first(found) - offset;
                    return i < count ? i : count;
                }
                i += 8 - offset;
            }
            return count;
        }
    }

    /// @dev The first entry of a word that is not zero; there is one.
    function _first(uint256 word) private pure returns (uint256 i) {
        assembly ("memory-safe") {
            i := shl(2, iszero(shr(128, word)))
            i := or(i, shl(1, iszero(shr(192, shl(shl(5, i), word)))))
            i := or(i, iszero(shr(REST, shl(shl(5, i), word))))
        }
    }

    /// @dev The top bit of each entry of a word that is zero: adding the lower bits to all ones carries into it unless they
    /// are zero, and nothing carries from entry to entry.
    function _zeros(uint256 word) private pure returns (uint256) {
        unchecked {
            return ~((word & LOWER) + LOWER | word | LOWER);
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
