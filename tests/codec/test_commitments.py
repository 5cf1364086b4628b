import json
from collections.abc import Callable
from pathlib import Path

import pytest
from eth_abi.abi import encode as abi_encode
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec import commitments
from chainfl.codec.commitments import keccak256
from chainfl.errors import AbiError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "commitments.json").read_text())
CASES = [dict(zip(VECTORS, row, strict=True)) for row in zip(*VECTORS.values(), strict=True)]

words = st.binary(min_size=32, max_size=32)
addresses = st.binary(min_size=20, max_size=20)
uint64s = st.integers(0, (1 << 64) - 1)
uint256s = st.integers(0, (1 << 256) - 1)


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def split(data: bytes) -> list[bytes]:
    return [data[at : at + 32] for at in range(0, len(data), 32)]


def test_keccak_is_that_of_ethereum_not_that_of_nist() -> None:
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_published_vectors_hold(case: dict[str, str]) -> None:
    chain_id, contract, sender = int(case["chain_id"]), unhex(case["contract"]), unhex(case["sender"])
    round_, salt, attempt = int(case["round"]), unhex(case["salt"]), int(case["attempt"])
    worker = commitments.worker_payload(unhex(case["root"]), unhex(case["cid"]), int(case["samples"]))
    validator = commitments.validator_payload(split(unhex(case["roots"])), unhex(case["scores"]))
    place = (chain_id, contract, int(case["task_id"]), round_, int(case["phase_tag"]), sender)
    seed = commitments.draw_seed(chain_id, contract, round_, unhex(case["block_hash"]))

    assert worker == unhex(case["worker_payload"])
    assert validator == unhex(case["validator_payload"])
    assert commitments.commitment(*place, worker, salt) == unhex(case["worker_commitment"])
    assert commitments.commitment(*place, validator, salt) == unhex(case["validator_commitment"])
    assert commitments.finder_note(
        chain_id, contract, round_, attempt, int(case["position"]), sender, salt
    ) == unhex(case["finder_note"])
    assert seed == unhex(case["draw_seed"])
    assert commitments.draw_number(seed, int(case["k"])) == int(case["draw_number"])
    assert commitments.training_seed(int(case["master"]), case["purpose"], int(case["id"]), round_) == int(
        case["training_seed"]
    )


@given(uint256s, addresses, uint256s, uint64s, st.integers(0, 255), addresses, words, words)
def test_a_commitment_is_the_hash_of_solidity_s_encoding(
    chain_id: int,
    contract: bytes,
    task_id: int,
    round_: int,
    tag: int,
    sender: bytes,
    payload: bytes,
    salt: bytes,
) -> None:
    types = ["uint256", "address", "uint256", "uint64", "uint8", "address", "bytes32", "bytes32"]
    values = (chain_id, contract, task_id, round_, tag, sender, payload, salt)

    assert commitments.commitment(*values) == keccak256(abi_encode(types, values))


@given(st.lists(words, max_size=20), st.binary(max_size=100))
def test_a_validator_s_payload_is_the_hash_of_solidity_s_encoding(roots: list[bytes], scores: bytes) -> None:
    expected = keccak256(abi_encode(["bytes32", "bytes"], [keccak256(b"".join(roots)), scores]))

    assert commitments.validator_payload(roots, scores) == expected


@given(uint256s, st.text("abcdefgh-", min_size=1, max_size=31), uint64s, uint64s)
def test_a_training_seed_is_63_bits_of_solidity_s_encoding(
    master: int, purpose: str, id_: int, round_: int
) -> None:
    types = ["uint256", "bytes32", "uint64", "uint64"]
    digest = keccak256(abi_encode(types, [master, purpose.encode().ljust(32, b"\0"), id_, round_]))

    assert commitments.training_seed(master, purpose, id_, round_) == int.from_bytes(digest, "big") % (
        1 << 63
    )


def test_a_commitment_changes_with_everything_it_names() -> None:
    base = (1, b"\1" * 20, 1, 1, 1, b"\2" * 20, b"\3" * 32, b"\4" * 32)
    others = (2, b"\5" * 20, 2, 2, 2, b"\6" * 20, b"\7" * 32, b"\x08" * 32)
    changed = [(*base[:at], others[at], *base[at + 1 :]) for at in range(len(base))]

    digests = {commitments.commitment(*values) for values in [base, *changed]}  # type: ignore[arg-type]

    assert len(digests) == 1 + len(base)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: commitments.worker_payload(bytes(31), bytes(32), 1), "root: expected 32 bytes, found 31"),
        (lambda: commitments.worker_payload(bytes(32), bytes(32), 1 << 64), "samples: .* is not a uint64"),
        (lambda: commitments.worker_payload(bytes(32), bytes(32), -1), "samples: -1 is not a uint64"),
        (lambda: commitments.draw_seed(1, bytes(21), 1, bytes(32)), "task: an address is 20 bytes, not 21"),
        (lambda: commitments.validator_payload([bytes(32), bytes(1)], b""), "root 1: expected 32 bytes"),
        (lambda: commitments.training_seed(1, "", 1, 1), "purpose: '' is not 1 to 31 ASCII"),
        (lambda: commitments.training_seed(1, "x" * 32, 1, 1), "purpose: .* is not 1 to 31 ASCII"),
        (lambda: commitments.training_seed(1, "größe", 1, 1), "purpose: .* is not 1 to 31 ASCII"),
        (lambda: commitments.training_seed(1, "a\0", 1, 1), "purpose: .* is not 1 to 31 ASCII"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(call: Callable[[], object], why: str) -> None:
    with pytest.raises(AbiError, match=why):
        call()
