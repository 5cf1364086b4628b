"""Write bundle.json: `python tests/vectors/generate_bundle.py`.

Small bundles as an independent writer makes them from docs/auditing.md: dag-cbor and multiformats packages, nothing of
chainfl. Their evidence proves nothing; they fix the format.
"""

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import dag_cbor
import rlp  # type: ignore[import-untyped]
from multiformats import CID, varint

HERE = Path(__file__).parent
LISTS = ("headers", "accounts", "receipts", "blobs", "missing")
WORDS = ("chain", "created", "block")


def hexed(data: bytes) -> str:
    """Bytes as the other vectors write them."""
    return "0x" + data.hex()


def name(data: bytes, codec: str) -> CID:
    """The CID of some bytes."""
    return CID("base32", 1, codec, ("sha2-256", hashlib.sha256(data).digest()))


def section(data: bytes, codec: str) -> bytes:
    """A block as a CARv1 file holds it."""
    cid = bytes(name(data, codec))
    return varint.encode(len(cid) + len(data)) + cid + data


def bundle(
    subject: dict[str, Any], streams: dict[str, bytes], blobs: list[bytes], missing: list[CID]
) -> bytes:
    """A bundle whose lists fit one page, and whose streams fit one block each."""
    listed: dict[str, Any] = {key: [name(data, "raw")] for key, data in streams.items()}
    listed |= {"blobs": [name(blob, "raw") for blob in blobs], "missing": missing}
    pages = {
        key: [dag_cbor.encode({"kind": "chainfl/bundle-page/1", "items": listed[key]})] if listed[key] else []
        for key in LISTS
    }
    links: dict[str, Any] = {key: [name(page, "dag-cbor") for page in pages[key]] for key in LISTS}
    root = dag_cbor.encode({"kind": "chainfl/bundle/1", "subject": subject, **links})
    header = dag_cbor.encode({"version": 1, "roots": [name(root, "dag-cbor")]})
    records = [root, *(page for key in LISTS for page in pages[key])]
    raw = [*(streams[key] for key in LISTS[:3]), *blobs]
    parts = [*(section(data, "dag-cbor") for data in records), *(section(data, "raw") for data in raw)]
    return varint.encode(len(header)) + header + b"".join(parts)


def vectors(random: Random) -> dict[str, list[str]]:
    """Bundles of one round and of all, with and without blobs."""
    columns: dict[str, list[str]] = {}
    for round_, count in ((None, 2), (7, 1), (None, 0)):
        subject: dict[str, Any] = {key: random.randrange(1 << 40) for key in WORDS}
        subject |= {key: random.randbytes(20) for key in ("task", "factory", "registry")}
        subject |= {"hash": random.randbytes(32), "round": round_}
        streams = {
            key: b"".join(
                rlp.encode([random.randbytes(random.randrange(90)) for _ in range(3)]) for _ in range(4)
            )
            for key in LISTS[:3]
        }
        blobs = [random.randbytes(50) for _ in range(count)]
        missing = [name(random.randbytes(5), "dag-cbor") for _ in range(count)]
        row = {
            key: hexed(value) if isinstance(value, bytes) else str(value) for key, value in subject.items()
        }
        row |= {key: hexed(data) for key, data in streams.items()}
        row |= {"blobs": hexed(b"".join(blobs)), "missing": hexed(b"".join(map(bytes, missing)))}
        row["car"] = hexed(bundle(subject, streams, blobs, missing))
        for key, value in row.items():
            columns.setdefault(key, []).append(value)
    return columns


def text() -> str:
    """What the file holds."""
    return json.dumps(vectors(Random(11)), indent=1) + "\n"


if __name__ == "__main__":
    (HERE / "bundle.json").write_text(text())
