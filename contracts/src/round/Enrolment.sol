// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../interfaces/IStakeRegistry.sol";
import {ITrainingTask, Phase, Role} from "../interfaces/ITrainingTask.sol";
import {ImmutableArgs} from "../packing/ImmutableArgs.sol";
import {PackedList} from "../packing/PackedList.sol";
import {Admission} from "./Admission.sol";
import {Internals} from "./Internals.sol";
import {Operators} from "./Operators.sol";
import {RoundSteps} from "./RoundSteps.sol";
import {Account, RoundState, State} from "../types/TaskState.sol";
import {CommitBitmap} from "../packing/CommitBitmap.sol";

/// @title Enrolment
/// @notice Who takes part, and with how much weight. While a draw is open, changes wait.
library Enrolment {
    using PackedList for mapping(uint256 => uint256);
    using CommitBitmap for mapping(uint256 => uint256);

    uint8 private constant MOST_MISSED = 3;

    /// @notice See `ITrainingTask.enrol`.
    function enrol(State storage s) external {
        _enrol(s, msg.sender, Role.None);
    }

    /// @notice See `ITrainingTask.enrolFor`.
    function enrolFor(State storage s, address owner) external {
        _enrolFor(s, owner, Role.None);
    }

    /// @notice See `ITrainingTask.enrolAdmitted`.
    function enrolAdmitted(State storage s, address owner, Role role, bytes calldata proof) external {
        require(Admission.isListed(owner, role, proof), ITrainingTask.NotAdmitted(owner));

        if (owner == msg.sender) _enrol(s, owner, role);
        else _enrolFor(s, owner, role);
    }

    function _enrolFor(State storage s, address owner, Role role) private {
        RoundState memory p = s.place;
        require(p.phase != Phase.Ended, ITrainingTask.WrongPhase(p.round, p.phase));

        bool isNew = Operators.accept(s, owner);
        if (!isNew || !s.accounts[owner].isEnrolled) _enrol(s, owner, role);
    }

    /// @param role As what the list admits it, if that was shown in this call.
    function _enrol(State storage s, address who, Role role) private {
        RoundState memory p = s.place;
        require(p.phase != Phase.Ended, ITrainingTask.WrongPhase(p.round, p.phase));
        Account memory a = s.accounts[who];
        require(!a.isEnrolled, ITrainingTask.AlreadyEnrolled());
        if (a.id == 0) {
            Operators.expectFree(s, who, who);
            require(role != Role.None || !Admission.hasList(), ITrainingTask.NotAdmitted(who));
        }
        uint256 stake = _stakeOf(who);
        uint256 least = ImmutableArgs.minStake();
        require(stake >= least, ITrainingTask.StakeTooLow(stake, least));

        if (a.id == 0) {
            a.id = ++s.gate.accounts;
            s.addresses[a.id] = who;
            if (role != Role.None) {
                a.role = role;
                if (role == Role.Internal && Internals.areAppointed(p)) Internals.add(s, a.id);

                emit ITrainingTask.Admitted(who, role);
            }
        }
        a.isEnrolled = true;
        s.accounts[who] = a;

        emit ITrainingTask.Enrolled(a.id, who);

        _applyOrQueue(s, p, who, stake);
    }

    /// @notice See `ITrainingTask.leave`.
    function leave_(State storage s) external {
        address who = Operators.actsFor(Operators.place(s), msg.sender);
        Account storage a = s.accounts[who];
        require(a.isEnrolled, ITrainingTask.NotEnrolled());

        a.isEnrolled = false;

        emit ITrainingTask.Left(a.id, who);

        _applyOrQueue(s, s.place, who, 0);
    }

    /// @notice See `IStakeTask.onOperatorNamed`.
    function onOperatorNamed(State storage s, address owner, address operator) external {
        require(msg.sender == ImmutableArgs.origin().registry, ITrainingTask.NotRegistry());

        Operators.dismiss(s, owner, operator);
    }

    /// @notice See `ITrainingTask.applyChange`.
    function applyChange(State storage s, address who) external {
        RoundState memory p = s.place;
        require(s.accounts[who].id != 0, ITrainingTask.NotEnrolled());
        require(!_drawIsOpen(s, p), ITrainingTask.DrawOpen(p.round));

        RoundSteps.applyWeight(s, p, who, _stakeOf(who));
    }

    /// @notice See `ITrainingTask.noteAbsent`.
    function noteAbsent(State storage s, uint64 round, uint32[] calldata ids) external {
        RoundState memory p = s.place;
        RoundSteps.expectRound(p, round);
        bool isLate = p.phase > Phase.Train ? p.phase < Phase.Ended : p.phase == Phase.Train && p.extended;
        require(isLate, ITrainingTask.WrongPhase(p.round, p.phase));

        for (uint256 i = 0; i < ids.length; ++i) {
            _noteAbsent(s, p, ids[i]);
        }
    }

    /// @dev Three times in a row, and the account is out of the draw until it enrols again.
    function _noteAbsent(State storage s, RoundState memory p, uint32 id) private {
        address who = s.addresses[id];
        Account memory a = s.accounts[who];
        // Only one of the two answers is asked for.
        // slither-disable-next-line unused-return
        (bool committed,) = s.updates.state(p.round, id);
        bool isOutside = s.roster.find(0, p.committeeSize, id) == p.committeeSize;
        require(
            isOutside && !committed && s.absences[id] != p.round
                && RoundSteps.trains(s, Operators.place(s), RoundSteps.wordOf(s.accounts[who])),
            ITrainingTask.NotAbsent(id)
        );

        s.absences[id] = p.round;
        ++a.missed;

        emit ITrainingTask.Absent(p.round, id, a.missed);

        bool isOut = a.missed == MOST_MISSED;
        if (isOut) {
            a.missed = 0;
            a.isEnrolled = false;

            emit ITrainingTask.Left(id, who);
        }
        s.accounts[who] = a;
        if (isOut) RoundSteps.applyWeight(s, p, who, 0);
    }

    /// @notice See `IStakeTask.onStakeChanged`.
    /// @dev Part of the task's own code: reaching into the library would cost a twentieth of a change of stake.
    function onStakeChanged(State storage s, address who, uint256 bonded) internal {
        require(msg.sender == ImmutableArgs.origin().registry, ITrainingTask.NotRegistry());

        if (s.accounts[who].id != 0) _applyOrQueue(s, s.place, who, bonded);
    }

    /// @notice See `IStakeTask.isLocked`: a round holds the stake (role, update or election), or the draw still counts it.
    function isLocked(State storage s, address who) external view returns (bool) {
        RoundState memory p = s.place;
        Account memory a = s.accounts[who];
        if (a.id == 0 || p.phase == Phase.Ended) return false;
        if (a.weight > RoundSteps.dueWeight(a.isEnrolled, _stakeOf(who))) return true;
        uint256 size = p.committeeSize;
        // INVARIANT: an election alone locks nobody, or those elected were held for ever when the others leave. Before Draw
        // opens their stake is held by the update that they were elected for, after it by this.
        if (p.phase == Phase.Draw) {
            return s.gate.drawBlock != 0 && p.hasElected && s.elected.find(0, size, a.id) < size;
        }
        uint256 seated = size + p.proposers;
        // Only one of the two answers is asked for.
        // slither-disable-next-line unused-return
        (bool committed,) = s.updates.state(p.round, a.id);
        return committed || s.roster.find(0, seated, a.id) < seated;
    }

    function _applyOrQueue(State storage s, RoundState memory p, address who, uint256 stake) private {
        if (_drawIsOpen(s, p)) emit ITrainingTask.ChangeQueued(s.accounts[who].id, who);
        else RoundSteps.applyWeight(s, p, who, stake);
    }

    function _drawIsOpen(State storage s, RoundState memory p) private view returns (bool) {
        return p.phase == Phase.Draw && s.gate.drawBlock != 0;
    }

    function _stakeOf(address who) private view returns (uint256) {
        return IStakeRegistry(ImmutableArgs.origin().registry).bonded(address(this), who);
    }
}
