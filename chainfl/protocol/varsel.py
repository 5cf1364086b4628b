"""VaRSeL's weights and shares: how much of each external update an internal mean takes in (docs/protocol.md 7.1).

K included updates: M internal ones, which weigh 1 each, and N external ones, which weigh 0 to 1 each. Squared distances
between them are exact integers, the weights are those of one well-defined minimiser, and all that follows is integers.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from chainfl.errors import InputError
from chainfl.protocol._quadratic import WEIGHT_BITS, Matrix, rounded_minimiser
from chainfl.protocol.errors import BadSharesError
from chainfl.types import TOTAL

WHOLE: Final = 1 << WEIGHT_BITS
"""The weight of an internal update, S."""


def varsel_weights(distances_KK: Matrix, internals_K: Sequence[bool], budget: int) -> list[int]:
    """The weights times 2^20: those of the minimiser of the variance for external updates, 2^20 for internal ones.

    Raises:
        InputError: no update is internal, the budget is negative, or these are not squared distances of vectors.
    """
    _check(distances_KK, internals_K, budget)
    internal = [i for i, is_internal in enumerate(internals_K) if is_internal]
    external = [j for j, is_internal in enumerate(internals_K) if not is_internal]
    M = len(internal)

    # Spread and Gram matrix around the internal mean x, times 2 M^2, by polarisation: norms[j] is M^2 |x_j - x|^2.
    apart = sum(distances_KK[i][k] for i, k in combinations(internal, 2))
    norms = {j: M * sum(distances_KK[i][j] for i in internal) - apart for j in external}
    gram_NN = [[norms[j] + norms[k] - M * M * distances_KK[j][k] for k in external] for j in external]

    rounded = rounded_minimiser(2 * M * apart, gram_NN, M, min(budget, len(external)))
    weights = dict(zip(external, _within(rounded, budget), strict=True))
    return [weights.get(k, WHOLE) for k in range(len(internals_K))]


def varsel_shares(weights_K: Sequence[int], internals_K: Sequence[bool]) -> list[int]:
    """Shares of 2^31 by these weights: q of an internal update, floor(q W / S) of an external one.

    The rest of the divisions goes to the first internal update.
    """
    share = TOTAL * WHOLE // sum(weights_K)
    shares = [share * weight // WHOLE for weight in weights_K]
    shares[list(internals_K).index(True)] += TOTAL - sum(shares)
    return shares


def check_varsel_shares(
    shares: Sequence[int], internals_R: Sequence[bool], included_R: Sequence[bool], budget: int
) -> None:
    """What can be checked of posted shares p_0 to p_R without the updates' bytes.

    Raises:
        BadSharesError: the shares are not of the rule's form.
    """
    count = len(included_R)
    if len(shares) != count + 1 or len(internals_R) != count:
        raise BadSharesError()

    # The head has no part, nor has an update that is not included; together they are everything.
    parts = list(zip(shares[1:], internals_R, included_R, strict=True))
    if shares[0] != 0 or min(shares) < 0 or sum(shares) != TOTAL:
        raise BadSharesError()
    if any(share for share, _, is_included in parts if not is_included):
        raise BadSharesError()

    internal = [share for share, is_internal, is_included in parts if is_internal and is_included]
    external = [share for share, is_internal, is_included in parts if not is_internal and is_included]
    if not internal:
        raise BadSharesError()

    # One internal update has no spread: nothing external is taken. Of several, all but the first have q.
    share = internal[-1]
    rest = internal[0] - share
    if any(each != share for each in internal[1:]) or not 0 <= rest < len(internal) + 2 * len(external):
        raise BadSharesError()
    if any(each > share for each in external) or sum(external) > budget * share:
        raise BadSharesError()
    if len(internal) == 1 and any(external):
        raise BadSharesError()


def _check(distances_KK: Matrix, internals_K: Sequence[bool], budget: int) -> None:
    """Refuse what is not a matrix of squared distances, as far as one can see it at once."""
    count = len(internals_K)
    if not any(internals_K):
        raise InputError("no update is internal: the weights are relative to the internal mean")
    if budget < 0:
        raise InputError(f"the budget is {budget}: give 0 or more")
    if len(distances_KK) != count or any(len(row) != count for row in distances_KK):
        raise InputError(f"{count} updates have {count} rows of {count} squared distances")
    for i, j in combinations(range(count), 2):
        if distances_KK[i][j] != distances_KK[j][i] or distances_KK[i][j] < 0:
            raise InputError(
                f"squared distances of updates {i + 1} and {j + 1}: give 0 or more, and the same both ways"
            )
    if any(distances_KK[i][i] for i in range(count)):
        raise InputError("the squared distance of an update to itself is 0")


def _within(weights_N: list[int], budget: int) -> list[int]:
    """The weights with a sum of at most budget S: what rounding put above it is taken off the last ones, one each."""
    excess = sum(weights_N) - budget * WHOLE
    for j in range(len(weights_N) - 1, -1, -1):
        if excess > 0 and weights_N[j] > 0:
            weights_N[j] -= 1
            excess -= 1
    return weights_N
