"""Bytes that a round moves, counted from the sizes of the protocol's own records, and the time they take on a link.

W bytes of a model, K workers, C committee members. What papers say of other frameworks is written with the same sizes.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from chainfl.blobs import name_model
from chainfl.codec.records import Layout
from chainfl.codec.scores import scores_length
from chainfl.learning.builtin import record_layout
from chainfl.protocol.state import Task
from chainfl.protocol.tally import score_kind

BITS: Final = 8
GOSSIP_COMPRESSION: Final = 100
"""GossipFL sends a hundredth of the parameters to one peer (Tang et al., 2022)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What all participants of a round send and receive together, and the busiest one's part of it."""

    up: int
    down: int
    busiest: int = 0

    def seconds(self, bits_a_second: float) -> float:
        """How long the busiest participant's bytes take; the others' go side by side with them."""
        return self.busiest * BITS / bits_a_second


def model_bytes(model: str, scale: int) -> int:
    """The bytes of a stored model that is built in."""
    return layout_bytes(record_layout(model), scale)


@cache
def layout_bytes(layout: Layout, scale: int) -> int:
    """The bytes of a stored model of this layout: its chunks and the node that lists them."""
    named = name_model(np.zeros(layout.d, np.uint32), scale, layout, root=bytes(32))
    return len(named.data) + len(named.node.encode())


def round_traffic(standing: Task, size: int) -> Traffic:
    """What this round moved: heads fetched, updates published and fetched by the committee, scores, the next model."""
    round_ = standing.round
    committee = set(round_.committee)
    trained = set(round_.updates)
    present = trained | committee | ({round_.proposer} if round_.proposal else set())
    scores = len(round_.scores) * scores_length(score_kind(standing.config.rule), len(round_.order))

    # A member of the committee has its own update already; a proposer from outside fetches all of them.
    fetched = sum(len(round_.order) - (id_ in round_.order) for id_ in round_.scores)
    if round_.proposal and round_.proposer not in round_.scores:
        fetched += len(round_.order)

    up = size * (len(round_.order) + (1 if round_.proposal else 0)) + scores
    down = size * (len(present) + fetched)
    return Traffic(up, down, size * (len(round_.order) + 1))


def typical_fl(size: int, workers: int) -> Traffic:
    """A server: everybody sends an update and fetches the model; the server's link is not limited."""
    return Traffic(size * workers, size * workers, 2 * size)


def cmfl(size: int, workers: int, committee: int, score_bytes: int) -> Traffic:
    """Every worker sends to every member, members send each other scores, everybody fetches the model."""
    scores = committee * (committee - 1) * score_bytes
    up = size * workers * committee + scores
    down = size * (workers + committee)
    return Traffic(up, down, size * (max(workers, committee) + 1) + (committee - 1) * score_bytes)


def braintorrent(size: int, clients: int) -> Traffic:
    """No server: everybody fetches everybody else's model and averages (Roy et al., 2019)."""
    moved = size * clients * (clients - 1)
    return Traffic(moved, moved, 2 * size * (clients - 1))


def gossip_fl(size: int, clients: int) -> Traffic:
    """Everybody exchanges a sparse model with one peer: indices and values of a hundredth (Tang et al., 2022)."""
    sparse = 2 * size // GOSSIP_COMPRESSION
    return Traffic(sparse * clients, sparse * clients, 2 * sparse)
