// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Why stake is taken.
enum Slash {
    Liveness,
    NoReveal,
    Lie
}

/// @notice An account's stake in one task.
struct Allocation {
    /// Stake that counts in draws.
    uint128 bonded;
    /// Stake on its way out: it counts in no draw and is slashed in proportion until released.
    uint128 unbonding;
    /// Claims on `unbonding`: a request for x wei gets x shares at first, fewer wei per share after a slash.
    uint128 shares;
    /// How often the pool was closed because slashes left nothing of it; older requests are worth 0.
    uint64 generation;
    /// How many requests were made; they are numbered from 0.
    uint64 requests;
}

/// @notice One deallocation on its way out.
struct Request {
    uint128 shares;
    uint64 releaseAt;
    uint64 generation;
}

/// @title IStakeRegistry
/// @notice Holds everybody's stake. Stake is *free* (its owner's to withdraw), *bonded* to one task, or *unbonding* from it.
/// A task can slash what is allocated to it and nothing else, so nobody keeps a list of slashers.
///
/// Every wei the registry was paid is free stake of somebody, bonded, unbonding, or burned. Burned ether stays here for ever
/// and is counted. Ether that was forced in (selfdestruct, block rewards) belongs to nobody and is not counted.
///
/// Free stake is pulled, never pushed: a finder's part is free stake of the finder, a task's part is free stake of the task.
interface IStakeRegistry {
    /* EVENTS */

    /// @notice Free stake of `account` grew by `amount` that was paid in.
    event Deposited(address indexed account, uint256 amount);

    /// @notice `amount` of the account's free stake left to `to`.
    event Withdrawn(address indexed account, address indexed to, uint256 amount);

    /// @notice `amount` of the account's free stake is now bonded to the task.
    event Allocated(address indexed task, address indexed account, uint256 amount);

    /// @notice `amount` of bonded stake is now unbonding, claimed by `shares` of the pool.
    event Deallocated(
        address indexed task,
        address indexed account,
        uint256 indexed request,
        uint256 amount,
        uint256 shares,
        uint256 releaseAt
    );

    /// @notice A request is done: `amount` of unbonding stake is free.
    event Released(address indexed task, address indexed account, uint256 indexed request, uint256 amount);

    /// @notice A task took stake: `fromBonded + fromUnbonding = toFinder + toEscrow + burned`.
    event Slashed(
        address indexed task,
        address indexed account,
        Slash kind,
        uint256 fromBonded,
        uint256 fromUnbonding,
        address finder,
        uint256 toFinder,
        uint256 toEscrow,
        uint256 burned
    );

    /// @notice Slashes left less than 2^-32 wei per share: all open requests are now worth 0 and the `returned` dust is bonded.
    event PoolClosed(address indexed task, address indexed account, uint256 returned);

    /// @notice The account lets `operator` act for it in this task; the zero address: nobody.
    event OperatorNamed(address indexed task, address indexed account, address indexed operator);

    /* ERRORS */

    /// @notice Stake can only go to tasks that this registry's factory created.
    error NotATask(address task);

    /// @notice A change of nothing is a mistake.
    error ZeroAmount();

    /// @notice The account has less free stake than it isEnrolled to use.
    error NotEnoughFree(address account, uint256 free, uint256 wanted);

    /// @notice The account has less bonded to the task than it isEnrolled to take out.
    error NotEnoughBonded(address task, address account, uint256 bonded, uint256 wanted);

    /// @notice There is no such request, or it was released already.
    error NoSuchRequest(address task, address account, uint256 request);

    /// @notice The request has to wait.
    error StillUnbonding(uint256 releaseAt);

    /// @notice The account's stake is locked in a round of the task.
    error StakeLocked(address task, address account);

    /// @notice A slash takes more, or gives away more of it, than this registry allows.
    error SlashTooHigh(Slash kind, uint256 share, uint256 limit);

    /// @notice A lie slash gives the finder too much or burns too little.
    error BadSplit(uint256 finderPart, uint256 burnPart);

    /// @notice The receiver refused the ether.
    error TransferFailed(address to, uint256 amount);

    /* STAKE */

    /// @notice Adds what is paid to the caller's free stake.
    function deposit() external payable;

    /// @notice Bonds `amount` of the caller's free stake to a task; ether sent along is deposited first.
    function allocate(address task, uint256 amount) external payable;

    /// @notice Starts to take `amount` out of a task. It counts in no draw once the task has applied the change, and stays
    /// slashable until it is released.
    /// @return request The number to release it by.
    function deallocate(address task, uint256 amount) external returns (uint256 request);

    /// @notice Frees a request that has waited long enough, when no open round locks the caller.
    /// @dev It is worth what slashes left of it, 0 in the worst case: a matured request never gets stuck.
    /// @return amount What it was worth.
    function release(address task, uint256 request) external returns (uint256 amount);

    /// @notice Sends `amount` of the caller's free stake to `to`.
    /// @dev A receiver that refuses makes the call revert and harms nobody else.
    function withdraw(uint256 amount, address to) external;

    /* OPERATORS */

    /// @notice Names the key that may enrol and act in rounds of this task for the caller's stake; the zero address: none.
    /// It can neither withdraw, release, deallocate nor claim, and what it earns is the caller's.
    /// @dev It acts once it has accepted (`ITrainingTask.enrolFor`), from the next draw on; the one before it until then. The
    /// caller itself may act at all times.
    /// Warning: an operator can get the stake slashed, by lies and by silence, though it can never have it.
    function setOperator(address task, address operator) external;

    /* SLASHING */

    /// @notice The calling task burns ⌊share⌋ of what the account has bonded to and unbonding from it.
    /// @param kind `Liveness` (at most 1 %) or `NoReveal` (at most 5 %).
    /// @param share WAD.
    /// @return amount What was burned.
    /// @return left What the account still has bonded to the task: its weight in draws follows from it.
    function slash(address account, Slash kind, uint256 share) external returns (uint256 amount, uint256 left);

    /// @notice The calling task takes ⌊share⌋ for a proven lie: part to the finder, part burned, the rest to the task.
    /// @param share WAD, at most 10^18.
    /// @param finder Who noted the finding first; the zero address: the finder's part is burned.
    /// @param finderPart WAD, at most 30 %: or a liar could get its stake back by convicting itself.
    /// @param burnPart WAD, at least 50 %. Finder's and task's parts round down, the burned part up.
    function slashLie(address account, uint256 share, address finder, uint256 finderPart, uint256 burnPart)
        external
        returns (uint256 amount);

    /* VIEWS */

    /// @notice The factory whose tasks stake can go to.
    function factory() external view returns (address);

    /// @notice All that was ever burned.
    function burned() external view returns (uint256);

    /// @notice The account's stake that it can allocate or withdraw.
    function free(address account) external view returns (uint256);

    /// @notice The account's stake in a task.
    function allocation(address task, address account) external view returns (Allocation memory);

    /// @notice Stake that counts in the task's draws.
    function bonded(address task, address account) external view returns (uint256);

    /// @notice Whom the account named in this task; the zero address: nobody.
    function operatorOf(address task, address account) external view returns (address);

    /// @notice An open request; all zero when there is none.
    function request(address task, address account, uint256 number) external view returns (Request memory);

    /// @notice What a request is worth now.
    function worth(address task, address account, uint256 number) external view returns (uint256);
}
