"""Evidence read off an endpoint, and what an endpoint that lies or knows too little meets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hexbytes import HexBytes
from web3 import Web3
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from chainfl.audit.evidence import may_hold, read_header
from chainfl.chain import evidence
from chainfl.codec import rlp
from chainfl.codec.commitments import keccak256
from chainfl.devnet.processes import CHAIN_ID
from chainfl.errors import LedgerError, VerificationError
from chainfl.types import Address
from chainfl.workflows.bundle import export_bundle
from tests.audit.scene import History

Lie = Callable[[str, Any, Any], Any]
"""What an endpoint makes of a method, its parameters and the true answer."""


class Lying(JSONBaseProvider):
    """A real endpoint whose answers are changed on the way."""

    def __init__(self, real: Web3, lie: Lie) -> None:
        """Answer as the real one does, but for the lie."""
        super().__init__()
        self._real, self._lie = real, lie

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Ask the real one and pass on what the lie makes of it."""
        answer = self._real.provider.make_request(method, params)
        if "result" in answer:
            answer["result"] = self._lie(method, params, answer["result"])
        return answer


def about(method: str, change: Callable[[Any], Any]) -> Lie:
    return lambda asked, _, answer: change(answer) if asked == method else answer


def export(played: History, lie: Lie, out: Path) -> None:
    block = played.exported.subject.block
    w3 = Web3(Lying(played.chain.w3, lie))
    export_bundle(w3, CHAIN_ID, played.task.address, played.blobs(), out, block=block)


def forget_logs(receipts: Any) -> Any:
    return [receipt | {"logs": []} for receipt in receipts]


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (
            about("eth_getBlockByNumber", lambda b: b | {"timestamp": "0x1"}),
            r"header of block \d+: the endpoint's answers",
        ),
        (
            about("eth_getBlockByNumber", lambda b: b | {"hash": "0x" + "11" * 32}),
            r"header of block \d+: the endpoint",
        ),
        (about("eth_getBlockReceipts", forget_logs), r"receipts of block \d+: the endpoint's answers"),
        (
            about("eth_getBlockReceipts", lambda found: found[:-1]),
            r"receipts of block \d+: the endpoint's answers",
        ),
        (
            about("eth_getProof", lambda p: p | {"accountProof": p["accountProof"][:-1]}),
            "the proof ends before its key",
        ),
        (about("eth_getCode", lambda code: code[:-2] + "ff"), "its code"),
        (about("eth_getLogs", lambda _: []), "give an earlier --from-block"),
        (
            about("eth_getBlockReceipts", lambda _: None),
            "eth_getBlockReceipts: the endpoint has no such block",
        ),
    ],
)
def test_an_endpoint_that_lies_is_found_while_exporting(
    played: History, tmp_path: Path, lie: Lie, why: str
) -> None:
    with pytest.raises((LedgerError, VerificationError), match=why):
        export(played, lie, tmp_path / "lied.car")

    assert list(tmp_path.iterdir()) == []


def test_a_reorg_while_exporting_says_to_run_again(played: History, tmp_path: Path) -> None:
    middle = played.exported.subject.block - 20

    def reorganised(method: str, params: Any, answer: Any) -> Any:
        if method != "eth_getBlockByNumber" or params[0] != hex(middle):
            return answer
        other = answer | {"timestamp": hex(int(answer["timestamp"], 16) + 1)}
        return other | {"hash": "0x" + keccak256(evidence.encode_header(other)).hex()}

    with pytest.raises(LedgerError, match=r"its parent is .*; was there a reorg\? run again"):
        export(played, reorganised, tmp_path / "reorg.car")


def test_headers_with_unknown_fields_are_taken_as_bytes_where_the_endpoint_has_them(played: History) -> None:
    def raw(block: Any) -> bytes:
        return rlp.encode([*rlp.decode_list(evidence.encode_header(block)), b"a fork to come"])

    future = about("eth_getBlockByNumber", lambda block: block | {"hash": "0x" + keccak256(raw(block)).hex()})

    class Newer(Lying):
        def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
            if method != "debug_getRawHeader":
                return super().make_request(method, params)
            block = self._real.provider.make_request(RPCEndpoint("eth_getBlockByNumber"), [*params, False])[
                "result"
            ]
            return {"jsonrpc": "2.0", "id": 1, "result": "0x" + raw(block).hex()}

    (data,) = evidence.headers(Web3(Newer(played.chain.w3, future)), 5, 5)

    assert read_header(data).number == 5
    assert read_header(data).hash == keccak256(data)


def test_a_bloom_never_hides_an_event(played: History) -> None:
    w3, task = played.chain.w3, played.task.address
    logs = w3.eth.get_logs({"address": Web3.to_checksum_address(task), "fromBlock": 0, "toBlock": "latest"})
    holding = {log["blockNumber"] for log in logs}
    blooms = {
        number: bytes(w3.eth.get_block(number)["logsBloom"]) for number in range(w3.eth.block_number + 1)
    }

    found = {number for number, bloom in blooms.items() if may_hold(bloom, task)}

    assert holding <= found
    assert len(found - holding) <= 2
    assert not may_hold(bytes(256), task)
    assert may_hold(b"\xff" * 256, Address(bytes(20)))


def test_the_first_block_of_ethereum_has_its_hash() -> None:
    empty = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
    block = {
        "parentHash": "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3",
        "sha3Uncles": "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
        "miner": "0x05a56e2d52c817161883f50c441c3228cfe54d9f",
        "stateRoot": "0xd67e4d450343046425ae4271474353857ab860dbc0a1dde64b41b5cd3a532bf3",
        "transactionsRoot": empty,
        "receiptsRoot": empty,
        "logsBloom": "0x" + "00" * 256,
        "difficulty": "0x3ff800000",
        "number": "0x1",
        "gasLimit": "0x1388",
        "gasUsed": "0x0",
        "timestamp": "0x55ba4224",
        "extraData": "0x476574682f76312e302e302f6c696e75782f676f312e342e32",
        "mixHash": "0x969b900de27b6ac6a67742365dd65f55a0526c41fd18e1b16f1a1215c2e66f59",
        "nonce": "0x539bd4979fef1ec4",
    }

    header = read_header(evidence.encode_header(block))

    assert header.hash.hex() == "88e96d4537bea4d9c05d12549907b32561d3bf31f45aae734cdc119f13406cb6"
    assert (header.number, header.parent.hex()) == (1, block["parentHash"][2:])


def test_receipts_before_byzantium_hash_with_their_state_root() -> None:
    old = {
        "root": "0x" + "ab" * 32,
        "cumulativeGasUsed": "0x5208",
        "logsBloom": "0x" + "00" * 256,
        "logs": [],
    }

    fields = rlp.decode_list(evidence.encode_receipt(old))

    assert fields == [HexBytes("ab" * 32), b"\x52\x08", bytes(256), []]
