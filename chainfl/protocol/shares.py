"""From revealed scores to shares: inclusion, committee statistic, softmax, selection (docs/protocol.md 6, 7).

C validators of the committee, R revealed updates, K included ones. All are Python integers and mirror the contract.
"""

from collections.abc import Sequence
from operator import and_

from chainfl.protocol.errors import BadSharesError
from chainfl.protocol.varsel import check_varsel_shares
from chainfl.types import TOTAL, WAD, Rule, Statistic, TaskConfig

SCORE_TO_WAD = 10**6
"""Loss scores count in 10^-12; statistics in 10^-18."""

_LN2_96 = 54916777467707473351141471128
_UNDERFLOW = -41446531673892822313
_OVERFLOW = 135305999368893231589


def _truncated(numerator: int, denominator: int) -> int:
    """Division that truncates towards zero, as the EVM's `sdiv` does."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def exp_wad(x: int) -> int:
    """exp(x / 10^18) * 10^18 for x <= 0, the same integer as Solady's `expWad` gives on chain."""
    if x <= _UNDERFLOW:
        return 0
    if x >= _OVERFLOW:
        raise OverflowError(f"exp_wad({x}): the result does not fit an int256")
    x = _truncated(x << 78, 5**18)
    k = (_truncated(x << 96, _LN2_96) + 2**95) >> 96
    x -= k * _LN2_96

    y = x + 1346386616545796478920950773328
    y = ((y * x) >> 96) + 57155421227552351082224309758442
    p = y + x - 94201549194550492254356042504812
    p = ((p * y) >> 96) + 28719021644029726153956944680412240
    p = p * x + (4385272521454847904659076985693276 << 96)

    q = x - 2855989394907223263936484059900
    q = ((q * x) >> 96) + 50020603652535783019961831881945
    q = ((q * x) >> 96) - 533845033583426703283633433725380
    q = ((q * x) >> 96) + 3604857256930695427073651918091429
    q = ((q * x) >> 96) - 14423608567350463180887372962807573
    q = ((q * x) >> 96) + 26449188498355588339934803723976023

    return (_truncated(p, q) * 3822833074963236453042738258902158003155416615667) >> (195 - k)


def head_share(alpha: int) -> int:
    """p_0 of a moving average or server rate alpha (WAD): what the head keeps."""
    return TOTAL - alpha * TOTAL // WAD


def majority(members: int) -> int:
    """The smallest number that is more than half of the members."""
    return members // 2 + 1


def statistic_of(scores: Sequence[int], statistic: Statistic, factor: int, members: int) -> int:
    """The committee's one number for one update, from the scores that are numbers: those of a majority at least.

    The mean is over these. The median is over all members, one without a number counting as the largest: or a minority
    could choose, by serving an update's bytes to some only, whose numbers stand in the middle.
    """
    if statistic is Statistic.MEAN:
        return sum(scores) * factor // len(scores)
    return sorted(scores)[members // 2] * factor


def is_withheld(vouches: Sequence[bool], members: int) -> bool:
    """Whether a majority of all members posts: not available. A member that revealed nothing does not count for it."""
    return vouches.count(False) >= majority(members)


def included(
    vouches_RC: Sequence[Sequence[bool]],
    roots_R: Sequence[bytes],
    head_root: bytes,
    config: TaskConfig,
    seats_R: Sequence[int] | None = None,
) -> list[bool]:
    """Which updates count: a majority of those who judge it vouches and, with `unique_roots`, the root is new.

    `seats_R` says how many judge each update, where that is not the whole committee.
    """
    seats = seats_R or [config.committee_size] * len(roots_R)
    seen = {head_root}
    answer = []
    for vouches, root, judges in zip(vouches_RC, roots_R, seats, strict=True):
        counts = sum(vouches) >= majority(judges) and not (config.unique_roots and root in seen)
        if counts:
            seen.add(root)
        answer.append(counts)
    return answer


def is_enough(included_R: Sequence[bool], internals_R: Sequence[bool], config: TaskConfig) -> bool:
    """Whether so many updates count that there can be shares; VaRSeL weighs the others against an internal one."""
    is_weighed = config.rule is not Rule.VARSEL or any(map(and_, included_R, internals_R))
    return is_weighed and sum(included_R) >= config.min_updates


def softmax(statistics_K: Sequence[int], beta: int, amount: int) -> list[int]:
    """Shares of `amount` by softmax of minus the statistics; the remainder goes to the best (SABFL)."""
    best = min(range(len(statistics_K)), key=lambda i: (statistics_K[i], i))
    exps = [exp_wad(-((value - statistics_K[best]) * beta // WAD)) for value in statistics_K]
    total = sum(exps)
    shares = [e * amount // total for e in exps]
    shares[best] += amount - sum(shares)
    return shares


def equal(chosen_K: Sequence[bool], amount: int) -> list[int]:
    """Equal parts over the chosen; the remainder goes to the lowest index with a part."""
    return by_count([int(chosen) for chosen in chosen_K], amount)


def by_count(counts_K: Sequence[int], amount: int) -> list[int]:
    """Parts in proportion to counts; the remainder goes to the lowest index with a part."""
    total = sum(counts_K)
    shares = [count * amount // total for count in counts_K]
    lowest = next(i for i, count in enumerate(counts_K) if count > 0)
    shares[lowest] += amount - sum(shares)
    return shares


def rank(statistics_K: Sequence[int]) -> list[int]:
    """Positions by ascending statistic; the index breaks ties."""
    return sorted(range(len(statistics_K)), key=lambda i: (statistics_K[i], i))


def select(statistics_K: Sequence[int], config: TaskConfig) -> list[bool]:
    """CMFL's selection: the nearest (strategy I) or farthest (II) part of the updates."""
    count = max(1, config.keep * len(statistics_K) // WAD)
    order = rank(statistics_K)
    chosen = order[:count] if config.rule is Rule.COMMITTEE_NEAR else order[len(order) - count :]
    return [i in set(chosen) for i in range(len(statistics_K))]


def rank_shares(count_K: int, config: TaskConfig) -> list[int]:
    """Shares on the ranks of each parameter: the kept ranks share A equally, the remainder to the lowest kept."""
    amount = TOTAL - head_share(config.alpha)
    if config.rule is Rule.MEDIAN:
        kept = range((count_K - 1) // 2, count_K // 2 + 1)
    else:
        kept = range(config.tolerated, count_K - config.tolerated)
    return equal([i in kept for i in range(count_K)], amount)


def shares_of(statistics_K: Sequence[int], samples_K: Sequence[int], config: TaskConfig) -> list[int]:
    """The K shares of a rule that the contract decides, per included update (on ranks: per rank)."""
    amount = TOTAL - head_share(config.alpha)
    count = len(samples_K)
    if config.rule.is_softmax:
        return softmax(statistics_K, config.beta, amount)
    if config.rule.is_on_ranks:
        return rank_shares(count, config)
    chosen = select(statistics_K, config) if config.rule.is_elected else [True] * count
    if config.rule is Rule.FEDAVG or (config.rule.is_elected and config.by_samples):
        return by_count([n if c else 0 for n, c in zip(samples_K, chosen, strict=True)], amount)
    return equal(chosen, amount)


def check_attested(
    shares: Sequence[int], included_R: Sequence[bool], internals_R: Sequence[bool], config: TaskConfig
) -> None:
    """What the contract checks of shares that a proposer posts: length, p_0, zeros outside, the rule's form.

    Raises:
        BadSharesError: the shares are not of the rule's form.
    """
    if config.rule is Rule.VARSEL:
        check_varsel_shares(shares, internals_R, included_R, config.budget)
        return
    if len(shares) != len(included_R) + 1 or shares[0] != head_share(config.alpha):
        raise BadSharesError()
    chosen = [share > 0 for share in shares[1:]]
    wanted = 1 if config.rule is Rule.KRUM else config.selected
    outside = any(c and not i for c, i in zip(chosen, included_R, strict=True))
    if outside or sum(chosen) != wanted or list(shares[1:]) != equal(chosen, TOTAL - shares[0]):
        raise BadSharesError()


def krum(distances_KK: Sequence[Sequence[int]], tolerated: int, selected: int) -> list[bool]:
    """Blanchard's choice: the updates with the least sum of their K-f-2 smallest squared distances to others."""
    count = len(distances_KK)
    sums = []
    for i, row in enumerate(distances_KK):
        others = sorted(value for j, value in enumerate(row) if j != i)
        sums.append(sum(others[: count - tolerated - 2]))
    chosen = set(rank(sums)[:selected])
    return [i in chosen for i in range(count)]
