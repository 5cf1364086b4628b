"""Targets: what a chain says, in RLP, ABI and JSON, and the bundles that hold it."""

import json
import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any, Final, cast

from web3 import Web3
from web3.types import RPCEndpoint, RPCResponse

from chainfl import artifacts
from chainfl.audit import evidence
from chainfl.audit.bundle import EVIDENCE, Bundle, open_bundle
from chainfl.audit.evidence import Header, ProvenChain
from chainfl.chain import evidence as endpoint
from chainfl.chain.abi import decode_log, decode_revert, type_name
from chainfl.chain.code import fill_of, read_task_code
from chainfl.chain.log import LogReader, events_of
from chainfl.chain.reader import first_block_with_code, read_call
from chainfl.chain.rpc import HttpRpc, check_chain, parse_answer, parse_batch
from chainfl.codec import car, rlp, trie
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.commitments import keccak256
from chainfl.errors import BundleError, LedgerError, ProtocolError, RlpError, VerificationError
from chainfl.protocol import events
from chainfl.types import Address
from tests.fuzz.codecs import CBOR_WORDS, RLP_WORDS
from tests.fuzz.files import written
from tests.fuzz.seal import MOST_PARTS, digest_mark, sealed
from tests.fuzz.target import Form, Target

TASK: Final = Address(bytes(range(1, 21)))
FACTORY: Final = Address(bytes(range(2, 22)))
NAMES: Final = artifacts.names()


def read_log(data: bytes) -> None:
    """A log: a list of its topics, its data last."""
    *topics, body = _strings(data) or [b""]
    event = decode_log(topics, body)
    assert event is None or isinstance(event, events.Event)


def read_revert(data: bytes) -> None:
    """The reason of a revert: always a refusal, whatever the bytes are."""
    refusal = decode_revert(data)
    assert isinstance(refusal, ProtocolError)
    str(refusal)


def read_code(data: bytes) -> None:
    """The code of a task."""
    read_task_code(data)


def read_contract(data: bytes) -> None:
    """The code of a contract of this release with parts overwritten: name, then place and bytes of each part."""
    which, *parts = _strings(data) or [b""]
    name = NAMES[which[0] % len(NAMES) if which else 0]
    code = bytearray(_deployed(name))
    for at, part in zip(parts[::2], parts[1::2], strict=False):
        start = int.from_bytes(at[:2], "big")
        code[start : start + len(part)] = part
    fill_of(name, bytes(code))


def read_header(data: bytes) -> None:
    """A header of an EVM block."""
    found = evidence.read_header(data)
    evidence.may_hold(found.bloom, TASK)


def read_receipts(data: bytes) -> None:
    """All receipts of a block, whose header is made to name them, down to the events in them."""
    try:
        root = trie.ordered_root(rlp.decode_strings(data, evidence.MAX_RECEIPTS))
    except RlpError:
        root = bytes(32)
    header = Header(1, bytes(32), bytes(32), bytes(32), root, b"\xff" * 256, bytes(32))
    chain = ProvenChain(1, bytes(32), bytes(32), (header,))
    evidence.read_history(chain, [data], TASK, FACTORY, decode_log)


def read_account(data: bytes) -> None:
    """An account with its proof, whose hashes are made right first."""
    try:
        address, proof, code = rlp.decode_list(data)
        parts = [*map(rlp.as_bytes, rlp.as_list(proof)), rlp.as_bytes(code)]
    except (RlpError, ValueError):
        evidence.read_accounts([data], bytes(32))
        return
    # The leaf names the code's hash, the node above it the leaf's, and so on.
    nodes = sealed(parts)[:-1]
    root = keccak256(nodes[0]) if nodes else trie.EMPTY_ROOT
    evidence.read_accounts([rlp.encode([address, nodes, code])], root)


def read_bundle(data: bytes) -> None:
    """A bundle as it is."""
    with written(data) as path, open_bundle(path) as bundle:
        _use(bundle)


def read_sealed_bundle(data: bytes) -> None:
    """The blocks of a bundle, named and listed by what they hash to: the first is its root."""
    with written(bundle_of(_strings(data))) as path, open_bundle(path) as bundle:
        _use(bundle)
        headers = list(bundle.items("headers", evidence.MAX_HEADER_BYTES))
        trusted = keccak256(headers[-1]) if headers else bytes(32)
        subject = bundle.subject
        evidence.follow_headers(headers, subject.task, subject.created, subject.block, trusted)


def bundle_of(blocks: Sequence[bytes]) -> bytes:
    """A file of these blocks. One that is named as raw anywhere is raw, all others are records."""
    raw = {place for place in range(len(blocks)) if any(_raw_mark(place) in block for block in blocks)}
    filled = sealed(blocks, lambda block: sha256(block).digest())
    cids = [Cid.of(block, Codec.RAW if at in raw else Codec.DAG_CBOR) for at, block in enumerate(filled)]
    root = cids[0] if cids else Cid.dag_cbor(bytes(32))
    sections = (car.section(cid, block) for cid, block in zip(cids, filled, strict=True))
    return car.header(root) + b"".join(sections)


def _raw_mark(place: int) -> bytes:
    return b"\x01\x55\x12\x20" + digest_mark(place)


def _use(bundle: Bundle) -> None:
    """Read all that a bundle holds."""
    store = bundle.store()
    for block in bundle.blocks["blobs"]:
        assert block.cid.matches(store.get(block.cid, car.MAX_BLOCK_BYTES))
    for name in EVIDENCE:
        for _ in bundle.items(name, evidence.MAX_HEADER_BYTES):
            pass


def read_header_json(data: bytes) -> None:
    """A block as an endpoint reports it."""
    endpoint.encode_header(_json(data))


def read_receipt_json(data: bytes) -> None:
    """A receipt as an endpoint reports it."""
    endpoint.encode_receipt(_json(data))


def read_answer(data: bytes) -> None:
    """A whole answer of an endpoint to one of our questions, which the first byte chooses."""
    question = _QUESTIONS[(data[0] if data else 0) % len(_QUESTIONS)]
    question(_endpoint(data[1:]))


class Answering(HttpRpc):
    """An endpoint that answers everything with the same bytes. Only the connection and the answer's id are left out."""

    def __init__(self, answer: bytes) -> None:
        """Answer so."""
        super().__init__("http://127.0.0.1:1")
        self.answer = answer

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """The answer, read as the provider reads it off a connection."""
        del method, params
        return cast(RPCResponse, parse_answer(self.answer))

    def make_batch_request(self, batch: Any) -> Any:
        """The same for several questions at once."""
        return parse_batch(self.answer, len(batch))


@cache
def _web3() -> Web3:
    return Web3(Answering(b""))


def _endpoint(answer: bytes) -> Web3:
    found = _web3()
    assert isinstance(found.provider, Answering)
    found.provider.answer = answer
    return found


_QUESTIONS: Final = (
    lambda w3: check_chain(w3, 31337),
    lambda w3: endpoint.place_of(w3, None),
    lambda w3: endpoint.read_code(w3, TASK, 1),
    lambda w3: endpoint.prove_account(w3, TASK, b"", 1),
    lambda w3: list(endpoint.headers(w3, 1, 1)),
    lambda w3: list(endpoint.receipts(w3, [(1, bytes(32))])),
    lambda w3: endpoint.creation_block(w3, FACTORY, TASK, 1, 1),
    lambda w3: events_of(LogReader(w3).read(1, 1, [TASK]), "the endpoint"),
    lambda w3: read_call(w3, "TrainingTask", TASK, "config"),
    lambda w3: first_block_with_code(w3, TASK, 1, 2),
)


def _json(data: bytes) -> Any:
    """JSON as a provider reads it; what it does not read never gets here."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return {}


def _strings(data: bytes) -> list[bytes]:
    """The parts of an input that has parts."""
    try:
        return rlp.decode_strings(data, MOST_PARTS)
    except RlpError:
        return []


@cache
def _deployed(name: str) -> bytes:
    """A contract's code of this release, with something in the place of what is filled in later."""
    text = artifacts.load(name).deployed_bytecode.removeprefix("0x")
    return bytes.fromhex(re.sub("[^0-9a-f]", "0", text))


def _selectors() -> tuple[bytes, ...]:
    """The hashes by which events and errors are known."""
    found = {
        keccak256(f"{item['name']}({','.join(map(type_name, item['inputs']))})".encode())
        for name in NAMES
        for item in artifacts.load(name).abi
        if item["type"] in ("event", "error")
    }
    return tuple(sorted(found))


CODE_BYTES: Final = 12_000
"""A task's code, `TaskFront` and the frozen part, has to fit."""

TARGETS: Final = (
    Target("log", read_log, (LedgerError,), 10_000, 300_000, words=(*RLP_WORDS, *_selectors())),
    Target("revert", read_revert, (), 10_000, 300_000, words=tuple(each[:4] for each in _selectors())),
    Target("task-code", read_code, (VerificationError,), 5_000, 150_000, max_bytes=CODE_BYTES),
    Target("contract-code", read_contract, (VerificationError,), 3_000, 60_000, words=RLP_WORDS),
    Target("header", read_header, (RlpError,), 30_000, 400_000, words=RLP_WORDS),
    Target("receipts", read_receipts, (BundleError,), 5_000, 150_000, words=(*RLP_WORDS, TASK, FACTORY)),
    Target("account", read_account, (BundleError,), 10_000, 200_000, words=RLP_WORDS, max_bytes=CODE_BYTES),
    Target("bundle", read_bundle, (BundleError,), 5_000, 200_000, words=CBOR_WORDS),
    Target("bundle-sealed", read_sealed_bundle, (BundleError,), 5_000, 100_000, words=CBOR_WORDS + RLP_WORDS),
    Target("header-json", read_header_json, (LedgerError,), 15_000, 200_000, Form.JSON),
    Target("receipt-json", read_receipt_json, (LedgerError,), 15_000, 200_000, Form.JSON),
    Target("rpc", read_answer, (LedgerError,), 400, 8_000, Form.JSON),
)
