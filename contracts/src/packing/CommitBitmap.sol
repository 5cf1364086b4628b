// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {PackedList} from "./PackedList.sol";

/// @title CommitBitmap
/// @notice Who committed and who revealed an update in a round, by enrolment id.
/// @dev A leaf holds 108 ids: bits 0 … 107 committed, 108 … 215 revealed, the round on top. A leaf of another round counts as
/// empty, so nothing is ever cleared. A branch holds in the same way which of its 216 leaves are in use, so that listing the
/// few who committed stays cheap however many ever enrolled.
library CommitBitmap {
    uint256 private constant IDS = 108;
    uint256 private constant LEAVES = 216;
    uint256 private constant TAG_SHIFT = 216;
    uint256 private constant BRANCH = 1 << 64;

    /// @notice Whether the account committed and revealed in this round.
    function state(mapping(uint256 => uint256) storage words, uint256 round, uint256 id)
        internal
        view
        returns (bool committed, bool revealed)
    {
        unchecked {
            uint256 bits = _read(words, round, id / IDS) >> id % IDS;
            committed = bits & 1 != 0;
            revealed = bits >> IDS & 1 != 0;
        }
    }

    /// @notice Notes a commitment.
    function commit(mapping(uint256 => uint256) storage words, uint256 round, uint256 id) internal {
        unchecked {
            uint256 leaf = id / IDS;
            uint256 bits = _read(words, round, leaf);
            if (bits == 0) {
                uint256 branch = BRANCH | leaf / LEAVES;
                words[branch] = round << TAG_SHIFT | _read(words, round, branch) | 1 << leaf % LEAVES;
            }
            words[leaf] = round << TAG_SHIFT | bits | 1 << id % IDS;
        }
    }

    /// @notice Notes a reveal of an account that committed.
    function reveal(mapping(uint256 => uint256) storage words, uint256 id) internal {
        unchecked {
            words[id / IDS] |= 1 << (IDS + id % IDS);
        }
    }

    /// @notice How many committed.
    function count(mapping(uint256 => uint256) storage words, uint256 round, uint256 accounts)
        internal
        view
        returns (uint256 committed)
    {
        for (uint256 b = 0; b <= accounts / (IDS * LEAVES); ++b) {
            for (uint256 left = _read(words, round, BRANCH | b); left != 0; left &= left - 1) {
                uint256 bits = _read(words, round, b * LEAVES + LibBit.ffs(left));
                committed += LibBit.popCount(bits & ((1 << IDS) - 1));
            }
        }
    }

    /// @notice Who committed, by ascending id: those who revealed, and those who did not.
    function list(mapping(uint256 => uint256) storage words, uint256 round, uint256 accounts)
        internal
        view
        returns (uint32[] memory revealed, uint32[] memory hidden)
    {
        uint256 committed = count(words, round, accounts);
        revealed = new uint32[](committed);
        hidden = new uint32[](committed);
        uint256 shown = 0;
        uint256 silent = 0;
        unchecked {
            for (uint256 b = 0; b <= accounts / (IDS * LEAVES); ++b) {
                for (uint256 left = _read(words, round, BRANCH | b); left != 0; left &= left - 1) {
                    uint256 leaf = b * LEAVES + LibBit.ffs(left);
                    uint256 bits = _read(words, round, leaf);
                    for (uint256 open = bits & ((1 << IDS) - 1); open != 0; open &= open - 1) {
                        uint256 i = LibBit.ffs(open);
                        uint256 id = leaf * IDS + i;
                        if (bits >> (IDS + i) & 1 != 0) PackedList.set(revealed, shown++, id);
                        else PackedList.set(hidden, silent++, id);
                    }
                }
            }
        }
        assembly ("memory-safe") {
            mstore(revealed, shown)
            mstore(hidden, silent)
        }
    }

    function _read(mapping(uint256 => uint256) storage words, uint256 round, uint256 key)
        private
        view
        returns (uint256)
    {
        uint256 word = words[key];
        return word >> TAG_SHIFT == round ? word & ((1 << TAG_SHIFT) - 1) : 0;
    }
}
