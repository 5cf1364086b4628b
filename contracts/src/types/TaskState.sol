// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Phase, Role, Rule} from "../interfaces/ITrainingTask.sol";
import {ScoreKind} from "../math/Scores.sol";
import {StakeTree} from "../math/SortitionTree.sol";

/// @notice Where a round stands: one word, so that most actions read all they need at once.
struct RoundState {
    uint64 round;
    /// In seconds, which fit for two billion years.
    uint56 deadline;
    /// How many callers of this round were credited their fee and not yet booked as owed (`RoundSteps.pending`).
    uint8 fees;
    Phase phase;
    uint8 attempt;
    bool extended;
    bool ending;
    /// Only the drawn workers and the backups train.
    bool limited;
    /// `State.elected` holds the next committee.
    bool hasElected;
    /// Two revealed roots are equal, or one is the head's.
    bool repeats;
    /// How many of the line of proposers had their turn or lost it.
    uint8 nextProposer;
    /// How many can commit an update.
    uint16 expected;
    /// R: revealed updates that are not the committee's own.
    uint8 updates;
    /// How many stand in the line of proposers, and how many workers were drawn.
    uint8 proposers;
    uint8 workers;
    /// Copies of the config's; an appointed committee has as many as the draw found.
    uint8 committeeSize;
    Rule rule;
    /// Bit 0: which of the two places in `State.heads` is the head's. Bit 1: the other one holds the head before it. Bit 2 is
    /// not about heads: somebody in this task once had an operator (`Operators`). Nor are bits 3 and 4 (`Internals`).
    uint8 heads;
}

/// @notice The gate to the draw, who was silent in a Challenge, and when the standing committee was elected.
struct DrawState {
    /// The block whose header seeds the draw.
    uint64 drawBlock;
    uint32 eligible;
    uint32 accounts;
    uint48 absent;
    uint64 electedAt;
    /// How many internals an appointed committee is made of.
    uint16 internals;
}

/// @notice A model that became final, and its block.
struct Head {
    bytes32 root;
    bytes32 blockCid;
}

/// @notice What the committee did, as sets of positions.
struct CommitteeBits {
    uint48 committed;
    uint48 revealed;
    uint48 attested;
    uint48 voted;
    uint48 convicted;
    /// Proposers outside the committee who were convicted, by their place in the line. The top bit is always set: a word that
    /// never becomes zero is cheaper to write.
    uint16 convictedLine;
}

/// @notice An account. `credit` is also that of callers who never enrolled.
struct Account {
    uint32 id;
    uint32 weight;
    /// Rounds take at least a second each: 40 bits last.
    uint40 activeFrom;
    bool isEnrolled;
    /// How often in a row it was drawn to train and noted as absent.
    uint8 missed;
    uint128 credit;
    Role role;
}

/// @notice For whom an operator's key acts: from round `since` until before round `until`, 2^48 - 1: until further notice.
struct Operator {
    address owner;
    uint48 since;
    uint48 until;
}

/// @notice What the tally decided: bit i is update i. `formed` says that enough are included for shares. `spare` holds the
/// first deviations (`PackedDeviations`).
struct TallyBits {
    uint128 included;
    bool formed;
    uint120 spare;
}

/// @notice How the workers of a settled round are paid that is not paid by shares: those in `paid` get one part of `whole` each.
struct Pay {
    uint128 paid;
    uint128 whole;
}

/// @notice All that a task keeps. Lists of ids and shares are packed (`PackedList`); words are reused from round to round
/// wherever later rounds do not need them.
struct State {
    RoundState place;
    DrawState gate;
    CommitteeBits seats;
    /// What nobody earned yet; what was earned and is not claimed. Callers' fees are booked at the end of their round.
    uint128 escrow;
    uint128 owed;
    /// The head and the one before it: a new head takes the older one's place (`RoundState.heads`).
    Head[2] heads;
    /// The proposal; it stands in Challenge only.
    bytes32 modelRoot;
    bytes32 modelBlock;
    bytes32 sharesDigest;
    /// The hash of these three; without posted shares the last one counts as zero.
    bytes32 proposal;
    /// The hash of the ordered roots that scores are bound to.
    bytes32 rootsHash;
    TallyBits tally;
    StakeTree tree;
    mapping(address who => Account) accounts;
    mapping(uint256 id => address) addresses;
    /// Who committed and revealed in this round (`CommitBitmap`).
    mapping(uint256 key => uint256) updates;
    /// By the place that `updates` gives an account in this round: a commitment, after the reveal a root; declared samples.
    mapping(uint256 place => bytes32) digests;
    mapping(uint256 place => uint256) samples;
    /// Committee, line of proposers, drawn workers.
    mapping(uint256 word => uint256) roster;
    mapping(uint256 word => uint256) elected;
    /// By committee position: a commitment to scores, after the reveal the hash of the scores.
    mapping(uint256 position => bytes32) scores;
    /// By committee position (`PackedDeviations`).
    mapping(uint256 word => uint256) deviations;
    /// The ids of a round's updates, and how it was settled (`PackedIds`).
    mapping(uint256 round => mapping(uint256 word => uint256)) orders;
    /// The shares of a round's updates; once it is settled, nobody's is left whom it does not pay.
    mapping(uint256 round => mapping(uint256 word => uint256)) shares;
    mapping(uint256 round => Pay) pays;
    mapping(uint256 id => mapping(uint256 word => uint256)) claimed;
    mapping(bytes32 note => uint256 blockNumber) notes;
    /// The newest round in which an account was noted as absent.
    mapping(uint256 id => uint256 round) absences;
    /// The operator that an owner has from the next draw on; whose operator a key is lies elsewhere (`Operators.kept`).
    mapping(address owner => address key) operatorOf;
    /// The ids of the internals, in a task whose committee is appointed (`Internals`).
    mapping(uint256 word => uint256) internals;
}

/// @title Rules
/// @notice What kind of rule a rule is.
library Rules {
    /// @notice The committee trains too, scores by squared distance, and elects its successor (CMFL).
    function isElected(Rule rule) internal pure returns (bool) {
        return rule == Rule.CommitteeNear || rule == Rule.CommitteeFar;
    }

    /// @notice Shares are a softmax of the committee's scores.
    function isSoftmax(Rule rule) internal pure returns (bool) {
        return rule <= Rule.SoftmaxAccuracy;
    }

    /// @notice Shares belong to the ranks of each parameter, not to updates.
    function isOnRanks(Rule rule) internal pure returns (bool) {
        return rule == Rule.FedRob || rule == Rule.Median;
    }

    /// @notice The proposer posts the shares and the committee's majority vouches for them.
    function isAttested(Rule rule) internal pure returns (bool) {
        return rule >= Rule.Krum;
    }

    /// @notice What validators post about an update.
    function scoreKind(Rule rule) internal pure returns (ScoreKind) {
        if (isSoftmax(rule)) return ScoreKind.Loss;
        return isElected(rule) ? ScoreKind.Distance : ScoreKind.Bit;
    }
}
