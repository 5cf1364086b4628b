"""One way to send a transaction: fees, nonce, replacement when stuck, receipt checked, refusal in our words."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Protocol, TypeVar

from eth_typing import ChecksumAddress
from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError
from web3.types import TxParams, TxReceipt, Wei

from chainfl.chain.abi import decode_revert
from chainfl.chain.answers import ask, read_head, read_number, read_receipt, stands
from chainfl.chain.fees import MOST_GAS, FeeCaps, Offer, higher, read_price
from chainfl.chain.rpc import name_of, outside, printable
from chainfl.codec.text import GWEI, ether, gwei
from chainfl.errors import FeeTooHighError, LedgerError, LowBalanceError, ProtocolError
from chainfl.types import Address

_GAS_MARGIN_PERCENT, _GAS_MARGIN = 50, 100_000
_SMALL_BLOCK = 8_000_000  # what every chain has room for in a block; above it, the chain is asked
_BUMP_PERCENT = 25
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0
_FEE_PAUSE = 2.0
"""Between two looks at a fee that is too high."""
_REST = 30.0
"""For how long one of several endpoints is not asked after it failed."""
_LONGEST_REVERT = 4096
_TRANSFER_GAS = 21_000
_REMEMBERED = 16
"""How many of its last transactions a sender can find missing; reorgs are shorter than that."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Signer(Protocol):
    """Holds a key and signs with it; the key itself never leaves it."""

    @property
    def address(self) -> Address:
        """The account it signs for."""
        ...

    def sign(self, transaction: dict[str, Any]) -> bytes:
        """The raw signed transaction."""
        ...


@dataclass(frozen=True, slots=True)
class SendSettings:
    """How patient to be, in seconds, how deep a transaction must lie, and what it may cost."""

    confirmations: int = 0
    replace_after: float = 30.0
    give_up_after: float = 300.0
    caps: FeeCaps = field(default_factory=FeeCaps)


def checksum(address: Address) -> ChecksumAddress:
    """The form of an address that web3 takes."""
    return Web3.to_checksum_address(address)


class Sender:
    """Sends the transactions of one account, one at a time, through one endpoint or several."""

    def __init__(
        self,
        w3: Web3,
        signer: Signer,
        chain_id: int,
        settings: SendSettings | None = None,
        others: Sequence[Web3] = (),
    ) -> None:
        """Nothing is sent yet. `others` are further endpoints of the same chain that transactions go to."""
        self._w3 = w3
        self._signer = signer
        self._chain_id = chain_id
        self._settings = settings or SendSettings()
        self._endpoints = (w3, *others)
        self._lock = threading.Lock()
        self._next_nonce = -1
        self._mined: dict[int, HexBytes] = {}
        self._resting: dict[Web3, float] = {}

    @property
    def address(self) -> Address:
        """The account that sends."""
        return self._signer.address

    def send(
        self,
        to: Address | None,
        data: bytes,
        value: int = 0,
        gas: int | None = None,
        *,
        seconds_left: float | None = None,
        is_checked: bool = True,
    ) -> TxReceipt:
        """Send and wait until it has happened for good.

        `seconds_left` says how long it is of use; while the fee is unusually high half of that is waited for it to
        fall, then what the caps allow is offered. Without a limit nothing is offered that would not be taken.
        `is_checked` asks whether the block holds the transaction; whoever reads its events does not need that.

        Raises:
            ProtocolError: the contract refuses; nothing was changed.
            LowBalanceError: the account cannot pay for it.
            FeeTooHighError: the network asks for more than the caps allow; nothing was sent.
            LedgerError: the chain could not be reached, or did not take the transaction in time.
        """
        with self._lock:
            call: TxParams = {
                "from": checksum(self.address),
                "data": HexBytes(data),
                "value": Wei(value),
            }
            if to is not None:
                call["to"] = checksum(to)

            try:
                limit = gas if gas is not None else self._estimate(call)
                receipt = self._deliver(call, limit, seconds_left)
            except LedgerError as error:
                raise self._in_ether(error) from error

            if receipt["status"] != 1:
                raise self._refusal(call, receipt)
            if is_checked:
                self._expect_mined(receipt)
            return receipt

    def balance(self) -> int:
        """What the account can spend, in wei."""
        return read_number(self._w3, "eth_getBalance", [checksum(self.address), "latest"], bits=256)

    def _in_ether(self, error: LedgerError) -> LedgerError:
        """A balance that is too low in words that say whose and what to do; other failures as they are."""
        if "insufficient funds" not in str(error).lower():
            return error
        return LowBalanceError(
            f"account {checksum(self.address)} has {ether(self.balance(), 6)}, too little for its next "
            "transaction: fund it"
        )

    def _estimate(self, call: TxParams) -> int:
        try:
            with outside("estimating gas"):
                # The pending block has the time at which the transaction would run; the newest may be old.
                # What others do meanwhile can make another path of the contract run, so the limit is generous.
                needed = int(self._w3.eth.estimate_gas(call, "pending"))
        except ContractLogicError as error:
            raise in_our_words(error) from None
        if not 0 < needed <= MOST_GAS:
            raise LedgerError(
                f"estimating gas: {name_of(self._w3)} says that {needed:.3g} are needed, "
                f"and a transaction has {MOST_GAS:,} at most: ask another"
            )
        generous = min(needed * (100 + _GAS_MARGIN_PERCENT) // 100 + _GAS_MARGIN, MOST_GAS)
        return generous if generous <= _SMALL_BLOCK else max(needed, min(generous, self._block_gas()))

    def _block_gas(self) -> int:
        with outside("reading the gas of a block"):
            return int(self._w3.eth.get_block("latest")["gasLimit"])

    # Fees

    def _offer(self, seconds_left: float | None) -> Offer:
        """What to offer for gas: the usual at once, more when time gets short, never more than the caps."""
        caps = self._settings.caps
        started = time.monotonic()
        said = False
        patience = self._settings.give_up_after if seconds_left is None else max(0.0, seconds_left)

        while True:
            price = self._ask(read_price)
            waited = time.monotonic() - started
            is_late = waited >= patience / 2

            if price.is_within(caps) and (price.is_usual or is_late):
                return price.offer(caps)
            if is_late and seconds_left:
                return price.offer(
                    caps
                )  # it waits in the pool, and is taken as soon as the fee has fallen to the cap

            if waited >= patience:
                raise FeeTooHighError(
                    f"the network asks for more than the {gwei(caps.max_fee)} that a unit of gas may "
                    "cost: wait for the fee to fall, or allow more with --max-fee"
                )

            if not said:
                _log.warning(
                    "the base fee is %.3g gwei, usual is %.3g at most, the cap %.3g (--max-fee): waiting",
                    price.base / GWEI, price.usual / GWEI, caps.max_fee / GWEI,
                )  # fmt: skip
                said = True
            time.sleep(min(_FEE_PAUSE, max(patience / 20, 0.05)))

    # Delivery

    def _deliver(self, call: TxParams, gas: int, seconds_left: float | None) -> TxReceipt:
        """Send under the next nonce; send again with a higher fee when it does not get through."""
        offer = self._offer(seconds_left)
        nonce = self._nonce()
        started = time.monotonic()
        hashes = list[HexBytes]()

        for tries in range(1, 1_000_000):
            hash_ = self._broadcast(call, gas, nonce, offer, is_resent=bool(hashes))
            hashes = [*(known for known in hashes if known != hash_), hash_]

            # Any of them may be the one that is mined: all share the nonce.
            receipt = self._await_receipt(hashes, started, tries)
            if receipt is not None:
                self._next_nonce = nonce + 1
                self._remember(nonce, receipt)
                return receipt

            self._fill_gaps(nonce, offer)
            if time.monotonic() - started > self._settings.give_up_after:
                break
            # Where the caps leave no room it is sent again as it is, for an endpoint that forgot it.
            offer = higher(offer, _BUMP_PERCENT, self._settings.caps) or offer
        raise self._not_in_time(hashes, nonce)

    def _remember(self, nonce: int, receipt: TxReceipt) -> None:
        """What was mined under a nonce: a reorg may take it back."""
        self._mined[nonce] = receipt["transactionHash"]
        self._mined.pop(nonce - _REMEMBERED, None)

    def _fill_gaps(self, nonce: int, offer: Offer) -> None:
        """Put an empty transfer in place of each earlier transaction that a reorg dropped.

        The waiting transaction cannot be mined before them. They are not sent again as they were: what they said may be
        wrong on the new chain, and whoever sent them looks at that chain before acting again.
        """
        try:
            params = [checksum(self.address), "latest"]
            first = self._ask(lambda w3: read_number(w3, "eth_getTransactionCount", params))
            gone = [n for n in range(first, nonce) if n in self._mined and not self._is_known(self._mined[n])]

            for each in gone:
                _log.warning(
                    "a reorg dropped the transaction with nonce %d: an empty one takes its place", each
                )
                transfer: TxParams = {"to": checksum(self.address), "value": Wei(0)}
                self._broadcast(transfer, _TRANSFER_GAS, each, offer, is_resent=True)
        except LedgerError as error:
            _log.warning("%s; looking for dropped transactions again later", error)

    def _is_known(self, hash_: HexBytes) -> bool:
        """Whether an endpoint has the transaction, mined or waiting."""
        what = "looking for an earlier transaction"
        params = [hash_.to_0x_hex()]
        return any(ask(w3, "eth_getTransactionByHash", params, what) is not None for w3 in self._working())

    def _nonce(self) -> int:
        """The account's next nonce; one that does not follow our last is asked for twice, for it may block us long."""
        nonce = self._middle_nonce()
        if nonce != self._next_nonce and self._next_nonce >= 0 and nonce != self._middle_nonce():
            raise LedgerError(f"{name_of(self._w3)} answered with two different nonces in a row: retrying")
        return nonce

    def _middle_nonce(self) -> int:
        """What the middle one of the endpoints says, so that one of several cannot hold us up."""
        counts = list[int]()
        failed = list[LedgerError]()
        for w3 in self._working():
            try:
                params = [checksum(self.address), "pending"]
                counts.append(read_number(w3, "eth_getTransactionCount", params))
            except LedgerError as error:
                self._let_rest(w3)
                failed.append(error)
        if not counts:
            raise failed[0]

        # The lower of the middle two: a nonce too low is refused at once, one too high would wait for ever.
        return median_low(counts)

    def _ask(self, question: Callable[[Web3], T]) -> T:
        """The answer of the first endpoint that has one."""
        failed: LedgerError | None = None
        for w3 in self._working():
            try:
                return question(w3)
            except LedgerError as error:
                self._let_rest(w3)
                failed = failed or error
        assert failed is not None
        raise failed

    def _working(self) -> list[Web3]:
        """The endpoints that have not just failed; all of them where all have."""
        now = time.monotonic()
        return [w3 for w3 in self._endpoints if self._resting.get(w3, 0.0) <= now] or list(self._endpoints)

    def _let_rest(self, w3: Web3) -> None:
        """Where there are others, one that fails holds nobody up for a while."""
        self._resting[w3] = time.monotonic() + _REST

    def _not_in_time(self, hashes: list[HexBytes], nonce: int) -> LedgerError:
        name = f"transaction {hashes[-1].to_0x_hex()} (nonce {nonce})"
        seconds = self._settings.give_up_after
        if any(self._receipt(hash_) is not None for hash_ in hashes):
            return LedgerError(
                f"{name} was mined, but {self._settings.confirmations} blocks did not follow within {seconds:.0f} s: "
                "is this chain making blocks? Ask for fewer confirmations where it makes them on demand only"
            )
        return LedgerError(
            f"{name} was not mined within {seconds:.0f} s: it may still be; check before sending it again"
        )

    def _broadcast(self, call: TxParams, gas: int, nonce: int, offer: Offer, *, is_resent: bool) -> HexBytes:
        """Sign and hand to every endpoint; one that takes it is enough."""
        caps = self._settings.caps
        if gas > MOST_GAS or offer.max_fee > caps.max_fee or offer.tip > caps.max_priority_fee:
            raise LedgerError("a transaction over the caps is not signed")

        transaction = {
            **{key: value for key, value in call.items() if key != "from"},
            "type": 2,
            "chainId": self._chain_id,
            "nonce": nonce,
            "gas": gas,
            "maxFeePerGas": offer.max_fee,
            "maxPriorityFeePerGas": offer.tip,
        }

        raw = self._signer.sign(transaction)
        refused = self._hand_to_all(raw)
        # A replacement that comes too late, or one that the node has already, means that the transaction is under way.
        if refused is None or is_resent or "already known" in str(refused):
            return HexBytes(Web3.keccak(raw))
        raise refused

    def _hand_to_all(self, raw: bytes) -> LedgerError | None:
        """None as soon as one endpoint has taken it, while the others still get it; else why the first did not."""
        working = self._working()
        if len(working) == 1:
            return _hand_to(working[0], raw)

        # All at once: an endpoint that hangs or withholds the transaction must not delay the others.
        pool = ThreadPoolExecutor(len(working), thread_name_prefix="sending")
        try:
            handed = [pool.submit(_hand_to, w3, raw) for w3 in working]
            for done in as_completed(handed):
                if done.result() is None:
                    return None
            return handed[0].result()
        finally:
            pool.shutdown(wait=False)

    def _await_receipt(self, hashes: list[HexBytes], started: float, tries: int) -> TxReceipt | None:
        """The receipt of whichever version was mined; None when it is time to try a higher fee."""
        settings = self._settings
        pause = _FIRST_PAUSE
        until = min(started + settings.replace_after * tries, started + settings.give_up_after)
        while True:
            # Any of the versions may be mined, mostly the newest, which offers most.
            for hash_ in reversed(hashes):
                receipt = self._receipt(hash_)
                if receipt is not None and self._is_deep_enough(receipt):
                    return receipt
            if time.monotonic() > until:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _receipt(self, hash_: HexBytes) -> TxReceipt | None:
        for w3 in self._working():
            try:
                receipt = read_receipt(w3, bytes(hash_))
            except LedgerError as error:
                self._let_rest(w3)
                _log.warning("%s; the transaction may be mined meanwhile, so the wait goes on", error)
                continue
            if receipt is not None:
                return receipt
        return None

    def _is_deep_enough(self, receipt: TxReceipt) -> bool:
        if self._settings.confirmations == 0:
            return True
        try:
            newest = self._ask(read_head).number
        except LedgerError as error:
            _log.warning("%s; counting confirmations again", error)
            return False
        return newest >= receipt["blockNumber"] + self._settings.confirmations

    def _expect_mined(self, receipt: TxReceipt) -> None:
        """A receipt alone proves nothing: the block that it names must be there and hold the transaction."""
        if not self._ask(lambda w3: stands(w3, receipt)):
            raise LedgerError(
                f"transaction {receipt['transactionHash'].to_0x_hex()}: {name_of(self._w3)} says that it was mined "
                f"in block {receipt['blockNumber']}, which does not hold it: check before sending it again"
            )

    def _refusal(self, call: TxParams, receipt: TxReceipt) -> ProtocolError:
        """Why a mined transaction failed: the same call at its block says it again."""
        name = receipt["transactionHash"].to_0x_hex()
        try:
            with outside("asking why a transaction failed"):
                self._w3.eth.call(call, receipt["blockNumber"])
        except ContractLogicError as error:
            return in_our_words(error)
        except LedgerError as error:
            return ProtocolError(f"transaction {name} failed; {error}")
        return ProtocolError(f"transaction {name} failed: it was overtaken or ran out of gas")


def _hand_to(w3: Web3, raw: bytes) -> LedgerError | None:
    """Give an endpoint a transaction; answers why it did not take it."""
    try:
        with outside("sending a transaction"):
            w3.eth.send_raw_transaction(raw)
    except LedgerError as error:
        return error
    except ContractLogicError as error:
        return LedgerError(f"sending a transaction: {printable(error.message)}")
    return None


def in_our_words(error: ContractLogicError) -> ProtocolError:
    """A contract's refusal as the error of ours that it is."""
    data = error.data
    if isinstance(data, str) and data.startswith("0x") and len(data) <= _LONGEST_REVERT:
        try:
            return decode_revert(bytes.fromhex(data[2:]))
        except Exception:  # what an endpoint says a contract said can be anything
            return ProtocolError(f"the contract refused: {printable(data)}")
    return ProtocolError(f"the contract refused: {printable(error.message)}")
