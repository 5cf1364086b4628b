// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {PackedList} from "./PackedList.sol";
import {UncheckedArray} from "./UncheckedArray.sol";

/// @title CommitBitmap
/// @notice Who committed and who revealed an update in a round, by enrolment id, and where what they posted is kept.
/// @dev A leaf holds 30 ids: bits 0 … 29 committed, 30 … 59 revealed, then five bits for each one's place: how many of the leaf
/// had committed before it; the round on top. A leaf of another round counts as empty, so nothing is ever cleared. Places are
/// given anew in every round: who commits for the first time writes where somebody wrote before, which costs a fourth of a word
/// that was never written. A branch holds in the same way which of its 216 leaves are in use, and a root which of its 216
/// branches, so that listing the few who committed stays cheap however many ever enrolled. The first branch stands in no root:
/// below 6,480 accounts there is no other.
library CommitBitmap {
    uint256 private constant IDS = 30;
    uint256 private constant FIRST_PLACE = 60;
    uint256 private constant PLACE_BITS = 5;
    uint256 private constant PLACE = 31;
    uint256 private constant WORDS = 216;
    uint256 private constant TAG_SHIFT = 216;
    uint256 private constant BRANCH = 1 << 64;
    uint256 private constant ROOT = 1 << 65;

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

    /// @notice Where what the account posted is kept. It has to have committed in the round that the bitmap was last used in.
    function placeOf(mapping(uint256 => uint256) storage words, uint256 id) internal view returns (uint256) {
        unchecked {
            return _placeIn(words[id / IDS], id / IDS, id % IDS);
        }
    }

    /// @notice Notes a commitment, if it is the account's first in this round.
    /// @return isFirst Whether it is.
    /// @return place Where it has to be kept, if it is.
    function commit(mapping(uint256 => uint256) storage words, uint256 round, uint256 id)
        internal
        returns (bool isFirst, uint256 place)
    {
        unchecked {
            (uint256 leaf, uint256 i) = (id / IDS, id % IDS);
            uint256 bits = _read(words, round, leaf);
            if (bits >> i & 1 != 0) return (false, 0);

            if (bits == 0) _use(words, round, leaf);
            uint256 before = LibBit.popCount(bits & ((1 << IDS) - 1));
            words[leaf] = round << TAG_SHIFT | bits | 1 << i | before << (FIRST_PLACE + PLACE_BITS * i);
            return (true, leaf << PLACE_BITS | before);
        }
    }

    /// @notice Notes a reveal, if the account committed in this round and did not reveal yet.
    /// @return committed Whether it committed.
    /// @return revealed Whether it had revealed before.
    /// @return place Where its commitment is kept, if it committed.
    function reveal(mapping(uint256 => uint256) storage words, uint256 round, uint256 id)
        internal
        returns (bool committed, bool revealed, uint256 place)
    {
        unchecked {
            (uint256 leaf, uint256 i) = (id / IDS, id % IDS);
            uint256 word = words[leaf];
            if (word >> TAG_SHIFT != round || word >> i & 1 == 0) return (false, false, 0);

            uint256 bit = 1 << (IDS + i);
            (committed, revealed, place) = (true, word & bit != 0, _placeIn(word, leaf, i));
            if (!revealed) words[leaf] = word | bit;
        }
    }

    /// @notice How many committed.
    function count(mapping(uint256 => uint256) storage words, uint256 round, uint256 accounts)
        internal
        view
        returns (uint256 committed)
    {
        return _count(words, round, _leaves(words, round, accounts));
    }

    function _count(mapping(uint256 => uint256) storage words, uint256 round, uint256[] memory leaves)
        private
        view
        returns (uint256 committed)
    {
        for (uint256 n = 0; n < leaves.length; ++n) {
            committed += LibBit.popCount(_read(words, round, leaves[n]) & ((1 << IDS) - 1));
        }
    }

    /// @notice Who committed, by ascending id: those who revealed, those who did not, and where the former's updates are kept.
    function list(mapping(uint256 => uint256) storage words, uint256 round, uint256 accounts)
        internal
        view
        returns (uint32[] memory revealed, uint32[] memory hidden, uint256[] memory places)
    {
        uint256[] memory leaves = _leaves(words, round, accounts);
        uint256 committed = _count(words, round, leaves);
        revealed = new uint32[](committed);
        hidden = new uint32[](committed);
        places = new uint256[](committed);
        uint256 shown = 0;
        uint256 silent = 0;
        unchecked {
            for (uint256 n = 0; n < leaves.length; ++n) {
                uint256 leaf = leaves[n];
                uint256 bits = _read(words, round, leaf);
                for (uint256 open = bits & ((1 << IDS) - 1); open != 0; open &= open - 1) {
                    uint256 i = LibBit.ffs(open);
                    uint256 id = leaf * IDS + i;
                    if (bits >> (IDS + i) & 1 == 0) {
                        PackedList.set(hidden, silent++, id);
                        continue;
                    }
                    UncheckedArray.put(places, shown, _placeIn(bits, leaf, i));
                    PackedList.set(revealed, shown++, id);
                }
            }
        }
        assembly ("memory-safe") {
            mstore(revealed, shown)
            mstore(hidden, silent)
            mstore(places, shown)
        }
    }

    /// @dev The leaves in use, ascending.
    function _leaves(mapping(uint256 => uint256) storage words, uint256 round, uint256 accounts)
        private
        view
        returns (uint256[] memory leaves)
    {
        leaves = new uint256[](0);
        unchecked {
            _append(leaves, _read(words, round, BRANCH), 0);
            uint256 branches = accounts / (IDS * WORDS);
            if (branches == 0) return leaves;

            for (uint256 r = 0; r <= branches / WORDS; ++r) {
                for (uint256 left = _read(words, round, ROOT | r); left != 0; left &= left - 1) {
                    uint256 branch = r * WORDS + LibBit.ffs(left);
                    _append(leaves, _read(words, round, BRANCH | branch), branch * WORDS);
                }
            }
        }
    }

    /// @dev Appends a branch's leaves to a list behind which nothing else was put into memory.
    function _append(uint256[] memory leaves, uint256 used, uint256 first) private pure {
        unchecked {
            for (; used != 0; used &= used - 1) {
                uint256 leaf = first + LibBit.ffs(used);
                assembly ("memory-safe") {
                    let at := mload(0x40)
                    mstore(at, leaf)
                    mstore(0x40, add(at, 32))
                    mstore(leaves, add(mload(leaves), 1))
                }
            }
        }
    }

    /// @dev Notes that a leaf is in use.
    function _use(mapping(uint256 => uint256) storage words, uint256 round, uint256 leaf) private {
        unchecked {
            uint256 branch = leaf / WORDS;
            uint256 used = _read(words, round, BRANCH | branch);
            words[BRANCH | branch] = round << TAG_SHIFT | used | 1 << leaf % WORDS;
            if (used != 0 || branch == 0) return;

            uint256 root = ROOT | branch / WORDS;
            words[root] = round << TAG_SHIFT | _read(words, round, root) | 1 << branch % WORDS;
        }
    }

    function _placeIn(uint256 word, uint256 leaf, uint256 i) private pure returns (uint256) {
        unchecked {
            return leaf << PLACE_BITS | word >> (FIRST_PLACE + PLACE_BITS * i) & PLACE;
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
