"""Where an exported model comes from: an in-toto statement in the layout of OpenSSF model signing (docs/models.md).

The statement is plain JSON, or the payload of a DSSE envelope that an Ethereum key signed. It is a claim, as the file
itself is: `verify` compares both with what a chain or a bundle proves.
"""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from chainfl.audit.history import PlayedRound
from chainfl.codec import plain_json
from chainfl.codec.model_file import About, ModelFile, read_about
from chainfl.codec.text import hex_of
from chainfl.codec.vector import to_bytes
from chainfl.errors import InputError, ModelFileError
from chainfl.types import TOTAL, Address, Digest

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_BYTES: Final = 1 << 22
_SERIALIZATION: Final = {
    "method": "files",
    "hash_type": "sha256",
    "allow_symlinks": False,
    "ignore_paths": list[str](),
}


@dataclass(frozen=True, slots=True)
class Contributor:
    """An account whose update counted; its share of 2^31 is None where shares belong to ranks of each parameter."""

    account: Address
    share: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """How a model came about: the block that settled its round, the rule, and whose updates are in it."""

    rule: str
    block_number: int | None
    block_hash: Digest | None
    contributors: tuple[Contributor, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a statement says, as far as it is compared, and who signed it."""

    file_digest: bytes
    about: About
    tensors: dict[str, str]
    claims: dict[str, Any]
    signed_by: Address | None = None


def contributors(played: PlayedRound) -> tuple[Contributor, ...]:
    """Whose updates a final round combined, with their shares."""
    task = played.standing()
    tallied = task.round.decided
    shares = task.round.posted.shares or tallied.shares
    by_rank = task.config.rule.is_on_ranks

    found = []
    for index, id_ in enumerate(task.round.order):
        share = None if by_rank else shares[1 + index]
        if tallied.included[index] and share != 0:
            found.append(Contributor(task.by_id(id_).address, share))
    return tuple(found)


def statement_of(name: str, data: bytes, file: ModelFile, origin: Origin) -> dict[str, Any]:
    """The statement about an exported file."""
    digest = sha256(data).digest()
    block = None
    if origin.block_number is not None and origin.block_hash is not None:
        block = {"number": origin.block_number, "hash": hex_of(origin.block_hash)}

    return {
        "_type": STATEMENT_TYPE,
        # Model signing names a model by the digest of its files' digests.
        "subject": [{"name": name, "digest": {"sha256": sha256(digest).hexdigest()}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "serialization": dict(_SERIALIZATION),
            "resources": [{"name": name, "algorithm": "sha256", "digest": digest.hex()}],
            "chainfl": {
                "about": file.about.plain(),
                "rule": origin.rule,
                "block": block,
                "contributors": [
                    {"account": hex_of(each.account), "share": each.share} for each in origin.contributors
                ],
                "whole": TOTAL,
                "tensors": tensor_digests(file),
            },
        },
    }


def tensor_digests(file: ModelFile) -> dict[str, str]:
    """SHA-256 of each tensor's canonical bytes: what names the tensor that was changed."""
    return {tensor.name: sha256(to_bytes(file.vector[span])).hexdigest() for tensor, span in file.spans()}


# Envelopes


def envelope(statement: dict[str, Any], account: Address, sign: Callable[[bytes], bytes]) -> dict[str, Any]:
    """A DSSE envelope of the statement, signed by an Ethereum account over its pre-authentication encoding."""
    payload = json.dumps(statement, sort_keys=True).encode()
    signature = base64.b64encode(sign(_preauthenticated(payload))).decode()
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": hex_of(account), "sig": signature}],
    }


def _preauthenticated(payload: bytes) -> bytes:
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def read_statement(data: bytes, signer_of: Callable[[bytes, bytes], Address]) -> Statement:
    """What a statement, plain or in an envelope, says; `signer_of` gives the account behind a signature.

    Raises:
        ModelFileError: it is none, or its signature is not the account's that it names.
    """
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"statement: {len(data)} bytes, more than the {MAX_BYTES} allowed")
    try:
        value = plain_json.loads(data, "statement")
        if not isinstance(value, dict) or "payload" not in value:
            return _read_plain(value, None)
        payload, account = _open(value, signer_of)
        return _read_plain(plain_json.loads(payload, "statement"), account)
    except InputError as error:
        raise ModelFileError(str(error)) from None


def _open(value: dict[str, Any], signer_of: Callable[[bytes, bytes], Address]) -> tuple[bytes, Address]:
    try:
        (signed,) = value["signatures"]
        keyid = str(signed["keyid"])
        payload = base64.b64decode(value["payload"], validate=True)
        signature = base64.b64decode(signed["sig"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise ModelFileError("statement: not a DSSE envelope with one signature") from None

    # The key's name in the envelope is a claim; the account follows from the signature.
    account = signer_of(_preauthenticated(payload), signature)
    if hex_of(account) != keyid.lower():
        raise ModelFileError(
            f"statement: it names the key of {keyid:.60}, and was not signed as it stands with it"
        )
    return payload, account


def _read_plain(value: object, account: Address | None) -> Statement:
    try:
        assert isinstance(value, dict)
        predicate = value["predicate"]
        (resource,) = predicate["resources"]
        claims = predicate["chainfl"]
        digest = bytes.fromhex(resource["digest"])
        named = (value["_type"], value["predicateType"], resource["algorithm"], len(digest))
        (subject,) = value["subject"]
        is_consistent = subject["digest"]["sha256"] == sha256(digest).hexdigest()
        tensors = {str(name): str(each) for name, each in claims["tensors"].items()}
        about = claims["about"]
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError):
        raise ModelFileError("statement: not one of `chainfl model export`") from None

    # Well-formed is not enough: what it speaks of must be the file that it names.
    if named != (STATEMENT_TYPE, PREDICATE_TYPE, "sha256", 32):
        raise ModelFileError("statement: not an in-toto statement about a model file")
    if not is_consistent:
        raise ModelFileError("statement: its subject is not the digest of its resources")

    return Statement(digest, read_about(about), tensors, claims, account)
