// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ScoreKind, Statistic} from "../src/math/Scores.sol";
import {BaseTest} from "./Base.t.sol";
import {IRules} from "./IRules.sol";

/// @dev The decisions that are published in tests/vectors are what the library decides.
contract ScoreVectorsTest is BaseTest {
    uint256 private constant HEAD_BYTES = 8;
    uint256 private constant NO_SCORE = type(uint128).max;

    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    string private _json;
    uint256[] private _kind;
    uint256[] private _committee;
    uint256[] private _updates;
    uint256[] private _included;
    bytes[] private _reveals;
    bytes[] private _statistics;

    function setUp() external {
        _json = vm.readFile("../tests/vectors/scores.json");
        _kind = vm.parseJsonUintArray(_json, ".kind");
        _committee = vm.parseJsonUintArray(_json, ".committee");
        _updates = vm.parseJsonUintArray(_json, ".updates");
        _included = vm.parseJsonUintArray(_json, ".included");
        _reveals = vm.parseJsonBytesArray(_json, ".reveals");
        _statistics = vm.parseJsonBytesArray(_json, ".statistics");
    }

    function test_judge_publishedVectors_agree() external view {
        uint256[] memory statistic = vm.parseJsonUintArray(_json, ".statistic");
        uint256[] memory head = vm.parseJsonUintArray(_json, ".head");
        uint256[] memory withheld = vm.parseJsonUintArray(_json, ".withheld");
        uint256[] memory headWithheld = vm.parseJsonUintArray(_json, ".head_withheld");

        vm.assertTrue(head.length != 0);
        for (uint256 i = 0; i < head.length; ++i) {
            (
                uint256 included,
                uint256 notAvailable,
                uint256[] memory statistics,
                uint256 headScore,
                bool isHeadWithheld
            ) = _rules.judge(_members(i), ScoreKind(_kind[i]), Statistic(statistic[i]), _updates[i]);

            vm.assertEq(notAvailable, withheld[i]);
            vm.assertEq(isHeadWithheld, headWithheld[i] == 1);

            vm.assertEq(included, _included[i]);
            vm.assertEq(_ofIncluded(statistics, included), _words(_statistics[i]));
            vm.assertEq(headScore == type(uint256).max ? NO_SCORE : headScore, head[i]);
        }
    }

    function test_deviation_publishedVectors_agree() external view {
        uint256[] memory cap = vm.parseJsonUintArray(_json, ".dev_cap");
        bytes[] memory deviations = vm.parseJsonBytesArray(_json, ".deviations");

        for (uint256 i = 0; i < cap.length; ++i) {
            uint256[] memory expected = _words(deviations[i]);
            bytes[] memory members = _members(i);
            uint256[] memory statistics = _words(_statistics[i]);
            for (uint256 j = 0; j < expected.length; ++j) {
                vm.assertEq(
                    _rules.deviation(members[j], ScoreKind(_kind[i]), _included[i], statistics, cap[i]),
                    expected[j]
                );
            }
        }
    }

    /// @dev The reveals of a row, then nothing for the members that are silent.
    function _members(uint256 i) private view returns (bytes[] memory members) {
        bytes memory data = _reveals[i];
        uint256 width = _kind[i] == 0 ? 64 : _kind[i] == 1 ? 128 : 1;
        uint256 length = HEAD_BYTES + (_updates[i] * width + 7) / 8;
        members = new bytes[](_committee[i]);
        for (uint256 j = 0; j < data.length / length; ++j) {
            members[j] = new bytes(length);
            for (uint256 k = 0; k < length; ++k) {
                members[j][k] = data[j * length + k];
            }
        }
    }

    /// @dev What the library leaves in the places of updates that are not included says nothing.
    function _ofIncluded(uint256[] memory statistics, uint256 included)
        private
        pure
        returns (uint256[] memory)
    {
        for (uint256 i = 0; i < statistics.length; ++i) {
            if (included >> i & 1 == 0) statistics[i] = 0;
        }
        return statistics;
    }

    function _words(bytes memory data) private pure returns (uint256[] memory words) {
        words = new uint256[](data.length / 32);
        for (uint256 i = 0; i < words.length; ++i) {
            for (uint256 k = 0; k < 32; ++k) {
                words[i] = words[i] << 8 | uint8(data[32 * i + k]);
            }
        }
    }
}
