// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingTask, TaskConfig} from "../interfaces/ITrainingTask.sol";
import {SortitionTree, StakeTree} from "../math/SortitionTree.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedIds} from "../packing/PackedIds.sol";
import {PackedList} from "../packing/PackedList.sol";
import {RoundState, State} from "../types/TaskState.sol";

/// @title Internals
/// @notice Appointed committees: the internals with stake are the committee of every round, in id order. They may train too.
/// @dev Two bits of `RoundState.heads` say so, for every action reads that word.
library Internals {
    using PackedList for mapping(uint256 => uint256);
    using SortitionTree for StakeTree;

    uint8 private constant _APPOINTED = 8;
    uint8 private constant _TRAIN = 16;

    /// @notice The bits of a task with these terms.
    function bits(TaskConfig memory c) internal pure returns (uint8) {
        if (c.minInternals == 0) return 0;
        return c.internalsTrain ? _APPOINTED | _TRAIN : _APPOINTED;
    }

    function areAppointed(RoundState memory p) internal pure returns (bool) {
        return p.heads & _APPOINTED != 0;
    }

    function train(RoundState memory p) internal pure returns (bool) {
        return p.heads & _TRAIN != 0;
    }

    /// @param word The place as one word (`Operators.place`).
    function train(uint256 word) internal pure returns (bool) {
        return word >> 248 & _TRAIN != 0;
    }

    /// @notice An internal has enrolled for the first time.
    function add(State storage s, uint256 id) internal {
        uint256 count = s.gate.internals;
        uint256 limit = ImmutableArgs.committeeSize();
        // INVARIANT: no more than a committee may have, or a round could not be tallied.
        require(count < limit, ITrainingTask.TooManyInternals(limit));

        s.internals[count >> 3] |= id << (224 - ((count & 7) << 5));
        // At most a committee, which fits a byte.
        // forge-lint: disable-next-line(unsafe-typecast)
        s.gate.internals = uint16(count + 1);
    }

    /// @notice All that ever enrolled.
    function all(State storage s) internal view returns (uint32[] memory) {
        return s.internals.load(0, s.gate.internals);
    }

    /// @notice Those with stake, in id order.
    function staked(State storage s) internal view returns (uint32[] memory ids) {
        ids = all(s);
        uint256 count = 0;
        for (uint256 i = 0; i < ids.length; ++i) {
            if (s.tree.get(ids[i]) != 0) ids[count++] = ids[i];
        }
        assembly ("memory-safe") {
            mstore(ids, count)
        }
    }

    /// @notice The updates that are the committee's own, as a set.
    function updates(State storage s, RoundState memory p) internal view returns (uint256 own) {
        uint32[] memory order = PackedIds.load(s.orders[p.round], p.updates);
        for (uint256 position = 0; position < p.committeeSize; ++position) {
            uint256 i = PackedList.find(order, s.roster.get(position));
            if (i < order.length) own |= 1 << i;
        }
    }
}
