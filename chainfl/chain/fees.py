"""What a transaction may cost: the network's price, as far as an endpoint is to be believed, under a cap that is ours.

An endpoint can ask for any price. So what is offered follows recent blocks, and never goes over the caps: they are the
operator's, or defaults that no endpoint can move (docs/adr/0018-hostile-endpoints.md).
"""

from dataclasses import dataclass
from statistics import median_low

from web3 import Web3

from chainfl.chain.answers import ask, quantity, read_head, read_number
from chainfl.chain.rpc import BadAnswerError
from chainfl.codec.text import GWEI
from chainfl.errors import LedgerError

MAX_FEE_GWEI, MAX_PRIORITY_FEE_GWEI = 300, 10
MOST_GAS = 2**24
"""What one transaction may use at most (EIP-7825)."""
_BLOCKS, _PERCENTILE = 20, 50
_USUAL_FACTOR = 4
"""A base fee of more than so many times the recent median is a spike: who has time waits for it to pass."""
_ALWAYS_USUAL = GWEI
_TIP = GWEI
"""Where the endpoint has no advice."""


@dataclass(frozen=True, slots=True)
class FeeCaps:
    """The most that is ever offered for a unit of gas, in wei: all of it, and the part of the block's producer."""

    max_fee: int = MAX_FEE_GWEI * GWEI
    max_priority_fee: int = MAX_PRIORITY_FEE_GWEI * GWEI

    @classmethod
    def of_gwei(cls, max_fee: float | None, max_priority_fee: float | None) -> "FeeCaps":
        """The caps that an operator gives; defaults for those not given."""
        fee = MAX_FEE_GWEI if max_fee is None else max_fee
        tip = MAX_PRIORITY_FEE_GWEI if max_priority_fee is None else max_priority_fee
        return cls(round(fee * GWEI), round(min(tip, fee) * GWEI))


@dataclass(frozen=True, slots=True)
class Offer:
    """What a transaction offers for a unit of gas, in wei."""

    max_fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class Price:
    """What the network asks, in wei: the next block's base fee, a middling tip, and the most that is usual."""

    base: int
    tip: int
    usual: int

    @property
    def is_usual(self) -> bool:
        """Whether the base fee is about what it was in recent blocks."""
        return self.base <= self.usual

    def is_within(self, caps: FeeCaps) -> bool:
        """Whether an offer within the caps would be taken now."""
        return self.base + min(self.tip, caps.max_priority_fee) <= caps.max_fee

    def offer(self, caps: FeeCaps) -> Offer:
        """Enough for some blocks of rising fees; never more than the caps."""
        tip = min(self.tip, caps.max_priority_fee, caps.max_fee)
        return Offer(min(2 * self.base + tip, caps.max_fee), tip)


def higher(offer: Offer, percent: int, caps: FeeCaps) -> Offer | None:
    """An offer that replaces one which was not taken; None where the caps leave no room for it."""
    fee, tip = (value * (100 + percent) // 100 + 1 for value in (offer.max_fee, offer.tip))
    if fee > caps.max_fee or tip > caps.max_priority_fee:
        return None
    return Offer(fee, min(tip, fee))


def read_price(w3: Web3) -> Price:
    """What recent blocks cost; an endpoint without such a history is asked for the newest block alone."""
    try:
        history = ask(w3, "eth_feeHistory", [hex(_BLOCKS), "latest", [_PERCENTILE]])
        bases, tips = _history(history)
    except (LedgerError, BadAnswerError):
        bases = [read_head(w3).base_fee]
        tips = []
    tip = median_low(tips) if tips else _advised_tip(w3)
    return Price(bases[-1], tip, max(_USUAL_FACTOR * median_low(bases), _ALWAYS_USUAL))


def _history(answer: object) -> tuple[list[int], list[int]]:
    """Base fees up to the next block's, and the tips that were paid where any were."""
    bases = answer.get("baseFeePerGas") if isinstance(answer, dict) else None
    rewards = answer.get("reward") if isinstance(answer, dict) else None
    if not isinstance(bases, list) or not 0 < len(bases) <= _BLOCKS + 1:
        raise BadAnswerError("answers with no fee history")
    paid = rewards if isinstance(rewards, list) and len(rewards) <= _BLOCKS else []
    tips = [quantity(each[0], 256) for each in paid if isinstance(each, list) and len(each) == 1]
    return [quantity(each, 256) for each in bases], [tip for tip in tips if tip]


def _advised_tip(w3: Web3) -> int:
    try:
        return read_number(w3, "eth_maxPriorityFeePerGas", bits=256)
    except LedgerError:
        return _TIP
