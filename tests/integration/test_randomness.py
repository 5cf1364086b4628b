"""Whether a chain can seed draws: anvil and geth can; headers that do not hash, and values that stand still, cannot."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from web3 import Web3

from chainfl.chain.deploy import deploy
from chainfl.chain.evidence import encode_header
from chainfl.chain.keys import LocalSigner
from chainfl.chain.randomness import HEADERS, check_randomness
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender, SendSettings
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import start_anvil
from chainfl.errors import ChainflError, InputError, LedgerError
from chainfl.types import Rule
from tests.integration.chain import devchain, expect_seed_of_the_header, geth, open_task
from tests.integration.relay import Json, Relay, relay
from tests.processes import await_that

Require = Callable[[str], Path]
BLOCKS = 6


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, require: Require) -> Iterator[str]:
    """An anvil with a few blocks."""
    require("anvil")
    process, url = start_anvil(tmp_path_factory.mktemp("anvil"), 1)
    mine(open_rpc(url), BLOCKS)
    try:
        yield url
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def lying(endpoint: str) -> Iterator[Relay]:
    """An endpoint before it that alters what it is told to."""
    with relay(endpoint) as between:
        yield between


def mine(w3: Web3, blocks: int) -> None:
    for _ in range(blocks):
        w3.provider.make_request("evm_mine", [])  # type: ignore[arg-type]


def with_blocks(change: Callable[[Json], Json]) -> Callable[[Json, Json], Json]:
    """Alter the fields of every block that is answered."""

    def alter(request: Json, answer: Json) -> Json:
        if request["method"] != "eth_getBlockByNumber":
            return answer
        return answer | {"result": change(answer["result"])}

    return alter


def rebuilt(**fields: Any) -> Callable[[Json, Json], Json]:
    """A chain whose every header holds these values, and hashes and follows as it should."""
    hashes = dict[int, str]()

    def change(block: Json) -> Json:
        number = int(block["number"], 16)
        made = block | fields | {"parentHash": hashes.get(number - 1, block["parentHash"])}
        hashes[number] = "0x" + keccak256(encode_header(made)).hex()
        return made | {"hash": hashes[number]}

    return with_blocks(change)


def test_anvil_can_seed_draws(endpoint: str) -> None:
    check_randomness(open_rpc(endpoint))


def test_geth_can_seed_draws(tmp_path: Path, require: Require) -> None:
    with geth(require("geth"), tmp_path) as url:
        w3 = open_rpc(url)
        await_that(lambda: w3.eth.block_number > HEADERS, 30, "blocks of geth")

        check_randomness(w3)


def test_on_anvil_the_seed_is_that_of_the_header_by_an_independent_formula(
    tmp_path: Path, require: Require
) -> None:
    require("anvil")
    with devchain(tmp_path) as chain:
        expect_seed_of_the_header(open_task(chain, Rule.SOFTMAX, 7))


def test_no_more_headers_are_read_than_asked_for(lying: Relay) -> None:
    check_randomness(open_rpc(lying.url), 5)

    assert lying.count("eth_getBlockByNumber") == 1 + 5


@pytest.mark.parametrize("headers", [0, 1, 3])
def test_fewer_headers_than_tell_anything_are_never_enough(lying: Relay, headers: int) -> None:
    check_randomness(open_rpc(lying.url), headers)

    assert lying.count("eth_getBlockByNumber") == 1 + HEADERS


@pytest.mark.parametrize("field", ["mixHash", "extraData", "stateRoot", "timestamp", "gasUsed"])
def test_headers_that_do_not_hash_to_their_block_hash_are_refused(lying: Relay, field: str) -> None:
    lying.alter = with_blocks(lambda block: block | {field: "0x" + "12" * 32})

    with pytest.raises(LedgerError, match=r"^header of block \d+: its fields hash to .* cannot draw here$"):
        check_randomness(open_rpc(lying.url))


def test_a_value_that_stands_still_is_refused(lying: Relay) -> None:
    lying.alter = rebuilt(mixHash="0x" + "77" * 32)

    with pytest.raises(InputError, match=r"^blocks 3 and 4 have the same mixHash"):
        check_randomness(open_rpc(lying.url))


def test_a_value_of_zero_is_refused(lying: Relay) -> None:
    lying.alter = rebuilt(mixHash="0x" + "00" * 32)

    with pytest.raises(InputError, match=r"^block 3 has a mixHash of zero"):
        check_randomness(open_rpc(lying.url))


def test_a_chain_without_the_field_is_refused(lying: Relay) -> None:
    lying.alter = rebuilt(mixHash=None)

    with pytest.raises(InputError, match=r"^block 3 has a mixHash of zero"):
        check_randomness(open_rpc(lying.url))


def test_proof_of_work_is_refused(lying: Relay) -> None:
    lying.alter = rebuilt(difficulty="0x1")

    with pytest.raises(InputError, match=r"^block 3 has a difficulty"):
        check_randomness(open_rpc(lying.url))


@pytest.mark.parametrize("chain_id", [1, 31337])
def test_nothing_is_deployed_where_draws_would_not_be_random(
    lying: Relay, tmp_path: Path, chain_id: int
) -> None:
    stuck = rebuilt(mixHash="0x" + "77" * 32)
    told = {"eth_chainId": hex(chain_id)}
    lying.alter = lambda asked, answer: (
        answer | {"result": told[asked["method"]]} if asked["method"] in told else stuck(asked, answer)
    )
    w3, file = open_rpc(lying.url), tmp_path / "chain.json"
    sender = Sender(w3, LocalSigner(Account.from_key(keccak256(b"deployer"))), chain_id, SendSettings())

    with pytest.raises(InputError, match="have the same mixHash: it does not move with every block"):
        deploy(w3, sender, file, 60, chain_id, lambda _: None)

    assert lying.count("eth_sendRawTransaction") == 0
    assert not file.exists()


def test_headers_that_do_not_follow_one_another_are_refused(lying: Relay) -> None:
    def change(block: Json) -> Json:
        made = block | {"parentHash": "0x" + "34" * 32}
        return made | {"hash": "0x" + keccak256(encode_header(made)).hex()}

    lying.alter = with_blocks(change)

    with pytest.raises(LedgerError, match="does not follow the one before it"):
        check_randomness(open_rpc(lying.url))


@pytest.mark.parametrize(
    "result",
    [
        None,
        [],
        "0x",
        7,
        {},
        {"number": None},
        {"number": "0x5"},
        {"number": "0x5", "hash": 5, "parentHash": "0x"},
        {"number": "0x5", "hash": "0xzz", "parentHash": "0x"},
        {"number": "0x5", "hash": "0x" + "11" * 32, "parentHash": "0x" + "22" * 32, "gasUsed": []},
        {"number": "0x5", "hash": "0x" + "11" * 32, "parentHash": ["0x"]},
    ],
)
def test_a_malformed_answer_is_one_clear_line(lying: Relay, result: object) -> None:
    lying.alter = lambda _, answer: answer | {"result": result}

    with pytest.raises(LedgerError, match="block") as refused:
        check_randomness(open_rpc(lying.url))

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("blocks", [0, 1, HEADERS - 1])
def test_a_chain_too_young_to_tell_says_what_to_do(tmp_path: Path, require: Require, blocks: int) -> None:
    require("anvil")
    process, url = start_anvil(tmp_path, 1)
    try:
        w3 = open_rpc(url)
        mine(w3, blocks)

        with pytest.raises(InputError, match=f"^the chain has {blocks} of the {HEADERS} blocks .*anvil_mine"):
            check_randomness(w3)
        check_randomness(w3, allow_young=True)

        mine(w3, HEADERS - blocks)
        check_randomness(w3)
    finally:
        process.terminate()
        process.wait(10)


def test_a_young_chain_that_is_allowed_is_still_checked(tmp_path: Path, require: Require) -> None:
    require("anvil")
    process, url = start_anvil(tmp_path, 1)
    try:
        mine(open_rpc(url), 1)
        with relay(url) as between:
            between.alter = rebuilt(mixHash="0x" + "00" * 32)
            with pytest.raises(ChainflError, match="mixHash of zero"):
                check_randomness(open_rpc(between.url), allow_young=True)
    finally:
        process.terminate()
        process.wait(10)
