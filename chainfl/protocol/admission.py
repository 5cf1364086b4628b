"""Who may join: a list of accounts in roles, its root, and the proof of one entry (docs/protocol.md 3.2).

The root is a term of the task. A leaf is an account in a role. A pair is hashed by the first 20 bytes of both, for a
proof pays gas by the byte, and in ascending order, so that a proof needs no directions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from chainfl.codec.abi import address, uint
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.commitments import keccak256
from chainfl.types import Address, Digest, Role

NO_LIST: Final = Digest(bytes(32))
"""The root of a task that everybody may join."""
NODE_BYTES: Final = 20
"""What of a leaf or node is hashed with its sibling; the root alone is whole."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What shows the contract that an account may join: its role, and 20 bytes of each sibling, lowest first."""

    role: Role
    proof: bytes


def leaf_of(account: Address, role: Role) -> Digest:
    """keccak256(abi.encode(account, role)): no other account and no other role has this leaf."""
    return keccak256(address(account, "account") + uint(role, 8, "role"))


def list_root(entries: Iterable[Entry]) -> Digest:
    """The root of a list; the order of its entries changes nothing."""
    *_, top = _levels(entries)
    return top[0]


def admit(entries: Sequence[Entry], account: Address) -> Admission | None:
    """How the list admits an account: by name, else as everybody, else not."""
    roles = dict(entries)
    named = account if account in roles else ANYONE
    if named not in roles:
        return None
    role = roles[named]
    levels = _levels(entries)
    return Admission(role, _siblings(levels, levels[0].index(leaf_of(named, role))))


def admit_all(entries: Sequence[Entry]) -> dict[Address, Admission]:
    """How the list admits each of those it names."""
    levels = _levels(entries)
    places = {leaf: at for at, leaf in enumerate(levels[0])}
    return {
        account: Admission(role, _siblings(levels, places[leaf_of(account, role)]))
        for account, role in entries
    }


def is_listed(root: Digest, account: Address, admission: Admission) -> bool:
    """Whether the list of this root names the account, or everybody, in this role.

    A part of a sibling at the proof's end leads to no root.
    """
    if _climb(leaf_of(account, admission.role), admission.proof) == root:
        return admission.role is not Role.NONE
    return (
        admission.role is Role.PARTICIPANT
        and _climb(leaf_of(ANYONE, Role.PARTICIPANT), admission.proof) == root
    )


def _levels(entries: Iterable[Entry]) -> list[list[Digest]]:
    """The tree from its leaves, which ascend, to the root; one without a sibling moves up as it is."""
    levels = [sorted(leaf_of(account, role) for account, role in entries)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        pairs = [below[at : at + 2] for at in range(0, len(below), 2)]
        levels.append([_hash_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs])
    return levels


def _siblings(levels: Sequence[Sequence[Digest]], at: int) -> bytes:
    siblings = []
    for level in levels[:-1]:
        if at ^ 1 < len(level):
            siblings.append(level[at ^ 1][:NODE_BYTES])
        at //= 2
    return b"".join(siblings)


def _climb(node: Digest, proof: bytes) -> Digest:
    for at in range(0, len(proof), NODE_BYTES):
        node = _hash_pair(node, proof[at : at + NODE_BYTES])
    return node


def _hash_pair(one: bytes, other: bytes) -> Digest:
    first, second = sorted((one[:NODE_BYTES], other[:NODE_BYTES]))
    return keccak256(first + second)
