// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

import {ITaskFactory} from "../interfaces/ITaskFactory.sol";
import {Rule, TaskConfig} from "../interfaces/ITrainingTask.sol";
import {Shares} from "../math/Shares.sol";
import {Rules} from "../types/TaskState.sol";

/// @title Terms
/// @notice The bounds of a task's terms: what could stall it, overflow a transaction or make a lie pay is refused.
library Terms {
    uint256 private constant WAD = 1e18;
    uint256 internal constant PAID_CALLS = 12;
    uint256 private constant MAX_UPDATES = 128;
    uint256 private constant MAX_COMMITTEE = 45;
    uint256 private constant MIN_INTERNALS = 2;
    uint256 private constant MAX_SCORES = 2048;
    uint256 private constant MAX_PROOF_BYTES = 120_000;
    uint256 private constant MAX_BETA = 1e21;
    uint256 private constant MIN_STAKE = 1000;
    /// Stake can be locked for as long as a round takes: at most twelve phases.
    uint256 private constant MAX_PHASE_SECONDS = 7 days;

    /// @notice Reverts with the name of the first field that is out of bounds.
    function check(TaskConfig calldata c, uint256 escrow, uint256 phaseFloor) internal pure {
        _checkShape(c);
        _checkRule(c);
        _checkTimes(c, phaseFloor);
        _checkMoney(c, escrow / c.rounds);
    }

    function _checkShape(TaskConfig calldata c) private pure {
        uint256 d = c.dimension;
        uint256 size = c.committeeSize;
        uint256 most = c.maxUpdates;
        _bound(d >= 1 && d < 1 << 32, "dimension");
        _bound(c.depth == FixedPointMathLib.log2Up((d + 63) / 64), "depth");
        _bound(c.scale <= 31, "scale");
        // Whom the sponsor appoints may be two; an even number decides by more than half, as an odd one does.
        bool fits = c.minInternals == 0 ? size >= 3 && size % 2 == 1 : size >= MIN_INTERNALS;
        _bound(fits && size <= MAX_COMMITTEE, "committeeSize");
        _bound(most >= 1 && most <= MAX_UPDATES && most * size <= MAX_SCORES, "maxUpdates");
        _bound((most + 2) * (256 + 32 * uint256(c.depth)) < MAX_PROOF_BYTES, "proofBytes");
    }

    function _checkRule(TaskConfig calldata c) private pure {
        _bound(c.minUpdates >= _ruleMinimum(c) && c.minUpdates <= c.maxUpdates, "minUpdates");
        _bound(c.rule != Rule.MultiKrum || (c.selected >= 1 && c.selected <= c.minUpdates), "selected");
        _bound(c.maxSamples >= 1, "maxSamples");
        // VaRSeL's internals stand in the head's place.
        bool weighs = c.rule == Rule.Varsel;
        _bound(
            c.alpha != 0 && c.alpha <= WAD && Shares.TOTAL - Shares.ofHead(c.alpha) >= c.maxUpdates
                && (!weighs || c.alpha == WAD),
            "alpha"
        );
        _bound(c.beta <= MAX_BETA, "beta");
        _bound(!Rules.isElected(c.rule) || (c.keep != 0 && c.keep <= WAD), "keep");
        _bound(c.minInternals == 0 && !weighs || _mayAppoint(c), "minInternals");
        _bound(c.internalsTrain ? _mayTrain(c) : !weighs, "internalsTrain");
    }

    /// @dev A list names the internals, and no rule elects others in their place.
    function _mayAppoint(TaskConfig calldata c) private pure returns (bool) {
        return c.minInternals >= MIN_INTERNALS && c.minInternals <= c.committeeSize && c.admissionRoot != 0
            && !Rules.isElected(c.rule);
    }

    /// @dev Beside an appointed committee that trains somebody else has to have room.
    function _mayTrain(TaskConfig calldata c) private pure returns (bool) {
        return c.minInternals != 0 && c.maxUpdates > c.committeeSize;
    }

    function _checkTimes(TaskConfig calldata c, uint256 phaseFloor) private pure {
        _bound(c.redrawEvery >= 1, "redrawEvery");
        _bound(c.rounds >= 1, "rounds");
        // The largest number says that the head has no score: nothing may take it for one that was reached.
        _bound(c.target < type(uint128).max, "target");
        _bound(c.minStake >= MIN_STAKE, "minStake");
        uint256 floor = FixedPointMathLib.max(1, phaseFloor);
        _bound(
            _isLength(c.trainSeconds, floor) && _isLength(c.revealSeconds, floor)
                && _isLength(c.scoreSeconds, floor) && _isLength(c.tallySeconds, floor)
                && _isLength(c.proposeSeconds, floor) && _isLength(c.challengeSeconds, floor),
            "phaseSeconds"
        );
    }

    function _isLength(uint256 length, uint256 floor) private pure returns (bool) {
        return length >= floor && length <= MAX_PHASE_SECONDS;
    }

    function _checkMoney(TaskConfig calldata c, uint256 budget) private pure {
        _bound(uint256(c.workersPart) + c.committeePart <= WAD, "parts");
        _bound(PAID_CALLS * c.callerFee <= budget, "callerFee");
        _bound(c.livenessSlash <= WAD / 100, "livenessSlash");
        _bound(c.noRevealSlash <= WAD / 20, "noRevealSlash");
        _bound(c.lieSlash <= WAD && uint256(c.minStake) * c.lieSlash / WAD >= 2 * budget, "lieSlash");
        _bound(c.finderPart <= 3 * WAD / 10, "finderPart");
        _bound(c.burnPart >= WAD / 2 && c.burnPart <= WAD - c.finderPart, "burnPart");
    }

    /// @dev How many included updates the rule needs to mean anything.
    function _ruleMinimum(TaskConfig calldata c) private pure returns (uint256) {
        if (c.rule == Rule.FedRob) return 2 * uint256(c.tolerated) + 1;
        if (c.rule == Rule.Krum || c.rule == Rule.MultiKrum) return 2 * uint256(c.tolerated) + 3;
        return Rules.isElected(c.rule) ? c.committeeSize : 1;
    }

    function _bound(bool holds, string memory name) private pure {
        require(holds, ITaskFactory.BadConfig(name));
    }
}
