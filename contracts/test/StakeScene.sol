// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IStakeRegistry, Slash} from "../src/interfaces/IStakeRegistry.sol";
import {IStakeTask} from "../src/interfaces/IStakeTask.sol";
import {ITaskList} from "../src/interfaces/ITaskList.sol";

/// @notice A task as the registry sees one: it can be told to lock, to end, and to slash.
contract StakeTask is IStakeTask {
    IStakeRegistry private immutable _registry;

    uint64 public unbondingSeconds = 7 days;
    mapping(address account => bool) public isLocked;
    mapping(address account => uint256) public told;

    constructor(IStakeRegistry registry) {
        _registry = registry;
    }

    receive() external payable {}

    function onStakeChanged(address account, uint256 bonded) external {
        told[account] = bonded;
    }

    mapping(address owner => address) public operator;

    function onOperatorNamed(address owner, address named) external {
        operator[owner] = named;
    }

    function lock(address account, bool locked) external {
        isLocked[account] = locked;
    }

    function end() external {
        unbondingSeconds = 0;
    }

    function slash(address account, Slash kind, uint256 share) external returns (uint256, uint256) {
        return _registry.slash(account, kind, share);
    }

    function slashLie(address account, uint256 share, address finder, uint256 finderPart, uint256 burnPart)
        external
        returns (uint256)
    {
        return _registry.slashLie(account, share, finder, finderPart, burnPart);
    }

    function takeEscrow(uint256 amount) external {
        _registry.withdraw(amount, address(this));
    }
}

/// @notice The factory as the registry sees it.
contract TaskList is ITaskList {
    mapping(address task => bool) public isTask;

    /// @dev Deploys the registry from its creation code, as the real factory does.
    function deploy(bytes memory code) external returns (IStakeRegistry registry) {
        assembly ("memory-safe") {
            registry := create(0, add(code, 32), mload(code))
        }
        require(address(registry) != address(0), "the registry could not be deployed");
    }

    function createTask(IStakeRegistry registry) external returns (StakeTask task) {
        task = new StakeTask(registry);
        isTask[address(task)] = true;
    }
}

/// @notice Takes ether by starting over: withdraws again as long as it can.
contract Reentrant {
    IStakeRegistry private immutable _registry;
    uint256 public taken;

    constructor(IStakeRegistry registry) {
        _registry = registry;
    }

    receive() external payable {
        taken += msg.value;
        try _registry.withdraw(msg.value, address(this)) {} catch {}
    }

    function deposit() external payable {
        _registry.deposit{value: msg.value}();
    }

    function withdraw(uint256 amount) external {
        _registry.withdraw(amount, address(this));
    }
}

/// @notice Refuses all ether.
contract Refuser {}
