// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {ITrainingTask, Phase, PlaceView, Rule} from "../interfaces/ITrainingTask.sol";
import {Rewards} from "../math/Rewards.sol";
import {Scores} from "../math/Scores.sol";
import {Shares} from "../math/Shares.sol";
import {Varsel} from "../math/Varsel.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedList} from "../packing/PackedList.sol";
import {PackedIds} from "../packing/PackedIds.sol";
import {Account, Pay, RoundState, State, Rules} from "../types/TaskState.sol";
import {Internals} from "./Internals.sol";
import {RoundSteps} from "./RoundSteps.sol";
import {Tally} from "./Tally.sol";

/// @title Settlement
/// @notice What a task answers, and the checks of what participants post.
library Settlement {
    using PackedList for mapping(uint256 => uint256);

    /// @notice Where the task stands.
    function place(State storage s) internal view returns (PlaceView memory) {
        RoundState memory p = s.place;
        return PlaceView(
            p.round,
            p.attempt,
            p.phase,
            p.deadline,
            s.gate.drawBlock,
            p.expected,
            p.extended,
            p.ending,
            p.limited,
            p.updates
        );
    }

    /// @notice This round's validators; empty before the draw, when no line stands.
    function committee(State storage s) internal view returns (uint32[] memory) {
        return s.roster.load(0, s.place.proposers == 0 ? 0 : s.place.committeeSize);
    }

    /// @notice Which updates count, and p_0 with the shares.
    function tallied(State storage s) external view returns (bool[] memory included, uint32[] memory shares) {
        RoundState memory p = s.place;
        if (p.phase != Phase.Propose && p.phase != Phase.Challenge) return (included, shares);

        uint256 set = s.tally.included;
        included = new bool[](p.updates);
        for (uint256 i = 0; i < included.length; ++i) {
            included[i] = set >> i & 1 != 0;
        }
        uint256 headShare = Shares.ofHead(ImmutableArgs.alpha());
        if (Rules.isOnRanks(p.rule)) {
            uint256 amount = Shares.TOTAL - headShare;
            shares = Tally.withHead(
                headShare, Tally.onRanks(ImmutableArgs.config(), p.rule, LibBit.popCount(set), amount)
            );
        } else if (!Rules.isAttested(p.rule) || p.phase == Phase.Challenge) {
            uint256[] memory parts = new uint256[](p.updates);
            for (uint256 i = 0; i < parts.length; ++i) {
                parts[i] = s.shares[p.round].get(i);
            }
            shares = Tally.withHead(headShare, parts);
        }
    }

    /// @dev A worker's part in a settled round and what it is worth; nothing when it has none.
    function _workerPay(State storage s, uint64 round, uint256 id)
        private
        view
        returns (uint256 part, uint256 amount)
    {
        (bool isSettled, bool byShares, uint256 updates) = PackedIds.settlement(s.orders[round]);
        if (id == 0 || !isSettled) return (0, 0);
        uint256 i = PackedIds.find(s.orders[round], updates, id);
        if (i == updates) return (0, 0);
        uint256 whole;
        if (byShares) {
            (part, whole) = (s.shares[round].get(i), Shares.TOTAL - Shares.ofHead(ImmutableArgs.alpha()));
        } else {
            Pay memory pay = s.pays[round];
            (part, whole) = (pay.paid >> i & 1, pay.whole);
        }
        if (part != 0) amount = Rewards.ofWorker(ImmutableArgs.origin().workersBudget, part, whole);
    }

    /// @notice Takes the caller's credit and its pay of these rounds out of what is owed; the caller of this function sends it.
    function claim(State storage s, uint64[] calldata rounds) external returns (uint256 amount) {
        Account storage a = s.accounts[msg.sender];
        amount = a.credit;
        a.credit = 0;
        for (uint256 i = 0; i < rounds.length; ++i) {
            uint64 round = rounds[i];
            // Only one of the answers is asked for.
            // slither-disable-next-line unused-return
            (bool isSettled,,) = PackedIds.settlement(s.orders[round]);
            require(isSettled, ITrainingTask.RoundNotSettled(round));
            (uint256 part, uint256 pay) = _workerPay(s, round, a.id);
            if (part == 0) continue;
            require(!_isClaimed(s, a.id, round), ITrainingTask.AlreadyClaimed(round));
            s.claimed[a.id][round >> 8] |= 1 << (round & 0xff);
            amount += pay;
        }
        require(amount != 0, ITrainingTask.NothingToClaim());
        if (s.owed < amount) RoundSteps.bookFees(s);
        // All ether there is fits 128 bits.
        // forge-lint: disable-next-line(unsafe-typecast)
        s.owed -= uint128(amount);

        emit ITrainingTask.Claimed(msg.sender, amount, rounds);
    }

    /// @notice What the account could claim with these rounds, each named once.
    function creditOf(State storage s, address who, uint64[] calldata rounds)
        external
        view
        returns (uint256 amount)
    {
        Account memory a = s.accounts[who];
        amount = a.credit;
        for (uint256 i = 0; i < rounds.length; ++i) {
            (, uint256 pay) = _workerPay(s, rounds[i], a.id);
            if (!_isClaimed(s, a.id, rounds[i])) amount += pay;
        }
    }

    function _isClaimed(State storage s, uint256 id, uint64 round) private view returns (bool) {
        return s.claimed[id][round >> 8] >> (round & 0xff) & 1 != 0;
    }

    /// @notice Refuses score bytes that do not have the rule's form.
    function expectWellFormed(bytes calldata scores, Rule rule, uint256 updates) internal pure {
        bool good = Scores.isWellFormed(scores, Rules.scoreKind(rule), updates);
        if (good) return;
        uint256 entries = (updates + 7) / 8;
        if (Rules.isSoftmax(rule)) entries = 8 * updates;
        else if (Rules.isElected(rule)) entries = 16 * updates;
        revert ITrainingTask.BadScores(scores.length, 8 + entries);
    }

    /// @notice Checks the form of posted shares and keeps them: length, p_0, zeros outside the included, what the rule gives.
    /// @return digest The hash of the shares as words.
    function postShares(State storage s, RoundState memory p, uint32[] calldata shares)
        external
        returns (bytes32 digest)
    {
        uint256 headShare = Shares.ofHead(ImmutableArgs.alpha());
        require(shares.length == uint256(p.updates) + 1 && shares[0] == headShare, ITrainingTask.BadShares());
        uint32[] memory parts = new uint32[](p.updates);
        uint256 chosen = 0;
        for (uint256 i = 0; i < parts.length; ++i) {
            parts[i] = shares[i + 1];
            if (parts[i] != 0) chosen |= 1 << i;
        }
        bool isGood = p.rule == Rule.Varsel
            ? Varsel.hasForm(shares, s.tally.included, Internals.updates(s, p), ImmutableArgs.budget())
            : _areEqualParts(parts, chosen, s.tally.included, _wanted(p.rule), Shares.TOTAL - headShare);
        require(isGood, ITrainingTask.BadShares());

        s.shares[p.round].save(parts);
        digest = keccak256(abi.encodePacked(shares));
    }

    /// @dev How many updates Krum chooses.
    function _wanted(Rule rule) private view returns (uint256) {
        return rule == Rule.Krum ? 1 : ImmutableArgs.config().selected;
    }

    /// @dev Whether so many have a part, all of them included, and these are the equal parts.
    function _areEqualParts(
        uint32[] memory parts,
        uint256 chosen,
        uint256 included,
        uint256 wanted,
        uint256 amount
    ) private pure returns (bool) {
        if (chosen & ~included != 0 || LibBit.popCount(chosen) != wanted) return false;
        uint256[] memory expected = Shares.equal(wanted, amount);
        uint256 n = 0;
        for (uint256 left = chosen; left != 0; left &= left - 1) {
            if (parts[LibBit.ffs(left)] != expected[n++]) return false;
        }
        return true;
    }
}
