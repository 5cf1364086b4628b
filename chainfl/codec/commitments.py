"""Commitments and seeds: keccak256 over `abi.encode`, the same 32 bytes that the contracts compute.

A commitment names its chain, contract, task, round, phase and sender, so nobody can copy one to another place
or pass it off as their own. Addresses and digests are byte strings; an argument out of range is an AbiError.
"""

from collections.abc import Sequence

from Crypto.Hash import keccak

from chainfl.codec.abi import WORD_BYTES, address, bytes32, dynamic_bytes, short_text, uint

SEED_BITS = 63


def keccak256(data: bytes) -> bytes:
    """Ethereum's hash (not NIST's SHA3-256, which pads differently)."""
    return keccak.new(digest_bits=256, data=data).digest()


def commitment(
    chain_id: int,
    contract: bytes,
    task_id: int,
    round_: int,
    phase_tag: int,
    sender: bytes,
    payload_hash: bytes,
    salt: bytes,
) -> bytes:
    """What a participant posts before it reveals; `phase_tag` is the uint8 of the phase it belongs to."""
    return keccak256(
        uint(chain_id, 256, "chain id")
        + address(contract, "contract")
        + uint(task_id, 256, "task id")
        + uint(round_, 64, "round")
        + uint(phase_tag, 8, "phase tag")
        + address(sender, "sender")
        + bytes32(payload_hash, "payload hash")
        + bytes32(salt, "salt")
    )


def worker_payload(root: bytes, cid_digest: bytes, samples: int) -> bytes:
    """The hash of what a worker reveals: the update's root, its model node's digest, its sample count."""
    return keccak256(bytes32(root, "root") + bytes32(cid_digest, "cid digest") + uint(samples, 64, "samples"))


def roots_hash(roots: Sequence[bytes]) -> bytes:
    """keccak256 of the ordered update roots, packed: scores bound to it cannot shift onto other updates."""
    return keccak256(b"".join(bytes32(root, f"root {index}") for index, root in enumerate(roots)))


def validator_payload(roots: Sequence[bytes], scores: bytes) -> bytes:
    """The hash of what a validator reveals: `abi.encode(bytes32, bytes)` of the roots' hash and scores."""
    offset = uint(2 * WORD_BYTES, 256, "offset")
    return keccak256(roots_hash(roots) + offset + dynamic_bytes(scores))


def finder_note(
    chain_id: int, contract: bytes, round_: int, attempt: int, position: int, sender: bytes, salt: bytes
) -> bytes:
    """What a finder notes a block before its proof, so that a copied proof earns nothing."""
    return keccak256(
        uint(chain_id, 256, "chain id")
        + address(contract, "contract")
        + uint(round_, 64, "round")
        + uint(attempt, 8, "attempt")
        + uint(position, 64, "position")
        + address(sender, "sender")
        + bytes32(salt, "salt")
    )


def draw_seed(chain_id: int, task: bytes, round_: int, mix_hash: bytes) -> bytes:
    """The seed of a round's draw, from the randomness of the EVM block that was named when Draw opened."""
    return keccak256(
        uint(chain_id, 256, "chain id")
        + address(task, "task")
        + uint(round_, 64, "round")
        + bytes32(mix_hash, "mix hash")
    )


def draw_number(seed: bytes, k: int) -> int:
    """Number `k` of a draw, before the modulo; with an id for `k`, that member's place as primary."""
    return int.from_bytes(keccak256(bytes32(seed, "seed") + uint(k, 256, "k")), "big")


def training_seed(master: int, purpose: str, id_: int, round_: int) -> int:
    """A participant's seed for one purpose (`train`, `data`, …) in one round: the low 63 bits.

    `abi.encode(uint256 master, bytes32 purpose, uint64 id, uint64 round)`, the purpose as a short ASCII
    literal: all words are static, so no two inputs meet, and torch takes every seed of 63 bits.
    """
    digest = keccak256(
        uint(master, 256, "master seed")
        + short_text(purpose, "purpose")
        + uint(id_, 64, "id")
        + uint(round_, 64, "round")
    )
    return int.from_bytes(digest, "big") & ((1 << SEED_BITS) - 1)
