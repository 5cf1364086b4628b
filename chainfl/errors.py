"""Errors, sorted by what the caller should do about them.

ChainflError
├── InputError            the caller's value is wrong: correct it            exit 2
├── ProtocolError         the rules forbid it: do not retry                  exit 3
├── VerificationError     evidence does not add up: do not act on it         exit 4
├── OutsideError          something outside failed: retry later              exit 5
│   ├── LedgerError       the chain or its RPC
│   └── StoreError        the blob store
└── ToolMissingError      a program or package is not installed: install it  exit 6
"""

from typing import ClassVar


class ChainflError(Exception):
    """Anything chainfl refuses or fails to do, in one line a person can act on."""

    exit_code: ClassVar[int] = 1


class InputError(ChainflError):
    """A value given by the caller is wrong; says which, where, and what is allowed."""

    exit_code = 2


class ParameterRangeError(InputError):
    """A model parameter is NaN, infinite, or too large for the fixed-point range; names its position."""


class LengthError(InputError):
    """Bytes or an array are truncated or oversized; says how long they are and how long they must be."""


class SharesError(InputError):
    """Shares are negative, miscounted, or do not sum to the whole."""


class ProtocolError(ChainflError):
    """The rules forbid this action now; retrying the same thing cannot help."""

    exit_code = 3


class VerificationError(ChainflError):
    """Evidence does not add up: expected and found differ."""

    exit_code = 4


class LedgerLieError(VerificationError):
    """Events that the rules cannot produce: the endpoint lies, or runs other rules; act on none of it."""


class ProofError(VerificationError):
    """A Merkle proof does not lead from its leaf to the root."""


class OutsideError(ChainflError):
    """Something outside this process failed; the same call may work later."""

    exit_code = 5


class LedgerError(OutsideError):
    """The chain, or the RPC endpoint in front of it, failed."""


class LowBalanceError(LedgerError):
    """An account cannot pay for its transaction; names the account and what it has."""


class FeeTooHighError(LedgerError):
    """The network asks for more than the caps on fees allow; nothing was sent."""


class StoreError(OutsideError):
    """The blob store failed or does not have the bytes."""


class ToolMissingError(ChainflError):
    """A program or package that this command needs is not installed."""

    exit_code = 6


class CidError(InputError):
    """Text or bytes that are not a CIDv1 of raw or dag-cbor bytes under SHA-256."""


class AbiError(InputError):
    """A value that does not fit its place in an ABI encoding: says which and what fits."""


class ScoresError(ProtocolError):
    """Revealed score bytes that the rules do not take."""


class ScoresLengthError(ScoresError):
    """Score bytes of another length than the round's updates ask for."""


class SpareBitsError(ScoresError):
    """Vouch bits beyond the last update are not 0."""


class RecordError(VerificationError):
    """A record is not canonical dag-cbor, or a field is unknown, missing or wrong; names the field's path."""


class WrongBytesError(VerificationError):
    """Bytes do not hash to the CID under which they were asked for."""


class BlobTooLargeError(VerificationError):
    """A blob is larger than the caller allows."""


class ModelMismatchError(VerificationError):
    """A stored model is not the one that was promised: another root, length or scale."""


class ModelTooLargeError(VerificationError):
    """A task's models are larger than this process takes; says by how much, and which limit to raise."""


class BlobNotFoundError(StoreError):
    """The store has no bytes under this CID, or could not get them in time."""


class StoreFullError(StoreError):
    """The store has no room left; nothing was written."""


class StoreTimeoutError(StoreError):
    """The store did not answer in time."""


class UnknownNameError(InputError):
    """No model, data set, partition or attack has this name; lists the known ones."""


class DataMissingError(InputError):
    """Files of a data set are not where they are looked for; names them and the place."""


class DataCorruptError(InputError):
    """A data file was read, but its contents are not what the data set holds."""


class PartitionError(InputError):
    """The data cannot be dealt to the participants as asked."""


class AppError(InputError):
    """Code that a user brought fails or does not do what an app must; names its file, and the line where known."""


class NotIndexedError(InputError):
    """The audit API has nothing under this name; says what was asked for and where to look."""


class BusyError(OutsideError):
    """The service is doing as much as it allows itself; the same request may work in a moment."""


class LimitError(BusyError):
    """One client asks for more at once than its share; the same request may work when another of its own is done."""


class RlpError(VerificationError):
    """Bytes that are not one canonical RLP value; names the position."""


class BundleError(VerificationError):
    """An audit bundle is damaged or does not prove what it claims; names the block, header, receipt or blob."""


class ModelFileError(VerificationError):
    """An exported model was changed, damaged, or is not the one it says it is; names the tensor or field."""
