// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry} from "../src/interfaces/IStakeRegistry.sol";
import {ITaskFactory} from "../src/interfaces/ITaskFactory.sol";
import {ITrainingTask, Phase} from "../src/interfaces/ITrainingTask.sol";
import {BlockHeader} from "../src/math/BlockHeader.sol";
import {PackedDeviations} from "../src/packing/PackedDeviations.sol";
import {CommitBitmap} from "../src/packing/CommitBitmap.sol";
import {BaseTest} from "./Base.t.sol";
import {Headers} from "./Headers.sol";
import {StakeRegistryTest} from "./StakeRegistry.base.t.sol";
import {TaskTest} from "./TaskScene.t.sol";

/// @notice Bugs of the registry that no other test found (docs/mutants.md).
contract StakeRegistrySurvivorsTest is StakeRegistryTest {
    uint256 private constant WORTHLESS = 1 << 32;

    /// @dev Leaves `left` wei of a pool of 2^32 shares: a share is worth 2^-32 wei when one wei is left.
    function _poolWith(uint256 left) private returns (uint256 number) {
        number = _deallocate(10 ether);
        vm.warp(block.timestamp + 7 days);
        _release(number);
        vm.prank(_ada);
        _registry.allocate(address(_task), WORTHLESS);
        number = _deallocate(WORTHLESS);
        uint256 taken = WORTHLESS - left;
        _task.slashLie(_ada, (taken * 1e18 + WORTHLESS - 1) / WORTHLESS, address(0), 0, 1e18);
    }

    function test_slashLie_leavingSharesOfTwoToTheMinus32_keepsThePool() external {
        uint256 number = _poolWith(1);

        vm.assertEq(_stake().unbonding, 1);
        vm.assertEq(_stake().shares, WORTHLESS);
        vm.assertEq(_stake().generation, 0);
        vm.assertEq(_registry.worth(address(_task), _ada, number), 1);
    }

    function test_slashLie_leavingSharesOfLess_closesThePool() external {
        uint256 number = _poolWith(0);

        vm.assertEq(_stake().shares, 0);
        vm.assertEq(_stake().generation, 1);
        vm.assertEq(_registry.worth(address(_task), _ada, number), 0);
    }

    function testFuzz_deallocate_afterASlash_isWorthWhatWasAskedFor(uint256 share) external {
        uint256 older = _deallocate(4 ether);
        _task.slashLie(_ada, _bound(share, 0, 0.9e18), address(0), 0, 1e18);
        uint256 before = _registry.worth(address(_task), _ada, older);

        uint256 number = _deallocate(0.5 ether);

        vm.assertLe(0.5 ether - _registry.worth(address(_task), _ada, number), 1);
        vm.assertLe(_registry.worth(address(_task), _ada, older) - before, 1);
    }
}

/// @notice Who committed and revealed, with ids far apart and many in a word, against two plain mappings.
contract TaskUpdatesTest is BaseTest {
    using CommitBitmap for mapping(uint256 => uint256);

    uint256 private constant ACCOUNTS = 1_500_000;
    uint256 private constant ROUND = 7;

    mapping(uint256 key => uint256) private _words;
    mapping(uint256 id => bool) private _committed;
    mapping(uint256 id => bool) private _revealed;
    mapping(uint256 id => uint256) private _places;
    mapping(uint256 place => uint256) private _holders;

    /// @dev Ids from 1 on that stand at the ends of leaves and branches as often as anywhere.
    function _id(uint256 random) private pure returns (uint256) {
        uint256[5] memory starts = [uint256(0), 30, 30 * 216, 2 * 30 * 216, 30 * 216 * 216];
        uint256 start = starts[random % 5] + (random >> 8) % 3 * 15;
        return 1 + start + (random >> 16) % 30;
    }

    function _random(uint256 seed, uint256 i) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, i)));
    }

    function testFuzz_list_ofManyIds_isWhoCommittedAndWhoRevealed(uint256 seed) external {
        for (uint256 i = 0; i < 60; ++i) {
            uint256 id = _id(_random(seed, i));
            _words.commit(ROUND - 1, id);
            _words.reveal(ROUND - 1, id);
        }
        uint256 count = 0;
        uint256 shown = 0;
        for (uint256 i = 30; i < 90; ++i) {
            uint256 random = _random(seed, i);
            uint256 id = _id(random);
            if (_committed[id]) continue;
            _expectNothing(id);
            (bool isFirst, uint256 place) = _words.commit(ROUND, id);
            vm.assertTrue(isFirst);
            vm.assertEq(_holders[place], 0);
            (_places[id], _holders[place]) = (place, id);
            _committed[id] = true;
            ++count;
            (isFirst,) = _words.commit(ROUND, id);
            vm.assertFalse(isFirst);
            if (random >> 255 == 0) continue;
            _expectReveal(id, false);
            _expectReveal(id, true);
            _revealed[id] = true;
            ++shown;
        }

        (uint32[] memory revealed, uint32[] memory hidden, uint256[] memory places) =
            _words.list(ROUND, ACCOUNTS);

        vm.assertEq(_words.count(ROUND, ACCOUNTS), count);
        vm.assertEq(revealed.length, shown);
        vm.assertEq(places.length, shown);
        for (uint256 i = 0; i < shown; ++i) {
            vm.assertEq(places[i], _places[revealed[i]]);
        }
        vm.assertEq(hidden.length, count - shown);
        _expectAscending(revealed, true);
        _expectAscending(hidden, false);
    }

    /// @dev Whoever committed and revealed in an earlier round has done neither in this one.
    function _expectNothing(uint256 id) private {
        (bool committed, bool revealed) = _words.state(ROUND, id);
        vm.assertFalse(committed || revealed);
        uint256 place;
        (committed, revealed, place) = _words.reveal(ROUND, id);
        vm.assertFalse(committed || revealed);
        vm.assertEq(place, 0);
    }

    function _expectReveal(uint256 id, bool isAgain) private {
        (bool committed, bool revealed, uint256 place) = _words.reveal(ROUND, id);
        vm.assertTrue(committed);
        vm.assertEq(revealed, isAgain);
        vm.assertEq(place, _places[id]);
    }

    function _expectAscending(uint32[] memory ids, bool areRevealed) private view {
        for (uint256 i = 0; i < ids.length; ++i) {
            vm.assertTrue(_committed[ids[i]]);
            vm.assertEq(_words.placeOf(ids[i]), _places[ids[i]]);
            vm.assertEq(_revealed[ids[i]], areRevealed);
            if (i != 0) vm.assertLt(ids[i - 1], ids[i]);
            (bool committed, bool revealed) = _words.state(ROUND, ids[i]);
            vm.assertTrue(committed);
            vm.assertEq(revealed, areRevealed);
        }
    }
}

/// @notice Deviations of any committee under any cap are read as they were written.
contract TaskDeviationsTest is BaseTest {
    mapping(uint256 word => uint256) private _words;

    function testFuzz_get_afterSave_isEverybodysOwn(uint256 seed, uint256 cap, uint48 revealed) external {
        revealed &= (1 << 45) - 1;
        cap = _bound(cap, 0, type(uint128).max) >> seed % 128;
        uint256[] memory deviations = new uint256[](45);
        uint256 count = 0;
        for (uint256 position = 0; position < 45; ++position) {
            if (revealed >> position & 1 == 0) continue;
            uint256 random = uint256(keccak256(abi.encode(seed, position)));
            deviations[count++] = random % 3 == 0 ? cap : random % (cap + 1);
        }

        uint256 spare = PackedDeviations.save(_words, revealed, deviations, cap);

        uint256 n = 0;
        for (uint256 position = 0; position < 45; ++position) {
            if (revealed >> position & 1 == 0) continue;
            vm.assertEq(PackedDeviations.get(_words, spare, position, cap), deviations[n++]);
        }
    }
}

/// @notice Which header seeds a draw, and for how long.
contract DrawSurvivorsTest is TaskTest {
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    uint256 private constant REACH = 256;

    /// @dev The open draw's header, so many blocks after it, on a chain that knows hashes by the opcode only.
    function _headerAfter(uint256 blocks) private returns (bytes memory header) {
        uint256 at = _task.place().drawBlock;
        header = Headers.header(at);
        vm.etch(HISTORY, "");
        vm.roll(at + blocks);
        if (blocks <= REACH) vm.setBlockhash(at, keccak256(header));
    }

    function test_draw_fromTheOldestBlockThatTheOpcodeKnows_works() external {
        _task.draw(_headerAfter(REACH));

        vm.assertTrue(_task.place().phase == Phase.Train);
    }

    function test_draw_fromABlockThatTheOpcodeForgot_opensAgain() external {
        uint64 opened = _task.place().drawBlock;

        _task.draw(_headerAfter(REACH + 1));

        vm.assertTrue(_task.place().phase == Phase.Draw);
        vm.assertEq(_task.place().drawBlock, opened + REACH + 2);
    }

    function test_draw_whereTheHistoryIsYoungerThanTheBlock_works() external {
        bytes memory header = _headerAfter(1);
        // It answers every question with zero.
        vm.etch(HISTORY, hex"5f5f5260205ff3");

        _task.draw(header);

        vm.assertTrue(_task.place().phase == Phase.Train);
    }

    function test_draw_withAHeaderThatEndsBeforeItsRandomness_reverts() external {
        uint64 at = _task.place().drawBlock;
        bytes memory header = Headers.header(at);
        // Its last nine bytes are the nonce; one of the randomness is missing too.
        assembly ("memory-safe") {
            mstore(header, sub(mload(header), 10))
        }
        vm.etch(HISTORY, "");
        vm.roll(at + 1);
        vm.setBlockhash(at, keccak256(header));

        vm.expectRevert(abi.encodeWithSelector(ITrainingTask.BadHeader.selector, at));
        _task.draw(header);
    }

    function deploy(uint64 delay) external returns (ITaskFactory) {
        return
            ITaskFactory(vm.deployCode("TaskFactory.sol:TaskFactory", abi.encode(uint32(1), uint64(delay))));
    }

    function test_factory_withADelayFrom1To64_isMadeAndNoOther() external {
        vm.assertEq(this.deploy(1).seedDelay(), 1);
        vm.assertEq(this.deploy(64).seedDelay(), 64);

        uint64[2] memory bad = [uint64(0), 65];
        for (uint256 i = 0; i < bad.length; ++i) {
            (bool made,) = address(this).call(abi.encodeCall(this.deploy, (bad[i])));
            vm.assertFalse(made);
        }
    }

    function test_createTask_ofAFactory_waitsItsDelayForTheSeed() external {
        _factory = this.deploy(5);
        _registry = IStakeRegistry(_factory.registry());
        _task = _create(_terms());
        for (uint256 i = 1; i <= PEOPLE; ++i) {
            _enrol(_account(i));
        }

        vm.assertEq(_task.place().drawBlock, vm.getBlockNumber() + 5);
    }
}

/// @notice Headers of any chain: strings of all lengths stand before the randomness.
contract BlockHeaderTest is BaseTest {
    function read(bytes calldata header) external pure returns (bool found, bytes32 value) {
        return BlockHeader.mixHash(header);
    }

    function _string(bytes memory text) private pure returns (bytes memory) {
        if (text.length == 1 && uint8(text[0]) < 0x80) return text;
        if (text.length < 56) return abi.encodePacked(uint8(0x80 + text.length), text);
        if (text.length < 256) return abi.encodePacked(hex"b8", uint8(text.length), text);
        return abi.encodePacked(hex"b9", uint16(text.length), text);
    }

    /// @dev A number without leading zeros.
    function _number(uint256 value) private pure returns (bytes memory text) {
        for (; value != 0; value >>= 8) {
            text = abi.encodePacked(uint8(value), text);
        }
        return _string(text);
    }

    function testFuzz_mixHash_ofAnyHeader_isItsFourteenthField(
        bytes32 random,
        uint64[5] memory numbers,
        uint16 length,
        uint256 forkFields
    ) external view {
        bytes memory word = abi.encodePacked(hex"a0", keccak256(abi.encode(random)));
        bytes memory fields = abi.encodePacked(word, word, hex"94", bytes20(random), word, word, word);
        fields = abi.encodePacked(fields, _string(new bytes(256)));
        for (uint256 i = 0; i < 5; ++i) {
            fields = abi.encodePacked(fields, _number(numbers[i] >> numbers[i] % 64));
        }
        bytes memory extra = new bytes(length % 400);
        for (uint256 i = 0; i < extra.length; ++i) {
            extra[i] = bytes1(uint8(uint256(random) >> i % 32 * 8));
        }
        fields = abi.encodePacked(fields, _string(extra), hex"a0", random, hex"88", bytes8(random));
        for (uint256 i = 0; i < forkFields % 7; ++i) {
            fields = abi.encodePacked(fields, word);
        }

        (bool found, bytes32 value) = this.read(abi.encodePacked(hex"f9", uint16(fields.length), fields));

        vm.assertTrue(found);
        vm.assertEq(value, random);
    }
}
