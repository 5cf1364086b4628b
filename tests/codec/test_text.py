"""Bytes and amounts as people read and write them."""

import pytest

from chainfl.codec.text import ETHER, ether, from_hex, gwei, hex_of, parse_hex, short_hex
from chainfl.errors import InputError


@pytest.mark.parametrize("raw", [b"", b"\x00", bytes(range(32))])
def test_what_is_shown_as_hex_is_read_again(raw: bytes) -> None:
    assert from_hex(hex_of(raw)) == raw
    assert from_hex(raw.hex()) == raw
    assert parse_hex(hex_of(raw), len(raw), "a value") == raw


@pytest.mark.parametrize("text", ["", "0x", "0x12", "0x" + "g" * 40, "12" * 21, "0x" + "12" * 20 + "1"])
def test_hex_of_another_length_or_of_other_letters_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not an address: 0x and 40 hex digits are expected"):
        parse_hex(text, 20, "an address")


def test_a_refusal_names_the_option_and_shows_a_part_of_what_was_given() -> None:
    with pytest.raises(
        InputError, match=r"^--block-hash '0x1+ is not a block's hash: 0x and 64 hex"
    ) as refused:
        parse_hex("0x" + "1" * 5_000, 32, "a block's hash", "--block-hash")

    assert len(str(refused.value)) < 200


def test_long_bytes_are_shown_by_their_start() -> None:
    assert short_hex(bytes(range(32))) == "0x000102030405…"


@pytest.mark.parametrize(
    ("wei", "shown"),
    [
        (0, "0.0000 ETH"),
        (ETHER, "1.0000 ETH"),
        (3 * ETHER // 2, "1.5000 ETH"),
        (ETHER // 10_000, "0.0001 ETH"),
        (ETHER // 100_000, "1.00e-05 ETH"),
        (1, "1.00e-18 ETH"),
    ],
)
def test_an_amount_has_four_digits_and_a_tiny_one_is_not_nothing(wei: int, shown: str) -> None:
    assert ether(wei) == shown


def test_an_amount_has_as_many_digits_as_are_asked_for() -> None:
    assert ether(1, 6) == "0.000000 ETH"
    assert ether(ETHER // 3, 6) == "0.333333 ETH"


def test_a_price_of_gas_is_shown_in_gwei() -> None:
    assert gwei(300 * 10**9) == "300 gwei"
    assert gwei(1_500_000_000) == "1.5 gwei"
