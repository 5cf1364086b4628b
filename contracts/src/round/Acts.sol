// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ITrainingTask, Phase, Rule} from "../interfaces/ITrainingTask.sol";
import {CommitBitmap} from "../packing/CommitBitmap.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedList} from "../packing/PackedList.sol";
import {Account, CommitteeBits, RoundState, Rules, State} from "../types/TaskState.sol";
import {Operators} from "./Operators.sol";
import {RoundSteps} from "./RoundSteps.sol";
import {Settlement} from "./Settlement.sol";

/// @title Acts
/// @notice What every participant posts in a round: updates, scores, votes. They are most of a round's calls.
/// @dev Words of storage are read and written whole: taking a field out of one costs a few gas, another read a hundred.
library Acts {
    using PackedList for mapping(uint256 => uint256);
    using CommitBitmap for mapping(uint256 => uint256);

    /// Where `CommitteeBits` keeps its sets.
    uint256 private constant REVEALED = 48;
    uint256 private constant ATTESTED = 96;
    uint256 private constant VOTED = 144;
    uint256 private constant CONVICTED = 192;
    /// Where `Account` keeps how often it was absent.
    uint256 private constant MISSED = 112;

    /// @notice See `ITrainingTask.commitUpdate`.
    function commitUpdate(State storage s, uint64 round, bytes32 digest) internal {
        (uint256 word, Account storage a, uint256 account) = _acting(s, round, Phase.Train);
        // forge-lint: disable-next-line(unsafe-typecast)
        uint32 id = uint32(account);
        require(RoundSteps.trains(s, word, account), ITrainingTask.NotWorker(round));
        (bool isFirst, uint256 place) = s.updates.commit(round, id);
        require(isFirst, ITrainingTask.AlreadyCommitted(round));
        require(digest != 0, ITrainingTask.ZeroCommitment());

        s.digests[place] = digest;
        if (account >> MISSED & 0xff != 0) a.missed = 0;

        emit ITrainingTask.UpdateCommitted(round, id, digest);
    }

    /// @notice See `ITrainingTask.revealUpdate`.
    function revealUpdate(
        State storage s,
        uint64 round,
        bytes32 root,
        bytes32 cid,
        uint64 samples,
        bytes32 salt
    ) internal {
        (uint256 word,, uint256 account) = _acting(s, round, Phase.Reveal);
        // forge-lint: disable-next-line(unsafe-typecast)
        uint32 id = uint32(account);
        (bool committed, bool revealed, uint256 place) = s.updates.reveal(round, id);
        require(committed, ITrainingTask.NotCommitted(round));
        require(!revealed, ITrainingTask.AlreadyRevealed(round));
        uint64 limit = ImmutableArgs.maxSamples();
        require(samples >= 1 && samples <= limit, ITrainingTask.BadSamples(samples, limit));
        bytes32 payload = keccak256(abi.encode(root, cid, samples));
        require(s.digests[place] == _sealed(round, Phase.Train, payload, salt), ITrainingTask.WrongReveal());

        s.digests[place] = root;
        Rule rule = _rule(word);
        if (rule == Rule.FedAvg || Rules.isElected(rule)) s.samples[place] = samples;

        emit ITrainingTask.UpdateRevealed(round, id, root, cid, samples, salt);
    }

    /// @notice See `ITrainingTask.commitScores`.
    function commitScores(State storage s, uint64 round, bytes32 digest) internal {
        (uint256 word,, uint256 account) = _acting(s, round, Phase.Score);
        // forge-lint: disable-next-line(unsafe-typecast)
        uint32 id = uint32(account);
        uint256 size = _committeeSize(word);
        uint256 position = s.roster.find(0, size, id);
        require(position < size, ITrainingTask.NotValidator(round));
        require(!Rules.isElected(_rule(word)) || _revealedOwn(s, round, id), ITrainingTask.NoOwnUpdate(round));
        uint256 seats = _seats(s);
        require(seats >> position & 1 == 0, ITrainingTask.AlreadyCommitted(round));
        require(digest != 0, ITrainingTask.ZeroCommitment());

        _saveSeats(s, seats | 1 << position);
        s.scores[position] = digest;

        emit ITrainingTask.ScoresCommitted(round, id, digest);
    }

    /// @notice See `ITrainingTask.revealScores`.
    function revealScores(State storage s, uint64 round, bytes calldata scores, bytes32 salt) internal {
        (uint256 word,, uint256 account) = _acting(s, round, Phase.Tally);
        // forge-lint: disable-next-line(unsafe-typecast)
        uint32 id = uint32(account);
        uint256 size = _committeeSize(word);
        uint256 position = s.roster.find(0, size, id);
        uint256 seats = _seats(s);
        require(position < size && seats >> position & 1 != 0, ITrainingTask.NotCommitted(round));
        require(seats >> (REVEALED + position) & 1 == 0, ITrainingTask.AlreadyRevealed(round));
        // forge-lint: disable-next-line(unsafe-typecast)
        Settlement.expectWellFormed(scores, _rule(word), uint8(word >> 208));
        bytes32 payload = keccak256(abi.encode(s.rootsHash, scores));
        bytes32 sealed_ = _sealed(round, Phase.Score, payload, salt);
        require(s.scores[position] == sealed_, ITrainingTask.WrongReveal());

        _saveSeats(s, seats | 1 << (REVEALED + position));
        s.scores[position] = keccak256(scores);

        emit ITrainingTask.ScoresRevealed(round, id, scores, salt);
    }

    /// @notice See `ITrainingTask.propose`.
    function propose(
        State storage s,
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        uint32[] calldata shares
    ) internal {
        (,, uint256 account) = _acting(s, round, Phase.Propose);
        RoundState memory p = s.place;
        RoundSteps.expectAttempt(p, attempt);
        uint256 id = RoundSteps.proposerOf(s, p);
        require(account & type(uint32).max == id, ITrainingTask.NotProposer());
        bytes32 sharesDigest = 0;
        if (Rules.isAttested(p.rule)) s.sharesDigest = sharesDigest = Settlement.postShares(s, p, shares);
        else require(shares.length == 0, ITrainingTask.BadShares());

        (s.modelRoot, s.modelBlock) = (modelRoot, blockCid);
        s.proposal = _proposal(modelRoot, blockCid, sharesDigest);

        // An account's id.
        // forge-lint: disable-next-line(unsafe-typecast)
        emit ITrainingTask.Proposed(round, attempt, uint32(id), modelRoot, blockCid, shares);

        RoundSteps.enter(p, Phase.Challenge);
        RoundSteps.save(s, p);
    }

    /// @notice See `ITrainingTask.attest` and `ITrainingTask.object`.
    function vote(
        State storage s,
        uint64 round,
        uint8 attempt,
        bytes32 modelRoot,
        bytes32 blockCid,
        bytes32 sharesDigest,
        bool attests
    ) internal {
        (uint256 word,, uint256 account) = _acting(s, round, Phase.Challenge);
        // Fields of packed words.
        // forge-lint: disable-start(unsafe-typecast)
        uint32 id = uint32(account);
        uint8 running = uint8(word >> 136);
        uint256 turn = uint8(word >> 184);
        // forge-lint: disable-end(unsafe-typecast)
        require(attempt == running, ITrainingTask.WrongAttempt(attempt, running));
        uint256 size = _committeeSize(word);
        uint256 position = s.roster.find(0, size, id);
        uint256 seats = _seats(s);
        require(
            position < size && seats >> (CONVICTED + position) & 1 == 0, ITrainingTask.NotValidator(round)
        );
        require(id != s.roster.get(size + turn - 1), ITrainingTask.ProposerVotes());
        require(s.proposal == _proposal(modelRoot, blockCid, sharesDigest), ITrainingTask.OtherProposal());
        require(seats >> (VOTED + position) & 1 == 0, ITrainingTask.AlreadyVoted());

        uint256 votes = 1 << VOTED;
        if (attests) votes |= 1 << ATTESTED;
        _saveSeats(s, seats | votes << position);

        emit ITrainingTask.Voted(round, attempt, id, attests);
    }

    /// @notice The account of a participant who acts in time, in the phase it means, or lets its operator.
    /// @return word The place (`Operators.place`).
    /// @return a The account, and what is kept there.
    function _acting(State storage s, uint64 round, Phase phase)
        private
        view
        returns (uint256 word, Account storage a, uint256 account)
    {
        word = Operators.place(s);
        RoundSteps.expectOpen(word, round, phase);
        a = s.accounts[Operators.actsFor(word, msg.sender)];
        account = RoundSteps.wordOf(a);
        require(account & type(uint32).max != 0, ITrainingTask.NotEnrolled());
    }

    function _rule(uint256 word) private pure returns (Rule) {
        // A field of the packed word.
        // forge-lint: disable-next-line(unsafe-typecast)
        return Rule(uint8(word >> 240));
    }

    function _committeeSize(uint256 word) private pure returns (uint256) {
        return word >> 232 & 0xff;
    }

    /// @dev The committee's sets (`CommitteeBits`) as one word.
    function _seats(State storage s) private view returns (uint256 word) {
        CommitteeBits storage seats = s.seats;
        assembly ("memory-safe") {
            word := sload(seats.slot)
        }
    }

    function _saveSeats(State storage s, uint256 word) private {
        CommitteeBits storage seats = s.seats;
        assembly ("memory-safe") {
            sstore(seats.slot, word)
        }
    }

    function _revealedOwn(State storage s, uint64 round, uint256 id) private view returns (bool revealed) {
        // Only one of the two answers is asked for.
        // slither-disable-next-line unused-return
        (, revealed) = s.updates.state(round, id);
    }

    /// @dev What a vote is held against: one word to read instead of three.
    function _proposal(bytes32 modelRoot, bytes32 blockCid, bytes32 sharesDigest)
        private
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(modelRoot, blockCid, sharesDigest));
    }

    function _sealed(uint64 round, Phase phase, bytes32 payload, bytes32 salt)
        private
        view
        returns (bytes32)
    {
        return keccak256(
            abi.encode(
                block.chainid, address(this), ImmutableArgs.taskId(), round, phase, msg.sender, payload, salt
            )
        );
    }
}
