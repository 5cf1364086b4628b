// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LibBit} from "solady/utils/LibBit.sol";

import {IStakeRegistry} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Phase, TaskConfig} from "../interfaces/ITrainingTask.sol";
import {AggregateProof, Claim} from "../math/AggregateProof.sol";
import {Committee} from "../math/Committee.sol";
import {Shares} from "../math/Shares.sol";
import {CommitBitmap} from "../packing/CommitBitmap.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedList} from "../packing/PackedList.sol";
import {PackedIds} from "../packing/PackedIds.sol";
import {Operators} from "./Operators.sol";
import {RoundSteps} from "./RoundSteps.sol";
import {RoundState, CommitteeBits, State, Rules} from "../types/TaskState.sol";
import {Tally} from "./Tally.sol";

/// @title Proof
/// @notice Convicts a proposer and its attesters by one wrong parameter.
library Proof {
    using CommitBitmap for mapping(uint256 => uint256);
    using PackedList for mapping(uint256 => uint256);

    uint256 private constant WAD = 1e18;

    /// @notice See `ITrainingTask.prove`.
    function prove(
        State storage s,
        uint64 round,
        uint8 attempt,
        uint64 position,
        bytes calldata evidence,
        bytes32 salt
    ) external {
        RoundState memory p = s.place;
        RoundSteps.expectRound(p, round);
        RoundSteps.expectPhase(p, Phase.Challenge);
        RoundSteps.expectAttempt(p, attempt);
        (uint256 found, uint256 expected) = AggregateProof.refute(_claim(s, p), position, evidence);

        // Parameters have 32 bits.
        // forge-lint: disable-next-line(unsafe-typecast)
        emit ITrainingTask.LieProven(round, attempt, position, uint32(expected), uint32(found), msg.sender);

        address finder = _finder(s, round, attempt, position, salt);
        uint256[] memory guilty = _convict(s, p);
        _slash(s, p, guilty, finder);
        for (uint256 i = 0; i < guilty.length; ++i) {
            address who = s.addresses[guilty[i]];
            RoundSteps.applyWeight(
                s, p, who, IStakeRegistry(ImmutableArgs.origin().registry).bonded(address(this), who)
            );
        }
        RoundSteps.nextProposer(s, p);
        RoundSteps.save(s, p);
    }

    /// @dev What the standing proposal claims: its root is what the shares make of head and updates.
    function _claim(State storage s, RoundState memory p) private view returns (Claim memory claim) {
        TaskConfig memory c = ImmutableArgs.config();
        uint256 headShare = Shares.ofHead(c.alpha);
        bool byRank = Rules.isOnRanks(p.rule);
        uint32[] memory order = PackedIds.load(s.orders[p.round], p.updates);
        uint256[] memory shown = byRank ? Committee.members(s.tally.included) : _all(order.length);
        bytes32[] memory roots = new bytes32[](shown.length);
        uint256[] memory shares = new uint256[](shown.length + 1);
        shares[0] = headShare;
        uint32[] memory kept = s.shares[p.round].load(0, byRank ? 0 : order.length);
        uint256[] memory ranks =
            byRank ? Tally.onRanks(c, p.rule, shown.length, Shares.TOTAL - headShare) : new uint256[](0);
        for (uint256 i = 0; i < shown.length; ++i) {
            shares[i + 1] = byRank ? ranks[i] : kept[i];
            if (shares[i + 1] != 0 || byRank) roots[i] = s.digests[s.updates.placeOf(order[shown[i]])];
        }
        return Claim(s.modelRoot, RoundSteps.head(s, p).root, roots, shares, byRank, c.dimension, c.depth);
    }

    function _all(uint256 count) private pure returns (uint256[] memory indices) {
        indices = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            indices[i] = i;
        }
    }

    /// @dev Whoever noted this finding in an earlier block; nobody else earns the finder's part. An operator earns it for its
    /// owner.
    function _finder(State storage s, uint64 round, uint8 attempt, uint64 position, bytes32 salt)
        private
        view
        returns (address)
    {
        bytes32 note = keccak256(
            abi.encode(block.chainid, address(this), round, attempt, position, msg.sender, salt)
        );
        uint256 noted = s.notes[note];
        bool isFirst = noted != 0 && noted < block.number;
        return isFirst ? Operators.actsFor(Operators.place(s), msg.sender) : address(0);
    }

    /// @dev Marks the proposer and all who attested; answers their ids, the proposer first.
    function _convict(State storage s, RoundState memory p) private returns (uint256[] memory guilty) {
        CommitteeBits memory seats = s.seats;
        uint256 size = p.committeeSize;
        guilty = new uint256[](1 + LibBit.popCount(seats.attested));
        guilty[0] = RoundSteps.proposerOf(s, p);
        uint256 n = 1;
        for (uint256 left = seats.attested; left != 0; left &= left - 1) {
            guilty[n++] = s.roster.get(LibBit.ffs(left));
        }
        seats.convicted |= seats.attested;
        if (Rules.isElected(p.rule)) {
            seats.convicted |= uint48(1 << s.roster.find(0, size, guilty[0]));
        } else {
            seats.convictedLine |= uint16(1 << (p.nextProposer - 1));
        }
        s.seats = seats;
    }

    /// @dev The task's part becomes escrow at once, so that its balance always equals escrow and what is owed; it is fetched
    /// in one piece, for a transfer costs more than a slash.
    function _slash(State storage s, RoundState memory p, uint256[] memory guilty, address finder) private {
        TaskConfig memory c = ImmutableArgs.config();
        IStakeRegistry registry = IStakeRegistry(ImmutableArgs.origin().registry);
        uint256 part = WAD - c.finderPart - c.burnPart;
        uint256 sum = 0;
        for (uint256 i = 0; i < guilty.length; ++i) {
            uint256 id = guilty[i];
            uint256 amount = registry.slashLie(s.addresses[id], c.lieSlash, finder, c.finderPart, c.burnPart);
            uint256 toEscrow = amount * part / WAD;
            sum += toEscrow;

            // forge-lint: disable-next-line(unsafe-typecast)
            emit ITrainingTask.Convicted(p.round, p.attempt, uint32(id), amount, toEscrow);
        }
        if (sum == 0) return;

        // All ether there is fits 128 bits.
        // forge-lint: disable-next-line(unsafe-typecast)
        s.escrow += uint128(sum);
        registry.withdraw(sum, address(this));
    }
}
