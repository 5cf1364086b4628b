"""Write cid.json, records.json and commitments.json: `python tests/vectors/generate_records.py`.

Flat arrays of hex and decimal strings, one entry per case, so that the Solidity tests can read them with
`vm.parseJson`. The expected values come from independent packages (dag-cbor, eth-abi, multiformats), not from
chainfl.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import dag_cbor
from eth_abi.abi import encode as abi_encode
from eth_hash.auto import keccak
from multiformats import CID

HERE = Path(__file__).parent
ADDRESS, WORD = 20, 32


def hexed(data: bytes) -> str:
    """Bytes as Solidity's JSON parser takes them."""
    return "0x" + data.hex()


def link(codec: str, digest: bytes) -> CID:
    """A CID of the multiformats package."""
    return CID("base32", 1, codec, ("sha2-256", digest))


def cid_vectors(random: Random) -> dict[str, list[str]]:
    """Bytes of many lengths and their names under both codecs."""
    columns: dict[str, list[str]] = {"data": [], "codec": [], "digest": [], "bytes": [], "text": []}
    for size in (0, 1, 5, 31, 32, 255, 256, 1000):
        data = random.randbytes(size)
        for codec, name in ((0x55, "raw"), (0x71, "dag-cbor")):
            cid = link(name, hashlib.sha256(data).digest())
            row = (hexed(data), str(codec), hexed(cid.raw_digest), hexed(bytes(cid)), str(cid))
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


def layout_of(shapes: dict[str, list[int]], buffers: Sequence[str] = ()) -> dict[str, Any]:
    """A layout as plain values."""
    return {"tensors": [[name, shapes[name]] for name in sorted(shapes)], "buffers": sorted(buffers)}


def plain_records(random: Random) -> list[dict[str, Any]]:
    """One record of each kind, and the variants that differ in shape."""
    layout = layout_of({"conv.weight": [8, 1, 5, 5], "conv.bias": [8], "out.scale": []}, ["bn.count"])
    model = {"kind": "chainfl/model/1", "s": 20, "d": 209, "root": random.randbytes(WORD), "layout": layout}
    model["chunks"] = [link("raw", random.randbytes(WORD))]
    manifest = {
        "kind": "chainfl/manifest/1",
        "model": "mnist-cnn",
        "dataset": "mnist",
        "loss": "cross-entropy",
        "optimiser": "sgd:momentum=0.9",
        "learning_rate": 10**16,
        "batch": 32,
        "local_epochs": 1,
        "seed": 7,
        "score_samples": 300,
        "s": 20,
        "layout": layout,
    }

    def node() -> CID:
        return link("dag-cbor", random.randbytes(WORD))

    def address() -> bytes:
        return random.randbytes(ADDRESS)

    first = {
        "kind": "chainfl/block/1",
        "chain": 31337,
        "task": address(),
        "round": 1,
        "rule": "softmax",
        "prev": None,
        "head": node(),
        "committee": [{"validator": address()} for _ in range(3)],
        "miner": address(),
        "updates": [{"worker": address(), "root": random.randbytes(WORD), "cid": node()} for _ in range(4)],
        "scores": [random.randbytes(40), None, random.randbytes(40)],
        "shares": [0, 1 << 30, 1 << 29, 1 << 28, 1 << 28],
        "model": node(),
        "attempt": 0,
        "attestations": [],
        "voids": [],
    }
    members = [{"validator": address(), "root": random.randbytes(WORD), "cid": node()} for _ in range(3)]
    later = first | {
        "round": 9,
        "rule": "committee-near:keep=0.4",
        "prev": node(),
        "committee": members,
        "updates": [*first["updates"][:3], first["updates"][3] | {"cid": None}],  # type: ignore[index]
        "scores": [random.randbytes(72), random.randbytes(72), None],
        "attempt": 2,
        "attestations": [{"validator": address(), "attest": n != 1} for n in range(3)],
        "voids": [6, 7],
    }
    return [model, manifest, first, later]


def record_vectors(random: Random) -> dict[str, list[str]]:
    """Records as dag-json text (for readers), their bytes and their names."""
    records = plain_records(random)
    encoded = [dag_cbor.encode(record) for record in records]
    digests = [hashlib.sha256(data).digest() for data in encoded]
    return {
        "kind": [record["kind"] for record in records],
        "bytes": [hexed(data) for data in encoded],
        "digest": [hexed(digest) for digest in digests],
        "cid": [str(link("dag-cbor", digest)) for digest in digests],
    }


def digest(types: str, *values: object) -> bytes:
    """keccak256(abi.encode(…)) by eth-abi."""
    return keccak(abi_encode(types.split(), values))


def largest(bits: int) -> int:
    """The largest integer of this many bits."""
    return (1 << bits) - 1


def commitment_vectors(random: Random) -> dict[str, list[str]]:
    """Commitments, payloads, notes and seeds from the same few inputs, extremes among them."""
    cases: list[dict[str, Any]] = []
    for n in range(12):
        pick = largest if n == 11 else random.getrandbits
        chain_id = 31337 if n < 6 else pick(64)
        contract, sender = random.randbytes(ADDRESS), random.randbytes(ADDRESS)
        task_id, round_, tag = pick(32), pick(16) if n < 6 else pick(64), pick(3)
        root, cid, salt, block_hash = (random.randbytes(WORD) for _ in range(4))
        samples, attempt, position = pick(20) if n < 6 else pick(64), n % 3, pick(24)
        roots = b"".join(random.randbytes(WORD) for _ in range(n))
        scores = random.randbytes((8, 9, 16, 32, 40, 168)[n % 6])
        master, purpose, id_, k = pick(256), ("train", "data", "init")[n % 3], pick(16), n
        worker = digest("bytes32 bytes32 uint64", root, cid, samples)
        validator = digest("bytes32 bytes", keccak(roots), scores)
        types = "uint256 address uint256 uint64 uint8 address bytes32 bytes32"
        place = (chain_id, contract, task_id, round_, tag, sender)
        seed = digest("uint256 address uint64 bytes32", chain_id, contract, round_, block_hash)
        note = "uint256 address uint64 uint8 uint64 address bytes32"
        training = digest(
            "uint256 bytes32 uint64 uint64", master, purpose.encode().ljust(WORD, b"\0"), id_, round_
        )
        cases.append(
            {
                "chain_id": chain_id,
                "contract": contract,
                "task_id": task_id,
                "round": round_,
                "phase_tag": tag,
                "sender": sender,
                "root": root,
                "cid": cid,
                "samples": samples,
                "roots": roots,
                "scores": scores,
                "salt": salt,
                "attempt": attempt,
                "position": position,
                "block_hash": block_hash,
                "k": k,
                "master": master,
                "purpose": purpose,
                "id": id_,
                "worker_payload": worker,
                "validator_payload": validator,
                "worker_commitment": digest(types, *place, worker, salt),
                "validator_commitment": digest(types, *place, validator, salt),
                "finder_note": digest(note, chain_id, contract, round_, attempt, position, sender, salt),
                "draw_seed": seed,
                "draw_number": int.from_bytes(digest("bytes32 uint256", seed, k), "big"),
                "training_seed": int.from_bytes(training, "big") & ((1 << 63) - 1),
            }
        )
    flat = {name: [case[name] for case in cases] for name in cases[0]}
    return {
        name: [hexed(v) if isinstance(v, bytes) else str(v) for v in column] for name, column in flat.items()
    }


def generate() -> dict[str, dict[str, list[str]]]:
    """All files by name; the same every time."""
    return {
        "cid.json": cid_vectors(Random(1)),
        "records.json": record_vectors(Random(2)),
        "commitments.json": commitment_vectors(Random(3)),
    }


def text(vectors: dict[str, list[str]]) -> str:
    """A file's text."""
    return json.dumps(vectors, indent=1) + "\n"


if __name__ == "__main__":
    for name, vectors in generate().items():
        (HERE / name).write_text(text(vectors))
