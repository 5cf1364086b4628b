"""What the rules refuse, one class per custom error of the contracts: `WrongPhaseError` is Solidity's `WrongPhase`.

The arguments of an error are the values that explain it, in the order of the contract's error.
"""

from typing import Any, ClassVar

from chainfl.errors import ProtocolError


class RuleError(ProtocolError):
    """A refusal that contract and rules share. `text` is filled with the values."""

    text: ClassVar[str] = ""

    def __init__(self, *values: Any) -> None:
        """Keep the values that explain the refusal."""
        self.values = values
        super().__init__(self.text.format(*values) if self.text else type(self).__name__)

    @classmethod
    def solidity_name(cls) -> str:
        """The contract's name of this error."""
        return cls.__name__.removesuffix("Error")


class WrongRoundError(RuleError):
    """The call names another round than the current one."""

    text = "round {0} is meant, but round {1} is running"


class WrongAttemptError(RuleError):
    """The call names another attempt than the current one."""

    text = "attempt {0} is meant, but attempt {1} is running"


class WrongPhaseError(RuleError):
    """The action does not belong to the current phase."""

    text = "round {0} is in phase {1}"


class PhaseOverError(RuleError):
    """The phase's deadline has passed."""

    text = "the phase ended at {0}"


class PhaseStillOpenError(RuleError):
    """The phase can still be acted in, so it cannot be left."""

    text = "the phase stays open until {0}"


class NotSponsorError(RuleError):
    """Only the sponsor may do this."""

    text = "only the sponsor may do this"


class NotEnrolledError(RuleError):
    """The account has never enrolled in this task, or has left."""

    text = "the account is not enrolled"


class NotOperatorError(RuleError):
    """The owner has not named the sender as its operator in this task."""

    text = "the owner of the stake has not named this key as its operator in this task (`chainfl stake operator set`)"


class OperatorInUseError(RuleError):
    """The key acts for another owner, or is a participant itself."""

    text = "the key acts for another stake in this task, or takes part itself: use another key"


class NotAdmittedError(RuleError):
    """The list of who may join does not name the account in this role, or no proof was given."""

    text = "the task has a list of who may join, and the account is not shown to be on it in this role"


class TooManyInternalsError(RuleError):
    """As many internals have enrolled as an appointed committee may have."""

    text = "{0} internals have enrolled, as many as this task's committee may have"


class AlreadyEnrolledError(RuleError):
    """The account is enrolled."""

    text = "the account is already enrolled"


class StakeTooLowError(RuleError):
    """The stake allocated to the task is below its minimum."""

    text = "stake of {0} wei is allocated, the task requires {1}"


class DrawOpenError(RuleError):
    """Enrolment changes wait until the open draw is done."""

    text = "the draw of round {0} is open: changes apply after it"


class DrawNotOpenError(RuleError):
    """Too few accounts are enrolled for a draw."""

    text = "the draw of round {0} is not open: too few are enrolled"


class DrawTooEarlyError(RuleError):
    """The block whose header seeds the draw is not yet in the past."""

    text = "the draw waits for a block after {0}"


class BadHeaderError(RuleError):
    """The bytes are not the header of the block that seeds the draw."""

    text = "the bytes given are not the header of block {0}"


class NotAbsentError(RuleError):
    """The account does not train in this round, has committed, or was noted in this round already."""

    text = "account {0} is not absent, or was noted already"


class NotWorkerError(RuleError):
    """The account does not train in this round."""

    text = "the account is no worker of round {0}"


class NotValidatorError(RuleError):
    """The account does not sit in this round's committee, or lost its seat by a conviction."""

    text = "the account is no validator of round {0}"


class NotProposerError(RuleError):
    """Another account is the proposer now."""

    text = "the account is not the proposer of this attempt"


class ProposerVotesError(RuleError):
    """A proposer's own vote does not count."""

    text = "a proposer does not vote on its own proposal"


class ZeroCommitmentError(RuleError):
    """A commitment of zero is no commitment."""

    text = "a commitment cannot be zero"


class AlreadyCommittedError(RuleError):
    """One commitment per account and phase."""

    text = "the account has already committed in round {0}"


class NotCommittedError(RuleError):
    """There is no commitment to reveal."""

    text = "the account has not committed in round {0}"


class AlreadyRevealedError(RuleError):
    """One reveal per commitment."""

    text = "the account has already revealed in round {0}"


class WrongRevealError(RuleError):
    """What is revealed is not what was committed to."""

    text = "the revealed values do not match the commitment"


class BadSamplesError(RuleError):
    """The declared sample count is zero or above the task's limit."""

    text = "{0} samples declared, 1 to {1} allowed"


class BadScoresError(RuleError):
    """The score bytes have a wrong length or spare bits set."""

    text = "malformed scores: {0} bytes given, {1} expected, or spare bits set"


class NoOwnUpdateError(RuleError):
    """A member of an elected committee scores only if it revealed its own update."""

    text = "the member revealed no update of its own in round {0}"


class WrongScoresError(RuleError):
    """The scores given to the tally are not the revealed ones, all of them, in committee order."""

    text = "the scores given to the tally differ from those revealed"


class BadSharesError(RuleError):
    """Posted shares are not of the rule's form."""

    text = "the posted shares do not have the rule's form"


class OtherProposalError(RuleError):
    """The vote names another proposal than the one that stands."""

    text = "the vote names another proposal"


class AlreadyVotedError(RuleError):
    """One vote per member and attempt."""

    text = "the member has already voted in this attempt"


class BadPositionError(RuleError):
    """The proof names a parameter beyond the tree."""

    text = "position {0} lies beyond the tree"


class BadProofError(RuleError):
    """A leaf of the proof is not under the root it claims, or leaves are missing."""

    text = "a leaf of the proof does not lie under its root"


class NoLieError(RuleError):
    """The aggregate is right at this position."""

    text = "the aggregate is right: {0} is what re-execution gives"


class RoundNotSettledError(RuleError):
    """The round has not ended yet."""

    text = "round {0} is not settled"


class AlreadyClaimedError(RuleError):
    """A round is claimed once."""

    text = "round {0} is already claimed"


class NothingToClaimError(RuleError):
    """There is no credit."""

    text = "there is nothing to claim"


class TaskNotEndedError(RuleError):
    """The escrow stays until the task has ended."""

    text = "the task has not ended"


class AlreadyAbandonedError(RuleError):
    """The task is already abandoned."""

    text = "the task is already abandoned"


class BadConfigError(RuleError):
    """A field of the task's config is out of bounds."""

    text = "bad config: {0}"


class NotATaskError(RuleError):
    """Stake can only go to tasks that this registry's factory created."""

    text = "there is no task at this address"


class ZeroAmountError(RuleError):
    """A change of nothing is a mistake."""

    text = "the amount is zero"


class NotEnoughFreeError(RuleError):
    """The account has less free stake than the call would use."""

    text = "{1} wei of free stake, {2} requested"


class NotEnoughBondedError(RuleError):
    """The account has less bonded to the task than the call would take out."""

    text = "{2} wei are bonded to the task, {3} requested"


class NoSuchRequestError(RuleError):
    """There is no such request, or it was released already."""

    text = "there is no open request {2}"


class StillUnbondingError(RuleError):
    """The request has to wait."""

    text = "the stake is unbonding until {0}"


class StakeLockedError(RuleError):
    """A round still holds the account's stake, or its weight is not yet out of the draw."""

    text = "the stake is locked in a round of the task"
