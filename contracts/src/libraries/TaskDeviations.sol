// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

/// @title TaskDeviations
/// @notice How far each member of the committee was from it, by position, as many in a word as the terms' cap leaves room for.
/// @dev No deviation exceeds the cap. What members left behind who revealed in an earlier round is never read.
library TaskDeviations {
    /// @notice Keeps the deviations of those in `revealed`, in the order of their positions.
    function save(
        mapping(uint256 => uint256) storage words,
        uint256 revealed,
        uint256[] memory deviations,
        uint256 cap
    ) internal {
        uint256 bits = _bits(cap);
        uint256 lanes = 256 / bits;
        uint256 word = 0;
        uint256 place = 0;
        uint256 n = 0;
        unchecked {
            for (; revealed != 0; revealed &= revealed - 1) {
                uint256 position = LibBit.ffs(revealed);
                if (position / lanes != place) {
                    words[place] = word;
                    (word, place) = (0, position / lanes);
                }
                word |= deviations[n++] << position % lanes * bits;
            }
        }
        words[place] = word;
    }

    /// @notice The deviation of the member at this position.
    function get(mapping(uint256 => uint256) storage words, uint256 position, uint256 cap)
        internal
        view
        returns (uint256)
    {
        uint256 bits = _bits(cap);
        uint256 lanes = 256 / bits;
        return words[position / lanes] >> position % lanes * bits & ((1 << bits) - 1);
    }

    function _bits(uint256 cap) private pure returns (uint256) {
        return LibBit.fls(cap | 1) + 1;
    }
}
