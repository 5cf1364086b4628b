// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "./Base.t.sol";

/// @dev The numbers that Python publishes are what Solidity's own `abi.encode` and `keccak256` give.
contract CommitmentsTest is BaseTest {
    string private _json;
    uint256[] private _chainId;
    uint256[] private _round;
    bytes[] private _contract;
    bytes[] private _sender;
    bytes32[] private _salt;

    function setUp() external {
        _json = vm.readFile("../tests/vectors/commitments.json");
        _chainId = vm.parseJsonUintArray(_json, ".chain_id");
        _round = vm.parseJsonUintArray(_json, ".round");
        _contract = vm.parseJsonBytesArray(_json, ".contract");
        _sender = vm.parseJsonBytesArray(_json, ".sender");
        _salt = vm.parseJsonBytes32Array(_json, ".salt");
    }

    function test_payloads_publishedVectors_agree() external view {
        bytes32[] memory root = vm.parseJsonBytes32Array(_json, ".root");
        bytes32[] memory cid = vm.parseJsonBytes32Array(_json, ".cid");
        uint256[] memory samples = vm.parseJsonUintArray(_json, ".samples");
        bytes[] memory roots = vm.parseJsonBytesArray(_json, ".roots");
        bytes[] memory scores = vm.parseJsonBytesArray(_json, ".scores");
        bytes32[] memory worker = vm.parseJsonBytes32Array(_json, ".worker_payload");
        bytes32[] memory validator = vm.parseJsonBytes32Array(_json, ".validator_payload");

        vm.assertTrue(worker.length != 0);
        for (uint256 i = 0; i < worker.length; ++i) {
            vm.assertEq(keccak256(abi.encode(root[i], cid[i], uint64(samples[i]))), worker[i]);
            vm.assertEq(keccak256(abi.encode(keccak256(roots[i]), scores[i])), validator[i]);
        }
    }

    function test_commitments_publishedVectors_agree() external view {
        uint256[] memory taskId = vm.parseJsonUintArray(_json, ".task_id");
        uint256[] memory tag = vm.parseJsonUintArray(_json, ".phase_tag");
        bytes32[] memory payload = vm.parseJsonBytes32Array(_json, ".worker_payload");
        bytes32[] memory expected = vm.parseJsonBytes32Array(_json, ".worker_commitment");

        vm.assertTrue(expected.length != 0);
        for (uint256 i = 0; i < expected.length; ++i) {
            bytes memory encoded = abi.encode(
                _chainId[i],
                address(bytes20(_contract[i])),
                taskId[i],
                uint64(_round[i]),
                uint8(tag[i]),
                address(bytes20(_sender[i])),
                payload[i],
                _salt[i]
            );
            vm.assertEq(keccak256(encoded), expected[i]);
        }
    }

    function test_notesAndSeeds_publishedVectors_agree() external view {
        uint256[] memory attempt = vm.parseJsonUintArray(_json, ".attempt");
        uint256[] memory position = vm.parseJsonUintArray(_json, ".position");
        bytes32[] memory blockHash = vm.parseJsonBytes32Array(_json, ".block_hash");
        bytes32[] memory note = vm.parseJsonBytes32Array(_json, ".finder_note");
        bytes32[] memory seed = vm.parseJsonBytes32Array(_json, ".draw_seed");

        vm.assertTrue(note.length != 0);
        for (uint256 i = 0; i < note.length; ++i) {
            address task = address(bytes20(_contract[i]));
            address sender = address(bytes20(_sender[i]));
            bytes memory found = abi.encode(
                _chainId[i], task, uint64(_round[i]), uint8(attempt[i]), uint64(position[i]), sender, _salt[i]
            );
            vm.assertEq(keccak256(found), note[i]);
            vm.assertEq(keccak256(abi.encode(_chainId[i], task, uint64(_round[i]), blockHash[i])), seed[i]);
        }
    }
}
