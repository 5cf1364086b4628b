// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice A stake tree in storage. `levels` is 0 while it is empty.
struct StakeTree {
    /// Word of node n at level l under key `l << 32 | n`; level 0 holds the accounts.
    mapping(uint256 key => uint256 lanes) words;
    uint8 levels;
}

/// @title SortitionTree
/// @notice Draws accounts in proportion to their stake, without replacement, and exactly: every unit of stake is one
/// ticket, and the tickets of those already drawn are cut out before the next number is taken.
/// @dev An 8-ary tree of sums, eight lanes of 32 bits in a word, lane 0 lowest. Lane `(id >> 3l) & 7` of word `id >> 3(l+1)`
/// at level l is the weight of the accounts below it; at level 0 that of account `id` alone. The tree grows a level when
/// an id needs it. A weight is stake in units of `UNIT` wei, rounded down. The total stays below 2^32, so no lane can
/// overflow, and one multiplication gives all prefix sums of a word.
library SortitionTree {
    /// One ticket: 10^13 wei, a hundred-thousandth of an ether. So a tree holds up to 42,949 ether.
    uint256 internal constant UNIT = 1e13;
    uint256 internal constant MAX_TOTAL = type(uint32).max;
    /// Sums the lanes: in `word · ONES`, lane i is the sum of lanes 0 … i.
    uint256 private constant ONES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant LANE = 0xffffffff;

    /// The tree would hold more than it can: nobody can enter or top up by that much.
    error StakeTooHigh(uint256 total);

    /// @notice The weight of a stake, rounded down.
    function weightOf(uint256 stake) internal pure returns (uint256) {
        return stake / UNIT;
    }

    /// @notice Sets an account's weight. Costs one write per level.
    function set(StakeTree storage tree, uint256 id, uint256 weight) internal {
        uint256 levels = _grow(tree, id);
        uint256 old = get(tree, id);
        if (old == weight) return;
        uint256 newTotal = total(tree) - old + weight;
        require(newTotal <= MAX_TOTAL, StakeTooHigh(newTotal));

        unchecked {
            for (uint256 level = 0; level < levels; ++level) {
                uint256 shift = (id & 7) << 5;
                id >>= 3;
                // The lane keeps between 0 and MAX_TOTAL, so nothing is carried to its neighbours.
                tree.words[level << 32 | id] += (weight << shift) - (old << shift);
            }
        }
    }

    /// @notice An account's weight.
    function get(StakeTree storage tree, uint256 id) internal view returns (uint256) {
        return tree.words[id >> 3] >> ((id & 7) << 5) & LANE;
    }

    /// @notice The weight of all accounts.
    function total(StakeTree storage tree) internal view returns (uint256) {
        uint256 levels = tree.levels;
        if (levels == 0) return 0;
        unchecked {
            return tree.words[(levels - 1) << 32] * ONES >> 224;
        }
    }

    /// @notice Draws up to `count` different accounts, none of them in `excluded`; fewer when the stake runs out. Number k = 0, 1, …
    /// takes `uint256(keccak256(abi.encode(seed, k)))` modulo the weight that is left, and finds the account at that
    /// place among those left, in id order.
    function draw(StakeTree storage tree, bytes32 seed, uint256[] memory excluded, uint256 count)
        internal
        view
        returns (uint256[] memory ids)
    {
        ids = new uint256[](count);
        // What is cut out, by ascending start: `start << 32 | weight`.
        uint256[] memory cuts = new uint256[](excluded.length + count);
        uint256 levels = tree.levels;
        uint256 left = total(tree);
        uint256 cutCount = 0;
        unchecked {
            for (; cutCount < excluded.length; ++cutCount) {
                (uint256 start, uint256 weight) = _interval(tree, levels, excluded[cutCount]);
                _insert(cuts, cutCount, start << 32 | weight);
                left -= weight;
            }
            for (uint256 k = 0; k < count; ++k) {
                if (left == 0) {
                    assembly ("memory-safe") { mstore(ids, k) }
                    break;
                }
                uint256 ticket = _skip(cuts, cutCount, _random(seed, k) % left);
                (uint256 id, uint256 start, uint256 weight) = _find(tree, levels, ticket);
                ids[k] = id;
                _insert(cuts, cutCount++, start << 32 | weight);
                left -= weight;
            }
        }
    }

    function _random(bytes32 seed, uint256 k) private pure returns (uint256 random) {
        assembly ("memory-safe") {
            mstore(0, seed)
            mstore(32, k)
            random := keccak256(0, 64)
        }
    }

    /// @dev The place among all tickets of a place among those left.
    function _skip(uint256[] memory cuts, uint256 count, uint256 ticket)
        private
        pure
        returns (uint256 place)
    {
        place = ticket;
        assembly ("memory-safe") {
            let next := add(cuts, 32)
            for { let end := add(next, shl(5, count)) } lt(next, end) { next := add(next, 32) } {
                let cut := mload(next)
                if lt(place, shr(32, cut)) { break }
                place := add(place, and(cut, LANE))
            }
        }
    }

    function _insert(uint256[] memory cuts, uint256 place, uint256 cut) private pure {
        assembly ("memory-safe") {
            let first := add(cuts, 32)
            let at := add(first, shl(5, place))
            for {} gt(at, first) {} {
                let below := mload(sub(at, 32))
                if iszero(gt(below, cut)) { break }
                mstore(at, below)
                at := sub(at, 32)
            }
            mstore(at, cut)
        }
    }

    /// @dev Who holds a ticket, where its tickets start, and how many it has. Reads one word per level. Assembly saves a third
    /// of what a level takes: there are five of them for 10,000 accounts, and a round draws eight times or more.
    function _find(StakeTree storage tree, uint256 levels, uint256 ticket)
        private
        view
        returns (uint256 id, uint256 start, uint256 weight)
    {
        assembly ("memory-safe") {
            let rest := ticket
            // The words' keys are hashed with the mapping's slot, which is the tree's.
            mstore(32, tree.slot)
            for {} levels {} {
                levels := sub(levels, 1)
                mstore(0, or(shl(32, levels), id))
                let sums := mul(sload(keccak256(0, 64)), ONES)
                // The lane is the number of prefix sums that are not above the ticket; the last sum always is. `shift` is
                // where it stands.
                let shift := shl(7, iszero(gt(and(shr(96, sums), LANE), rest)))
                shift := or(shift, shl(6, iszero(gt(and(shr(add(shift, 32), sums), LANE), rest))))
                shift := or(shift, shl(5, iszero(gt(and(shr(shift, sums), LANE), rest))))
                let before := and(shr(shift, shl(32, sums)), LANE)
                weight := sub(and(shr(shift, sums), LANE), before)
                rest := sub(rest, before)
                id := or(shl(3, id), shr(5, shift))
            }
            start := sub(ticket, rest)
        }
    }

    /// @dev Where an account's tickets start, and how many it has. Reads one word per level.
    function _interval(StakeTree storage tree, uint256 levels, uint256 id)
        private
        view
        returns (uint256 start, uint256 weight)
    {
        unchecked {
            weight = get(tree, id);
            for (uint256 level = 0; level < levels; ++level) {
                uint256 lane = id & 7;
                id >>= 3;
                if (lane != 0) start += tree.words[level << 32 | id] * ONES >> ((lane - 1) << 5) & LANE;
            }
        }
    }

    /// @dev Adds levels until `id` has a place; a new root carries the old total in its first lane.
    function _grow(StakeTree storage tree, uint256 id) private returns (uint256 levels) {
        levels = tree.levels;
        if (levels != 0 && id >> 3 * levels == 0) return levels;
        uint256 sum = total(tree);
        do {
            if (levels != 0) tree.words[levels << 32] = sum;
            ++levels;
        } while (id >> 3 * levels != 0);
        // Ids are below 2^32, so there are at most 11 levels.
        // forge-lint: disable-next-line(unsafe-typecast)
        tree.levels = uint8(levels);
    }
}
