// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {UncheckedArray} from "./UncheckedArray.sol";

/// @title PackedDeviations
/// @notice How far each member of the committee was from it, by position: as many as the terms' cap leaves room for in the
/// 120 bits that the tally's own word has to spare, then in further words.
/// @dev No deviation exceeds the cap. What members left behind who revealed in an earlier round is never read.
library PackedDeviations {
    uint256 private constant SPARE_BITS = 120;

    /// @notice Keeps the deviations of those in `revealed`, in the order of their positions.
    /// @return spare What the tally's word has to keep.
    function save(
        mapping(uint256 => uint256) storage words,
        uint256 revealed,
        uint256[] memory deviations,
        uint256 cap
    ) internal returns (uint120 spare) {
        unchecked {
            uint256 bits = _bits(cap);
            uint256 spared = SPARE_BITS - SPARE_BITS % bits;
            uint256 whole = 256 - 256 % bits;
            uint256 word = 0;
            uint256 place = 0;
            uint256 n = 0;
            uint256 at = 0;
            for (; revealed != 0 && at < spared; (at += bits, revealed >>= 1)) {
                if (revealed & 1 != 0) word |= UncheckedArray.get(deviations, n++) << at;
            }
            // None exceeds the cap, so all stay within the bits to spare.
            // forge-lint: disable-next-line(unsafe-typecast)
            spare = uint120(word);
            for ((at, word) = (0, 0); revealed != 0; (at += bits, revealed >>= 1)) {
                if (at == whole) {
                    words[place++] = word;
                    (at, word) = (0, 0);
                }
                if (revealed & 1 != 0) word |= UncheckedArray.get(deviations, n++) << at;
            }
            if (at != 0) words[place] = word;
        }
    }

    /// @notice The deviation of the member at this position.
    function get(mapping(uint256 => uint256) storage words, uint256 spare, uint256 position, uint256 cap)
        internal
        view
        returns (uint256)
    {
        unchecked {
            uint256 bits = _bits(cap);
            uint256 lanes = 256 / bits;
            uint256 spared = SPARE_BITS / bits;
            uint256 word = spare;
            if (position >= spared) {
                position -= spared;
                (word, position) = (words[position / lanes], position % lanes);
            }
            return word >> position * bits & ((1 << bits) - 1);
        }
    }

    function _bits(uint256 cap) private pure returns (uint256) {
        return LibBit.fls(cap | 1) + 1;
    }
}
