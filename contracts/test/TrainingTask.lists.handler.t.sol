// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Allocation, IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {
    AccountView,
    ITrainingTask,
    Phase,
    PlaceView,
    Role,
    Rule,
    TaskConfig
} from "../src/interfaces/ITrainingTask.sol";
import {Vm} from "./Base.t.sol";
import {Headers} from "./Headers.sol";
import {List} from "./List.sol";

/// @notice For whom a key acts, from which round and until before which.
struct Bond {
    uint8 owner;
    uint48 since;
    uint48 until;
}

/// @notice Plays owners, their operators and thieves of operators' keys against a task with a list and an appointed committee: four
/// internals of whom three fit in, three participants, one who is not listed, and three keys. Its own books say who has which
/// id and role, who is enrolled and who acts for whom.
contract ListsHandler {
    Vm private constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    uint256 public constant ACTORS = 8;
    uint256 public constant KEYS = 3;
    uint256 private constant INTERNALS = 4;
    uint256 private constant STRANGER = 7;
    uint256 private constant LIMIT = 3;
    uint256 private constant ESCROW = 100 ether;
    uint256 private constant MIN_STAKE = 1 ether;
    uint8 private constant NOBODY = 255;

    IStakeRegistry public immutable registry;
    ITrainingTask public immutable task;

    /// What was found that must never be.
    string public violation;
    mapping(string what => uint256) public seen;

    bytes32[ACTORS] private _leaves;
    /// Actors in the order of their ids; those of them that are internals.
    uint8[] private _known;
    uint8[] private _inside;
    bool[ACTORS] private _isEnrolled;
    /// Whom each owner named, and who accepted: a key from 1, 0 is nobody.
    uint8[ACTORS] private _named;
    uint8[ACTORS] private _operator;
    Bond[KEYS] private _bonds;
    /// Who committed in which round.
    mapping(uint256 round => uint256) private _committed;

    constructor(ITaskFactory factory) {
        registry = IStakeRegistry(factory.registry());
        for (uint256 i = 0; i < ACTORS; ++i) {
            // The place of the one who is not listed is somebody else's.
            address listed = i == STRANGER ? address(0xdead) : actor(i);
            _leaves[i] = List.leaf(listed, roleOf(i));
        }
        for (uint256 k = 0; k < KEYS; ++k) {
            _bonds[k].owner = NOBODY;
        }
        vm.deal(address(this), ESCROW);
        (, address made) = factory.createTask{value: ESCROW}(_terms());
        task = ITrainingTask(made);
    }

    function actor(uint256 i) public pure returns (address) {
        return address(uint160(0xacc0 + i));
    }

    function key(uint256 k) public pure returns (address) {
        return address(uint160(0xbee0 + k));
    }

    function roleOf(uint256 i) public pure returns (Role) {
        return i < INTERNALS ? Role.Internal : Role.Participant;
    }

    /* ACTIONS */

    /// @notice Somebody enrols: with its own proof, with none, with somebody else's, or in the other role.
    function join(uint256 who, uint256 how) external {
        who %= ACTORS;
        _fund(who, how);
        bool isOpen = how % 6 == 0;
        (Role role, bytes memory proof, bool isOwn) = _shown(who, how % 6);
        bool may = (isOpen || isOwn) && _mayEnrol(who, !isOpen);
        bytes memory call_ = isOpen
            ? abi.encodeCall(task.enrol, ())
            : abi.encodeCall(task.enrolAdmitted, (actor(who), role, proof));
        vm.prank(actor(who));
        (bool done,) = address(task).call(call_);
        if (done) _joined(who, may);
        else _refused(may);
    }

    /// @notice An owner names a key, or none, and the key accepts or not, with its owner's proof or without.
    function hire(uint256 who, uint256 how) external {
        who %= ACTORS;
        _fund(who, how);
        uint256 named = how % (KEYS + 1);
        if (how % 7 != 0) _name(who, named);
        uint256 k = how / 8 % KEYS;
        // The named key mostly, else another.
        if (named != 0 && how / 64 % 4 != 0) k = named - 1;
        _accept(who, k, how / 512);
    }

    /// @notice An owner or a key takes the account out of later draws.
    function quit(uint256 who, uint256 how) external {
        if (how % 3 != 0) return;
        (address sender, uint256 owner) = _sender(who);
        bool may = owner != NOBODY && _isEnrolled[owner];
        vm.prank(sender);
        try task.leave() {
            if (!may) _found("somebody left for another");
            else _isEnrolled[owner] = false;
            ++seen["left"];
        } catch {
            if (may) _found("leaving was refused");
        }
    }

    /// @notice An owner or a key commits to an update.
    function work(uint256 who, uint256 how) external {
        for (uint256 i = 0; i < 4 && task.place().phase != Phase.Train; ++i) {
            this.move(who, how);
        }
        PlaceView memory p = task.place();
        if (p.phase != Phase.Train) return;
        (address sender, uint256 owner) = _sender(who);
        vm.prank(sender);
        try task.commitUpdate(p.round, keccak256(abi.encode(how))) {
            if (owner == NOBODY) return _found("a key that acts for nobody committed");
            if (_idOf(owner) == 0) _found("a commitment without an id");
            if (_committed[p.round] >> owner & 1 != 0) _found("two commitments of an account");
            _committed[p.round] |= 1 << owner;
            ++seen[sender == actor(owner) ? "owner worked" : "key worked"];
        } catch {}
    }

    /// @notice Whoever has a key tries to get at money, to join by its owner's proof, and to name the next operator.
    function steal(uint256 which, uint256 what) external {
        address thief = key(which % KEYS);
        uint256 owner = _bonds[which % KEYS].owner;
        what %= 7;
        bytes memory call_;
        if (what == 0) call_ = abi.encodeCall(registry.deallocate, (address(task), 1));
        if (what == 1) call_ = abi.encodeCall(registry.release, (address(task), 0));
        if (what == 2) call_ = abi.encodeCall(registry.withdraw, (1, thief));
        if (what == 3) call_ = abi.encodeCall(task.claim, (new uint64[](0)));
        if (what == 4) call_ = abi.encodeCall(task.refund, ());
        if (what == 5) call_ = abi.encodeCall(task.abandon, ());
        if (what == 6) {
            uint256 place = owner == NOBODY ? 0 : owner;
            call_ = abi.encodeCall(task.enrolAdmitted, (thief, roleOf(place), _proof(place)));
        }
        vm.prank(thief);
        (bool done,) = (what < 3 ? address(registry) : address(task)).call(call_);
        if (done) _found("a key did what only owners may");
        vm.prank(thief);
        registry.setOperator(address(task), key((which % KEYS + 1) % KEYS));
        ++seen[owner == NOBODY ? "stranger stole" : "key stole"];
    }

    /// @notice An owner adds to its stake or takes it out.
    function stake(uint256 who, uint256 what) external {
        address owner = actor(who % ACTORS);
        Allocation memory own = registry.allocation(address(task), owner);
        uint256 free = registry.free(owner);
        vm.startPrank(owner);
        if (what % 3 == 0 && own.bonded != 0) registry.deallocate(address(task), 1 + what % own.bonded);
        if (what % 3 == 1 && own.requests != 0) {
            vm.warp(vm.getBlockTimestamp() + 1 days);
            try registry.release(address(task), what % own.requests) {
                ++seen["released"];
            } catch {}
        }
        if (what % 3 == 2 && free != 0) registry.withdraw(1 + what % free, owner);
        vm.stopPrank();
    }

    /// @notice The draw, or the end of a phase, called by a key where one acts.
    function move(uint256 who, uint256) external {
        PlaceView memory p = task.place();
        (address sender, uint256 owner) = _sender(who);
        if (owner == NOBODY) sender = address(0x57a);
        uint256 before = owner == NOBODY ? 0 : task.account(actor(owner)).credit;
        if (p.phase == Phase.Draw) {
            if (p.drawBlock == 0) return;
            _draw(sender, p.drawBlock);
        } else {
            if (vm.getBlockTimestamp() < p.deadline) vm.warp(p.deadline);
            vm.prank(sender);
            // Nobody shows an update or scores in this play, so every round ends Void here or before.
            if (p.phase == Phase.Tally) task.tally(p.round, new bytes[](0));
            else task.advance(p.round);
        }
        if (owner == NOBODY || sender == actor(owner)) return;
        ++seen["key called"];
        if (task.account(actor(owner)).credit < before) _found("what a key earned is not its owner's");
    }

    /* WHAT HOLDS */

    /// @notice Compares books and contracts; names the first difference.
    function check() external view returns (string memory) {
        if (bytes(violation).length != 0) return violation;
        if (task.accountCount() != _known.length) return "somebody has an id whom the books do not know";
        for (uint256 n = 0; n < _known.length; ++n) {
            AccountView memory a = task.account(actor(_known[n]));
            if (a.id != n + 1 || a.role != roleOf(_known[n])) return "an id or a role changed";
            if (a.isEnrolled != _isEnrolled[_known[n]]) return "somebody was enrolled or put out";
        }
        uint32[] memory inside = task.internals();
        if (inside.length != _inside.length) return "an internal was added or removed";
        for (uint256 n = 0; n < inside.length; ++n) {
            if (inside[n] != _idOf(_inside[n])) return "internals changed their order";
        }
        if (task.account(actor(STRANGER)).id != 0) return "somebody who is not listed has an id";
        return _checkKeys();
    }

    function _checkKeys() private view returns (string memory) {
        for (uint256 k = 0; k < KEYS; ++k) {
            AccountView memory a = task.account(key(k));
            Allocation memory own = registry.allocation(address(task), key(k));
            uint256 money =
                uint256(own.bonded) + own.unbonding + registry.free(key(k)) + a.credit + key(k).balance;
            if (money != 0) return "a key has money";
            if (a.id != 0) return "a key has an id";
            (address owner, uint48 since, uint48 until) = task.operates(key(k));
            Bond memory bond = _bonds[k];
            if (bond.owner == NOBODY && (owner != address(0) || until != 0)) return "a key acts unasked";
            if (bond.owner == NOBODY) continue;
            if (owner != actor(bond.owner) || since != bond.since || until != bond.until) {
                return "a bond changed";
            }
        }
        uint256 sum = registry.burned() + registry.free(address(task));
        for (uint256 i = 0; i < ACTORS; ++i) {
            Allocation memory own = registry.allocation(address(task), actor(i));
            sum += uint256(own.bonded) + own.unbonding + registry.free(actor(i));
            uint256 named = _named[i];
            if (registry.operatorOf(address(task), actor(i)) != (named == 0 ? address(0) : key(named - 1))) {
                return "somebody else named an operator";
            }
        }
        return sum == address(registry).balance ? "" : "the registry's balance";
    }

    /* PLAY */

    function _fund(uint256 who, uint256 how) private {
        uint256 bonded = registry.bonded(address(task), actor(who));
        if (bonded >= MIN_STAKE || how % 11 == 0) return;
        vm.deal(actor(who), MIN_STAKE);
        vm.prank(actor(who));
        registry.allocate{value: MIN_STAKE}(address(task), MIN_STAKE);
    }

    /// @dev Its own proof, somebody else's, or its own in the other role.
    function _shown(uint256 who, uint256 how)
        private
        view
        returns (Role role, bytes memory proof, bool isOwn)
    {
        uint256 place = how == 1 ? (who + 1) % ACTORS : who;
        role = roleOf(place);
        if (how == 2) role = role == Role.Internal ? Role.Participant : Role.Internal;
        return (role, _proof(place), how > 2 && who != STRANGER);
    }

    function _proof(uint256 place) private view returns (bytes memory) {
        return List.proof(_leaves, place);
    }

    function _mayEnrol(uint256 who, bool isShown) private view returns (bool) {
        bool isNew = _idOf(who) == 0;
        if (_isEnrolled[who] || isNew && !isShown) return false;
        if (registry.bonded(address(task), actor(who)) < MIN_STAKE) return false;
        return !isNew || roleOf(who) != Role.Internal || _inside.length < LIMIT;
    }

    function _joined(uint256 who, bool may) private {
        if (!may) return _found("somebody enrolled who may not");
        if (_idOf(who) == 0) {
            // Actors are few.
            // forge-lint: disable-next-line(unsafe-typecast)
            _known.push(uint8(who));
            // forge-lint: disable-next-line(unsafe-typecast)
            if (roleOf(who) == Role.Internal) _inside.push(uint8(who));
        }
        _isEnrolled[who] = true;
        ++seen["joined"];
    }

    function _refused(bool may) private {
        if (may) _found("somebody was refused who may enrol");
        ++seen["refused"];
    }

    function _name(uint256 who, uint256 named) private {
        vm.prank(actor(who));
        registry.setOperator(address(task), named == 0 ? address(0) : key(named - 1));
        // Keys are few.
        // forge-lint: disable-next-line(unsafe-typecast)
        _named[who] = uint8(named);
        uint256 old = _operator[who];
        if (old == 0 || old == named) return;
        _bonds[old - 1].until = _nextDraw();
        _operator[who] = 0;
        ++seen["dismissed"];
    }

    function _accept(uint256 who, uint256 k, uint256 how) private {
        bool isShown = how % 3 != 0 && who != STRANGER;
        Bond memory bond = _bonds[k];
        bool isNew = _operator[who] != k + 1;
        bool isFree = bond.owner == NOBODY || bond.owner == who || task.place().round >= bond.until;
        bool may = _named[who] == k + 1 && isFree;
        bool enrols = !isNew || !_isEnrolled[who];
        may = may && (!enrols || _mayEnrol(who, isShown));

        bytes memory call_ = isShown
            ? abi.encodeCall(task.enrolAdmitted, (actor(who), roleOf(who), _proof(who)))
            : abi.encodeCall(task.enrolFor, (actor(who)));
        vm.prank(key(k));
        (bool done,) = address(task).call(call_);
        if (done) _accepted(who, k, may, isNew, enrols);
        else _refused(may);
    }

    function _accepted(uint256 who, uint256 k, bool may, bool isNew, bool enrols) private {
        if (!may) return _found("a key acts for somebody who did not name it, or for two");
        if (isNew) {
            uint48 from = _nextDraw();
            Bond memory bond = _bonds[k];
            bool isBack = bond.owner == who && bond.until == from;
            // Actors and keys are few.
            // forge-lint: disable-next-line(unsafe-typecast)
            _bonds[k] = Bond(uint8(who), isBack ? bond.since : from, type(uint48).max);
            // forge-lint: disable-next-line(unsafe-typecast)
            _operator[who] = uint8(k + 1);
            ++seen["accepted"];
        }
        if (enrols) _joined(who, true);
    }

    function _draw(address sender, uint64 at) private {
        uint32[] memory expected = _staked();
        if (vm.getBlockNumber() <= at) vm.roll(at + 1);
        bytes memory header = Headers.header(at);
        vm.setBlockhash(at, keccak256(header));
        vm.prank(sender);
        task.draw(header);

        // A draw may find too few by now, and wait again.
        if (task.place().phase != Phase.Draw) {
            if (keccak256(abi.encode(task.committee())) != keccak256(abi.encode(expected))) {
                _found("the committee is not the internals with stake");
            }
            ++seen["drawn"];
        }
        for (uint256 i = 0; i < _known.length; ++i) {
            try task.applyChange(actor(_known[i])) {} catch {}
        }
    }

    function _staked() private view returns (uint32[] memory ids) {
        ids = new uint32[](_inside.length);
        uint256 count = 0;
        for (uint256 n = 0; n < _inside.length; ++n) {
            AccountView memory a = task.account(actor(_inside[n]));
            if (a.weight != 0) ids[count++] = a.id;
        }
        assembly ("memory-safe") {
            mstore(ids, count)
        }
    }

    /// @dev Keys and owners alike; the account that the books say it acts for.
    function _sender(uint256 who) private view returns (address sender, uint256 owner) {
        who %= ACTORS + 2 * KEYS;
        if (who < ACTORS) return (actor(who), who);
        uint256 k = (who - ACTORS) % KEYS;
        Bond memory bond = _bonds[k];
        uint256 round = task.place().round;
        bool isActing = bond.owner != NOBODY && bond.since <= round && round < bond.until;
        return (key(k), isActing ? bond.owner : NOBODY);
    }

    function _idOf(uint256 who) private view returns (uint256) {
        for (uint256 n = 0; n < _known.length; ++n) {
            if (_known[n] == who) return n + 1;
        }
        return 0;
    }

    function _nextDraw() private view returns (uint48) {
        PlaceView memory p = task.place();
        return uint48(p.phase == Phase.Draw ? p.round : p.round + 1);
    }

    function _found(string memory what) private {
        if (bytes(violation).length == 0) violation = what;
    }

    function _terms() private view returns (TaskConfig memory c) {
        c.firstRoot = bytes32(uint256(1));
        (c.dimension, c.depth, c.scale) = (200, 2, 20);
        c.rule = Rule.Softmax;
        (c.beta, c.alpha) = (1e18, 1e18);
        (c.committeeSize, c.redrawEvery) = (uint8(LIMIT), 10);
        (c.minUpdates, c.maxUpdates, c.maxSamples) = (2, 8, 10_000);
        (c.rounds, c.minStake) = (100_000, uint128(MIN_STAKE));
        (c.trainSeconds, c.revealSeconds, c.scoreSeconds) = (60, 60, 60);
        (c.tallySeconds, c.proposeSeconds, c.challengeSeconds) = (60, 60, 60);
        (c.workersPart, c.committeePart) = (0.6e18, 0.3e18);
        (c.callerFee, c.devCap) = (1e12, 1e18);
        (c.lieSlash, c.livenessSlash, c.noRevealSlash) = (0.5e18, 0.01e18, 0.05e18);
        (c.finderPart, c.burnPart) = (0.2e18, 0.5e18);
        (c.minInternals, c.internalsTrain) = (2, true);
        c.admissionRoot = List.root(_leaves);
    }
}
