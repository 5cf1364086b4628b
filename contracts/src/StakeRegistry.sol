// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {Allocation, IStakeRegistry, Request, Slash} from "./interfaces/IStakeRegistry.sol";
import {IStakeTask} from "./interfaces/IStakeTask.sol";
import {ITaskList} from "./interfaces/ITaskList.sol";

/// @title StakeRegistry
/// @notice See `IStakeRegistry`.
contract StakeRegistry is IStakeRegistry {
    using SafeCast for uint256;

    uint256 private constant WAD = 1e18;
    uint256 private constant MAX_LIVENESS = 0.01e18;
    uint256 private constant MAX_NO_REVEAL = 0.05e18;
    uint256 private constant MAX_FINDER = 0.3e18;
    uint256 private constant MIN_BURN = 0.5e18;
    /// A pool whose shares are worth less than 2^-32 wei is closed: so shares stay below 2^32 times the wei behind them.
    uint256 private constant WORTHLESS = 32;

    /* STORAGE */

    /// @inheritdoc IStakeRegistry
    address public immutable factory;
    /// @inheritdoc IStakeRegistry
    uint256 public burned;
    /// @inheritdoc IStakeRegistry
    mapping(address account => uint256) public free;
    mapping(address task => mapping(address account => Allocation)) private _allocations;
    mapping(address task => mapping(address account => mapping(uint256 number => Request))) private _requests;
    /// @inheritdoc IStakeRegistry
    mapping(address task => mapping(address account => address)) public operatorOf;

    /* CONSTRUCTOR */

    /// @dev The factory deploys its registry: so each knows the other and neither can be exchanged.
    constructor() {
        factory = msg.sender;
    }

    /* STAKE */

    /// @inheritdoc IStakeRegistry
    function deposit() external payable {
        require(msg.value != 0, ZeroAmount());

        free[msg.sender] += msg.value;

        emit Deposited(msg.sender, msg.value);
    }

    /// @inheritdoc IStakeRegistry
    function allocate(address task, uint256 amount) external payable {
        Allocation storage stake = _allocations[task][msg.sender];
        uint256 nowBonded = stake.bonded;
        require(amount != 0, ZeroAmount());
        // Only a task can have anything bonded to it.
        require(nowBonded != 0 || ITaskList(factory).isTask(task), NotATask(task));

        if (msg.value != 0) emit Deposited(msg.sender, msg.value);
        // What is paid and allocated at once need not be booked as free in between.
        if (msg.value != amount) _takeFree(msg.value, amount);
        nowBonded += amount;
        stake.bonded = nowBonded.toUint128();

        emit Allocated(task, msg.sender, amount);

        IStakeTask(task).onStakeChanged(msg.sender, nowBonded);
    }

    /// @inheritdoc IStakeRegistry
    function deallocate(address task, uint256 amount) external returns (uint256 number) {
        Allocation memory stake = _allocations[task][msg.sender];
        require(amount != 0, ZeroAmount());
        // Only a task can have anything bonded to it, so from here on `task` is one of ours.
        require(stake.bonded >= amount, NotEnoughBonded(task, msg.sender, stake.bonded, amount));
        uint256 releaseAt = block.timestamp + IStakeTask(task).unbondingSeconds();

        uint256 shares = stake.shares == 0 ? amount : amount * stake.shares / stake.unbonding;
        number = stake.requests++;
        stake.bonded -= amount.toUint128();
        stake.unbonding += amount.toUint128();
        stake.shares += shares.toUint128();
        _allocations[task][msg.sender] = stake;
        _requests[task][msg.sender][number] =
            Request(shares.toUint128(), releaseAt.toUint64(), stake.generation);

        emit Deallocated(task, msg.sender, number, amount, shares, releaseAt);

        IStakeTask(task).onStakeChanged(msg.sender, stake.bonded);
    }

    /// @inheritdoc IStakeRegistry
    function release(address task, uint256 number) external returns (uint256 amount) {
        Request memory asked = _requests[task][msg.sender][number];
        require(asked.releaseAt != 0, NoSuchRequest(task, msg.sender, number));
        require(block.timestamp >= asked.releaseAt, StillUnbonding(asked.releaseAt));
        // INVARIANT: stake that a round can still convict does not leave, even when nobody moved the round on for long.
        require(!IStakeTask(task).isLocked(msg.sender), StakeLocked(task, msg.sender));

        Allocation memory stake = _allocations[task][msg.sender];
        amount = _worth(stake, asked);
        delete _requests[task][msg.sender][number];
        if (asked.generation == stake.generation) {
            stake.unbonding -= amount.toUint128();
            stake.shares -= asked.shares;
            _allocations[task][msg.sender] = stake;
        }
        free[msg.sender] += amount;

        emit Released(task, msg.sender, number, amount);
    }

    /// @inheritdoc IStakeRegistry
    function withdraw(uint256 amount, address to) external {
        require(amount != 0, ZeroAmount());

        _takeFree(0, amount);

        emit Withdrawn(msg.sender, to, amount);

        // The sender's own free stake, taken off its account above, to where the sender says.
        // slither-disable-next-line arbitrary-send-eth
        (bool sent,) = to.call{value: amount}("");
        require(sent, TransferFailed(to, amount));
    }

    /* OPERATORS */

    /// @inheritdoc IStakeRegistry
    function setOperator(address task, address operator) external {
        require(ITaskList(factory).isTask(task), NotATask(task));

        operatorOf[task][msg.sender] = operator;

        emit OperatorNamed(task, msg.sender, operator);

        IStakeTask(task).onOperatorNamed(msg.sender, operator);
    }

    /* SLASHING */

    /// @inheritdoc IStakeRegistry
    function slash(address account, Slash kind, uint256 share)
        external
        returns (uint256 amount, uint256 left)
    {
        uint256 limit = kind == Slash.Liveness ? MAX_LIVENESS : kind == Slash.NoReveal ? MAX_NO_REVEAL : 0;
        require(share <= limit, SlashTooHigh(kind, share, limit));

        amount = _slash(account, kind, share, address(0), 0, WAD);
        left = _allocations[msg.sender][account].bonded;
    }

    /// @inheritdoc IStakeRegistry
    function slashLie(address account, uint256 share, address finder, uint256 finderPart, uint256 burnPart)
        external
        returns (uint256 amount)
    {
        require(share <= WAD, SlashTooHigh(Slash.Lie, share, WAD));
        require(
            finderPart <= MAX_FINDER && burnPart >= MIN_BURN && finderPart + burnPart <= WAD,
            BadSplit(finderPart, burnPart)
        );

        return _slash(account, Slash.Lie, share, finder, finderPart, burnPart);
    }

    /* VIEWS */

    /// @inheritdoc IStakeRegistry
    function allocation(address task, address account) external view returns (Allocation memory) {
        return _allocations[task][account];
    }

    /// @inheritdoc IStakeRegistry
    function bonded(address task, address account) external view returns (uint256) {
        return _allocations[task][account].bonded;
    }

    /// @inheritdoc IStakeRegistry
    function request(address task, address account, uint256 number) external view returns (Request memory) {
        return _requests[task][account][number];
    }

    /// @inheritdoc IStakeRegistry
    function worth(address task, address account, uint256 number) external view returns (uint256) {
        return _worth(_allocations[task][account], _requests[task][account][number]);
    }

    /* INTERNAL */

    /// @dev Takes from what the sender has, together with what it pays now.
    function _takeFree(uint256 paid, uint256 amount) private {
        uint256 has = free[msg.sender] + paid;
        require(has >= amount, NotEnoughFree(msg.sender, has, amount));

        free[msg.sender] = has - amount;
    }

    /// @dev Rounds down; the last request of a pool gets all of it.
    function _worth(Allocation memory stake, Request memory asked) private pure returns (uint256) {
        if (asked.shares == 0 || asked.generation != stake.generation) return 0;
        return uint256(asked.shares) * stake.unbonding / stake.shares;
    }

    /// @dev Whoever calls can only reach what is allocated to itself. The amount and the unbonding part of it round down.
    function _slash(
        address account,
        Slash kind,
        uint256 share,
        address finder,
        uint256 finderPart,
        uint256 burnPart
    ) private returns (uint256 amount) {
        (uint256 fromBonded, uint256 fromUnbonding, bool closed, uint256 dust) = _take(account, share);
        amount = fromBonded + fromUnbonding;
        if (amount == 0) return 0;

        uint256 toFinder = finder == address(0) ? 0 : amount * finderPart / WAD;
        uint256 toEscrow = amount * (WAD - finderPart - burnPart) / WAD;
        uint256 toBurn = amount - toFinder - toEscrow;
        burned += toBurn;
        if (toFinder != 0) free[finder] += toFinder;
        if (toEscrow != 0) free[msg.sender] += toEscrow;

        emit Slashed(msg.sender, account, kind, fromBonded, fromUnbonding, finder, toFinder, toEscrow, toBurn);
        if (closed) emit PoolClosed(msg.sender, account, dust);
    }

    function _take(address account, uint256 share)
        private
        returns (uint256 fromBonded, uint256 fromUnbonding, bool closed, uint256 dust)
    {
        Allocation memory stake = _allocations[msg.sender][account];
        uint256 whole = uint256(stake.bonded) + stake.unbonding;
        uint256 amount = whole * share / WAD;
        if (amount == 0) return (0, 0, false, 0);

        // The pool's part of an amount that is whole wei already: what is lost to rounding stays bonded.
        // slither-disable-next-line divide-before-multiply
        fromUnbonding = stake.unbonding * amount / whole;
        fromBonded = amount - fromUnbonding;
        stake.bonded -= fromBonded.toUint128();
        stake.unbonding -= fromUnbonding.toUint128();
        (closed, dust) = _closeIfWorthless(stake);
        _allocations[msg.sender][account] = stake;
    }

    /// @dev Without this, shares would grow without bound as slashes and new requests alternate, and one day overflow.
    function _closeIfWorthless(Allocation memory stake) private pure returns (bool closed, uint256 dust) {
        closed = uint256(stake.unbonding) << WORTHLESS < stake.shares;
        if (!closed) return (false, 0);

        dust = stake.unbonding;
        stake.bonded += stake.unbonding;
        stake.unbonding = 0;
        stake.shares = 0;
        ++stake.generation;
    }
}
