from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import scores
from chainfl.codec.scores import ScoreKind, Scores, decode_scores, encode_scores, loss_score
from chainfl.errors import InputError, ScoresError, ScoresLengthError, SpareBitsError


@st.composite
def verdicts(draw: st.DrawFn) -> tuple[ScoreKind, Scores]:
    kind = draw(st.sampled_from(ScoreKind))
    entries = draw(st.lists(st.integers(0, (1 << kind.value) - 1), max_size=130))
    return kind, Scores(draw(st.integers(0, scores.UNAVAILABLE)), tuple(entries))


@given(verdicts())
def test_scores_come_back_from_their_bytes(verdict: tuple[ScoreKind, Scores]) -> None:
    kind, given_scores = verdict

    data = encode_scores(kind, given_scores)

    assert len(data) == scores.scores_length(kind, len(given_scores.entries))
    assert decode_scores(kind, data, len(given_scores.entries)) == given_scores


def test_bytes_are_entry_0_then_the_updates_in_order() -> None:
    assert (
        encode_scores(ScoreKind.LOSS, Scores(1, (2, 3))).hex() == "0000000000000001"
        "0000000000000002"
        "0000000000000003"
    )
    assert encode_scores(ScoreKind.DISTANCE, Scores(1, (2,))).hex() == "0000000000000001" + "0" * 31 + "2"
    assert (
        encode_scores(ScoreKind.VOUCH, Scores(1, (1, 0, 1) + (0,) * 5 + (1,))).hex() == "00000000000000010501"
    )


@pytest.mark.parametrize("kind", ScoreKind)
@pytest.mark.parametrize("change", [-1, 1])
def test_bytes_of_another_length_are_refused(kind: ScoreKind, change: int) -> None:
    data = bytes(scores.scores_length(kind, 5) + change)

    with pytest.raises(ScoresLengthError, match="5 updates"):
        decode_scores(kind, data, 5)


@pytest.mark.parametrize("bit", range(3, 8))
def test_a_spare_bit_is_refused(bit: int) -> None:
    with pytest.raises(SpareBitsError, match="beyond the last of 3"):
        decode_scores(ScoreKind.VOUCH, bytes(8) + bytes([1 << bit]), 3)


@pytest.mark.parametrize(
    ("kind", "verdict", "why"),
    [
        (ScoreKind.LOSS, Scores(1 << 64, ()), "head: .* 64 bits"),
        (ScoreKind.LOSS, Scores(0, (0, 1 << 64)), "update 2: .* 64 bits"),
        (ScoreKind.DISTANCE, Scores(0, (-1,)), "update 1: -1 .* 128 bits"),
        (ScoreKind.VOUCH, Scores(0, (2,)), "update 1: 2 .* 1 bits"),
    ],
)
def test_an_entry_that_does_not_fit_is_named(kind: ScoreKind, verdict: Scores, why: str) -> None:
    with pytest.raises(ScoresError, match=why):
        encode_scores(kind, verdict)


@pytest.mark.parametrize(
    ("loss", "score"),
    [
        (0.0, 0),
        (-0.0, 0),
        (1.0, 10**12),
        (2.302585092994046, 2302585092994),
        (0.5e-12, 0),
        (1.5e-12, 2),
        (float("nan"), scores.WORST_LOSS),
        (float("inf"), scores.WORST_LOSS),
        (float("-inf"), scores.WORST_LOSS),
        (1e300, scores.WORST_LOSS),
        (1e8, scores.WORST_LOSS),
        (-1.0, scores.WORST_LOSS),
    ],
)
def test_a_loss_becomes_an_integer(loss: float, score: int) -> None:
    assert loss_score(loss) == score


@given(st.floats(0, 1.8e7))
def test_a_loss_is_the_float64_product_rounded_half_to_even(loss: float) -> None:
    expected = Decimal(loss * 1e12).to_integral_value(ROUND_HALF_EVEN)

    assert loss_score(loss) == int(expected)


@given(st.floats())
def test_no_loss_ever_reads_as_unavailable(loss: float) -> None:
    assert scores.vouches(ScoreKind.LOSS, loss_score(loss))


def test_accuracy_is_posted_as_what_was_missed() -> None:
    assert scores.accuracy_score(0, 3) == 10**12
    assert scores.accuracy_score(1, 3) == 10**12 - 333_333_333_333
    assert scores.accuracy_score(3, 3) == 0


@pytest.mark.parametrize(("correct", "samples"), [(4, 3), (-1, 3), (0, 0)])
def test_an_impossible_accuracy_is_refused(correct: int, samples: int) -> None:
    with pytest.raises(InputError, match="not possible"):
        scores.accuracy_score(correct, samples)


def test_the_maximum_is_a_vote_not_a_number() -> None:
    assert scores.unavailable(ScoreKind.LOSS) == 2**64 - 1
    assert scores.unavailable(ScoreKind.DISTANCE) == 2**128 - 1
    assert not scores.vouches(ScoreKind.DISTANCE, 2**128 - 1)
    assert scores.vouches(ScoreKind.DISTANCE, 2**64 - 1)
    assert scores.vouches(ScoreKind.VOUCH, 1)
    assert not scores.vouches(ScoreKind.VOUCH, 0)
