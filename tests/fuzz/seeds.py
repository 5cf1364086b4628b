"""Write the corpus: `python -m tests.fuzz.seeds`. Real values, most of them off a task that is played on anvil.

Files called `seed-…` are written anew, `crash-…` stay: they are inputs that once broke a target.
"""

import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from eth_abi.abi import encode as abi_encode
from eth_account import Account
from web3.types import RPCEndpoint

from chainfl import artifacts
from chainfl.audit.bundle import BundleNode, Page, Subject
from chainfl.audit.history import rounds
from chainfl.chain import evidence as endpoint
from chainfl.chain.abi import type_name
from chainfl.chain.deploy import DeployedStep, Deployment, write_deployment
from chainfl.chain.send import checksum
from chainfl.codec import cbor, merkle, rlp, trie
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import Manifest, ModelNode
from chainfl.codec.scores import ScoreKind, Scores, encode_scores
from chainfl.codec.vector import encode as encode_vector
from chainfl.ports import LoggedEvent
from chainfl.types import Address
from tests.api.scene import history as memory_history
from tests.audit.scene import History, history
from tests.fuzz.evidence import FACTORY, NAMES, TASK
from tests.fuzz.files import PASSWORD
from tests.fuzz.outside import BLOCK, NAME
from tests.fuzz.seal import cid_mark, digest_mark
from tests.fuzz.target import CORPUS
from tests.fuzz.targets import TARGETS

VECTORS: Final = Path(__file__).parent.parent / "vectors"

SMALL: Final[tuple[cbor.Value, ...]] = (
    24,
    [0, 255, 65536, 2**32],
    {"a": 1, "b": [True, None], "aa": {}},
    NAME,
    [None, True, -1, 2**64 - 1, -(2**64), {"": b"", "é": NAME}],
)
"""Values that are short enough for a change to meet the byte that matters."""

Seeds = Mapping[str, Sequence[bytes]]


def main() -> None:
    """Write all of it."""
    found: dict[str, list[bytes]] = {name: [] for name in TARGETS}
    with tempfile.TemporaryDirectory() as home, history(Path(home)) as played:
        parts: tuple[Seeds, ...] = (
            codec_seeds(),
            evidence_seeds(played),
            file_seeds(),
            outside_seeds(),
        )
        for part in parts:
            for name, seeds in part.items():
                found[name] += seeds
    for name, seeds in found.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for number, seed in enumerate(
            dict.fromkeys(seed for seed in seeds if len(seed) <= TARGETS[name].max_bytes)
        ):
            (folder / f"seed-{number:02}").write_bytes(seed)


# Encodings


def codec_seeds() -> Seeds:
    """Records, blocks, proofs and scores of the published vectors."""
    records = [_octets(each) for each in _vectors("records")["bytes"]]
    cids = _vectors("cid")
    bundles = [_octets(each) for each in _vectors("bundle")["car"]]
    strings = rlp.encode([b"", b"\x7f", b"\x80", b"x" * 55, b"y" * 56])
    model, block = ModelNode.decode(records[0]), next(each for each in records if b"chainfl/block/1" in each)
    manifest = next(each for each in records if b"chainfl/manifest/1" in each)
    return {
        "cbor": [*records, *map(cbor.encode, SMALL)],
        "cid-bytes": [_octets(each) for each in cids["bytes"][:2]],
        "cid-text": [each.encode() for each in cids["text"][:2]],
        "car": bundles,
        "rlp": [strings, rlp.encode([[], [[]], [b"a", [b"b", [b"c" * 300]]]])],
        "rlp-number": [rlp.encode(rlp.encode_int(number)) for number in (0, 1, 128, 2**64, 2**256 - 1)],
        "rlp-strings": [b"\x08" + strings],
        "rlp-stream": [b"\x04" + strings + rlp.encode(b"z" * 300) + b"\x01"],
        "trie-proof": list(trie_proofs()),
        "merkle-proof": list(merkle_proofs()),
        "scores": [
            bytes((place, 10)) + encode_scores(kind, Scores(7, tuple(range(2)) * 5))
            for place, kind in enumerate(ScoreKind)
        ],
        "model-node": [model.encode()],
        "block-node": [block, *(each for each in records if b"chainfl/block/1" in each)],
        "manifest": [manifest],
        "bundle-node": [_bundle_node(model.cid).encode()],
        "bundle-page": [Page((model.cid, NAME)).encode()],
    }


def _bundle_node(cid: Cid) -> BundleNode:
    return BundleNode(_subject(bytes(32), 1), (cid,), (cid,), (cid,), (cid,), ())


def _subject(hash_: bytes, block: int) -> Subject:
    return Subject(31337, TASK, FACTORY, Address(bytes(20)), 1, block, hash_, None)


def merkle_proofs() -> Iterator[bytes]:
    """A leaf of a small tree and of one of depth 3."""
    for d, leaf in ((10, 0), (300, 5)):
        proof = merkle.prove(encode_vector(np.linspace(-1, 1, d), 20), leaf)
        yield bytes((len(proof.siblings),)) + leaf.to_bytes(2, "big") + proof.leaf + b"".join(proof.siblings)


def trie_proofs() -> Iterator[bytes]:
    """Keys of small tries: in a leaf of the root, below a branch, below a shared path, in a node within a node."""
    for entries in (
        {b"key": b"value"},
        {bytes((n, 1)): b"v" * 40 for n in range(20)},
        {b"same path " + bytes((n,)): bytes((n,)) * 33 for n in (1, 2, 0x31)},
        {bytes((n,)): b"s" for n in (0x11, 0x12, 0x21)},
    ):
        key = sorted(entries)[-1]
        yield rlp.encode([key, *proof_of(entries, key)])


def proof_of(entries: Mapping[bytes, bytes], key: bytes) -> list[bytes]:
    """The nodes that lead to a key, each named by its parent with a mark in the place of its hash."""
    listed = sorted((trie._nibbles(each), value) for each, value in entries.items())
    nodes = [trie._build(listed, 0)]
    path, at = trie._nibbles(key), 0
    hashes: list[bytes] = []
    while True:
        node = nodes[-1]
        assert not isinstance(node, bytes)
        if len(node) == 17:
            reference, step = node[path[at]], at + 1
        else:
            shared, is_leaf = trie._unpack(rlp.as_bytes(node[0]))
            if is_leaf:
                break
            reference, step = node[1], at + len(shared)
        below = [(each, value) for each, value in listed if each[:step] == path[:step]]
        at = step
        if isinstance(reference, bytes):
            hashes.append(reference)
            nodes.append(trie._build(below, at))
        else:
            break
    encoded = [rlp.encode(node) for node in nodes]
    for place, digest in enumerate(hashes, 1):
        assert keccak256(encoded[place]) == digest
        encoded[place - 1] = encoded[place - 1].replace(digest, digest_mark(place))
    return encoded


# Evidence


def evidence_seeds(played: History) -> Seeds:
    """What anvil says of a task that was played on it."""
    w3, subject = played.chain.w3, played.exported.subject
    headers = list(endpoint.headers(w3, subject.block - 1, subject.block))
    code = endpoint.read_code(w3, subject.task, subject.block)
    proof = endpoint.prove_account(w3, subject.task, code, subject.block)
    logs = _logs(played)
    blocks = sorted({int(log["blockNumber"], 16) for log in logs.values()})
    told = [_ask(played, "eth_getBlockReceipts", hex(number)) for number in (subject.created, *blocks)]
    block = _ask(played, "eth_getBlockByNumber", hex(subject.block), False) | {"transactions": []}
    receipts = [_ours(rlp.encode(list(map(endpoint.encode_receipt, each))), subject) for each in told]
    return {
        "log": [rlp.encode([*map(_octets, log["topics"]), _octets(log["data"])]) for log in logs.values()],
        "revert": list(_reverts()),
        "task-code": [code],
        "contract-code": [
            *(rlp.encode([bytes((place,))]) for place in range(len(NAMES))),
            rlp.encode([b"\x00", b"\x00\x40", b"\x01\x02\x03"]),
        ],
        "header": headers,
        "receipts": receipts,
        "account": [_marked_account(proof)],
        "bundle": [_octets(each) for each in _vectors("bundle")["car"]],
        "bundle-sealed": [_sealed_bundle(headers[-1])],
        "header-json": [_json(block)],
        "receipt-json": [_json(each[0]) for each in told],
        "rpc": list(_answers(played, block, told[0], list(logs.values())[:2])),
    }


def _logs(played: History) -> dict[str, Any]:
    """One log of each event."""
    wanted = {"fromBlock": "0x0", "toBlock": hex(played.exported.subject.block)}
    return {log["topics"][0]: log for log in _ask(played, "eth_getLogs", wanted)}


def _ours(data: bytes, subject: Subject) -> bytes:
    """The same as if the target's task and factory had emitted it."""
    return data.replace(subject.task, TASK).replace(subject.factory, FACTORY)


def _reverts() -> Iterator[bytes]:
    """Every error of our contracts."""
    values = {"address": "0x" + "11" * 20, "string": "scale", "bytes": b"abc", "bool": True}
    for name in NAMES:
        for item in artifacts.load(name).abi:
            if item["type"] == "error":
                kinds = [type_name(part) for part in item["inputs"]]
                selector = keccak256(f"{item['name']}({','.join(kinds)})".encode())[:4]
                yield selector + abi_encode(
                    kinds, [values.get(kind, bytes(32) if kind == "bytes32" else 3) for kind in kinds]
                )


def _marked_account(encoded: bytes) -> bytes:
    """An account whose proof names what follows by marks."""
    address, proof, code = rlp.decode_list(encoded)
    parts = [*map(rlp.as_bytes, rlp.as_list(proof)), rlp.as_bytes(code)]
    for place in range(len(parts) - 1, 0, -1):
        parts[place - 1] = parts[place - 1].replace(keccak256(parts[place]), digest_mark(place))
    return rlp.encode([address, parts[:-1], code])


def _sealed_bundle(header: bytes) -> bytes:
    """A root, four pages, three streams and a blob."""
    number = rlp.decode_int(rlp.decode_list(header)[8])
    subject = replace(_subject(keccak256(header), number), created=number)
    headers, accounts, receipts, blobs = ((cid_mark(place, Codec.DAG_CBOR),) for place in (1, 2, 3, 4))
    node = BundleNode(subject, headers, accounts, receipts, blobs, ())
    pages = [Page((cid_mark(place, Codec.RAW),)) for place in (5, 6, 7, 8)]
    return rlp.encode(
        [node.encode(), *(page.encode() for page in pages), header, b"\xc0", b"\xc1\x80", BLOCK]
    )


def _answers(played: History, block: Any, receipts: Any, logs: Any) -> Iterator[bytes]:
    """Right answers to the questions of the target, in its order."""
    subject = played.exported.subject
    proof = _ask(played, "eth_getProof", checksum(subject.task), [], hex(subject.block))
    code = _ask(played, "eth_getCode", checksum(subject.task), hex(subject.block))
    call = {"to": checksum(subject.task), "data": "0x" + keccak256(b"config()")[:4].hex()}
    config = _ask(played, "eth_call", call, "latest")
    answers: tuple[Any, ...] = ("0x7a69", block, code, proof, block, receipts, logs, logs, config, code)
    for place, answer in enumerate(answers):
        body: Any = {"jsonrpc": "2.0", "id": 1, "result": answer}
        yield bytes((place,)) + _json([body] if place in (4, 5) else body)
    yield b"\x00" + _json(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no", "data": "0x"}}
    )


# Files


def file_seeds() -> Seeds:
    """Files as numpy, eth-account and our own commands write them."""
    x = np.arange(2 * 6, dtype=np.uint8).reshape(6, 2)
    y = np.array([0, 1, 2, 0, 1, 2], np.int64)
    return {
        "npz": [_npz(np.savez, x=x, y=y), _npz(np.savez_compressed, x=x, y=y, client=y)],
        "npz-arrays": [
            rlp.encode([b"\x00", _npy(x), _npy(y)]),
            rlp.encode(
                [b"\xff", _npy(x.astype(np.float32)), _npy(y), _npy(x.astype(np.float32)), _npy(y), _npy(y)]
            ),
            rlp.encode([b"\x00", _npy(np.asfortranarray(x)), _npy(y.astype(np.uint8))]),
            rlp.encode([b"\x00", _npy(x.astype(">f8")), _npy(y.astype(">i2"))]),
        ],
        "idx": [
            b"\0\0\x08\x01" + struct.pack(">I", 3) + b"abc",
            b"\0\0\x0c\x02" + struct.pack(">2I", 1, 2) + bytes(8),
            b"\0\0\x08\x03" + struct.pack(">3I", 1, 2, 2) + bytes(4),
        ],
        "compute": list(_computations()),
        "keystore": [_keystore("scrypt"), _keystore("pbkdf2")],
        "deployment": [_deployment()],
        "trace": [_trace()],
        "participants": [_participants()],
    }


def _npz(save: Callable[..., None], **arrays: Any) -> bytes:
    file = BytesIO()
    save(file, **arrays)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def _computations() -> Iterator[bytes]:
    """The questions of `chainfl compute`, in the target's order."""
    scores = [[9, 5, 1, 4, 2, 3], [9, 5, 1, None, 2, 3]]
    word = "0x" + "01" * 32
    wad = 10**18
    questions: tuple[tuple[int, Any], ...] = (
        (0, {"values": [0.5, -0.25, 1e-6], "s": 20, "leaf": 0}),
        (0, {"w": [1, -2]}),
        (0, {"bytes": "0x80000000"}),
        (1, {"updates": [[2**31], {"u": [2**31 + 2]}], "shares": [0, 2**30, 2**30]}),
        (1, {"head": [1], "updates": ["0x00000001", [3]], "shares": [2**30, 2**29, 2**29], "by": "ranks"}),
        (2, {"bytes": "0x68656c6c6f"}),
        (2, {"record": {"a": {"/": {"bytes": "AQI"}}, "b": [{"/": str(NAME)}, None, -1]}}),
        (3, {"committee_size": 3, "scores": scores, "samples": [1, 2, 3, 4, 5], "beta": wad, "dev_cap": 5}),
        (
            3,
            {"committee_size": 3, "rule": "krum", "scores": [[9, 1, 1, 1]] * 2, "distances": [[0, 1, 2]] * 3},
        ),
        (3, {"committee_size": 3, "rule": "median", "updates": 4, "scores": ["0x00000000000000070f"] * 3}),
        (4, {"seed": word, "weights": [1000] * 6, "committee_size": 3, "max_updates": 8}),
        (
            4,
            {
                "chain_id": 1,
                "task": "0x" + "02" * 20,
                "round": 1,
                "block_hash": word,
                "weights": [[1, 5], [4, 9]],
            },
        ),
        (5, {"committee_size": 3, "scores": scores, "ids": [1, 2, 5, 6, 9], "weights": [1, 1, 0, 1, 1]}),
        (
            6,
            {
                "escrow": 1000,
                "rounds": 2,
                "workers_part": str(6 * wad // 10),
                "committee_part": 3 * wad // 10,
            },
        ),
        (6, {"escrow": 99, "rounds": 1, "workers_part": 1, "committee_part": 2, "included": [True, False]}),
        (
            6,
            {
                **{
                    "escrow": 10**6,
                    "rounds": 2,
                    "workers_part": 6 * wad // 10,
                    "committee_part": 3 * wad // 10,
                },
                **{"shares": [0, 2**30, 2**30], "deviations": [1, 2, 3], "outcome": "void"},
            },
        ),
        (
            7,
            {
                "distances": [[0, 16, 100], [16, 0, 36], [100, 36, 0]],
                "internals": [True, True, False],
                "budget": 1,
            },
        ),
        (
            7,
            {
                "updates": [[0, 1], {"w": [4, 5]}, "0x0000000a00000001"],
                "internals": [True, False, True],
                "budget": "2",
            },
        ),
    )
    for place, question in questions:
        yield bytes((place,)) + _json(question)


def _keystore(kdf: Literal["scrypt", "pbkdf2"]) -> bytes:
    """A keystore that is quick to open."""
    return _json(Account.encrypt(b"\x01" * 32, PASSWORD, kdf=kdf, iterations=2))


def _deployment() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deployment.json"
        steps = {"Proof": DeployedStep(checksum(TASK), 7, "0x" + "22" * 32, 3, 4)}
        made = Deployment(
            31337, checksum(TASK), 1, 1, steps, checksum(FACTORY), checksum(TASK), 9, checksum(TASK)
        )
        write_deployment(path, made)
        return path.read_bytes()


def _trace() -> bytes:
    """Two rounds of a history in memory."""
    from chainfl.audit.trace import trace_of

    net = memory_history().net
    manifest = Manifest.decode(
        next(each for each in map(_octets, _vectors("records")["bytes"]) if b"chainfl/manifest/1" in each)
    )
    config = replace(net.task.config, manifest=manifest.cid.digest)
    task = net.task
    created = task.at_creation()
    log = [LoggedEvent(event, 0) for emitter, event in net.chain.world.log if emitter == task.address]
    return _json(trace_of(config, manifest, list(rounds(created, log))[:1]))


def _participants() -> bytes:
    from chainfl.sim.replay import participants_of

    return _json(participants_of(["ada", "ben"], {"ben": "label-flip"}))


# Connections


def outside_seeds() -> Seeds:
    """Requests to the audit API, answers of an IPFS daemon, addresses of stores."""
    task = "0x7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a"
    account = "0x0000000000000000000000000000000000000003"
    paths = (
        *(
            "/",
            "/health",
            "/index",
            "/openapi.json",
            "/static/app.js",
            "/live",
            "/live?seconds=0",
            f"/participants/{account}",
        ),
        *("/tasks?limit=2&order=newest", f"/tasks?sponsor={account}&rule=softmax&after=0", "/tasks/1"),
        *(
            f"/tasks/1/{what}"
            for what in ("rounds?outcome=final", "participants", "events?round=1", "audits")
        ),
        *(
            f"/tasks/1/{what}?round=1&account={account}&limit=5"
            for what in ("stakes", "rewards", "slashes", "gas")
        ),
        *(
            f"/tasks/1/participants/{account}",
            f"/tasks/1/participants/{account}/rounds?after=1",
            f"/tasks/{task}",
        ),
        *("/blocks/1/1", "/blocks/1/1/updates", "/blocks/1/2/scores", "/blocks/1/1/shares", "/blocks/1/9"),
        *("/blocks/1/1/audit?wait=0", "/blocks/1/1/proof/0?attempt=1", "/blocks/1/3/proof/3"),
        '/tasks\nif-none-match: "abc", *',
    )
    good = _http(200, _json({"Key": str(NAME), "Size": len(BLOCK)}))
    return {
        "rest": [path.encode() for path in paths],
        "ipfs": [
            b"\x00" + _http(200, BLOCK),
            b"\x00"
            + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n"
            + BLOCK
            + b"\r\n0\r\n\r\n",
            b"\x00"
            + _http(500, _json({"Message": "block was not found locally", "Code": 0, "Type": "error"})),
            b"\x01" + good,
            b"\x02" + good,
            b"\x03" + _http(200, _json({"Pins": [str(NAME)]})),
            b"\x04" + _http(500, _json({"Message": "not pinned or pinned indirectly"})),
            b"\x05" + _http(200, _json({"Keys": {str(NAME): {"Type": "recursive"}, "Qm": {}}})),
            b"\x05" + _http(200, b""),
        ],
        "store-address": [
            *(b"ipfs:/ip4/127.0.0.1/tcp/5001", b"ipfs:/dns/node/tcp/443/https", b"http://127.0.0.1:5001"),
            *(b"https://[::1]:5001/api/v0", b"ipfs:/ip6/::1/tcp/5001/http", b"http://user:secret@host"),
        ],
    }


def _http(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _ask(played: History, method: str, *params: Any) -> Any:
    return played.chain.w3.provider.make_request(RPCEndpoint(method), list(params))["result"]


def _vectors(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((VECTORS / f"{name}.json").read_text())
    return found


def _octets(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
