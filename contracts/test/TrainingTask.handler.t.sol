// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Allocation, IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {ITrainingTask, Phase, PlaceView, TaskConfig} from "../src/interfaces/ITrainingTask.sol";
import {Vm} from "./Base.t.sol";

/// @notice A participant that answers ether by claiming and withdrawing again.
contract ReentrantActor {
    ITrainingTask private _task;
    IStakeRegistry private immutable _registry;

    constructor(IStakeRegistry registry) {
        _registry = registry;
    }

    receive() external payable {
        try _task.claim(new uint64[](0)) {} catch {}
        try _registry.withdraw(msg.value, address(this)) {} catch {}
        try _task.refund() {} catch {}
    }

    function join(ITrainingTask task) external {
        _task = task;
    }
}

/// @notice A participant that cannot take ether.
contract RejectingActor {}

/// @notice Plays random participants against factory, registry and task: six people, a contract that starts over whenever it is
/// paid and one that rejects ether. Models are constant vectors of 64 parameters, so that a model is a number.
contract TrainingTaskHandler {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint256 public constant ACTORS = 8;
    uint256 private constant ESCROW = 0.4 ether;
    bytes32 private constant SALT = bytes32(uint256(7));
    uint256 private constant BIAS = 1 << 31;

    ITaskFactory private immutable _factory;
    IStakeRegistry public immutable registry;
    address public immutable sponsor = address(uint160(0x5b0));
    ITrainingTask public task;
    ITrainingTask[] private _ended;
    address[ACTORS] public actors;

    /// What was found that must never be.
    string public violation;
    uint256 public forced;
    mapping(bytes4 action => uint256) public calls;
    mapping(bytes4 action => uint256) public successes;

    mapping(bytes32 root => uint256) private _values;
    mapping(address actor => uint256) private _losses;
    /// Who did what the phase asks for, and who committed in the phase before.
    mapping(uint256 place => mapping(address actor => bool)) private _acted;
    mapping(bytes32 root => bool) private _lies;
    uint256 private _lastPlace;

    constructor(ITaskFactory factory) {
        _factory = factory;
        registry = IStakeRegistry(factory.registry());
        for (uint256 i = 0; i < ACTORS - 2; ++i) {
            actors[i] = address(uint160(0xacc0 + i));
        }
        actors[ACTORS - 2] = address(new ReentrantActor(registry));
        actors[ACTORS - 1] = address(new RejectingActor());
        _renew();
    }

    /// @dev Counts the call and whether it did something; looks at the clockwork after it.
    modifier counted() {
        ++calls[msg.sig];
        _;
        uint256 place = _place();
        if (place < _lastPlace) violation = "a round went back";
        _lastPlace = place;
    }

    /* ACTIONS */

    function join(uint256 who, uint256 amount) external counted {
        for (uint256 i = 0; i < ACTORS; ++i) {
            address actor = actors[(who % ACTORS + i) % ACTORS];
            if (task.account(actor).wants && registry.bonded(address(task), actor) >= 1 ether) continue;
            if (_join(actor, 1 ether + amount % 3 ether)) return _succeed();
        }
        address richer = actors[who % ACTORS];
        vm.deal(richer, 1 gwei);
        vm.prank(richer);
        registry.allocate{value: 1 gwei}(address(task), 1 gwei);
        _succeed();
    }

    function leave(uint256 who, uint256 amount) external counted {
        address actor = actors[who % ACTORS];
        uint256 bonded = registry.bonded(address(task), actor);
        if (amount % 3 == 0) {
            vm.prank(actor);
            try task.leave() {
                _succeed();
            } catch {}
        } else if (bonded != 0) {
            vm.prank(actor);
            registry.deallocate(address(task), 1 + amount % bonded);
            _succeed();
        }
    }

    function release(uint256 who, uint256 wait) external counted {
        if (_release(who)) return _succeed();
        if (wait % 2 == 0) return;
        // Whoever waits until the round is over and the stake has unbonded gets it.
        _playTo(Phase.Draw);
        vm.warp(vm.getBlockTimestamp() + 1000);
        if (_release(who)) _succeed();
    }

    function _release(uint256 who) private returns (bool) {
        for (uint256 i = 0; i < ACTORS; ++i) {
            address actor = actors[(who % ACTORS + i) % ACTORS];
            for (uint256 j = 0; j <= _ended.length; ++j) {
                if (_releaseAt(j == _ended.length ? task : _ended[j], actor)) return true;
            }
        }
        return false;
    }

    function _releaseAt(ITrainingTask at, address actor) private returns (bool) {
        uint256 requests = registry.allocation(address(at), actor).requests;
        for (uint256 number = 0; number < requests; ++number) {
            if (registry.request(address(at), actor, number).releaseAt == 0) continue;
            bool locked = at.isLocked(actor);
            vm.prank(actor);
            try registry.release(address(at), number) {
                if (locked) violation = "locked stake left";
                return true;
            } catch {}
        }
        return false;
    }

    function withdraw(uint256 who, uint256 amount) external counted {
        address saver = actors[who % ACTORS];
        vm.deal(saver, saver.balance + 1 gwei);
        vm.prank(saver);
        registry.deposit{value: 1 gwei}();
        for (uint256 i = 0; i < ACTORS; ++i) {
            address actor = actors[(who % ACTORS + i) % ACTORS];
            uint256 free = registry.free(actor);
            if (free == 0) continue;
            vm.prank(actor);
            try registry.withdraw(1 + amount % free, actor) {
                if (actor == actors[ACTORS - 1]) violation = "ether went where it cannot go";
                return _succeed();
            } catch {}
        }
    }

    function work(uint256 who, uint256 value) external counted {
        if (who % 3 == 0) _playTo(Phase.Train);
        for (uint256 i = 0; i < ACTORS; ++i) {
            if (_work(actors[(who % ACTORS + i) % ACTORS], 1 + value % 1000)) return _succeed();
        }
    }

    function judge(uint256 who, uint256 loss) external counted {
        if (who % 3 == 0) _playTo(Phase.Score);
        for (uint256 i = 0; i < ACTORS; ++i) {
            if (_judge(actors[(who % ACTORS + i) % ACTORS], loss % 3 == 0 ? loss % 1e14 : 1e12)) {
                return _succeed();
            }
        }
    }

    function propose(uint256 who, uint256 lie) external counted {
        if (who % 3 == 0) _playTo(Phase.Propose);
        if (_phase() == Phase.Propose && _propose(lie % 3 == 0 ? 1 + lie % 5 : 0)) _succeed();
    }

    function vote(uint256 who, bool attests) external counted {
        if (who % 3 == 0) _playTo(Phase.Challenge);
        for (uint256 i = 0; i < ACTORS; ++i) {
            if (_vote(actors[(who % ACTORS + i) % ACTORS], attests)) return _succeed();
        }
    }

    function prove(uint256 who, uint256 noted) external counted {
        if (who % 3 == 0) {
            _playTo(Phase.Propose);
            if (_phase() == Phase.Propose) _propose(1);
        }
        if (_phase() == Phase.Challenge && _prove(actors[who % ACTORS], noted % 2 == 0)) _succeed();
    }

    /// @dev Lets the phase run out, or ends it early where that is possible.
    function move(uint256 who, uint256 wait) external counted {
        if (_phase() == Phase.Ended) {
            _renew();
            return _succeed();
        }
        if (wait % 2 == 0) {
            vm.warp(vm.getBlockTimestamp() + 60 + wait % 10);
            vm.roll(block.number + 1);
        }
        if (_move(actors[who % ACTORS])) _succeed();
    }

    function claim(uint256 who) external counted {
        for (uint256 i = 0; i < ACTORS; ++i) {
            address actor = actors[(who % ACTORS + i) % ACTORS];
            uint64[] memory rounds = _dueRounds(actor);
            uint256 due = task.creditOf(actor, rounds);
            uint256 had = actor.balance;
            vm.prank(actor);
            try task.claim(rounds) returns (uint256 amount) {
                if (amount != due || actor.balance < had + amount) violation = "paid something else";
                if (task.creditOf(actor, rounds) != 0) violation = "could be paid twice";
                return _succeed();
            } catch {}
        }
    }

    function end(uint256 what) external counted {
        if (what % 8 == 0) {
            vm.prank(sponsor);
            try task.abandon() {
                return _succeed();
            } catch {}
        }
        if (_phase() == Phase.Ended) {
            vm.prank(sponsor);
            try task.refund() {} catch {}
            _renew();
            return _succeed();
        }
        // Whoever destroys itself can send ether where no code takes it.
        forced += what % 1000;
        vm.deal(address(task), address(task).balance + what % 1000);
        _succeed();
    }

    /* WHAT HOLDS */

    /// @dev What the actors can still claim.
    function claimable() external view returns (uint256 sum) {
        uint64[] memory rounds = _rounds();
        for (uint256 i = 0; i < ACTORS; ++i) {
            sum += task.creditOf(actors[i], rounds);
        }
    }

    /// @dev What the registry holds for everybody.
    function held() external view returns (uint256 sum) {
        sum = registry.burned() + registry.free(address(task));
        for (uint256 i = 0; i < ACTORS; ++i) {
            sum += registry.free(actors[i]) + _staked(task, actors[i]);
            for (uint256 j = 0; j < _ended.length; ++j) {
                sum += _staked(_ended[j], actors[i]);
            }
        }
    }

    function _staked(ITrainingTask at, address actor) private view returns (uint256) {
        Allocation memory stake = registry.allocation(address(at), actor);
        return uint256(stake.bonded) + stake.unbonding;
    }

    /* PLAY */

    /// @dev Everybody acts honestly until the phase is reached, at most through one round.
    function _playTo(Phase goal) private {
        for (uint256 step = 0; step < 8 && _phase() != goal; ++step) {
            if (_phase() == Phase.Ended) _renew();
            for (uint256 i = 0; i < ACTORS; ++i) {
                if (_phase() == Phase.Draw) _join(actors[i], 1 ether);
                else if (!_work(actors[i], 1 + i) && !_judge(actors[i], 1e12)) _vote(actors[i], true);
            }
            if (_phase() == Phase.Propose) _propose(0);
            else if (_phase() != goal) _moveOn();
        }
    }

    function _moveOn() private {
        vm.roll(block.number + 1);
        if (_move(actors[0])) return;
        vm.warp(vm.getBlockTimestamp() + 60);
        _move(actors[0]);
    }

    function _join(address actor, uint256 amount) private returns (bool) {
        if (registry.bonded(address(task), actor) < 1 ether) {
            vm.deal(actor, actor.balance + amount);
            vm.prank(actor);
            registry.allocate{value: amount}(address(task), amount);
        }
        vm.prank(actor);
        try task.enrol() {
            return true;
        } catch {
            return false;
        }
    }

    function _work(address actor, uint256 value) private returns (bool) {
        if (_acted[_place()][actor]) return false;
        Phase phase = _phase();
        uint64 round = task.place().round;
        if (phase == Phase.Train) {
            bytes32 root = _root(BIAS + 10 * value + _idOf(actor));
            _values[keccak256(abi.encode(task, round, actor))] = uint256(root);
            bytes32 payload = keccak256(abi.encode(root, SALT, uint64(100)));
            bytes32 digest = _seal(round, Phase.Train, actor, payload);
            vm.prank(actor);
            try task.commitUpdate(round, digest) {
                return _did(actor);
            } catch {
                return false;
            }
        }
        if (phase != Phase.Reveal) return false;
        bytes32 mine = bytes32(_values[keccak256(abi.encode(task, round, actor))]);
        vm.prank(actor);
        try task.revealUpdate(round, mine, SALT, 100, SALT) {
            return _did(actor);
        } catch {
            return false;
        }
    }

    function _judge(address actor, uint256 loss) private returns (bool) {
        if (_acted[_place()][actor]) return false;
        Phase phase = _phase();
        uint64 round = task.place().round;
        if (phase == Phase.Score) {
            _losses[actor] = loss;
            bytes32 digest =
                _seal(round, Phase.Score, actor, keccak256(abi.encode(task.rootsHash(), _vector(actor))));
            vm.prank(actor);
            try task.commitScores(round, digest) {
                return _did(actor);
            } catch {
                return false;
            }
        }
        if (phase != Phase.Tally) return false;
        bytes memory scores = _vector(actor);
        vm.prank(actor);
        try task.revealScores(round, scores, SALT) {
            return _did(actor);
        } catch {
            return false;
        }
    }

    function _propose(uint256 lie) private returns (bool) {
        address actor = task.accountOf(task.currentProposer());
        (uint256 value,) = _aggregate();
        bytes32 root = _root(value + lie);
        if (lie != 0) _lies[root] = true;
        PlaceView memory p = task.place();
        vm.prank(actor);
        try task.propose(p.round, p.attempt, root, SALT, new uint32[](0)) {
            return true;
        } catch {
            return false;
        }
    }

    function _vote(address actor, bool attests) private returns (bool) {
        if (_acted[_place()][actor]) return false;
        if (_phase() != Phase.Challenge) return false;
        PlaceView memory p = task.place();
        (, bytes32 root,,) = task.proposal();
        vm.prank(actor);
        if (attests) {
            try task.attest(p.round, p.attempt, root, SALT, 0) {
                return _did(actor);
            } catch {
                return false;
            }
        }
        try task.object(p.round, p.attempt, root, SALT, 0) {
            return _did(actor);
        } catch {
            return false;
        }
    }

    function _prove(address actor, bool notes) private returns (bool) {
        PlaceView memory p = task.place();
        (, bytes32 root,,) = task.proposal();
        (uint256 right, bytes memory items) = _aggregate();
        bytes memory evidence = bytes.concat(_leaf(_values[root]), items);
        bool lied = _values[root] != right;
        if (notes) {
            bytes32 note = keccak256(
                abi.encode(block.chainid, address(task), p.round, p.attempt, uint64(3), actor, SALT)
            );
            vm.prank(actor);
            try task.noteFinding(note) {} catch {}
            vm.roll(block.number + 1);
        }
        uint256[] memory before = _stakes();
        bool[] memory guilty = _accomplices();
        vm.prank(actor);
        try task.prove(p.round, p.attempt, 3, evidence, SALT) {
            if (!lied) violation = "an honest proposal was convicted";
            _expectUnharmed(before, guilty);
            return true;
        } catch {
            if (lied) violation = "a lie could not be proven";
            return false;
        }
    }

    function _move(address caller) private returns (bool) {
        PlaceView memory p = task.place();
        if (p.phase == Phase.Ended) return false;
        uint256[] memory before = _stakes();
        bool[] memory guilty = _negligent();
        bool done;
        if (p.phase == Phase.Draw) {
            done = _tryDraw(caller);
        } else if (p.phase == Phase.Tally) {
            bytes[] memory vectors = _revealed();
            vm.prank(caller);
            try task.tally(p.round, vectors) {
                done = true;
            } catch {}
        } else {
            vm.prank(caller);
            try task.advance(p.round) {
                done = true;
            } catch {}
        }
        _expectUnharmed(before, guilty);
        return done;
    }

    function _tryDraw(address caller) private returns (bool) {
        vm.prank(caller);
        try task.draw() {
            return true;
        } catch {
            return false;
        }
    }

    /* TRUTH */

    /// @dev Nobody loses stake who has nothing to answer for: not in a Void either.
    function _expectUnharmed(uint256[] memory before, bool[] memory guilty) private {
        for (uint256 i = 0; i < ACTORS; ++i) {
            if (!guilty[i] && _staked(task, actors[i]) < before[i]) {
                violation = "an honest party was slashed";
            }
        }
    }

    function _stakes() private view returns (uint256[] memory stakes) {
        stakes = new uint256[](ACTORS);
        for (uint256 i = 0; i < ACTORS; ++i) {
            stakes[i] = _staked(task, actors[i]);
        }
    }

    /// @dev Who leaves undone what the phase asks of it.
    function _negligent() private view returns (bool[] memory guilty) {
        guilty = new bool[](ACTORS);
        for (uint256 i = 0; i < ACTORS; ++i) {
            guilty[i] = !_acted[_place()][actors[i]] && _hasDuty(actors[i]);
        }
    }

    /// @dev The proposer of a lie and whoever attested it.
    function _accomplices() private view returns (bool[] memory guilty) {
        guilty = new bool[](ACTORS);
        (uint32 proposer, bytes32 root,,) = task.proposal();
        if (!_lies[root]) return guilty;
        uint32[] memory members = task.committee();
        for (uint256 i = 0; i < ACTORS; ++i) {
            uint32 id = _idOf(actors[i]);
            guilty[i] = id == proposer;
            for (uint256 j = 0; j < members.length; ++j) {
                if (members[j] == id && task.seats().attested >> j & 1 != 0) guilty[i] = true;
            }
        }
    }

    function _hasDuty(address actor) private view returns (bool) {
        Phase phase = _phase();
        uint32 id = _idOf(actor);
        if (id == 0) return false;
        if (phase == Phase.Train) return !_isIn(task.committee(), id) && task.proposers()[0] != id;
        if (phase == Phase.Reveal) return _acted[_place() - 1][actor];
        if (phase == Phase.Score) return _isIn(task.committee(), id);
        if (phase == Phase.Tally) return _acted[_place() - 1][actor];
        if (phase == Phase.Propose) return task.currentProposer() == id;
        return phase == Phase.Challenge && _isIn(task.committee(), id);
    }

    function _isIn(uint32[] memory list, uint32 id) private pure returns (bool) {
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i] == id) return true;
        }
        return false;
    }

    /* MODELS AND SCORES */

    /// @dev The right next model, and the items that prove it.
    function _aggregate() private view returns (uint256 value, bytes memory items) {
        (, uint32[] memory shares) = task.tallied();
        uint32[] memory order = task.order();
        uint256 sum = 1 << 30;
        if (shares[0] != 0) {
            uint256 head = _values[task.headRoot()];
            sum += shares[0] * head;
            items = _leaf(head);
        }
        for (uint256 i = 0; i < order.length; ++i) {
            if (shares[i + 1] == 0) continue;
            (,, bytes32 root,) = task.update(order[i]);
            sum += shares[i + 1] * _values[root];
            items = bytes.concat(items, _leaf(_values[root]));
        }
        value = sum >> 31;
    }

    function _root(uint256 value) private returns (bytes32 root) {
        root = sha256(bytes.concat(hex"00", _leaf(value)));
        _values[root] = value;
    }

    function _leaf(uint256 value) private pure returns (bytes memory) {
        uint256 word = value * 0x0000000100000001000000010000000100000001000000010000000100000001;
        return abi.encode(word, word, word, word, word, word, word, word);
    }

    /// @dev The head's loss, then one per update.
    function _vector(address actor) private view returns (bytes memory scores) {
        uint256 loss = _losses[actor];
        scores = abi.encodePacked(uint64(1e12));
        for (uint256 i = 0; i < task.place().updates; ++i) {
            scores = bytes.concat(scores, bytes8(uint64(loss + i * 1e9)));
        }
    }

    function _revealed() private view returns (bytes[] memory vectors) {
        uint32[] memory members = task.committee();
        uint256 revealed = task.seats().revealed;
        uint256 count = 0;
        vectors = new bytes[](members.length);
        for (uint256 j = 0; j < members.length; ++j) {
            if (revealed >> j & 1 != 0) vectors[count++] = _vector(task.accountOf(members[j]));
        }
        assembly ("memory-safe") {
            mstore(vectors, count)
        }
    }

    function _seal(uint64 round, Phase phase, address actor, bytes32 payload) private view returns (bytes32) {
        return keccak256(
            abi.encode(block.chainid, address(task), task.taskId(), round, phase, actor, payload, SALT)
        );
    }

    /* SMALL THINGS */

    function _did(address actor) private returns (bool) {
        return _acted[_place()][actor] = true;
    }

    function _succeed() private {
        ++successes[msg.sig];
    }

    function _phase() private view returns (Phase) {
        return task.place().phase;
    }

    /// @dev Task, round, attempt and phase as one number that only grows.
    function _place() private view returns (uint256) {
        PlaceView memory p = task.place();
        return ((_ended.length * 1000 + p.round) * 10 + p.attempt) * 10 + uint256(p.phase);
    }

    function _idOf(address actor) private view returns (uint32) {
        return task.account(actor).id;
    }

    /// @dev All rounds that are over.
    function _rounds() private view returns (uint64[] memory rounds) {
        rounds = new uint64[](task.place().round);
        for (uint256 i = 0; i < rounds.length; ++i) {
            rounds[i] = uint64(i + 1);
        }
    }

    /// @dev The rounds that owe the actor something.
    function _dueRounds(address actor) private view returns (uint64[] memory rounds) {
        rounds = _rounds();
        uint64[] memory one = new uint64[](1);
        uint256 credit = task.creditOf(actor, new uint64[](0));
        uint256 n = 0;
        for (uint256 i = 0; i < rounds.length; ++i) {
            one[0] = rounds[i];
            if (task.creditOf(actor, one) != credit) rounds[n++] = rounds[i];
        }
        assembly ("memory-safe") {
            mstore(rounds, n)
        }
    }

    function _renew() private {
        if (address(task) != address(0)) _ended.push(task);
        TaskConfig memory terms = _terms();
        vm.deal(sponsor, ESCROW);
        vm.prank(sponsor);
        (, address made) = _factory.createTask{value: ESCROW}(terms);
        task = ITrainingTask(made);
        forced = 0;
        ReentrantActor(payable(actors[ACTORS - 2])).join(task);
        for (uint256 i = 0; i < ACTORS; ++i) {
            _join(actors[i], 1 ether + i * 0.3 ether);
        }
    }

    function _terms() private returns (TaskConfig memory c) {
        c.firstRoot = _root(BIAS);
        c.dimension = 64;
        c.scale = 20;
        (c.beta, c.alpha) = (1e18, 0.9e18);
        (c.committeeSize, c.redrawEvery) = (3, 10);
        (c.minUpdates, c.maxUpdates, c.maxSamples) = (2, 3, 10_000);
        (c.rounds, c.minStake) = (8, 1 ether);
        (c.trainSeconds, c.revealSeconds, c.scoreSeconds) = (60, 60, 60);
        (c.tallySeconds, c.proposeSeconds, c.challengeSeconds) = (60, 60, 60);
        (c.workersPart, c.committeePart) = (0.6e18, 0.3e18);
        (c.callerFee, c.devCap) = (1e12, 1e18);
        (c.lieSlash, c.livenessSlash, c.noRevealSlash) = (0.5e18, 0.01e18, 0.05e18);
        (c.finderPart, c.burnPart) = (0.2e18, 0.5e18);
    }
}
