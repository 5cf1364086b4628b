// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Allocation, IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {
    AccountView,
    ITrainingTask,
    Phase,
    PlaceView,
    Rule,
    TaskConfig
} from "../src/interfaces/ITrainingTask.sol";
import {Statistic} from "../src/math/Scores.sol";
import {Vm} from "./Base.t.sol";
import {Headers} from "./Headers.sol";
import {Books} from "./TrainingTask.books.t.sol";

/// @notice A participant that answers ether by claiming and withdrawing again, and once more when that pays.
contract ReentrantActor {
    ITrainingTask private _task;
    IStakeRegistry private immutable _registry;
    uint256 private _depth;

    constructor(IStakeRegistry registry) {
        _registry = registry;
    }

    receive() external payable {
        if (_depth == 2) return;
        ++_depth;
        try _task.claim(new uint64[](0)) {} catch {}
        try _registry.withdraw(msg.value, address(this)) {} catch {}
        try _task.refund() {} catch {}
        --_depth;
    }

    function join(ITrainingTask task) external {
        _task = task;
    }
}

/// @notice A participant that cannot take ether.
contract RejectingActor {}

/// @notice Where the task stands, as it was after the last action. One word, like all that is read in every call.
struct Now {
    uint64 round;
    uint64 deadline;
    uint8 attempt;
    Phase phase;
    uint8 updates;
}

/// @notice What the round knows of the actors, as sets: bit i is actor i.
struct Sets {
    uint8 committee;
    uint8 trainers;
    /// Who was drawn to train, whether or not it still may.
    uint8 seated;
    uint8 committed;
    /// Who committed to somebody else's sealed update.
    uint8 copied;
    uint8 revealed;
    uint8 scored;
    uint8 shown;
    uint8 voted;
    uint8 attested;
    /// Who let a Challenge pass in silence.
    uint8 absent;
    uint8 convicted;
    uint8 included;
    /// Whose turn it is or may become.
    uint8 line;
    /// An actor, not a set.
    uint8 proposer;
    /// Enough updates were included for shares; a majority attested.
    bool formed;
    bool carried;
    /// Who isEnrolled to take part, and who has less than the minimum bonded. These two outlive the round.
    uint8 isEnrolled;
    uint8 poor;
}

/// @notice An actor's stake in the task.
struct Stake {
    uint128 bonded;
    uint128 unbonding;
}

/// @notice A request to release stake.
struct Ask {
    address at;
    uint8 actor;
    uint24 number;
    uint64 releaseAt;
    uint256 amount;
}

/// @notice Plays random participants against factory, registry and task: six people, a contract that starts over whenever it is
/// paid and one that rejects ether. It keeps its own books of who acted, who holds how much stake, who is drawn, what shares and
/// the next model are and who earned what, and compares. Models are constant vectors of 60 parameters in a leaf of 64, so that a
/// model is a number: the parameter's 32 bits, and above them what stands in the padding.
/// @dev Hundreds of thousands of calls are made: whatever is read often is kept here, in few words.
contract TrainingTaskHandler {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint256 public constant ACTORS = 8;
    uint256 private constant EVERYBODY = (1 << ACTORS) - 1;
    uint256 private constant REENTRANT = ACTORS - 2;
    uint256 private constant REJECTING = ACTORS - 1;
    uint256 private constant COMMITTEE = 3;
    uint256 private constant ESCROW = 0.4 ether;
    uint256 private constant MIN_STAKE = 1 ether;
    uint256 private constant PHASE_SECONDS = 60;
    uint256 private constant LIE = 0.5e18;
    uint256 private constant LIVENESS = 0.01e18;
    uint256 private constant NO_REVEAL = 0.05e18;
    uint256 private constant WAD = 1e18;
    uint256 private constant BIAS = 1 << 31;
    uint256 private constant TOTAL = 1 << 31;
    uint256 private constant LANE = type(uint32).max;
    uint64 private constant POSITION = 3;
    uint64 private constant PADDING = 61;
    uint256 private constant REACH = 256;
    uint256 private constant SEED_DELAY = 1;
    uint256 private constant UNBONDING = 11 * PHASE_SECONDS;
    uint256 private constant MAJORITY = COMMITTEE / 2 + 1;
    uint256 private constant MOST_MISSED = 3;
    uint256 private constant REDRAW = 3;
    uint256 private constant CALLER_FEE = 1e12;
    uint256 private constant BUDGET = ESCROW / 8 - 12 * CALLER_FEE;
    uint256 private constant FOR_WORKERS = BUDGET * 6 / 10;
    uint256 private constant FOR_COMMITTEE = BUDGET * 3 / 10;
    uint256 private constant BETA = 1.5e18;
    uint256 private constant DEV_CAP = 1e18;
    bytes32 private constant SALT = bytes32(uint256(7));

    ITaskFactory private immutable _factory;
    IStakeRegistry public immutable registry;
    Rule private immutable _rule;
    bool private immutable _isElected;
    bool private immutable _isOnRanks;
    bool private immutable _isAttested;
    address private immutable _sponsor = address(uint160(0x5b0));

    ITrainingTask public task;
    ITrainingTask[] private _ended;
    address[ACTORS] public actors;

    /// What was found that must never be.
    string public violation;
    uint256 public forced;
    mapping(bytes4 action => uint256) public calls;
    mapping(bytes4 action => uint256) public successes;

    Now private _now;
    Sets private _sets;
    uint256 private _taskId;
    uint256 private _lastPlace;
    Stake[ACTORS] private _stakes;
    /// By actor, 32 bits each: what it weighs in a draw.
    uint256 private _weights;
    /// The block whose randomness decides; 0 while too few take part.
    uint256 private _drawBlock;
    /// The ids of the next committee, 8 bits each, and when it was elected.
    uint256 private _elected;
    uint256 private _electedAt;
    /// How often in a row each was noted as absent, and in which round last.
    uint256[ACTORS] private _missed;
    uint256[ACTORS] private _notedIn;
    bytes32[ACTORS] private _digests;
    /// A validator's scores are a function of this number.
    uint256[ACTORS] private _tastes;
    /// By actor, 32 bits each: what its update holds.
    uint256 private _values;
    /// p_0 and the shares, 32 bits each.
    uint256 private _shares;
    uint256 private _head;
    /// The head before it; 0 where there is none to go back to.
    uint256 private _older;
    uint256 private _proposed;
    bytes32 private _proposedRoot;
    bytes32 private _sharesDigest;
    /// Sets of rounds.
    uint256 private _settled;
    uint256[ACTORS] private _claimed;
    /// What each earned and did not claim yet, and how far its scores were from the committee's.
    uint256[ACTORS] private _credits;
    uint256[ACTORS] private _deviations;
    Ask[] private _asks;

    constructor(ITaskFactory factory, Rule rule) {
        _factory = factory;
        _rule = rule;
        _isElected = rule == Rule.CommitteeNear || rule == Rule.CommitteeFar;
        _isOnRanks = rule == Rule.FedRob || rule == Rule.Median;
        _isAttested = rule >= Rule.Krum;
        registry = IStakeRegistry(factory.registry());
        for (uint256 i = 0; i < REENTRANT; ++i) {
            actors[i] = address(uint160(0xacc0 + i));
        }
        actors[REENTRANT] = address(new ReentrantActor(registry));
        actors[REJECTING] = address(new RejectingActor());
    }

    /// @dev Makes the first task; in the constructor this would double its code.
    function start() external {
        _renew();
    }

    /// @dev Counts the call and looks at clockwork and money after it.
    modifier counted() {
        ++calls[msg.sig];
        _;
        uint256 place = uint256(_now.round) * 100 + uint256(_now.attempt) * 10 + uint256(_now.phase);
        place += _taskId * 1e9;
        if (place < _lastPlace) _found("a round went back");
        _lastPlace = place;
        if (address(task).balance != task.escrow() + task.owed() + forced) _found("the task's balance");
    }

    /* ACTIONS */

    function join(uint256 who, uint256 amount) external counted {
        if (_now.phase == Phase.Ended) return;
        uint256 out = _sets.poor | (EVERYBODY & ~uint256(_sets.isEnrolled));
        if (out != 0) {
            if (_join(_pick(out, who), MIN_STAKE + amount % 3 ether)) _succeed();
            return;
        }
        _allocate(who % ACTORS, 1 gwei);
        _succeed();
    }

    function leave(uint256 who, uint256 amount) external counted {
        uint256 i = who % ACTORS;
        if (amount % 3 == 0 && _sets.isEnrolled >> i & 1 != 0) {
            vm.prank(actors[i]);
            task.leave();
            _sets.isEnrolled ^= uint8(1 << i);
            _weigh(i);
            return _succeed();
        }
        Stake storage stake = _stakes[i];
        if (stake.bonded == 0) return;
        amount = 1 + amount % stake.bonded;
        vm.prank(actors[i]);
        uint256 number = registry.deallocate(address(task), amount);
        uint256 releaseAt = vm.getBlockTimestamp() + (_now.phase == Phase.Ended ? 0 : UNBONDING);
        _asks.push(Ask(address(task), uint8(i), uint24(number), uint64(releaseAt), amount));
        stake.bonded -= uint128(amount);
        stake.unbonding += uint128(amount);
        if (stake.bonded < MIN_STAKE) _sets.poor |= uint8(1 << i);
        _weigh(i);
        _succeed();
    }

    /// @dev Asks for the stake of a request that is due, or of one that is not.
    function release(uint256 which, uint256 wait) external counted {
        uint256 count = _asks.length;
        if (count == 0) return;
        if (wait % 8 == 0) vm.warp(vm.getBlockTimestamp() + UNBONDING);
        for (uint256 i = 0; i < 4 && i < count; ++i) {
            if (_release((which % count + i) % count)) return _succeed();
        }
    }

    function withdraw(uint256 who, uint256 amount) external counted {
        address actor = actors[who % ACTORS];
        vm.deal(actor, actor.balance + 1 gwei);
        vm.prank(actor);
        registry.deposit{value: 1 gwei}();
        uint256 free = registry.free(actor);
        bool claims = who % ACTORS == REENTRANT;
        uint256 credit = claims ? task.creditOf(actor, new uint64[](0)) : 0;
        vm.prank(actor);
        try registry.withdraw(1 + amount % free, actor) {
            if (who % ACTORS == REJECTING) _found("ether went where it cannot go");
            if (claims) _credits[REENTRANT] -= credit - task.creditOf(actor, new uint64[](0));
            _succeed();
        } catch {
            if (who % ACTORS != REJECTING) _found("free stake is held back");
        }
    }

    function work(uint256 who, uint256 value) external counted {
        _lookAhead(Phase.Train, who);
        if (_work(who, 1 + value % 1000, value % 16 == 0)) _succeed();
    }

    function judge(uint256 who, uint256 taste) external counted {
        _lookAhead(Phase.Score, who);
        if (_judge(who, taste)) _succeed();
    }

    function propose(uint256 who, uint256 lie) external counted {
        _lookAhead(Phase.Propose, who);
        if (_now.phase == Phase.Propose && _propose(lie % 3 == 0 ? _lie(lie) : 0, who)) _succeed();
    }

    function vote(uint256 who, uint256 attests) external counted {
        _lookAhead(Phase.Challenge, who);
        if (_now.phase == Phase.Challenge && _vote(who, attests % 4 != 0)) _succeed();
    }

    function prove(uint256 who, uint256 noted) external counted {
        _lookAhead(Phase.Propose, who);
        if (_now.phase == Phase.Propose) _propose(_lie(noted), who);
        if (_now.phase == Phase.Challenge && _prove(who % ACTORS, noted % 2 == 0)) _succeed();
    }

    /// @dev Lets the phase run out, or ends it early where that is possible.
    function move(uint256 who, uint256 wait) external counted {
        if (_now.phase == Phase.Ended) {
            _renew();
            return _succeed();
        }
        if (wait % 64 == 9) vm.roll(vm.getBlockNumber() + REACH);
        if (wait % 8 == 0) vm.warp(vm.getBlockTimestamp() + PHASE_SECONDS + wait % 10);
        else if (wait % 8 != 7) _finish(who);
        if (wait % 4 != 3) _noteAbsent();
        if (_move(who % ACTORS)) return _succeed();
        if (wait % 8 < 2) return;
        vm.warp(vm.getBlockTimestamp() + PHASE_SECONDS);
        if (_move(who % ACTORS)) _succeed();
    }

    function claim(uint256 who, uint256 twice) external counted {
        for (uint256 i = 0; i < 3; ++i) {
            if (_claim((who % ACTORS + i) % ACTORS, twice % 8 == 0)) return _succeed();
        }
    }

    function end(uint256 what) external counted {
        bool ended = _now.phase == Phase.Ended;
        if (what % 4 == 0) _overreach(what, ended);
        if (ended) {
            _refund();
            _renew();
        } else if (what % 32 == 1) {
            vm.prank(_sponsor);
            try task.abandon() {} catch {}
            _look();
        } else {
            // Whoever destroys itself can send ether where no code takes it.
            forced += what % 1000;
            vm.deal(address(task), address(task).balance + what % 1000);
        }
        _succeed();
    }

    /* WHAT HOLDS */

    /// @dev What the actors can still claim.
    function claimable() external view returns (uint256 sum) {
        uint64[] memory rounds = _list(_settled);
        for (uint256 i = 0; i < ACTORS; ++i) {
            sum += task.creditOf(actors[i], rounds);
        }
    }

    /// @dev What the registry holds for everybody.
    function held() external view returns (uint256 sum) {
        sum = registry.burned() + registry.free(address(task));
        for (uint256 i = 0; i < ACTORS; ++i) {
            sum += registry.free(actors[i]) + _stakeAt(task, i);
            for (uint256 j = 0; j < _ended.length; ++j) {
                sum += _stakeAt(_ended[j], i);
            }
        }
    }

    /* PLAY */

    /// @dev Where one of the two phases before is running, everybody does what it asks for until the goal is reached. So no action
    /// waits long for its turn.
    function _lookAhead(Phase goal, uint256 who) private {
        if (_now.phase == Phase.Ended) return _renew();
        for (uint256 i = 0; i < 2; ++i) {
            if (_now.phase >= goal || uint256(_now.phase) + 2 < uint256(goal)) return;
            if (_now.phase == Phase.Propose) _propose(who % 3 == 0 ? 1 : 0, who);
            else _moveOn(who);
        }
    }

    function _moveOn(uint256 who) private {
        _finish(who);
        if (_move(who % ACTORS)) return;
        vm.warp(vm.getBlockTimestamp() + PHASE_SECONDS);
        _move(who % ACTORS);
    }

    /// @dev Everybody does honestly what the phase asks for.
    function _finish(uint256 seed) private {
        Phase phase = _now.phase;
        if (phase == Phase.Draw) {
            vm.roll(vm.getBlockNumber() + 1);
            for (
                uint256 out = _sets.poor | (EVERYBODY & ~uint256(_sets.isEnrolled));
                out != 0;
                out &= out - 1
            ) {
                _join(_lowest(out), MIN_STAKE);
            }
            vm.roll(vm.getBlockNumber() + 1 + SEED_DELAY);
        } else if (phase == Phase.Train || phase == Phase.Reveal) {
            while (_work(0, 1 + seed % 7, false)) {}
        } else if (phase == Phase.Score || phase == Phase.Tally) {
            while (_judge(0, seed | 1)) {}
        } else if (phase == Phase.Propose) {
            _propose(0, seed);
        } else if (phase == Phase.Challenge) {
            while (_vote(0, true)) {}
        }
    }

    function _join(uint256 i, uint256 amount) private returns (bool) {
        if (_sets.poor >> i & 1 != 0) _allocate(i, amount);
        if (_sets.isEnrolled >> i & 1 != 0) return true;
        vm.prank(actors[i]);
        try task.enrol() {
            _sets.isEnrolled |= uint8(1 << i);
            _weigh(i);
            return true;
        } catch {
            return false;
        }
    }

    function _allocate(uint256 i, uint256 amount) private {
        address actor = actors[i];
        vm.deal(actor, actor.balance + amount);
        vm.prank(actor);
        registry.allocate{value: amount}(address(task), amount);
        _stakes[i].bonded += uint128(amount);
        if (amount >= MIN_STAKE) _sets.poor &= uint8(~(1 << i));
        _weigh(i);
    }

    /// @dev A change of stake or wish counts at once; while a draw is open, it waits for the next change after it.
    function _weigh(uint256 i) private {
        if (_now.phase == Phase.Draw && _drawBlock != 0) return;
        _weights = Books.withLane(_weights, i, _dueWeight(i));
        if (_now.phase == Phase.Draw) _openIfEnough();
    }

    /// @dev Thousandths of the minimum; below it nothing.
    function _dueWeight(uint256 i) private view returns (uint256) {
        uint256 bonded = _stakes[i].bonded;
        return _sets.isEnrolled >> i & 1 != 0 && bonded >= MIN_STAKE ? bonded * 1000 / MIN_STAKE : 0;
    }

    function _openIfEnough() private {
        uint256 needed = COMMITTEE + _minUpdates() + (_isElected ? 0 : 1);
        if (_eligible(0) >= needed) _openDraw();
    }

    /// @dev A committee that was elected too long ago could have taken its stake out by now.
    function _openDraw() private {
        if (vm.getBlockTimestamp() >= _electedAt + UNBONDING) _elected = 0;
        _drawBlock = vm.getBlockNumber() + SEED_DELAY;
    }

    /// @dev How many others weigh something.
    function _eligible(uint256 without) private view returns (uint256 count) {
        for (uint256 i = 0; i < ACTORS; ++i) {
            if (without >> i & 1 == 0 && Books.lane(_weights, i) != 0) ++count;
        }
    }

    function _release(uint256 k) private returns (bool) {
        Ask memory ask = _asks[k];
        bool isHere = ask.at == address(task);
        bool isDue = vm.getBlockTimestamp() >= ask.releaseAt;
        bool isLocked = isHere && _isLocked(ask.actor);
        vm.prank(actors[ask.actor]);
        try registry.release(ask.at, ask.number) returns (uint256 amount) {
            if (!isDue) _found("stake left before its time");
            if (isLocked) _found("locked stake left");
            // Rounding leaves a few wei to the last request.
            if (amount > ask.amount + 1000) _found("more left than was asked for");
            uint256 unbonding = _stakes[ask.actor].unbonding;
            if (isHere && amount > unbonding) _found("more left than there was");
            else if (isHere) _stakes[ask.actor].unbonding = uint128(unbonding - amount);
            _asks[k] = _asks[_asks.length - 1];
            _asks.pop();
            return true;
        } catch {
            if (isDue && !isLocked) _found("stake is held back");
            return false;
        }
    }

    /// @dev Whether the round can still take its stake, or a draw counts with it.
    function _isLocked(uint256 i) private view returns (bool) {
        if (_now.phase == Phase.Ended) return false;
        if (Books.lane(_weights, i) > _dueWeight(i)) return true;
        uint256 holds = _sets.committee | _sets.line | _sets.committed;
        // An election holds nobody before its draw opens; in later phases it is for the next round.
        if (_now.phase == Phase.Draw && _drawBlock != 0) holds |= _actorsOf(_elected);
        return holds >> i & 1 != 0;
    }

    /// @dev Whoever trains and did not commit is noted, once a round; the third time in a row it is out.
    function _noteAbsent() private {
        if (_now.phase < Phase.Reveal || _now.phase == Phase.Ended) return;
        for (uint256 i = 0; i < ACTORS; ++i) {
            uint32[] memory ids = new uint32[](1);
            ids[0] = uint32(i + 1);
            bool isAbsent = _isAbsent(i);
            try task.noteAbsent(_now.round, ids) {
                if (!isAbsent) _found("somebody was noted who is not absent");
                _notedIn[i] = _now.round;
                if (++_missed[i] < MOST_MISSED) continue;
                _missed[i] = 0;
                _sets.isEnrolled &= uint8(~(1 << i));
                _weigh(i);
            } catch {
                if (isAbsent) _found("an absence cannot be noted");
            }
        }
    }

    function _isAbsent(uint256 i) private view returns (bool) {
        if ((_sets.committed | _sets.committee) >> i & 1 != 0 || _notedIn[i] == _now.round) return false;
        AccountView memory a = task.account(actors[i]);
        return _sets.seated >> i & 1 != 0 && a.weight != 0 && a.activeFrom <= _now.round;
    }

    /// @dev Somebody who still can commits or opens an update. A copy is somebody else's seal, which cannot be opened.
    function _work(uint256 who, uint256 value, bool copies) private returns (bool) {
        if (_now.phase == Phase.Train) {
            uint256 open = _sets.trainers & ~uint256(_sets.committed);
            return open != 0 && _commit(_pick(open, who), value, copies);
        }
        if (_now.phase != Phase.Reveal) return false;
        uint256 sealed_ = _sets.committed & ~uint256(_sets.revealed | _sets.copied);
        if (_sets.copied != 0 && who % 4 == 0) _openCopy(_lowest(_sets.copied));
        return sealed_ != 0 && _open(_pick(sealed_, who));
    }

    function _commit(uint256 i, uint256 value, bool copies) private returns (bool) {
        copies = copies && _sets.committed != 0;
        bytes32 digest;
        if (copies) {
            uint256 victim = _lowest(_sets.committed);
            digest = _digests[victim];
            value = _valueOf(victim);
        } else {
            value = BIAS + 10 * value + i;
            digest = _seal(Phase.Train, actors[i], _payload(_root(_filled(value))));
        }
        vm.prank(actors[i]);
        try task.commitUpdate(_now.round, digest) {
            _digests[i] = digest;
            _values = Books.withLane(_values, i, value);
            _sets.committed |= uint8(1 << i);
            _missed[i] = 0;
            if (copies) _sets.copied |= uint8(1 << i);
            return true;
        } catch {
            // Whoever left since the draw cannot train.
            _sets.trainers &= uint8(~(1 << i));
            return false;
        }
    }

    function _open(uint256 i) private returns (bool) {
        bytes32 root = _root(_filled(_valueOf(i)));
        vm.prank(actors[i]);
        try task.revealUpdate(_now.round, root, SALT, 100, SALT) {
            _sets.revealed |= uint8(1 << i);
            return true;
        } catch {
            // Only the deadline can stop it.
            if (vm.getBlockTimestamp() < _now.deadline) _found("a commitment cannot be opened");
            return false;
        }
    }

    function _openCopy(uint256 i) private {
        bytes32 root = _root(_filled(_valueOf(i)));
        vm.prank(actors[i]);
        try task.revealUpdate(_now.round, root, SALT, 100, SALT) {
            _found("a copied commitment was opened");
        } catch {}
    }

    function _judge(uint256 who, uint256 taste) private returns (bool) {
        if (_now.phase == Phase.Score) {
            uint256 open = _sets.committee & ~uint256(_sets.scored);
            if (_isElected) open &= _sets.revealed;
            return open != 0 && _score(_pick(open, who), taste);
        }
        uint256 sealed_ = _sets.scored & ~uint256(_sets.shown);
        return _now.phase == Phase.Tally && sealed_ != 0 && _show(_pick(sealed_, who));
    }

    function _score(uint256 i, uint256 taste) private returns (bool) {
        bytes32 payload = keccak256(abi.encode(task.rootsHash(), _vector(taste)));
        bytes32 digest = _seal(Phase.Score, actors[i], payload);
        vm.prank(actors[i]);
        try task.commitScores(_now.round, digest) {
            _tastes[i] = taste;
            _sets.scored |= uint8(1 << i);
            return true;
        } catch {
            return false;
        }
    }

    function _show(uint256 i) private returns (bool) {
        bytes memory vector = _vector(_tastes[i]);
        vm.prank(actors[i]);
        try task.revealScores(_now.round, vector, SALT) {
            _sets.shown |= uint8(1 << i);
            return true;
        } catch {
            if (vm.getBlockTimestamp() < _now.deadline) _found("scores cannot be opened");
            return false;
        }
    }

    function _propose(uint256 lie, uint256 choice) private returns (bool) {
        uint32[] memory posted = _isAttested ? _choose(choice) : new uint32[](0);
        uint256 value = _aggregate() + lie;
        bytes32 root = _root(value);
        vm.prank(actors[_sets.proposer]);
        try task.propose(_now.round, _now.attempt, root, SALT, posted) {
            (_proposed, _proposedRoot) = (value, root);
            if (_isAttested) _sharesDigest = keccak256(abi.encodePacked(posted));
            _look();
            return true;
        } catch {
            if (vm.getBlockTimestamp() < _now.deadline) _found("the proposer cannot propose");
            return false;
        }
    }

    function _vote(uint256 who, bool attests) private returns (bool) {
        uint256 voters = _voters() & ~uint256(_sets.voted);
        uint256 barred = _sets.committee & _sets.convicted;
        if (barred != 0 && who % 4 == 3 && _cast(_lowest(barred), attests)) _found("the convicted voted");
        if (voters == 0) return false;
        uint256 i = _pick(voters, who);
        if (!_cast(i, attests)) return false;
        _sets.voted |= uint8(1 << i);
        if (attests) _sets.attested |= uint8(1 << i);
        return true;
    }

    function _cast(uint256 i, bool attests) private returns (bool done) {
        bytes4 name = attests ? ITrainingTask.attest.selector : ITrainingTask.object.selector;
        bytes memory data =
            abi.encodeWithSelector(name, _now.round, _now.attempt, _proposedRoot, SALT, _sharesDigest);
        vm.prank(actors[i]);
        (done,) = address(task).call(data);
    }

    function _prove(uint256 i, bool notes) private returns (bool) {
        (uint64 round, uint8 attempt) = (_now.round, _now.attempt);
        uint256 truth = _aggregate();
        bool lied = _proposed != truth;
        // Behind the last parameter the proposal's leaf speaks for itself.
        bool atPadding = _proposed & LANE == truth & LANE && (lied || i % 2 == 1);
        uint64 position = atPadding ? PADDING : POSITION;
        bytes memory evidence = _leaf(_proposed);
        if (!atPadding || (!lied && i % 4 == 3)) evidence = bytes.concat(evidence, _items());
        if (notes) _note(i, position);
        vm.prank(actors[i]);
        try task.prove(round, attempt, position, evidence, SALT) {
            if (!lied) _found("an honest proposal was convicted");
            uint256 guilty = _sets.attested | 1 << _sets.proposer;
            _sets.convicted |= uint8(guilty);
            _expectSlashed(guilty, LIE);
            for (; guilty != 0; guilty &= guilty - 1) {
                _weigh(_lowest(guilty));
            }
            _look();
            return true;
        } catch {
            if (lied) _found("a lie could not be proven");
            return false;
        }
    }

    /// @dev So the finder's part is the actor's: whoever reads its proof comes a block too late.
    function _note(uint256 i, uint64 position) private {
        bytes32 note = keccak256(
            abi.encode(block.chainid, address(task), _now.round, _now.attempt, position, actors[i], SALT)
        );
        vm.prank(actors[i]);
        try task.noteFinding(note) {} catch {}
        vm.roll(vm.getBlockNumber() + 1);
    }

    /// @dev Moves the round on if that is possible, and holds the books against what it did.
    function _move(uint256 i) private returns (bool done) {
        Now memory before = _now;
        if (before.phase == Phase.Ended) return false;
        bytes memory data;
        if (before.phase == Phase.Draw) {
            data = abi.encodeCall(ITrainingTask.draw, (_seedHeader(i)));
        } else if (before.phase == Phase.Tally) {
            data = abi.encodeCall(ITrainingTask.tally, (before.round, _vectors()));
        } else {
            data = abi.encodeCall(ITrainingTask.advance, (before.round));
        }
        vm.prank(actors[i]);
        (done,) = address(task).call(data);
        if (!done) return false;

        (uint256 guilty, uint256 share) = _negligent(before.phase);
        uint256 withheld = before.phase == Phase.Tally ? _withheld() : 0;
        // A member of a training committee that did not open its own update cannot score: nobody waits for it.
        uint256 awaited = _isElected && before.phase == Phase.Score ? guilty & _sets.revealed : guilty;
        if (awaited != 0 || before.phase == Phase.Challenge) {
            if (vm.getBlockTimestamp() < before.deadline) _found("a phase ended before its time");
        }
        _expectSlashed(guilty | withheld, share);
        if (before.phase == Phase.Tally) _expectTally();
        if (before.phase == Phase.Challenge) {
            _sets.absent |= uint8(guilty);
            _expectMajority();
        }
        _look();
        if (_now.phase != before.phase || _now.round != before.round || _now.attempt != before.attempt) {
            _credits[i] += CALLER_FEE;
        } else if (before.phase == Phase.Draw) {
            if (vm.getBlockNumber() <= _drawBlock + REACH) _found("a draw was put off");
            _openDraw();
        }
    }

    /// @dev The header of the block that seeds the draw, once that block is in the past; now and then another one is tried first.
    function _seedHeader(uint256 i) private returns (bytes memory header) {
        uint256 at = _drawBlock;
        header = Headers.header(at);
        uint256 number = vm.getBlockNumber();
        if (at == 0 || number <= at || number > at + REACH) return header;
        vm.setBlockhash(at, keccak256(header));
        if (i % 4 != 0) return header;
        try task.draw(Headers.header(at + 1)) {
            _found("a draw from another header");
        } catch {}
    }

    /// @dev Whose updates a majority of the committee says it could not get.
    function _withheld() private view returns (uint256) {
        uint256 said = _count(_sets.shown);
        if (said < MAJORITY) return 0;
        uint256 order = _order();
        uint256 indices = 0;
        for (uint256 k = 0; k < _count(order); ++k) {
            if (said - _column(k).length >= MAJORITY) indices |= 1 << k;
        }
        return _actorsAt(order, indices);
    }

    /// @dev Who left undone what the phase asked of it, and what that costs.
    function _negligent(Phase phase) private view returns (uint256, uint256) {
        if (phase == Phase.Reveal) return (_sets.committed & ~uint256(_sets.revealed), NO_REVEAL);
        if (phase == Phase.Score) return (_sets.committee & ~uint256(_sets.scored), LIVENESS);
        if (phase == Phase.Tally) return (_sets.scored & ~uint256(_sets.shown), NO_REVEAL);
        if (phase == Phase.Propose) return (1 << _sets.proposer, LIVENESS);
        if (phase == Phase.Challenge) return (_voters() & ~uint256(_sets.voted), LIVENESS);
        return (0, 0);
    }

    function _claim(uint256 i, bool twice) private returns (bool) {
        address actor = actors[i];
        uint256 open = _settled & ~_claimed[i];
        uint64[] memory rounds = _list(open);
        uint256 due = task.creditOf(actor, rounds);
        if (due != _credits[i]) _found("another pay than is due");
        if (due == 0) return false;
        if (twice && rounds.length != 0) rounds = _withRepeat(rounds);
        uint256 had = actor.balance;
        vm.prank(actor);
        try task.claim(rounds) returns (uint256 amount) {
            if (i == REJECTING) _found("ether went where it cannot go");
            if (amount != due || actor.balance < had + amount) _found("paid something else");
            if (task.creditOf(actor, rounds) != 0) _found("could be paid twice");
            _claimed[i] |= open;
            _credits[i] = 0;
            return true;
        } catch {
            if (i != REJECTING && !twice) _found("what is due is held back");
            return false;
        }
    }

    /// @dev What the terms let nobody do.
    function _overreach(uint256 what, bool ended) private {
        vm.prank(actors[what % ACTORS]);
        try task.abandon() {
            _found("a stranger abandoned the task");
        } catch {}
        vm.prank(ended ? actors[what % ACTORS] : _sponsor);
        try task.refund() {
            _found("escrow left before its time");
        } catch {}
    }

    function _refund() private {
        uint256 escrow = task.escrow();
        uint256 had = _sponsor.balance;
        vm.prank(_sponsor);
        try task.refund() {
            if (_sponsor.balance != had + escrow) _found("refunded something else");
        } catch {
            if (escrow != 0) _found("a refund was refused");
        }
    }

    /* TRUTH */

    /// @dev Reads where the task stands, and what the roles of a new round or attempt are.
    function _look() private {
        Now memory before = _now;
        PlaceView memory p = task.place();
        _now = Now(p.round, p.deadline, p.attempt, p.phase, p.updates);
        if (p.phase == Phase.Ended || p.round != before.round) _closeRound(before, p.phase == Phase.Ended);
        if (p.phase == before.phase && p.attempt == before.attempt) return;
        if (p.phase == Phase.Train) return _seat(p.limited);
        if (p.phase == Phase.Propose) {
            _sets.proposer = uint8(task.currentProposer() - 1);
            (_sets.voted, _sets.attested) = (0, 0);
        }
    }

    function _closeRound(Now memory before, bool ended) private {
        if (ended && before.phase == Phase.Ended) return;
        if (before.phase >= Phase.Tally) {
            _settled |= 1 << before.round;
            _pay();
        }
        if (!_sets.carried || before.round % REDRAW == 0) _elected = 0;
        (uint8 isEnrolled, uint8 poor) = (_sets.isEnrolled, _sets.poor);
        delete _sets;
        (_sets.isEnrolled, _sets.poor) = (isEnrolled, poor);
        _drawBlock = 0;
        _openIfEnough();
    }

    /// @dev Who sits where. Ids follow the order in which the actors enrolled: actor i has id i + 1.
    function _seat(bool limited) private {
        uint32[] memory members = task.committee();
        uint32[] memory line = task.proposers();
        uint32[] memory workers = task.workers();
        _expectDraw(_packed(members), _packed(line), _packed(workers), limited);
        uint256 committee = _setOf(members);
        uint256 trainers = EVERYBODY;
        if (limited) {
            trainers = _setOf(workers);
            trainers |= _isElected ? committee : _setOf(line);
        }
        if (!_isElected) trainers &= ~(committee | 1 << (line[0] - 1));
        (_sets.committee, _sets.trainers, _sets.line) =
        (uint8(committee), uint8(trainers), uint8(_setOf(line)));
        _sets.seated = uint8(trainers);
        if (_count(committee) != COMMITTEE) _found("a committee of the wrong size");
    }

    /// @dev Seed and stakes leave no choice who is drawn.
    function _expectDraw(uint256 members, uint256 line, uint256 workers, bool limited) private {
        bytes32 seed =
            keccak256(abi.encode(block.chainid, address(task), _now.round, Headers.mixHash(_drawBlock)));
        uint256 first = _elected == 0 ? COMMITTEE : 0;
        uint256 taken = _actorsOf(_elected);
        uint256 others = _eligible(taken) - first;
        uint256 room = _maxUpdates();
        uint256 seated = 0;
        if (!_isElected) {
            // The miner does not train, two backups do.
            seated = others < 3 ? others : 3;
            room -= seated - 1;
            others -= seated;
        }
        uint256 drawn = Books.draw(seed, _weights, taken, first + seated + (others > room ? room : 0));
        uint256 committee = _elected == 0 ? drawn & ((1 << 8 * COMMITTEE) - 1) : _elected;
        drawn >>= 8 * first;
        uint256 proposers = _isElected ? Books.byLot(seed, committee) : drawn & ((1 << 8 * seated) - 1);
        drawn >>= 8 * seated;
        if (members != committee || line != proposers || workers != drawn || limited != others > room) {
            _found("another draw than seed and stakes give");
        }
        _elected = 0;
    }

    /// @dev Exactly the guilty lose exactly their share, out of what is bonded and unbonding; nobody else loses anything.
    function _expectSlashed(uint256 guilty, uint256 share) private {
        uint8 poor = _sets.poor;
        for (uint256 i = 0; i < ACTORS; ++i) {
            Stake memory stake = _stakes[i];
            Allocation memory found = registry.allocation(address(task), actors[i]);
            if (guilty >> i & 1 != 0) {
                uint256 whole = uint256(stake.bonded) + stake.unbonding;
                uint256 amount = whole * share / WAD;
                uint256 fromUnbonding = amount == 0 ? 0 : stake.unbonding * amount / whole;
                stake.unbonding -= uint128(fromUnbonding);
                stake.bonded -= uint128(amount - fromUnbonding);
                _stakes[i] = stake;
                if (stake.bonded < MIN_STAKE) poor |= uint8(1 << i);
                if (amount != 0) _weights = Books.withLane(_weights, i, _dueWeight(i));
            }
            if (found.bonded != stake.bonded || found.unbonding != stake.unbonding) {
                _found("another slash than is due");
            }
        }
        _sets.poor = poor;
    }

    /// @dev A proposal becomes the head by a majority of those who may vote, and by nothing else.
    function _expectMajority() private {
        bool carried = _count(_sets.attested) >= _count(_voters()) / 2 + 1;
        bool isHead = task.headRoot() == _proposedRoot;
        if (carried && !isHead) _found("a carried proposal is not the head");
        _sets.carried = carried;
        if (carried) (_older, _head) = (_head, _proposed);
        else if (isHead && _head != _proposed) _found("a minority made the head");
    }

    /// @dev Included is what a majority of the committee vouched for; shares, the next committee and whether there are any follow.
    function _expectTally() private {
        (bool[] memory included, uint32[] memory shares) = task.tallied();
        uint256 order = _order();
        uint256 count = _count(order);
        if (_count(_sets.shown) < MAJORITY) {
            if (included.length != 0) _found("a minority decided");
            return;
        }
        bool isLost = _isHeadLost();
        uint256[] memory statistics = new uint256[](count);
        uint256 chosen = 0;
        for (uint256 k = 0; k < count; ++k) {
            uint256[] memory scores = _column(k);
            if (scores.length < MAJORITY) continue;
            chosen |= 1 << k;
            statistics[k] = Books.statistic(scores, _isMean(), COMMITTEE);
        }
        _sets.included = uint8(_actorsAt(order, chosen));
        _sets.formed = _count(chosen) >= _minUpdates();
        _judgeJudges(statistics, chosen);
        bool goesOn = _sets.formed && !isLost;
        if (_flags(included) != (goesOn ? chosen : 0)) _found("included against the majority");
        if (!_sets.formed || _isAttested) return;

        uint256 due = _headShare() | _dueShares(statistics, chosen);
        if (goesOn) _keepShares(shares);
        else _shares = due;
        if (_shares != due) _found("other shares than are due");
        if (_isElected && goesOn) _elect(statistics, chosen, order);
    }

    /// @dev A majority that cannot get the head goes back to the one before it, once.
    function _isHeadLost() private returns (bool) {
        uint256 without = 0;
        for (uint256 members = _sets.shown; members != 0; members &= members - 1) {
            if (_hasNoHead(_tastes[_lowest(members)])) ++without;
        }
        if (without < MAJORITY || _older == 0) return false;
        (_head, _older) = (_older, 0);
        if (task.headRoot() != _root(_head)) _found("the older head is not the head");
        return true;
    }

    /// @dev What those gave the update who vouch for it.
    function _column(uint256 k) private view returns (uint256[] memory scores) {
        scores = new uint256[](_count(_sets.shown));
        uint256 n = 0;
        for (uint256 members = _sets.shown; members != 0; members &= members - 1) {
            uint256 taste = _tastes[_lowest(members)];
            if (_vouches(taste, k)) scores[n++] = _worth(taste, k);
        }
        assembly ("memory-safe") {
            mstore(scores, n)
        }
    }

    /// @dev How far each member's scores are from the committee's.
    function _judgeJudges(uint256[] memory statistics, uint256 chosen) private {
        for (uint256 members = _sets.shown; members != 0; members &= members - 1) {
            uint256 taste = _tastes[_lowest(members)];
            uint256 sum = 0;
            for (uint256 k = 0; k < statistics.length; ++k) {
                if (chosen >> k & 1 == 0) continue;
                uint256 gap = _vouches(taste, k) ? Books.gap(_worth(taste, k), statistics[k]) : DEV_CAP;
                sum += gap < DEV_CAP ? gap : DEV_CAP;
            }
            _deviations[_lowest(members)] = chosen == 0 ? 0 : sum / _count(chosen);
        }
    }

    /// @dev Softmax; equal parts of the nearer half; equal parts of all ranks but the first and the last.
    function _dueShares(uint256[] memory statistics, uint256 chosen) private view returns (uint256) {
        uint256 amount = TOTAL - _headShare();
        if (_rule == Rule.Softmax) return Books.softmax(statistics, chosen, BETA, amount);
        uint256 count = _count(chosen);
        if (_isOnRanks) return Books.equal((1 << (count - 1)) - 2, amount);
        uint256 order = Books.ranking(statistics, chosen);
        uint256 nearer = 0;
        for (uint256 i = 0; i < count / 2; ++i) {
            nearer |= 1 << (order >> 8 * i & 0xff);
        }
        return Books.equal(nearer, amount);
    }

    /// @dev The middle of the ranking, of those who still weigh something.
    function _elect(uint256[] memory statistics, uint256 chosen, uint256 order) private {
        uint256 ranking = Books.ranking(statistics, chosen);
        uint256 electable = 0;
        uint256 ids = 0;
        for (uint256 i = 0; i < _count(chosen); ++i) {
            uint256 actor = _lowest(_actorsAt(order, 1 << (ranking >> 8 * i & 0xff)));
            if (Books.lane(_weights, actor) != 0) ids |= (actor + 1) << 8 * electable++;
        }
        if (electable >= COMMITTEE) {
            _elected = ids >> 8 * ((electable - COMMITTEE) / 2) & ((1 << 8 * COMMITTEE) - 1);
            _electedAt = vm.getBlockTimestamp();
        }
        if (_packed(task.elected()) != _elected) _found("another committee was elected");
    }

    /// @dev What the round that ended owes to whom.
    function _pay() private {
        Sets memory sets = _sets;
        bool byShares = sets.formed && !_isOnRanks && (!_isAttested || sets.carried);
        uint256 k = 0;
        for (uint256 left = _order(); left != 0; left &= left - 1) {
            ++k;
            uint256 i = _lowest(left);
            if ((sets.included & ~sets.convicted) >> i & 1 == 0) continue;
            _credits[
                i
            ] += byShares
                ? FOR_WORKERS * Books.lane(_shares, k) / (TOTAL - _headShare())
                : FOR_WORKERS / (sets.formed ? _count(sets.included) : _minUpdates());
        }
        uint256 paid = sets.shown;
        if (sets.formed) paid &= ~uint256(sets.convicted | sets.absent);
        uint256 sum = 0;
        for (uint256 left = paid; left != 0; left &= left - 1) {
            sum += _deviations[_lowest(left)];
        }
        for (uint256 left = paid; left != 0; left &= left - 1) {
            uint256 i = _lowest(left);
            _credits[
                i
            ] += sets.formed
                ? Books.ofValidator(FOR_COMMITTEE, _deviations[i], sum, _count(paid))
                : FOR_COMMITTEE / COMMITTEE;
        }
        if (sets.carried) _credits[sets.proposer] += BUDGET - FOR_WORKERS - FOR_COMMITTEE;
    }

    function _keepShares(uint32[] memory shares) private {
        uint256 sum = 0;
        uint256 packed = 0;
        for (uint256 i = 0; i < shares.length; ++i) {
            sum += shares[i];
            packed |= uint256(shares[i]) << 32 * i;
        }
        if (sum != TOTAL) _found("shares do not sum to 2^31");
        _shares = packed;
    }

    /// @dev Krum's proposer posts the one that it chose; which one is the committee's to judge.
    function _choose(uint256 choice) private returns (uint32[] memory shares) {
        uint256 order = _order();
        shares = new uint32[](_count(order) + 1);
        shares[0] = uint32(_headShare());
        uint256 winner = _pick(_sets.included, choice);
        shares[1 + _count(order & ((1 << winner) - 1))] = uint32(TOTAL - _headShare());
        _keepShares(shares);
    }

    function _voters() private view returns (uint256 voters) {
        voters = _sets.committee & ~uint256(_sets.convicted);
        if (_isElected) voters &= ~(1 << _sets.proposer);
    }

    /// @dev The updates that count, in index order: those of a training committee do not.
    function _order() private view returns (uint256) {
        return _sets.revealed & ~uint256(_sets.committee);
    }

    /* MODELS AND SCORES */

    /// @dev The right next model.
    function _aggregate() private view returns (uint256) {
        uint256 shares = _shares;
        uint256 sum = (1 << 30) + (shares & LANE) * (_head & LANE);
        for (uint256 left = _isOnRanks ? _sets.included : _order(); left != 0;) {
            uint256 next = _isOnRanks ? _smallest(left) : _lowest(left);
            left &= ~(1 << next);
            shares >>= 32;
            sum += (shares & LANE) * _valueOf(next);
        }
        return sum >> 31 | BIAS << 32;
    }

    /// @dev What to add to a model: to its parameters, or to the padding.
    function _lie(uint256 choice) private pure returns (uint256) {
        return choice % 5 == 4 ? 1 << 32 : 1 + choice % 5;
    }

    /// @dev The leaves of those with a part in the next model.
    function _items() private view returns (bytes memory items) {
        uint256 shares = _shares;
        if (shares & LANE != 0) items = _leaf(_head);
        for (uint256 left = _isOnRanks ? _sets.included : _order(); left != 0; left &= left - 1) {
            shares >>= 32;
            if (_isOnRanks || shares & LANE != 0) {
                items = bytes.concat(items, _leaf(_filled(_valueOf(_lowest(left)))));
            }
        }
    }

    function _smallest(uint256 set) private view returns (uint256 best) {
        best = _lowest(set);
        for (uint256 left = set; left != 0; left &= left - 1) {
            if (_valueOf(_lowest(left)) < _valueOf(best)) best = _lowest(left);
        }
    }

    function _valueOf(uint256 i) private view returns (uint256) {
        return Books.lane(_values, i);
    }

    /// @dev An update, with junk in the padding.
    function _filled(uint256 value) private pure returns (uint256) {
        return value | value << 32;
    }

    function _root(uint256 model) private pure returns (bytes32) {
        return sha256(bytes.concat(hex"00", _leaf(model)));
    }

    function _leaf(uint256 model) private pure returns (bytes memory) {
        uint256 ones = 0x00000001000000010000000100000001;
        uint256 half = (model & LANE) * ones;
        uint256 word = half << 128 | half;
        return abi.encode(word, word, word, word, word, word, word, half << 128 | (model >> 32) * ones);
    }

    function _payload(bytes32 root) private pure returns (bytes32) {
        return keccak256(abi.encode(root, SALT, uint64(100)));
    }

    /// @dev One validator in two vouches for everything, the others leave out one update in four.
    function _vouches(uint256 taste, uint256 k) private pure returns (bool) {
        return taste & 1 != 0 || taste >> (8 + 2 * k) & 3 != 0;
    }

    /// @dev One validator in eight could not get the head.
    function _hasNoHead(uint256 taste) private pure returns (bool) {
        return taste & 0xe == 0xe;
    }

    /// @dev Between 1 and 3 where losses count in 10^-12.
    function _scoreOf(uint256 taste, uint256 k) private pure returns (uint256) {
        return 1e12 + (taste >> (64 + 40 * k)) % 2e12;
    }

    /// @dev A score as statistics count it. A bit has no value.
    function _worth(uint256 taste, uint256 k) private view returns (uint256) {
        if (_rule > Rule.CommitteeFar) return 0;
        return _isElected ? _scoreOf(taste, k) : _scoreOf(taste, k) * 1e6;
    }

    /// @dev The head's loss, then one entry per update in the rule's form.
    function _vector(uint256 taste) private view returns (bytes memory scores) {
        uint256 count = _now.updates;
        scores = abi.encodePacked(_hasNoHead(taste) ? type(uint64).max : uint64(1e12));
        if (_rule > Rule.CommitteeFar) {
            uint256 bits = 0;
            for (uint256 k = 0; k < count; ++k) {
                if (_vouches(taste, k)) bits |= 1 << k;
            }
            return count == 0 ? scores : bytes.concat(scores, bytes1(uint8(bits)));
        }
        for (uint256 k = 0; k < count; ++k) {
            uint256 loss = _vouches(taste, k) ? _scoreOf(taste, k) : type(uint256).max;
            if (_isElected) scores = bytes.concat(scores, bytes16(uint128(loss)));
            else scores = bytes.concat(scores, bytes8(uint64(loss)));
        }
    }

    /// @dev All revealed scores, in the order of the committee.
    function _vectors() private view returns (bytes[] memory vectors) {
        uint32[] memory members = task.committee();
        uint256 n = 0;
        vectors = new bytes[](_count(_sets.shown));
        for (uint256 j = 0; j < members.length; ++j) {
            uint256 i = members[j] - 1;
            if (_sets.shown >> i & 1 != 0) vectors[n++] = _vector(_tastes[i]);
        }
    }

    function _seal(Phase phase, address actor, bytes32 payload) private view returns (bytes32) {
        return
            keccak256(
                abi.encode(block.chainid, address(task), _taskId, _now.round, phase, actor, payload, SALT)
            );
    }

    /* SMALL THINGS */

    /// @dev The first finding stays: others often follow from it.
    function _found(string memory what) private {
        if (bytes(violation).length == 0) violation = what;
    }

    function _succeed() private {
        ++successes[msg.sig];
    }

    /// @dev A member of a set that is not empty: the first at or after `who`.
    function _pick(uint256 set, uint256 who) private pure returns (uint256) {
        uint256 from = set >> who % ACTORS << who % ACTORS;
        return _lowest(from == 0 ? set : from);
    }

    function _lowest(uint256 set) private pure returns (uint256 i) {
        while (set >> i & 1 == 0) ++i;
    }

    function _count(uint256 set) private pure returns (uint256 n) {
        for (; set != 0; set &= set - 1) {
            ++n;
        }
    }

    function _setOf(uint32[] memory ids) private pure returns (uint256 set) {
        for (uint256 i = 0; i < ids.length; ++i) {
            set |= 1 << (ids[i] - 1);
        }
    }

    function _packed(uint32[] memory ids) private pure returns (uint256 packed) {
        for (uint256 i = 0; i < ids.length; ++i) {
            packed |= uint256(ids[i]) << 8 * i;
        }
    }

    /// @dev The set of actors with these ids.
    function _actorsOf(uint256 ids) private pure returns (uint256 set) {
        for (; ids != 0; ids >>= 8) {
            set |= 1 << ((ids & 0xff) - 1);
        }
    }

    /// @dev The set of actors whose updates have these indices.
    function _actorsAt(uint256 order, uint256 indices) private pure returns (uint256 set) {
        for (; indices != 0; indices >>= 1) {
            if (indices & 1 != 0) set |= 1 << _lowest(order);
            order &= order - 1;
        }
    }

    function _flags(bool[] memory flags) private pure returns (uint256 set) {
        for (uint256 i = 0; i < flags.length; ++i) {
            if (flags[i]) set |= 1 << i;
        }
    }

    function _list(uint256 set) private pure returns (uint64[] memory rounds) {
        rounds = new uint64[](_count(set));
        uint256 n = 0;
        for (; set != 0; set &= set - 1) {
            rounds[n++] = uint64(_lowest(set));
        }
    }

    function _withRepeat(uint64[] memory rounds) private pure returns (uint64[] memory more) {
        more = new uint64[](rounds.length + 1);
        for (uint256 i = 0; i < rounds.length; ++i) {
            more[i] = rounds[i];
        }
        more[rounds.length] = rounds[0];
    }

    function _stakeAt(ITrainingTask at, uint256 i) private view returns (uint256) {
        Allocation memory stake = registry.allocation(address(at), actors[i]);
        return uint256(stake.bonded) + stake.unbonding;
    }

    function _minUpdates() private view returns (uint256) {
        return _rule == Rule.Softmax ? 2 : 3;
    }

    function _maxUpdates() private view returns (uint256) {
        return _rule == Rule.Softmax ? 3 : 4;
    }

    /// @dev Every other task goes by the mean, the others by the median.
    function _isMean() private view returns (bool) {
        return _taskId % 2 == 0;
    }

    function _headShare() private pure returns (uint256) {
        return TOTAL - 0.9e18 * TOTAL / WAD;
    }

    function _renew() private {
        if (address(task) != address(0)) _ended.push(task);
        TaskConfig memory terms = _terms();
        vm.deal(_sponsor, ESCROW);
        vm.prank(_sponsor);
        (uint64 taskId, address made) = _factory.createTask{value: ESCROW}(terms);
        (task, _taskId) = (ITrainingTask(made), taskId);
        ReentrantActor(payable(actors[REENTRANT])).join(task);
        delete _sets;
        delete _stakes;
        delete _claimed;
        delete _credits;
        (forced, _settled, _head, _sharesDigest) = (0, 0, _filled(BIAS), 0);
        (_weights, _drawBlock, _elected, _older) = (0, 0, 0, 0);
        delete _missed;
        delete _notedIn;
        _sets.poor = uint8(EVERYBODY);
        delete _now;
        _now.round = 1;
        for (uint256 i = 0; i < ACTORS; ++i) {
            _join(i, MIN_STAKE + i * 0.3 ether);
        }
        _look();
    }

    function _terms() private view returns (TaskConfig memory c) {
        c.firstRoot = _root(_filled(BIAS));
        c.dimension = 60;
        c.scale = 20;
        c.rule = _rule;
        // The number of the task before: the next one is what `_isMean` will see.
        c.statistic = _taskId % 2 == 0 ? Statistic.Median : Statistic.Mean;
        (c.beta, c.alpha, c.keep) = (uint128(BETA), 0.9e18, 0.5e18);
        c.tolerated = _rule == Rule.FedRob ? 1 : 0;
        (c.committeeSize, c.redrawEvery) = (uint8(COMMITTEE), uint64(REDRAW));
        (c.minUpdates, c.maxUpdates) = (uint8(_minUpdates()), uint8(_maxUpdates()));
        c.maxSamples = 10_000;
        (c.rounds, c.minStake) = (8, uint128(MIN_STAKE));
        (c.trainSeconds, c.revealSeconds, c.scoreSeconds) = (60, 60, 60);
        (c.tallySeconds, c.proposeSeconds, c.challengeSeconds) = (60, 60, 60);
        (c.workersPart, c.committeePart) = (0.6e18, 0.3e18);
        (c.callerFee, c.devCap) = (uint128(CALLER_FEE), uint128(DEV_CAP));
        (c.lieSlash, c.livenessSlash, c.noRevealSlash) = (uint64(LIE), uint64(LIVENESS), uint64(NO_REVEAL));
        (c.finderPart, c.burnPart) = (0.2e18, 0.5e18);
    }
}
