// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";
import {Models} from "../Models.sol";

contract MerkleTest is BaseTest {
    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    function test_root_publishedVectors_agree() external view {
        string memory json = vm.readFile("../tests/vectors/merkle.json");
        uint256[] memory depth = vm.parseJsonUintArray(json, ".depth");
        uint256[] memory index = vm.parseJsonUintArray(json, ".index");
        bytes32[] memory root = vm.parseJsonBytes32Array(json, ".root");
        bytes[] memory leaf = vm.parseJsonBytesArray(json, ".leaf");
        bytes[] memory siblings = vm.parseJsonBytesArray(json, ".siblings");

        vm.assertTrue(root.length != 0);
        for (uint256 i = 0; i < root.length; ++i) {
            vm.assertEq(_rules.merkleRoot(bytes.concat(leaf[i], siblings[i]), index[i], depth[i]), root[i]);
        }
    }

    function testFuzz_root_everyLeafOfATree_leadsToItsRoot(bytes32 seed, uint256 parameters) external view {
        parameters = _bound(parameters, 1, 400);
        uint32[] memory model = Models.random(seed, parameters);
        uint256 depth = Models.depthOf(parameters);

        bytes32 root = Models.root(model);

        for (uint256 leaf = 0; leaf < 1 << depth; ++leaf) {
            vm.assertEq(_rules.merkleRoot(Models.item(model, leaf), leaf, depth), root);
        }
    }

    function testFuzz_root_oneChangedBit_leadsElsewhere(bytes32 seed, uint256 position, uint256 bit)
        external
        view
    {
        uint32[] memory model = Models.random(seed, 500);
        bytes memory item = Models.item(model, 3);
        bit = _bound(bit, 0, item.length * 8 - 1);
        position = _bound(position, 0, 7);

        item[bit / 8] = bytes1(uint8(item[bit / 8]) ^ uint8(1 << (bit & 7)));

        vm.assertTrue(_rules.merkleRoot(item, position, 3) != Models.root(model));
    }

    function testFuzz_root_leafInAnotherPlace_leadsElsewhere(bytes32 seed, uint256 place) external view {
        uint32[] memory model = Models.random(seed, 500);
        place = _bound(place, 0, 7);
        vm.assume(place != 3);

        bytes32 reached = _rules.merkleRoot(Models.item(model, 3), place, 3);

        vm.assertTrue(reached != Models.root(model));
    }

    function testFuzz_valueAt_anyPosition_isTheParameter(bytes32 seed, uint256 position) external view {
        uint32[] memory model = Models.random(seed, 200);
        position = _bound(position, 0, 199);

        uint256 value = _rules.valueAt(Models.item(model, position / 64), position);

        vm.assertEq(value, model[position]);
    }
}
