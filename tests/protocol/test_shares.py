"""From scores to shares (docs/protocol.md 6, 7): numbers worked by hand, and the definitions in other words."""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.protocol import shares as sharing
from chainfl.protocol.errors import BadSharesError
from chainfl.types import TOTAL, WAD, Rule, Statistic
from tests.protocol.scene import config

LOWEST = -41446531673892822313

statistics = st.lists(st.integers(0, 2**84), min_size=1, max_size=128)
amounts = st.integers(128, TOTAL)


# exp_wad


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (-(2**255), 0),
        (LOWEST, 0),
        (LOWEST + 1, 1),
        (-3 * WAD, 49787068367863942),
        (-2 * WAD, 135335283236612691),
        (-WAD, 367879441171442321),
        (-WAD // 2, 606530659712633423),
        (-3 * WAD // 10, 740818220681717866),
        (0, WAD),
        (3 * WAD // 10, 1349858807576003103),
        (WAD // 2, 1648721270700128146),
        (WAD, 2718281828459045235),
        (2 * WAD, 7389056098930650227),
        (3 * WAD, 20085536923187667741),
        (10 * WAD, 22026465794806716516980),
        (100 * WAD, 26881171418161354484134666106240937146178367581647816351662017),
        (
            135305999368893231588,
            57896044618658097650144101621524338577433870140581303254786265309376407432913,
        ),
    ],
)
def test_exp_wad_gives_the_published_values(x: int, value: int) -> None:
    assert sharing.exp_wad(x) == value


@given(st.integers(-42 * WAD, 0) | st.integers(-WAD, 0) | st.integers(-1000, 0))
def test_exp_wad_is_the_exponential_within_a_unit_or_a_part_in_ten_to_the_fifteen(x: int) -> None:
    with localcontext(prec=60):
        exact = (Decimal(x) / WAD).exp() * WAD

        assert abs(sharing.exp_wad(x) - exact) <= max(Decimal(1), exact * Decimal("1e-15"))


@given(st.integers(-42 * WAD, 0), st.integers(0, WAD))
def test_exp_wad_never_falls_as_its_argument_grows(x: int, step: int) -> None:
    assert sharing.exp_wad(x - step) <= sharing.exp_wad(x) <= WAD


def test_exp_wad_refuses_what_no_int256_holds() -> None:
    with pytest.raises(OverflowError, match="does not fit"):
        sharing.exp_wad(135305999368893231589)


# The head's share and the statistic


@pytest.mark.parametrize(
    ("alpha", "share"), [(WAD, 0), (WAD // 2, 2**30), (88 * WAD // 100, 257_698_038), (1, TOTAL)]
)
def test_the_head_keeps_what_alpha_leaves(alpha: int, share: int) -> None:
    assert sharing.head_share(alpha) == share
    assert TOTAL - sharing.head_share(alpha) == alpha * TOTAL // WAD


@pytest.mark.parametrize(("members", "needed"), [(3, 2), (5, 3), (45, 23), (1, 1), (2, 2), (4, 3)])
def test_a_majority_is_more_than_half(members: int, needed: int) -> None:
    assert sharing.majority(members) == needed


@pytest.mark.parametrize(
    ("scores", "kind", "factor", "value"),
    [
        ([5, 1, 9], Statistic.MEDIAN, 10**6, 5 * 10**6),
        ([5, 1], Statistic.MEDIAN, 10**6, 5 * 10**6),
        ([4, 1, 9, 5], Statistic.MEDIAN, 1, 5),
        ([1, 1, 2], Statistic.MEAN, 10**6, 1_333_333),
        ([2**128 - 2], Statistic.MEAN, 1, 2**128 - 2),
        ([1, 2], Statistic.MEAN, 1, 1),
    ],
)
def test_the_statistic_is_the_upper_median_or_the_mean_rounded_down(
    scores: list[int], kind: Statistic, factor: int, value: int
) -> None:
    assert sharing.statistic_of(scores, kind, factor, len(scores)) == value


@pytest.mark.parametrize(
    ("scores", "members", "value"),
    [
        ([7, 1, 4], 3, 4),
        ([1, 4], 3, 4),
        ([1, 2, 3], 5, 3),
        ([1, 2, 3, 9], 5, 3),
    ],
)
def test_the_median_is_over_all_seats_and_one_without_a_number_counts_as_the_largest(
    scores: list[int], members: int, value: int
) -> None:
    assert sharing.statistic_of(scores, Statistic.MEDIAN, 1, members) == value


@pytest.mark.parametrize(
    ("vouches", "members", "withheld"),
    [
        ([False, False, True], 3, True),
        ([False, True, True], 3, False),
        ([False, False], 3, True),
        ([False, False, True, True], 5, False),
        ([False] * 3, 5, True),
        ([False] * 2, 5, False),
        ([], 3, False),
    ],
)
def test_an_update_is_withheld_when_a_majority_of_all_seats_says_so_and_silence_says_nothing(
    vouches: list[bool], members: int, withheld: bool
) -> None:
    assert sharing.is_withheld(vouches, members) == withheld


# Inclusion


def test_an_update_counts_when_a_majority_of_the_committee_vouches_for_it() -> None:
    terms = config(committee_size=3)
    vouches = [[True, True], [True, False], [False, False], [True, True]]

    assert sharing.included(vouches, [b"a", b"b", b"c", b"d"], b"h", terms) == [True, False, False, True]


def test_of_equal_roots_the_lowest_index_that_is_vouched_for_counts() -> None:
    vouches = [[False, False], [True, True], [True, True], [True, True]]
    roots = [b"same", b"same", b"same", b"head"]

    assert sharing.included(vouches, roots, b"head", config()) == [False, True, False, False]
    assert sharing.included(vouches, roots, b"head", config(unique_roots=False)) == [False, True, True, True]


# Softmax


def test_softmax_worked_by_hand() -> None:
    # e^-2, e^0, e^-1 in WAD sum to 1503214724408055012; floors of e * 2^31 / sum leave 2, which go to the best.
    parts = sharing.softmax([3 * WAD, WAD, 2 * WAD], WAD, TOTAL)

    assert parts == [193339183, 1428594074 + 2, 525550389]
    assert sum(parts) == TOTAL


def test_beta_zero_makes_all_equal_and_the_remainder_goes_to_the_best() -> None:
    assert sharing.softmax([9, 5, 7], 0, 100) == [33, 34, 33]


def test_a_large_beta_leaves_everything_to_the_best() -> None:
    assert sharing.softmax([WAD + 1, WAD, 2 * WAD], 10**21, 1000)[1] >= 500
    assert sharing.softmax([2 * WAD, WAD, 2 * WAD], 10**21, 1000) == [0, 1000, 0]


def test_equally_good_updates_share_equally_and_the_first_takes_the_remainder() -> None:
    assert sharing.softmax([7, 7, 7], WAD, 100) == [34, 33, 33]


@given(statistics, st.integers(0, 10**21), amounts)
def test_softmax_divides_everything_and_prefers_the_lower_loss(
    values: list[int], beta: int, amount: int
) -> None:
    parts = sharing.softmax(values, beta, amount)

    assert sum(parts) == amount
    assert min(parts) >= 0
    order = sharing.rank(values)
    assert all(parts[a] >= parts[b] for a, b in pairwise(order))


@given(st.lists(st.integers(0, 30 * WAD), min_size=1, max_size=20), st.integers(0, 3 * WAD))
def test_softmax_is_the_softmax_of_the_paper_up_to_rounding(values: list[int], beta: int) -> None:
    parts = sharing.softmax(values, beta, TOTAL)

    with localcontext(prec=60):
        exps = [(-Decimal(value) * beta / WAD / WAD).exp() for value in values]
        for part, exact in zip(parts, exps, strict=True):
            assert abs(part - exact / sum(exps) * TOTAL) <= len(values) + 1


# Equal parts and counts


def test_equal_parts_give_the_remainder_to_the_lowest_that_has_a_part() -> None:
    assert sharing.equal([False, True, True, True], 100) == [0, 34, 33, 33]


def test_counts_give_the_remainder_to_the_lowest_that_has_a_part() -> None:
    assert sharing.by_count([0, 1, 2, 4], 100) == [0, 15, 28, 57]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=128).filter(any), amounts)
def test_counts_divide_everything_in_proportion(counts: list[int], amount: int) -> None:
    parts = sharing.by_count(counts, amount)

    assert sum(parts) == amount
    for part, count in zip(parts, counts, strict=True):
        exact = Fraction(count * amount, sum(counts))
        assert (part == 0) == (count == 0) or part == 0 <= exact < 1
        assert exact - 1 < part <= exact + len(counts)


# Selection on a ranking


def test_a_ranking_ascends_and_the_index_breaks_ties() -> None:
    assert sharing.rank([5, 1, 5, 1, 0]) == [4, 1, 3, 0, 2]


@pytest.mark.parametrize(
    ("rule", "keep", "chosen"),
    [
        (Rule.COMMITTEE_NEAR, 4 * WAD // 10, [False, True, False, True, False]),
        (Rule.COMMITTEE_FAR, 4 * WAD // 10, [True, False, True, False, False]),
        (Rule.COMMITTEE_NEAR, 1, [False, True, False, False, False]),
        (Rule.COMMITTEE_FAR, 1, [False, False, True, False, False]),
        (Rule.COMMITTEE_NEAR, 6 * WAD // 10 - 1, [False, True, False, True, False]),
        (Rule.COMMITTEE_FAR, WAD, [True] * 5),
    ],
)
def test_cmfl_takes_the_nearest_or_the_farthest(rule: Rule, keep: int, chosen: list[bool]) -> None:
    distances = [8, 1, 8, 2, 3]

    assert sharing.select(distances, config(rule, keep=keep)) == chosen


# Ranks of each parameter


@pytest.mark.parametrize("count", range(1, 130))
def test_the_median_keeps_the_middle_one_or_two(count: int) -> None:
    shares = sharing.rank_shares(count, config(Rule.MEDIAN))

    assert tuple(shares) == on_ranks(range((count - 1) // 2, count // 2 + 1), TOTAL, count)
    assert [i for i, share in enumerate(shares) if share] == sorted({(count - 1) // 2, count // 2})


@pytest.mark.parametrize(("b", "count"), [(0, 1), (1, 3), (1, 4), (2, 5), (2, 20), (60, 128)])
def test_the_trimmed_mean_keeps_what_lies_between(b: int, count: int) -> None:
    terms = config(Rule.FEDROB, tolerated=b, alpha=88 * WAD // 100)
    amount = TOTAL - sharing.head_share(terms.alpha)

    shares = sharing.rank_shares(count, terms)

    assert tuple(shares) == on_ranks(range(b, count - b), amount, count)
    assert [i for i, share in enumerate(shares) if share] == list(range(b, count - b))
    assert sum(shares) == amount


# All rules together


@given(st.sampled_from([rule for rule in Rule if not rule.is_attested]), statistics, st.data())
def test_the_shares_of_every_rule_and_the_head_add_up(
    rule: Rule, values: list[int], data: st.DataObject
) -> None:
    alpha = data.draw(st.integers(WAD // 10**6, WAD))
    terms = config(rule, alpha=alpha, by_samples=data.draw(st.booleans()))
    values = values * 3
    samples = [data.draw(st.integers(1, 10_000)) for _ in values] if len(values) < 20 else [1] * len(values)

    parts = sharing.shares_of(values, samples, terms)

    assert len(parts) == len(values)
    assert min(parts) >= 0
    assert sharing.head_share(alpha) + sum(parts) == TOTAL


def test_declared_samples_count_only_where_the_rule_asks_for_them() -> None:
    samples, values = [1, 3, 4], [10, 20, 30]

    assert sharing.shares_of(values, samples, config(Rule.FEDAVG)) == [2**28, 3 * 2**28, 2**30]
    assert len(set(sharing.shares_of(values, samples, config(Rule.FEDREG)))) == 2
    near = config(Rule.COMMITTEE_NEAR, keep=7 * WAD // 10)
    assert sharing.shares_of(values, samples, near) == [2**30, 2**30, 0]
    assert sharing.shares_of(values, samples, replace(near, by_samples=True)) == [2**29, 3 * 2**29, 0]


# Krum


def krum_by_definition(points: list[int], f: int, selected: int) -> set[int]:
    """Blanchard et al. 2017: the sum over the n - f - 2 closest others, the least over all such sets of others."""
    n = len(points)
    sums = []
    for i in range(n):
        others = [(points[i] - points[j]) ** 2 for j in range(n) if j != i]
        sums.append(min(sum(near) for near in combinations(others, n - f - 2)))
    return set(sorted(range(n), key=lambda i: (sums[i], i))[:selected])


@given(st.integers(0, 2), st.integers(1, 3), st.data())
def test_krum_chooses_as_blanchard_defined(f: int, selected: int, data: st.DataObject) -> None:
    points = data.draw(st.lists(st.integers(-9, 9), min_size=2 * f + 3, max_size=9))
    distances = [[(a - b) ** 2 for b in points] for a in points]

    chosen = sharing.krum(distances, f, selected)

    assert {i for i, is_chosen in enumerate(chosen) if is_chosen} == krum_by_definition(points, f, selected)


def test_krum_leaves_the_outlier_out() -> None:
    points = [10, 11, 12, 13, 1000]
    distances = [[(a - b) ** 2 for b in points] for a in points]

    assert sharing.krum(distances, 1, 1) == [False, True, False, False, False]


INCLUDED = [True, False, True, True, True, True]
NOBODY = [False] * 6


@pytest.mark.parametrize(
    "shares",
    [
        (0, TOTAL, 0, 0, 0, 0),
        (1, TOTAL - 1, 0, 0, 0, 0, 0),
        (0, 0, TOTAL, 0, 0, 0, 0),
        (0, TOTAL // 2, 0, TOTAL // 2, 0, 0, 0),
        (0, TOTAL - 1, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 0),
        (),
    ],
)
def test_posted_shares_that_are_not_of_krums_form_are_refused(shares: tuple[int, ...]) -> None:
    with pytest.raises(BadSharesError):
        sharing.check_attested(shares, INCLUDED, NOBODY, config(Rule.KRUM))


def test_posted_shares_of_the_right_form_pass() -> None:
    sharing.check_attested((0, 0, 0, TOTAL, 0, 0, 0), INCLUDED, NOBODY, config(Rule.KRUM))
    three = config(Rule.MULTI_KRUM, selected=3)
    third = TOTAL // 3

    sharing.check_attested((0, TOTAL - 2 * third, 0, third, 0, third, 0), INCLUDED, NOBODY, three)

    with pytest.raises(BadSharesError):
        sharing.check_attested((0, third, 0, TOTAL - 2 * third, 0, third, 0), INCLUDED, NOBODY, three)


def on_ranks(kept: range, amount: int, count: int) -> tuple[int, ...]:
    """Equal shares on the kept ranks, the division's remainder on the lowest of them."""
    each, rest = divmod(amount, len(kept))
    return tuple(each * (rank in kept) + rest * (rank == kept.start) for rank in range(count))
