// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {AggregateProof, Claim} from "../../src/math/AggregateProof.sol";
import {BaseTest} from "../Base.t.sol";
import {IRules} from "../IRules.sol";
import {Models} from "../Models.sol";

contract AggregateProofTest is BaseTest {
    uint256 private constant PARAMETERS = 70;
    uint256 private constant DEPTH = 1;
    uint256 private constant ITEM = 256 + 32 * DEPTH;

    IRules private immutable _rules = IRules(vm.deployCode("RulesHarness.sol:RulesHarness"));

    /// One round in memory: what was aggregated, and with which shares.
    struct Scene {
        uint32[] head;
        uint32[][] updates;
        uint256[] shares;
        bool byRank;
        uint32[] aggregate;
    }

    function testFuzz_refute_changedParameter_isConvicted(
        bytes32 seed,
        uint256 position,
        uint32 wrong,
        bool byRank
    ) external view {
        Scene memory scene = _scene(seed, byRank);
        position = _bound(position, 0, PARAMETERS - 1);
        uint32 right = scene.aggregate[position];
        vm.assume(wrong != right);
        scene.aggregate[position] = wrong;

        (uint256 found, uint256 expected) = _rules.refute(_claim(scene), position, _evidence(scene, position));

        vm.assertEq(found, wrong);
        vm.assertEq(expected, right);
    }

    function testFuzz_refute_honestAggregate_isNeverConvicted(bytes32 seed, uint256 position, bool byRank)
        external
    {
        Scene memory scene = _scene(seed, byRank);
        position = _bound(position, 0, 127);
        uint256 right = position < PARAMETERS ? scene.aggregate[position] : 1 << 31;
        Claim memory claim = _claim(scene);
        bytes memory evidence = _evidence(scene, position);

        vm.expectRevert(abi.encodeWithSelector(AggregateProof.NoLie.selector, right));
        _rules.refute(claim, position, evidence);
    }

    function testFuzz_refute_junkInThePadding_isConvicted(bytes32 seed, uint256 position, uint32 junk)
        external
        view
    {
        vm.assume(junk != 1 << 31);
        position = _bound(position, PARAMETERS, 127);
        Scene memory scene = _scene(seed, false);
        scene.aggregate = _withPadding(scene.aggregate, position, junk);

        (uint256 found, uint256 expected) = _rules.refute(_claim(scene), position, _evidence(scene, position));

        vm.assertEq(found, junk);
        vm.assertEq(expected, 1 << 31);
    }

    function testFuzz_refute_itemOfAnotherModel_reverts(bytes32 seed, uint256 position, uint256 bit)
        external
    {
        Scene memory scene = _scene(seed, false);
        position = _bound(position, 0, PARAMETERS - 1);
        scene.aggregate[position] ^= 1;
        Claim memory claim = _claim(scene);
        bytes memory evidence = _evidence(scene, position);
        bit = _bound(bit, 0, evidence.length * 8 - 1);
        evidence[bit / 8] = bytes1(uint8(evidence[bit / 8]) ^ uint8(1 << (bit & 7)));

        vm.expectRevert(abi.encodeWithSelector(AggregateProof.BadProof.selector, bit / 8 / ITEM));
        _rules.refute(claim, position, evidence);
    }

    function testFuzz_refute_wrongLength_reverts(bytes32 seed, uint256 length) external {
        Scene memory scene = _scene(seed, false);
        Claim memory claim = _claim(scene);
        uint256 right = _evidence(scene, 0).length;
        length = _bound(length, 0, 2 * right);
        vm.assume(length != right);

        uint256 item = length < right ? length / ITEM : right / ITEM;
        vm.expectRevert(abi.encodeWithSelector(AggregateProof.BadProof.selector, item));
        _rules.refute(claim, 0, new bytes(length));
    }

    function testFuzz_refute_positionBeyondTheTree_reverts(uint256 position) external {
        position = _bound(position, 128, type(uint256).max);
        Scene memory scene = _scene("seed", false);
        Claim memory claim = _claim(scene);
        bytes memory evidence = _evidence(scene, 0);

        vm.expectRevert(abi.encodeWithSelector(AggregateProof.BadPosition.selector, position));
        _rules.refute(claim, position, evidence);
    }

    function test_refute_positionRightBehindTheTree_reverts() external {
        Scene memory scene = _scene("seed", false);
        Claim memory claim = _claim(scene);
        bytes memory evidence = _evidence(scene, 0);

        vm.expectRevert(abi.encodeWithSelector(AggregateProof.BadPosition.selector, 128));
        _rules.refute(claim, 128, evidence);
    }

    function test_refute_updateWithoutAPart_needsNoLeaf() external view {
        Scene memory scene = _scene("seed", false);
        scene.shares = new uint256[](scene.updates.length + 1);
        scene.shares[2] = 1 << 31;
        scene.aggregate = Models.random("lie", PARAMETERS);

        bytes memory evidence = _evidence(scene, 5);
        (, uint256 expected) = _rules.refute(_claim(scene), 5, evidence);

        vm.assertEq(evidence.length, 2 * ITEM);
        vm.assertEq(expected, scene.updates[1][5]);
    }

    function test_refute_publishedVectors_agree() external {
        string memory json = vm.readFile("../tests/vectors/combine.json");
        string[] memory by = vm.parseJsonStringArray(json, ".by");
        bytes[] memory shares = vm.parseJsonBytesArray(json, ".shares");
        bytes[] memory values = vm.parseJsonBytesArray(json, ".values");
        uint256[] memory result = vm.parseJsonUintArray(json, ".result");

        vm.assertTrue(by.length != 0);
        for (uint256 i = 0; i < by.length; ++i) {
            bool byRank = keccak256(bytes(by[i])) == keccak256("rank");
            // A call of its own for each row gives its memory back.
            this.refuteRow(byRank, _words(shares[i]), _words(values[i]), result[i]);
        }
    }

    function refuteRow(bool byRank, uint256[] memory shares, uint256[] memory values, uint256 result)
        external
    {
        Scene memory scene;
        scene.byRank = byRank;
        scene.shares = shares;
        scene.head = _single(values[0]);
        scene.updates = new uint32[][](values.length - 1);
        for (uint256 k = 1; k < values.length; ++k) {
            scene.updates[k - 1] = _single(values[k]);
        }
        scene.aggregate = _single(result);
        Claim memory claim = _claim(scene);
        (claim.parameters, claim.depth) = (1, 0);
        bytes memory evidence = _evidence(scene, 0);

        vm.expectRevert(abi.encodeWithSelector(AggregateProof.NoLie.selector, result));
        _rules.refute(claim, 0, evidence);
    }

    function test_gas_ofAProof() external {
        (Claim memory claim, bytes memory evidence) = _wide(20, 16, false);
        _rules.refute(claim, 0, evidence);
        vm.snapshotGasLastCall("libraries", "proof, 20 updates, depth 16");
        (claim, evidence) = _wide(128, 20, true);
        _rules.refute(claim, 0, evidence);
        uint256 gas = vm.snapshotGasLastCall("libraries", "proof on ranks, 128 updates, depth 20");

        vm.assertLt(evidence.length, 120_000);
        vm.assertLt(gas, 16_777_216);
    }

    /// @dev K updates in descending order (the worst to sort), all with a part, in a tree whose leaves are all alike.
    function _wide(uint256 count, uint256 depth, bool byRank)
        private
        pure
        returns (Claim memory claim, bytes memory evidence)
    {
        claim.depth = depth;
        claim.parameters = 64 << depth;
        claim.byRank = byRank;
        claim.roots = new bytes32[](count);
        claim.shares = new uint256[](count + 1);
        bytes memory item;
        (claim.aggregateRoot, evidence) = _uniform(7, depth);
        (claim.headRoot, item) = _uniform(8, depth);
        evidence = bytes.concat(evidence, item);
        claim.shares[0] = 1 << 30;
        for (uint256 i = 0; i < count; ++i) {
            (claim.roots[i], item) = _uniform(uint32(type(uint32).max - i), depth);
            claim.shares[i + 1] = (1 << 30) / count;
            evidence = bytes.concat(evidence, item);
        }
    }

    function _uniform(uint32 value, uint256 depth) private pure returns (bytes32 root, bytes memory item) {
        uint32[] memory leaf = new uint32[](64);
        for (uint256 i = 0; i < 64; ++i) {
            leaf[i] = value;
        }
        item = Models.leafBytes(leaf, 0);
        root = sha256(bytes.concat(hex"00", item));
        for (uint256 level = 0; level < depth; ++level) {
            item = bytes.concat(item, root);
            root = sha256(bytes.concat(hex"01", root, root));
        }
    }

    function _scene(bytes32 seed, bool byRank) private pure returns (Scene memory scene) {
        uint256 count = 1 + uint256(keccak256(abi.encode("count", seed))) % 5;
        scene.byRank = byRank;
        scene.head = Models.random(keccak256(abi.encode("head", seed)), PARAMETERS);
        scene.updates = new uint32[][](count);
        scene.shares = new uint256[](count + 1);
        uint256 left = 1 << 31;
        for (uint256 i = 0; i < count; ++i) {
            scene.updates[i] = Models.random(keccak256(abi.encode(seed, i)), PARAMETERS);
            uint256 word = uint256(keccak256(abi.encode("share", seed, i)));
            scene.shares[i] = word % 3 == 0 ? 0 : (word >> 8) % (left + 1);
            left -= scene.shares[i];
        }
        scene.shares[count] = left;
        scene.aggregate = _combine(scene);
    }

    function _combine(Scene memory scene) private pure returns (uint32[] memory out) {
        out = new uint32[](PARAMETERS);
        uint256[] memory column = new uint256[](scene.updates.length);
        for (uint256 position = 0; position < PARAMETERS; ++position) {
            for (uint256 i = 0; i < column.length; ++i) {
                column[i] = scene.updates[i][position];
            }
            if (scene.byRank) _sort(column);
            uint256 sum = scene.shares[0] * scene.head[position];
            for (uint256 i = 0; i < column.length; ++i) {
                sum += scene.shares[i + 1] * column[i];
            }
            out[position] = uint32((sum + (1 << 30)) >> 31);
        }
    }

    function _single(uint256 value) private pure returns (uint32[] memory model) {
        model = new uint32[](1);
        model[0] = uint32(value);
    }

    function _words(bytes memory packed) private pure returns (uint256[] memory words) {
        words = new uint256[](packed.length / 4);
        for (uint256 i = 0; i < packed.length; ++i) {
            words[i / 4] = words[i / 4] << 8 | uint8(packed[i]);
        }
    }

    function _sort(uint256[] memory column) private pure {
        for (uint256 i = 0; i < column.length; ++i) {
            for (uint256 j = i + 1; j < column.length; ++j) {
                if (column[j] < column[i]) (column[i], column[j]) = (column[j], column[i]);
            }
        }
    }

    function _withPadding(uint32[] memory model, uint256 position, uint32 junk)
        private
        pure
        returns (uint32[] memory out)
    {
        out = new uint32[](128);
        for (uint256 i = 0; i < 128; ++i) {
            out[i] = i < model.length ? model[i] : Models.BIAS;
        }
        out[position] = junk;
    }

    function _claim(Scene memory scene) private pure returns (Claim memory claim) {
        claim.aggregateRoot = Models.root(scene.aggregate);
        claim.headRoot = Models.root(scene.head);
        claim.roots = new bytes32[](scene.updates.length);
        for (uint256 i = 0; i < scene.updates.length; ++i) {
            claim.roots[i] = Models.root(scene.updates[i]);
        }
        claim.shares = scene.shares;
        claim.byRank = scene.byRank;
        claim.parameters = PARAMETERS;
        claim.depth = DEPTH;
    }

    function _evidence(Scene memory scene, uint256 position) private pure returns (bytes memory evidence) {
        uint256 leaf = position / 64;
        evidence = Models.item(scene.aggregate, leaf);
        if (position >= PARAMETERS) return evidence;
        if (scene.shares[0] != 0) evidence = bytes.concat(evidence, Models.item(scene.head, leaf));
        for (uint256 i = 0; i < scene.updates.length; ++i) {
            if (!scene.byRank && scene.shares[i + 1] == 0) continue;
            evidence = bytes.concat(evidence, Models.item(scene.updates[i], leaf));
        }
    }
}
