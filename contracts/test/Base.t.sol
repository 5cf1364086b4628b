// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The cheatcodes that our tests use.
interface Vm {
    function addr(uint256 key) external pure returns (address);
    function assume(bool condition) external pure;
    function cool(address account) external;
    function deal(address account, uint256 balance) external;
    function deployCode(string calldata name) external returns (address);
    function deployCode(string calldata name, bytes calldata arguments) external returns (address);
    function etch(address account, bytes calldata code) external;
    function expectEmit() external;
    function expectRevert() external;
    function expectRevert(bytes4 selector) external;
    function expectRevert(bytes calldata data) external;
    function getCode(string calldata name) external view returns (bytes memory);
    function getBlockNumber() external view returns (uint256);
    function getBlockTimestamp() external view returns (uint256);
    function label(address account, string calldata name) external;
    function parseJsonBool(string calldata json, string calldata key) external pure returns (bool);
    function parseJsonBytes(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonBytes32(string calldata json, string calldata key) external pure returns (bytes32);
    function parseJsonBytes32Array(string calldata json, string calldata key)
        external
        pure
        returns (bytes32[] memory);
    function parseJsonBytesArray(string calldata json, string calldata key)
        external
        pure
        returns (bytes[] memory);
    function parseJsonStringArray(string calldata json, string calldata key)
        external
        pure
        returns (string[] memory);
    function parseJsonString(string calldata json, string calldata key) external pure returns (string memory);
    function parseJsonUint(string calldata json, string calldata key) external pure returns (uint256);
    function parseJsonUintArray(string calldata json, string calldata key)
        external
        pure
        returns (uint256[] memory);
    function keyExistsJson(string calldata json, string calldata key) external view returns (bool);
    function exists(string calldata path) external view returns (bool);
    function prank(address sender) external;
    function readFile(string calldata path) external view returns (string memory);
    function revertToState(uint256 id) external returns (bool);
    function roll(uint256 blockNumber) external;
    function setBlockhash(uint256 blockNumber, bytes32 hash) external;
    function snapshotState() external returns (uint256);
    function snapshotGasLastCall(string calldata group, string calldata name) external returns (uint256);
    function snapshotValue(string calldata group, string calldata name, uint256 value) external;
    function startPrank(address sender) external;
    function stopPrank() external;
    function toString(uint256 value) external pure returns (string memory);
    function warp(uint256 timestamp) external;

    function assertEq(bool found, bool expected) external pure;
    function assertEq(uint256 found, uint256 expected) external pure;
    function assertEq(uint256 found, uint256 expected, string calldata message) external pure;
    function assertEq(address found, address expected) external pure;
    function assertEq(bytes32 found, bytes32 expected) external pure;
    function assertEq(uint256[] calldata found, uint256[] calldata expected) external pure;
    function assertGe(uint256 found, uint256 bound) external pure;
    function assertLe(uint256 found, uint256 bound) external pure;
    function assertLe(uint256 found, uint256 bound, string calldata message) external pure;
    function assertLt(uint256 found, uint256 bound) external pure;
    function assertTrue(bool condition) external pure;
    function assertTrue(bool condition, string calldata message) external pure;
    function assertFalse(bool condition) external pure;
}

/// @notice What every test starts from. Invariant tests also say here which calls forge may make.
abstract contract BaseTest {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    /// forge looks for it to know a test from a contract.
    bool public constant IS_TEST = true;

    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    address[] private _targetContracts;
    FuzzSelector[] private _targetSelectors;

    function targetContracts() external view returns (address[] memory) {
        return _targetContracts;
    }

    function targetSelectors() external view returns (FuzzSelector[] memory) {
        return _targetSelectors;
    }

    function _target(address handler, bytes4[] memory selectors) internal {
        _targetContracts.push(handler);
        _targetSelectors.push(FuzzSelector(handler, selectors));
    }

    /// @dev Folds a fuzzed number into `[low, high]`, the ends as likely as anything else.
    function _bound(uint256 value, uint256 low, uint256 high) internal pure returns (uint256) {
        if (value >= low && value <= high) return value;
        uint256 size = high - low + 1;
        return size == 0 ? value : low + value % size;
    }

    function _account(uint256 number) internal pure returns (address) {
        return address(uint160(uint256(keccak256(abi.encode("account", number)))));
    }

    function _path(string memory prefix, uint256 index, string memory suffix)
        internal
        pure
        returns (string memory)
    {
        return string.concat(prefix, "[", vm.toString(index), "]", suffix);
    }
}
