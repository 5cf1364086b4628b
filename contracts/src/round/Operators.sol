// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Phase} from "../interfaces/ITrainingTask.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {Operator, RoundState, State} from "../types/TaskState.sol";

/// @title Operators
/// @notice Keys that act for somebody else's stake. The owner names a key in the registry, the key accepts with its first
/// enrolment (or anybody could make a key its own); either takes effect at the next draw.
/// @dev One key acts for one owner at a time, so one read tells whom a sender acts for. It is spared where no key ever
/// acted for anybody: bit 2 of `RoundState.heads`.
library Operators {
    uint8 private constant _IN_USE = 4;
    /// Where what is known of a key lies: the key in the lowest 160 bits, these above. A mapping would hash for every action; no
    /// hash of a mapping falls here, and no other word of the task is that far up.
    uint256 private constant _KEYS = uint256(keccak256("chainfl operators")) >> 160 << 160;

    /// @notice For whom a key acts or acted.
    function kept(address key) internal pure returns (Operator storage o) {
        uint256 at = _KEYS | uint160(key);
        assembly ("memory-safe") {
            o.slot := at
        }
    }

    /// @notice The word that the place takes, as it is kept.
    /// @dev Taking fields out of it costs a few gas each; reading them one by one from storage a hundred.
    function place(State storage s) internal view returns (uint256 word) {
        RoundState storage p = s.place;
        assembly ("memory-safe") {
            word := sload(p.slot)
        }
    }

    /// @notice The account that a sender acts for in this round: its own, or that of the owner whose operator it is.
    /// @param word The place (`place`): the round in its lowest bits, `heads` in its highest.
    function actsFor(uint256 word, address sender) internal view returns (address) {
        if (word >> 248 & _IN_USE == 0) return sender;

        Operator storage o = kept(sender);
        uint256 found;
        // In one read: owner, since, until.
        assembly ("memory-safe") {
            found := sload(o.slot)
        }
        // Fields of the packed word.
        // forge-lint: disable-start(unsafe-typecast)
        uint256 since = uint48(found >> 160);
        uint256 until = found >> 208;
        // INVARIANT: since <= until. In one comparison: a round before `since` wraps around to more than any. Whoever never
        // operated has 0 in both, and nothing is below that.
        unchecked {
            bool isActing = uint64(word) - since < until - since;
            return isActing ? address(uint160(found)) : sender;
        }
        // forge-lint: disable-end(unsafe-typecast)
    }

    /// @notice Refuses a key that acts for somebody, now or from the next draw on, and would act for another one too.
    /// @param owner For whom it may act; itself when it wants to take part with its own stake.
    function expectFree(State storage s, address key, address owner) internal view {
        Operator memory o = kept(key);
        bool isBound = s.place.round < o.until;
        require(!isBound || o.owner == owner, ITrainingTask.OperatorInUse(key));
    }

    /// @notice The sender accepts to act for an owner who named it.
    /// @return changed Whether it did not act for it already.
    function accept(State storage s, address owner) internal returns (bool changed) {
        address named = IStakeRegistry(ImmutableArgs.origin().registry).operatorOf(address(this), owner);
        // INVARIANT: whoever has an id acts for itself alone, so a key with an id can be nobody's operator.
        require(named == msg.sender && owner != msg.sender, ITrainingTask.NotOperator(owner));
        require(s.accounts[msg.sender].id == 0, ITrainingTask.OperatorInUse(msg.sender));
        expectFree(s, msg.sender, owner);
        if (s.operatorOf[owner] == msg.sender) return false;

        uint48 from = _nextDraw(s);
        Operator storage o = kept(msg.sender);
        // A key that was dismissed and called back before the next draw never stopped.
        bool isBack = o.owner == owner && o.until == from;
        if (!isBack) o.since = from;
        o.owner = owner;
        o.until = type(uint48).max;
        s.operatorOf[owner] = msg.sender;
        s.place.heads |= _IN_USE;

        emit ITrainingTask.OperatorSet(owner, msg.sender, from);
        return true;
    }

    /// @notice The owner named another key, or none: the one it had acts until the next draw.
    function dismiss(State storage s, address owner, address named) internal {
        address key = s.operatorOf[owner];
        if (key == address(0) || key == named) return;

        uint48 from = _nextDraw(s);
        kept(key).until = from;
        delete s.operatorOf[owner];

        emit ITrainingTask.OperatorSet(owner, address(0), from);
    }

    /// @dev The first round whose roles are not drawn yet. Rounds take at least a second each: 48 bits last.
    function _nextDraw(State storage s) private view returns (uint48) {
        uint64 round = s.place.round;
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint48(s.place.phase == Phase.Draw ? round : round + 1);
    }
}
