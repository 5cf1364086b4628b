// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";
import {LibBit} from "solady/utils/LibBit.sol";

import {Slash} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Outcome, Phase} from "../interfaces/ITrainingTask.sol";
import {BlockHeader} from "../math/BlockHeader.sol";
import {SortitionTree, StakeTree} from "../math/SortitionTree.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedList} from "../packing/PackedList.sol";
import {PackedIds} from "../packing/PackedIds.sol";
import {Internals} from "./Internals.sol";
import {RoundSteps} from "./RoundSteps.sol";
import {RoundState, CommitteeBits, State, Rules} from "../types/TaskState.sol";
import {CommitBitmap} from "../packing/CommitBitmap.sol";
import {UncheckedArray} from "../packing/UncheckedArray.sol";

/// @title Transitions
/// @notice The moves of a round that carry no data: the draw, and leaving a phase that is over.
library Transitions {
    using PackedList for mapping(uint256 => uint256);
    using CommitBitmap for mapping(uint256 => uint256);
    using SortitionTree for StakeTree;

    uint256 private constant BACKUPS = 2;
    uint256 private constant OPCODE_REACH = 256;
    /// Where EIP-2935 keeps the hashes of the last 8191 blocks, on chains that have it.
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;

    /* DRAW */

    /// @notice See `ITrainingTask.draw`.
    function draw(State storage s, bytes calldata header) external {
        RoundState memory p = s.place;
        RoundSteps.expectPhase(p, Phase.Draw);
        uint64 drawBlock = s.gate.drawBlock;
        require(drawBlock != 0, ITrainingTask.DrawNotOpen(p.round));
        require(block.number > drawBlock, ITrainingTask.DrawTooEarly(drawBlock));
        bytes32 blockHash = _blockHash(drawBlock);
        if (blockHash == 0) return RoundSteps.openDraw(s, p);

        bytes32 seed = _seed(p.round, drawBlock, blockHash, header);
        (uint32[] memory members, uint32[] memory line, uint32[] memory workers) =
            Rules.isElected(p.rule) ? _drawTraining(s, p, seed) : _drawApart(s, p, seed);
        _seat(s, p, members, line, workers);
        p.hasElected = false;

        emit ITrainingTask.Drawn(p.round, drawBlock, seed, members, line, p.limited, workers, p.expected);

        RoundSteps.payCaller(s, p);
        RoundSteps.enter(p, Phase.Train);
        RoundSteps.save(s, p);
    }

    /// @dev From the randomness of the block, not from its hash: who builds a block has free bytes in its header, and could
    /// try hashes until one suits; the randomness is fixed before the block is built, and can only be withheld.
    function _seed(uint64 round, uint64 drawBlock, bytes32 blockHash, bytes calldata header)
        private
        view
        returns (bytes32)
    {
        require(keccak256(header) == blockHash, ITrainingTask.BadHeader(drawBlock));
        (bool found, bytes32 randomness) = BlockHeader.mixHash(header);
        require(found, ITrainingTask.BadHeader(drawBlock));

        return keccak256(abi.encode(block.chainid, address(this), round, randomness));
    }

    /// @dev From the history contract where the chain has one, else from the opcode; zero when the block is out of reach.
    function _blockHash(uint256 number) private view returns (bytes32) {
        (bool found, bytes memory answer) = HISTORY.staticcall(abi.encode(number));
        if (found && answer.length == 32) {
            bytes32 kept = abi.decode(answer, (bytes32));
            // A chain that has not had the contract for long keeps zeros for the blocks before it.
            if (kept != 0) return kept;
        }
        return block.number - number <= OPCODE_REACH ? blockhash(number) : bytes32(0);
    }

    /// @dev Committee, miner, two backups who also work; workers where more are left than may train. An appointed committee is
    /// not drawn, and its updates take room where it trains.
    function _drawApart(State storage s, RoundState memory p, bytes32 seed)
        private
        view
        returns (uint32[] memory members, uint32[] memory line, uint32[] memory workers)
    {
        uint256[] memory taken = new uint256[](0);
        if (Internals.areAppointed(p)) {
            members = Internals.staked(s);
            // At most 45.
            // forge-lint: disable-next-line(unsafe-typecast)
            p.committeeSize = uint8(members.length);
            taken = _widen(members);
        }
        uint256 size = p.committeeSize;
        uint256 own = Internals.train(p) ? size : 0;
        uint256 room = ImmutableArgs.maxUpdates() - own;
        uint256 eligible = s.gate.eligible;
        // At most 45 and 128.
        // forge-lint: disable-next-line(unsafe-typecast)
        p.expected = uint16(own + FixedPointMathLib.min(room, eligible - size - 1));
        // At least one worker is enrolled besides committee and miner, so there is a backup.
        uint256 seats = FixedPointMathLib.min(eligible, size + 1 + FixedPointMathLib.min(BACKUPS, room));
        room -= seats - size - 1;
        p.limited = eligible - seats > room;
        seats -= taken.length;
        uint256[] memory ids = s.tree.draw(seed, taken, p.limited ? seats + room : seats);
        uint256 first = size - taken.length;
        if (first != 0) members = _slice(ids, 0, first);
        line = _slice(ids, first, seats);
        workers = _slice(ids, seats, ids.length);
    }

    function _widen(uint32[] memory ids) private pure returns (uint256[] memory wide) {
        wide = new uint256[](ids.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            wide[i] = ids[i];
        }
    }

    /// @dev The committee trains and proposes itself; it is drawn when none was elected.
    function _drawTraining(State storage s, RoundState memory p, bytes32 seed)
        private
        view
        returns (uint32[] memory members, uint32[] memory line, uint32[] memory workers)
    {
        uint256 size = p.committeeSize;
        uint256 room = ImmutableArgs.maxUpdates();
        uint256 others = s.gate.eligible - size;
        uint256[] memory taken = new uint256[](0);
        if (p.hasElected) {
            members = s.elected.load(0, size);
            taken = new uint256[](size);
            others += size;
            for (uint256 i = 0; i < size; ++i) {
                taken[i] = members[i];
                if (s.tree.get(members[i]) != 0) --others;
            }
        }
        p.limited = others > room;
        // At most 45 and 128.
        // forge-lint: disable-next-line(unsafe-typecast)
        p.expected = uint16(size + FixedPointMathLib.min(room, others));

        uint256 first = p.hasElected ? 0 : size;
        uint256[] memory ids = s.tree.draw(seed, taken, first + (p.limited ? room : 0));
        if (!p.hasElected) members = _slice(ids, 0, size);
        workers = _slice(ids, first, ids.length);
        line = _byLot(seed, members);
    }

    /// @dev Writes the roster: committee, line, workers.
    function _seat(
        State storage s,
        RoundState memory p,
        uint32[] memory members,
        uint32[] memory line,
        uint32[] memory workers
    ) private {
        uint32[] memory roster = new uint32[](members.length + line.length + workers.length);
        _copy(members, roster, 0);
        _copy(line, roster, members.length);
        _copy(workers, roster, members.length + line.length);
        s.roster.save(roster);
        // At most 45 and 128.
        // forge-lint: disable-next-line(unsafe-typecast)
        (p.proposers, p.workers) = (uint8(line.length), uint8(workers.length));
    }

    function _copy(uint32[] memory from, uint32[] memory to, uint256 first) private pure {
        unchecked {
            for (uint256 i = 0; i < from.length; ++i) {
                PackedList.set(to, first + i, PackedList.entry(from, i));
            }
        }
    }

    /// @dev Ids by ascending `keccak256(abi.encode(seed, id))`.
    function _byLot(bytes32 seed, uint32[] memory ids) private pure returns (uint32[] memory line) {
        uint256 count = ids.length;
        line = new uint32[](count);
        uint256[] memory lots = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            uint256 lot = uint256(keccak256(abi.encode(seed, uint256(ids[i]))));
            uint256 place = i;
            for (; place > 0 && lots[place - 1] > lot; --place) {
                (lots[place], line[place]) = (lots[place - 1], line[place - 1]);
            }
            (lots[place], line[place]) = (lot, ids[i]);
        }
    }

    function _slice(uint256[] memory ids, uint256 first, uint256 end)
        private
        pure
        returns (uint32[] memory part)
    {
        part = new uint32[](end - first);
        unchecked {
            for (uint256 i = first; i < end; ++i) {
                PackedList.set(part, i - first, UncheckedArray.get(ids, i));
            }
        }
    }

    /* ADVANCE */

    /// @notice See `ITrainingTask.advance`.
    function advance(State storage s, uint64 round) external {
        RoundState memory p = s.place;
        RoundSteps.expectRound(p, round);

        if (p.phase == Phase.Train) _leaveTrain(s, p);
        else if (p.phase == Phase.Reveal) _leaveReveal(s, p);
        else if (p.phase == Phase.Score) _leaveScore(s, p);
        else if (p.phase == Phase.Propose) _leavePropose(s, p);
        else if (p.phase == Phase.Challenge) _leaveChallenge(s, p);
        else revert ITrainingTask.WrongPhase(p.round, p.phase);

        RoundSteps.save(s, p);
    }

    function _leaveTrain(State storage s, RoundState memory p) private {
        uint256 committed = s.updates.count(p.round, s.gate.accounts);
        if (committed < p.expected) RoundSteps.expectOver(p);

        if (committed - _ownUpdates(s, p) >= ImmutableArgs.minUpdates()) {
            RoundSteps.payCaller(s, p);
            RoundSteps.enter(p, Phase.Reveal);
        } else if (!p.extended) {
            p.extended = true;
            p.deadline = RoundSteps.deadline(Phase.Train);

            emit ITrainingTask.TrainExtended(p.round, p.deadline);
        } else {
            RoundSteps.payCaller(s, p);
            RoundSteps.voidRound(s, p);
        }
    }

    /// @dev How many of the committee committed an update of their own.
    function _ownUpdates(State storage s, RoundState memory p) private view returns (uint256 own) {
        if (!Rules.isElected(p.rule)) return 0;
        uint32[] memory members = s.roster.load(0, p.committeeSize);
        for (uint256 i = 0; i < members.length; ++i) {
            // Only one of the two answers is asked for.
            // slither-disable-next-line unused-return
            (bool committed,) = s.updates.state(p.round, members[i]);
            if (committed) ++own;
        }
    }

    function _leaveReveal(State storage s, RoundState memory p) private {
        (uint32[] memory order, uint32[] memory hidden, uint256[] memory places) =
            s.updates.list(p.round, s.gate.accounts);
        if (hidden.length != 0) RoundSteps.expectOver(p);

        for (uint256 i = 0; i < hidden.length; ++i) {
            RoundSteps.punish(s, p, hidden[i], Slash.NoReveal);
        }
        if (Rules.isElected(p.rule)) _dropMembers(s, p, order, places);
        PackedIds.save(s.orders[p.round], order);
        // At most 128.
        // forge-lint: disable-next-line(unsafe-typecast)
        p.updates = uint8(order.length);
        (s.rootsHash, p.repeats) = _roots(s, RoundSteps.head(s, p).root, places);
        RoundSteps.payCaller(s, p);
        RoundSteps.enter(p, Phase.Score);
    }

    /// @dev Updates of a training committee are not aggregated.
    function _dropMembers(
        State storage s,
        RoundState memory p,
        uint32[] memory order,
        uint256[] memory places
    ) private view {
        uint32[] memory members = s.roster.load(0, p.committeeSize);
        uint256 kept = 0;
        for (uint256 i = 0; i < order.length; ++i) {
            if (PackedList.find(members, order[i]) != members.length) continue;
            (order[kept], places[kept]) = (order[i], places[i]);
            ++kept;
        }
        assembly ("memory-safe") {
            mstore(order, kept)
            mstore(places, kept)
        }
    }

    /// @dev The hash of the ordered roots, and whether one of them repeats another or the head's. Roots that were seen are found
    /// by their last bits, in a table of which at most half is in use: comparing each with all before it costs 200,000 gas
    /// for 100 of them. Whoever grinds roots with equal bits makes it as slow as that.
    function _roots(State storage s, bytes32 headRoot, uint256[] memory places)
        private
        view
        returns (bytes32 hash, bool repeats)
    {
        uint256 count = places.length;
        bytes32[] memory roots = new bytes32[](count);
        uint256[] memory seen = new uint256[](count == 0 ? 1 : 4 << LibBit.fls(count));
        for (uint256 i = 0; i < count; ++i) {
            bytes32 root = s.digests[UncheckedArray.get(places, i)];
            if (root == headRoot) repeats = true;
            assembly ("memory-safe") {
                let at := add(add(roots, 32), shl(5, i))
                mstore(at, root)
                let last := sub(mload(seen), 1)
                for { let cell := and(root, last) } 1 { cell := and(add(cell, 1), last) } {
                    // A cell in use holds where the root stands: zero may be a root.
                    let there := add(add(seen, 32), shl(5, cell))
                    let earlier := mload(there)
                    if iszero(earlier) {
                        mstore(there, at)
                        break
                    }
                    if eq(mload(earlier), root) {
                        repeats := 1
                        break
                    }
                }
            }
        }
        assembly ("memory-safe") {
            hash := keccak256(add(roots, 32), shl(5, count))
        }
    }

    function _leaveScore(State storage s, RoundState memory p) private {
        uint256 silent = ((1 << p.committeeSize) - 1) & ~uint256(s.seats.committed);
        bool awaited = silent != 0;
        if (awaited && Rules.isElected(p.rule)) awaited = _anyMayScore(s, p, silent);
        if (awaited) RoundSteps.expectOver(p);

        _punishSeats(s, p, silent, Slash.Liveness);
        RoundSteps.payCaller(s, p);
        RoundSteps.enter(p, Phase.Tally);
    }

    /// @dev A member of a training committee scores only if it revealed its own update.
    function _anyMayScore(State storage s, RoundState memory p, uint256 silent) private view returns (bool) {
        for (; silent != 0; silent &= silent - 1) {
            // Only one of the two answers is asked for.
            // slither-disable-next-line unused-return
            (, bool revealed) = s.updates.state(p.round, s.roster.get(LibBit.ffs(silent)));
            if (revealed) return true;
        }
        return false;
    }

    function _leavePropose(State storage s, RoundState memory p) private {
        RoundSteps.expectOver(p);

        RoundSteps.punish(s, p, RoundSteps.proposerOf(s, p), Slash.Liveness);
        RoundSteps.payCaller(s, p);
        RoundSteps.nextProposer(s, p);
    }

    function _leaveChallenge(State storage s, RoundState memory p) private {
        // INVARIANT: Challenge always runs its full length, or a committee could close it before a watcher acts.
        RoundSteps.expectOver(p);

        CommitteeBits memory seats = s.seats;
        uint256 voters = RoundSteps.votersOf(s, p, seats, p.nextProposer - 1);
        uint256 silent = voters & ~uint256(seats.voted);
        if (silent != 0) {
            _punishSeats(s, p, silent, Slash.Liveness);
            // A committee has at most 45 positions.
            // forge-lint: disable-next-line(unsafe-typecast)
            s.gate.absent |= uint48(silent);
        }
        RoundSteps.payCaller(s, p);
        if (LibBit.popCount(seats.attested) >= LibBit.popCount(voters) / 2 + 1) {
            RoundSteps.setHead(s, p);
            RoundSteps.endRound(s, p, Outcome.Final);
        } else {
            RoundSteps.nextProposer(s, p);
        }
    }

    function _punishSeats(State storage s, RoundState memory p, uint256 silent, Slash kind) private {
        for (; silent != 0; silent &= silent - 1) {
            RoundSteps.punish(s, p, s.roster.get(LibBit.ffs(silent)), kind);
        }
    }
}
