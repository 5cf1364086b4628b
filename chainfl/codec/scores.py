"""Scores: the integers that validators reveal, and their bytes.

Entry 0 is the validator's own loss of the head; then one entry per revealed update in index order. The
maximum of an entry's width is not a number but a vote: "not available or invalid".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import isfinite

from chainfl.errors import InputError, ScoresError, ScoresLengthError, SpareBitsError

UNAVAILABLE = (1 << 64) - 1
UNAVAILABLE_DISTANCE = (1 << 128) - 1
WORST_LOSS = (1 << 64) - 2
ONE = 10**12

_HEAD_BYTES = 8


class ScoreKind(Enum):
    """What a rule's entries are; the value is their width in bits."""

    LOSS = 64
    DISTANCE = 128
    VOUCH = 1


@dataclass(frozen=True, slots=True)
class Scores:
    """One validator's verdict: the head's loss, then an integer per update (vouch bits: 1 or 0)."""

    head: int
    entries: tuple[int, ...]


def loss_score(loss: float) -> int:
    """A loss as an integer: `round_half_even(loss · 10^12)`, the product in float64.

    NaN, infinities, negative values and whatever does not fit become 2^64 - 2: the worst loss, yet a number.
    """
    scaled = float(loss) * 1e12
    if not isfinite(scaled):
        return WORST_LOSS
    score = round(scaled)
    return score if 0 <= score < WORST_LOSS else WORST_LOSS


def accuracy_score(correct: int, samples: int) -> int:
    """Missed accuracy, so that less is better as with losses: `10^12 - ⌊correct · 10^12 / samples⌋`."""
    if not 0 <= correct <= samples or samples < 1:
        raise InputError(f"accuracy: {correct} correct of {samples} samples is not possible")
    return ONE - correct * ONE // samples


def unavailable(kind: ScoreKind) -> int:
    """The entry that means "not available or invalid"."""
    return 0 if kind is ScoreKind.VOUCH else (1 << kind.value) - 1


def vouches(kind: ScoreKind, entry: int) -> bool:
    """Whether this entry vouches for the update's bytes: found, and right."""
    return entry != unavailable(kind)


def scores_length(kind: ScoreKind, updates: int) -> int:
    """How many bytes a validator reveals for this many updates."""
    return _HEAD_BYTES + (updates * kind.value + 7) // 8


def encode_scores(kind: ScoreKind, scores: Scores) -> bytes:
    """The bytes to commit to and reveal.

    Raises:
        ScoresError: an entry does not fit its width.
    """
    _check_fits("head", scores.head, 64)
    for index, entry in enumerate(scores.entries):
        _check_fits(f"update {index + 1}", entry, kind.value)
    head = scores.head.to_bytes(_HEAD_BYTES, "big")
    if kind is ScoreKind.VOUCH:
        return head + _encode_bits(scores.entries)
    width = kind.value // 8
    return head + b"".join(entry.to_bytes(width, "big") for entry in scores.entries)


def decode_scores(kind: ScoreKind, data: bytes, updates: int) -> Scores:
    """Read revealed bytes for this many updates.

    Raises:
        ScoresLengthError: the bytes are too many or too few.
        SpareBitsError: a vouch bit beyond the last update is set.
    """
    if len(data) != (expected := scores_length(kind, updates)):
        raise ScoresLengthError(
            f"scores: {len(data)} bytes; {updates} updates of kind {kind.name} take {expected}"
        )
    head = int.from_bytes(data[:_HEAD_BYTES], "big")
    rest = data[_HEAD_BYTES:]
    if kind is ScoreKind.VOUCH:
        return Scores(head, _decode_bits(rest, updates))
    width = kind.value // 8
    return Scores(
        head, tuple(int.from_bytes(rest[at : at + width], "big") for at in range(0, len(rest), width))
    )


def _check_fits(what: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise ScoresError(f"score of {what}: {value} does not fit {bits} bits")


def _encode_bits(bits: Sequence[int]) -> bytes:
    """Bit i of the updates in byte ⌊i/8⌋, lowest first."""
    number = sum(bit << index for index, bit in enumerate(bits))
    return number.to_bytes((len(bits) + 7) // 8, "little")


def _decode_bits(data: bytes, count: int) -> tuple[int, ...]:
    number = int.from_bytes(data, "little")
    if number >> count:
        raise SpareBitsError(f"scores: a bit beyond the last of {count} updates is not 0")
    return tuple(number >> index & 1 for index in range(count))
