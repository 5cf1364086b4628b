// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim} from "../src/math/AggregateProof.sol";
import {ScoreKind, Statistic} from "../src/math/Scores.sol";

/// @notice The libraries from outside: forge's tests call it, and Python's hold it against `chainfl.protocol`.
/// @dev Tests know contracts by interface and deploy what the compiler made for production: so tests themselves can
/// be compiled the quick way.
interface IRules {
    /* MERKLE, PROOF */
    function merkleRoot(bytes calldata item, uint256 index, uint256 depth) external view returns (bytes32);
    function valueAt(bytes calldata item, uint256 position) external pure returns (uint256);
    function refute(Claim calldata claim, uint256 position, bytes calldata evidence)
        external
        view
        returns (uint256 found, uint256 expected);

    /* HEADER */
    function mixHash(bytes calldata header) external pure returns (bool found, bytes32 value);

    /* SHARES */
    function headShare(uint256 alpha) external pure returns (uint256);
    function equal(uint256 count, uint256 available) external pure returns (uint256[] memory);
    function bySamples(uint256[] calldata samples, uint256 available) external pure returns (uint256[] memory);
    function softmax(uint256[] calldata statistics, uint256 beta, uint256 available)
        external
        pure
        returns (uint256[] memory);
    function onRanks(uint256 count, uint256 trim, uint256 available) external pure returns (uint256[] memory);

    function isWeighed(uint32[] calldata shares, uint256 included, uint256 own, uint256 budget)
        external
        pure
        returns (bool);

    /* SCORES, COMMITTEE */
    function isWellFormed(bytes calldata scores, ScoreKind kind, uint256 updates) external pure returns (bool);
    function judge(bytes[] calldata reveals, ScoreKind kind, Statistic statistic, uint256 updates)
        external
        pure
        returns (
            uint256 included,
            uint256 withheld,
            uint256[] memory statistics,
            uint256 head,
            bool isHeadWithheld
        );
    function deviation(
        bytes calldata scores,
        ScoreKind kind,
        uint256 included,
        uint256[] calldata statistics,
        uint256 cap
    ) external pure returns (uint256);
    function laneSums(bytes[] calldata losses, uint256 count)
        external
        pure
        returns (uint256[] memory means, bool plain);

    function laneGaps(bytes calldata losses, uint256[] memory statistics, uint256 cap)
        external
        pure
        returns (uint256 total, bool plain);

    function dropRepeats(uint256 included, bytes32[] calldata roots, bytes32 headRoot)
        external
        pure
        returns (uint256);
    function rank(uint256 included, uint256[] calldata statistics) external pure returns (uint256[] memory);
    function select(uint256[] calldata order, uint256 keep, bool far) external pure returns (uint256);
    function electMiddle(uint256[] calldata order, uint256 size) external pure returns (uint256[] memory);
    /// @notice What a tally computes for the softmax rules: a measure of gas.
    function tally(bytes[] calldata reveals, Statistic statistic, uint256 updates, uint256 beta, uint256 cap)
        external
        pure
        returns (uint256[] memory shares, uint256[] memory deviations);

    /* REWARDS */
    function ofWorker(uint256 pool, uint256 share, uint256 head) external pure returns (uint256);
    function ofValidator(uint256 pool, uint256 dev, uint256 devSum, uint256 paid)
        external
        pure
        returns (uint256);

    /* STAKE TREE */
    function treeSet(uint256 id, uint256 weight) external;
    function treeSetAll(uint256[] calldata weights) external;
    function treeGet(uint256 id) external view returns (uint256);
    function treeTotal() external view returns (uint256);
    function treeDraw(bytes32 seed, uint256[] calldata excluded, uint256 count)
        external
        view
        returns (uint256[] memory);
}
