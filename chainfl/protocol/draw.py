"""The draw by stake, without replacement, repeatable from its seed (docs/protocol.md 5.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from chainfl.codec.commitments import draw_number
from chainfl.protocol.weights import Weights
from chainfl.types import Digest, Id


@dataclass(frozen=True, slots=True)
class Drawn:
    """Who does what in a round. `workers` is None when everybody else works."""

    committee: tuple[Id, ...]
    proposers: tuple[Id, ...]
    workers: tuple[Id, ...] | None


def draw_ids(
    seed: Digest, weights: Weights | Sequence[tuple[Id, int]], count: int, first: int = 0
) -> list[Id]:
    """Draw `count` ids (fewer if the stake runs out), number `first` onwards, each in proportion to the stake left.

    `weights` is in id order. Draw number k takes its number modulo the remaining stake and walks the ids in order.
    """
    left = Weights.of(weights)
    remaining = left.total()
    drawn = []

    for k in range(first, first + count):
        if remaining == 0:
            break

        id_ = left.at(draw_number(seed, k) % remaining)
        drawn.append(id_)
        remaining -= left.weight(id_)
        left.set(id_, 0)
    return drawn


def by_lot(seed: Digest, ids: Sequence[Id]) -> list[Id]:
    """Ids by ascending keccak256(abi.encode(seed, id)): the order in which an elected committee proposes."""
    return sorted(ids, key=lambda id_: draw_number(seed, id_))


def draw_roles(
    seed: Digest,
    weights: Weights | Sequence[tuple[Id, int]],
    committee_size: int,
    max_updates: int,
    elected: Sequence[Id] | None,
    trains: bool,
) -> Drawn:
    """All roles of a round.

    `trains` says that the committee trains and proposes itself (CMFL). `elected` is the committee where none is drawn:
    what the last round elected, or the sponsor appointed. Otherwise: committee, miner, two backups; the backups also
    work. Workers are drawn only when more accounts are left than `max_updates` allows.
    """
    all_ = Weights.of(weights)
    fixed = list(elected) if elected is not None else draw_ids(seed, all_, committee_size)
    used = 0 if elected is not None else len(fixed)

    if trains:
        taken = list(fixed)
        proposers = by_lot(seed, fixed)
        room = max_updates
    else:
        proposers = draw_ids(seed, all_.without(fixed), 1 + min(2, max_updates), used)
        used += len(proposers)
        taken = fixed + proposers
        room = max_updates - (len(proposers) - 1)

    others = all_.without(taken)
    if others.staked <= room:
        return Drawn(tuple(fixed), tuple(proposers), None)
    return Drawn(tuple(fixed), tuple(proposers), tuple(draw_ids(seed, others, room, used)))
