"""No transaction costs more than its caps allow, whatever an endpoint says that gas costs."""

from typing import Any

import click
import pytest
from eth_account import Account
from eth_account.typed_transactions import TypedTransaction  # type: ignore[attr-defined]
from hexbytes import HexBytes
from web3 import Web3

from chainfl.chain.fees import FeeCaps, Offer, Price, higher, read_price
from chainfl.chain.keys import LocalSigner
from chainfl.chain.send import Sender, SendSettings
from chainfl.cli.app import run
from chainfl.cli.chain_options import chosen_caps, key_options
from chainfl.codec.commitments import keccak256
from chainfl.codec.text import GWEI
from chainfl.errors import FeeTooHighError, LedgerError
from chainfl.types import Address
from tests.integration.chain import Devchain
from tests.integration.lying import Lie, Lying
from tests.protocol.scene import ETHER

TO = Address(b"\x11" * 20)
CAPS = FeeCaps(50 * GWEI, 2 * GWEI)


def signed(endpoint: Lying) -> list[dict[str, Any]]:
    """The transactions that went to an endpoint."""
    raw = [params[0] for method, params in endpoint.asked if method == "eth_sendRawTransaction"]
    return [dict(TypedTransaction.from_bytes(HexBytes(each)).as_dict()) for each in raw]


def sender_behind(chain: Devchain, lie: Lie, settings: SendSettings) -> tuple[Sender, Lying]:
    """An account with ether, behind an endpoint that lies."""
    signer = LocalSigner(Account.from_key(keccak256(b"payer")))
    chain.give(signer.address)
    endpoint = Lying(chain.w3, lie)
    return Sender(Web3(endpoint), signer, chain.chain_id, settings), endpoint


def history(base: int, tip: int, before: int | None = None) -> dict[str, Any]:
    """Twenty blocks of a fee history; the next block's base fee is `base`, those before cost `before`."""
    return {
        "oldestBlock": "0x1",
        "baseFeePerGas": [hex(base if before is None else before)] * 20 + [hex(base)],
        "gasUsedRatio": [0.5] * 20,
        "reward": [[hex(tip)]] * 20,
    }


def asks(base: int, tip: int, before: int | None = None) -> Lie:
    """An endpoint that says that gas costs this."""

    def lie(method: str, _: Any, answer: Any) -> Any:
        if method == "eth_feeHistory":
            return history(base, tip, before)
        if method == "eth_maxPriorityFeePerGas":
            return hex(tip)
        return answer

    return lie


def test_a_tip_that_would_take_the_whole_balance_is_cut_to_the_cap(chain: Devchain) -> None:
    sender, endpoint = sender_behind(chain, asks(GWEI, 5 * ETHER // 200_000), SendSettings(caps=CAPS))

    sender.send(TO, b"")

    (offered,) = signed(endpoint)
    assert offered["maxPriorityFeePerGas"] == CAPS.max_priority_fee
    assert offered["maxFeePerGas"] <= 4 * GWEI


@pytest.mark.parametrize("answer", [None, "0x", {}, {"baseFeePerGas": []}, {"baseFeePerGas": [-1]}, [1]])
def test_without_a_history_the_newest_block_and_a_capped_tip_do(chain: Devchain, answer: Any) -> None:
    def lie(method: str, _: Any, true: Any) -> Any:
        if method == "eth_maxPriorityFeePerGas":
            return hex(10**30)
        return answer if method == "eth_feeHistory" else true

    sender, endpoint = sender_behind(chain, lie, SendSettings(caps=CAPS))

    sender.send(TO, b"")

    (offered,) = signed(endpoint)
    assert offered["maxPriorityFeePerGas"] == CAPS.max_priority_fee
    assert offered["maxFeePerGas"] <= CAPS.max_fee


@pytest.mark.parametrize("base", [CAPS.max_fee, 10**6 * GWEI, 2**255])
def test_a_base_fee_over_the_cap_is_waited_out_and_nothing_is_signed(
    chain: Devchain, base: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SendSettings(caps=CAPS, give_up_after=0.3)
    sender, endpoint = sender_behind(chain, asks(base, GWEI), settings)

    with pytest.raises(FeeTooHighError, match=r"more than the 50 gwei .* allow more with --max-fee"):
        sender.send(TO, b"")

    assert signed(endpoint) == []
    assert caplog.text.count("the cap 50 (--max-fee): waiting") == 1


def test_what_anyone_may_do_is_not_waited_for(chain: Devchain) -> None:
    sender, endpoint = sender_behind(chain, asks(60 * GWEI, GWEI), SendSettings(caps=CAPS))

    with pytest.raises(FeeTooHighError):
        sender.send(TO, b"", seconds_left=0)

    assert [method for method, _ in endpoint.asked].count("eth_feeHistory") == 1


def test_a_fee_that_falls_is_paid_at_once(chain: Devchain) -> None:
    looks = [0]

    def lie(method: str, params: Any, answer: Any) -> Any:
        looks[0] += method == "eth_feeHistory"
        return asks(60 * GWEI if looks[0] < 4 else GWEI, GWEI)(method, params, answer)

    sender, endpoint = sender_behind(chain, lie, SendSettings(caps=CAPS))

    sender.send(TO, b"", seconds_left=8)

    assert looks == [4]
    assert signed(endpoint)[0]["maxFeePerGas"] == 3 * GWEI


def test_a_spike_under_the_cap_is_waited_for_until_time_gets_short(
    chain: Devchain, caplog: pytest.LogCaptureFixture
) -> None:
    sender, endpoint = sender_behind(chain, asks(20 * GWEI, GWEI, before=GWEI), SendSettings(caps=CAPS))

    sender.send(TO, b"", seconds_left=1)

    (offered,) = signed(endpoint)
    assert offered["maxFeePerGas"] == 41 * GWEI
    assert "the base fee is 20 gwei, usual is 4 at most" in caplog.text


def test_near_the_deadline_the_cap_is_offered_even_if_it_may_be_too_little(chain: Devchain) -> None:
    sender, endpoint = sender_behind(chain, asks(900 * GWEI, 30 * GWEI), SendSettings(caps=CAPS))

    sender.send(TO, b"", seconds_left=0.4)  # the real fee is low, so that the chain takes it

    (offered,) = signed(endpoint)
    assert (offered["maxFeePerGas"], offered["maxPriorityFeePerGas"]) == (50 * GWEI, 2 * GWEI)


def test_replacements_stop_at_the_caps(chain: Devchain) -> None:
    settings = SendSettings(caps=FeeCaps(4 * GWEI, 2 * GWEI), replace_after=0.1, give_up_after=1.0)
    sender, endpoint = sender_behind(chain, asks(GWEI, GWEI), settings)
    chain.rpc("evm_setAutomine", [False])
    try:
        with pytest.raises(LedgerError, match="was not mined within 1 s"):
            sender.send(TO, b"")
    finally:
        chain.rpc("evm_setAutomine", [True])
        chain.rpc("evm_mine", [])

    offered = [(each["maxFeePerGas"], each["maxPriorityFeePerGas"]) for each in signed(endpoint)]
    assert max(fee for fee, _ in offered) > 3 * GWEI
    assert max(offered) <= (4 * GWEI, 2 * GWEI)
    assert len({each["nonce"] for each in signed(endpoint)}) == 1


@pytest.mark.parametrize("gas", ["0x0", hex(2**24 + 1), hex(2**63)])
def test_gas_that_no_transaction_can_use_is_not_believed(chain: Devchain, gas: str) -> None:
    def lie(method: str, _: Any, answer: Any) -> Any:
        return gas if method == "eth_estimateGas" else answer

    sender, endpoint = sender_behind(chain, lie, SendSettings(caps=CAPS))

    with pytest.raises(LedgerError, match=r"estimating gas: .* and a transaction has 16,777,216 at most"):
        sender.send(TO, b"")

    assert signed(endpoint) == []


def test_a_receipt_of_a_transaction_that_never_was_is_not_believed(chain: Devchain) -> None:
    real = chain.sender("somebody").send(TO, b"")
    raw = chain.w3.provider.make_request("eth_getTransactionReceipt", [real["transactionHash"].to_0x_hex()])  # type: ignore[arg-type]

    def lie(method: str, params: Any, answer: Any) -> Any:
        if method == "eth_getTransactionReceipt":
            return {**raw["result"], "transactionHash": params[0]}
        return answer

    sender, _ = sender_behind(chain, lie, SendSettings(caps=CAPS))
    chain.rpc("evm_setAutomine", [False])
    try:
        with pytest.raises(LedgerError, match=r"says that it was mined in block \d+, which does not hold it"):
            sender.send(TO, b"")
    finally:
        chain.rpc("evm_setAutomine", [True])
        chain.rpc("evm_mine", [])


def test_the_price_follows_recent_blocks(chain: Devchain) -> None:
    price = read_price(Web3(Lying(chain.w3, asks(30 * GWEI, 3 * GWEI, before=10 * GWEI))))

    assert price == Price(30 * GWEI, 3 * GWEI, 40 * GWEI)
    assert price.is_usual
    assert price.offer(FeeCaps()) == Offer(63 * GWEI, 3 * GWEI)


def test_no_higher_offer_is_made_where_the_caps_leave_no_room() -> None:
    assert higher(Offer(20 * GWEI, GWEI), 25, CAPS) == Offer(25 * GWEI + 1, GWEI * 5 // 4 + 1)
    assert higher(Offer(45 * GWEI, GWEI), 25, CAPS) is None
    assert higher(Offer(10 * GWEI, 2 * GWEI), 25, CAPS) is None


def test_a_command_takes_its_caps_from_options_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = list[FeeCaps]()

    @click.command()
    @key_options
    def command(**_: object) -> None:
        chosen.append(chosen_caps())

    monkeypatch.setenv("CHAINFL_MAX_PRIORITY_FEE", "0.5")
    for given in ([], ["--max-fee", "7.5"], ["--max-fee", "0.1"]):
        command.main(["--keystore", "key.json", *given], standalone_mode=False)

    assert chosen == [
        FeeCaps(300 * GWEI, GWEI // 2),
        FeeCaps(75 * GWEI // 10, GWEI // 2),
        FeeCaps(GWEI // 10, GWEI // 10),
    ]


@pytest.mark.parametrize(
    "command", [["deploy"], ["watch"], ["stake", "add"], ["stake", "claim"], ["task", "create"]]
)
def test_every_command_that_sends_has_the_options(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run([*command, "--help"])

    assert "--max-priority-fee" in capsys.readouterr().out
