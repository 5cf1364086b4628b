"""One way to send a transaction: fees, nonce, replacement when stuck, receipt checked, refusal in our words."""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Protocol, cast

from eth_typing import ChecksumAddress
from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError, TransactionNotFound, Web3RPCError
from web3.types import TxParams, TxReceipt, Wei

from chainfl.chain.abi import decode_revert
from chainfl.chain.rpc import outside
from chainfl.errors import LedgerError, LowBalanceError, ProtocolError
from chainfl.types import Address

_GAS_MARGIN_PERCENT, _GAS_MARGIN = 50, 100_000
_BUMP_PERCENT = 25
_TIP_SECONDS = 60.0
"""How long an endpoint's advice on the tip is taken for good; one that is too low is raised by a replacement."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0

_log = logging.getLogger(__name__)


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
    """How patient to be, in seconds, and how deep a transaction must lie."""

    confirmations: int = 0
    replace_after: float = 30.0
    give_up_after: float = 300.0


def checksum(address: Address) -> ChecksumAddress:
    """The form of an address that web3 takes."""
    return Web3.to_checksum_address(address)


class Sender:
    """Sends the transactions of one account, one at a time."""

    def __init__(self, w3: Web3, signer: Signer, chain_id: int, settings: SendSettings | None = None) -> None:
        """Nothing is sent yet."""
        self._w3, self._signer, self._chain_id = w3, signer, chain_id
        self._settings = settings or SendSettings()
        self._lock = threading.Lock()
        self._tip, self._tip_asked = 0, -_TIP_SECONDS

    @property
    def address(self) -> Address:
        """The account that sends."""
        return self._signer.address

    def send(self, to: Address | None, data: bytes, value: int = 0, gas: int | None = None) -> TxReceipt:
        """Send and wait until it has happened for good.

        Raises:
            ProtocolError: the contract refuses; nothing was changed.
            LowBalanceError: the account cannot pay for it.
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
                receipt = self._deliver(call, limit)
            except LedgerError as error:
                raise self._in_ether(error) from error
            if receipt["status"] != 1:
                raise self._refusal(call, receipt)
            return receipt

    def balance(self) -> int:
        """What the account can spend, in wei."""
        with outside("reading the balance"):
            return self._w3.eth.get_balance(checksum(self.address))

    def _in_ether(self, error: LedgerError) -> LedgerError:
        """A balance that is too low in words that say whose and what to do; other failures as they are."""
        if "insufficient funds" not in str(error).lower():
            return error
        has = self.balance() / 10**18
        return LowBalanceError(
            f"account {checksum(self.address)} has {has:.6f} ETH, too little for its next transaction: fund it"
        )

    def _estimate(self, call: TxParams) -> int:
        try:
            with outside("estimating gas"):
                # The pending block has the time at which the transaction would run; the newest may be old.
                # What others do meanwhile can make another path of the contract run, so the limit is generous.
                needed = self._w3.eth.estimate_gas(call, "pending")
                return needed * (100 + _GAS_MARGIN_PERCENT) // 100 + _GAS_MARGIN
        except ContractLogicError as error:
            raise in_our_words(error) from None

    def _deliver(self, call: TxParams, gas: int) -> TxReceipt:
        """Send under the next nonce; send again with a higher fee when it does not get through."""
        with outside("reading nonce and fees"):
            nonce = self._w3.eth.get_transaction_count(checksum(self.address), "pending")
            max_fee, tip = self._fees()
        started, hashes = time.monotonic(), list[HexBytes]()
        while True:
            hashes.append(self._broadcast(call, gas, nonce, max_fee, tip, resent=bool(hashes)))
            receipt = self._await_receipt(hashes, started)
            if receipt is not None:
                return receipt
            if time.monotonic() - started > self._settings.give_up_after:
                raise self._not_in_time(hashes, nonce)
            max_fee, tip = (fee * (100 + _BUMP_PERCENT) // 100 + 1 for fee in (max_fee, tip))

    def _not_in_time(self, hashes: list[HexBytes], nonce: int) -> LedgerError:
        name, seconds = f"transaction {hashes[-1].to_0x_hex()} (nonce {nonce})", self._settings.give_up_after
        if any(self._receipt(hash_) is not None for hash_ in hashes):
            return LedgerError(
                f"{name} was mined, but {self._settings.confirmations} blocks did not follow within {seconds:.0f} s: "
                "is this chain making blocks? Ask for fewer confirmations where it makes them on demand only"
            )
        return LedgerError(
            f"{name} was not mined within {seconds:.0f} s: it may still be; check before sending it again"
        )

    def _fees(self) -> tuple[int, int]:
        base = self._w3.eth.get_block("latest").get("baseFeePerGas", 0)
        if time.monotonic() - self._tip_asked > _TIP_SECONDS:
            try:
                self._tip = int(self._w3.eth.max_priority_fee)
            except (Web3RPCError, ContractLogicError):
                self._tip = 10**9
            self._tip_asked = time.monotonic()
        return int(2 * base + self._tip), self._tip

    def _broadcast(
        self, call: TxParams, gas: int, nonce: int, max_fee: int, tip: int, *, resent: bool
    ) -> HexBytes:
        transaction = {
            **{key: value for key, value in call.items() if key != "from"},
            "type": 2,
            "chainId": self._chain_id,
            "nonce": nonce,
            "gas": gas,
            "maxFeePerGas": max_fee,
            "maxPriorityFeePerGas": tip,
        }
        raw = self._signer.sign(transaction)
        try:
            with outside("sending a transaction"):
                return self._w3.eth.send_raw_transaction(raw)
        except LedgerError as error:
            # A replacement that comes too late, or one that the node knows already, is good news.
            if resent or "already known" in str(error):
                return HexBytes(Web3.keccak(raw))
            raise

    def _await_receipt(self, hashes: list[HexBytes], started: float) -> TxReceipt | None:
        """The receipt of whichever version was mined; None when it is time to try a higher fee."""
        settings, pause = self._settings, _FIRST_PAUSE
        until = min(started + settings.replace_after * len(hashes), started + settings.give_up_after)
        while True:
            for hash_ in reversed(hashes):
                receipt = self._receipt(hash_)
                if receipt is not None and self._is_deep_enough(receipt):
                    return receipt
            if time.monotonic() > until:
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _receipt(self, hash_: HexBytes) -> TxReceipt | None:
        try:
            with outside("waiting for a receipt"):
                return self._w3.eth.get_transaction_receipt(hash_)
        except LedgerError as error:
            if not isinstance(error.__cause__, TransactionNotFound):
                _log.warning("%s; the transaction may be mined meanwhile, so the wait goes on", error)
            return None

    def _is_deep_enough(self, receipt: TxReceipt) -> bool:
        if self._settings.confirmations == 0:
            return True
        with outside("counting confirmations"):
            return self._w3.eth.block_number >= receipt["blockNumber"] + self._settings.confirmations

    def _refusal(self, call: TxParams, receipt: TxReceipt) -> ProtocolError:
        """Why a mined transaction failed: the same call at its block says it again."""
        try:
            with outside("asking why a transaction failed"):
                self._w3.eth.call(call, receipt["blockNumber"])
        except ContractLogicError as error:
            return in_our_words(error)
        except LedgerError as error:
            return ProtocolError(f"transaction {receipt['transactionHash'].to_0x_hex()} failed; {error}")
        name = receipt["transactionHash"].to_0x_hex()
        return ProtocolError(f"transaction {name} failed: it was overtaken or ran out of gas")


def in_our_words(error: ContractLogicError) -> ProtocolError:
    """A contract's refusal as the error of ours that it is."""
    data = error.data
    if isinstance(data, str) and data.startswith("0x"):
        return decode_revert(bytes.fromhex(data[2:]))
    return ProtocolError(f"the contract refused: {cast(str, error.message)}")
