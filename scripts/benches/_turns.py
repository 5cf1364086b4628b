"""Contenders that take turns: a round of each, again and again, each seen beside what others computed meanwhile."""

from collections.abc import Callable, Mapping

from chainfl.report import narrate
from scripts.benches._peers import Peer
from scripts.benches._quiet import Samples, sample


def take_turns(peers: Mapping[str, Peer], turns: int, warm_up: int = 2) -> dict[str, Samples]:
    """A round of each, again and again; the first ones are not counted."""
    found = {name: Samples() for name in peers}
    for turn in range(turns + warm_up):
        for name, peer in peers.items():
            one = sample(round_of(peer), [peer.process.pid])
            if turn >= warm_up:
                found[name].add(one)
        narrate(f"turn {turn + 1} of {turns + warm_up}")
    return found


def round_of(peer: Peer) -> Callable[[], float]:
    """The peer's next round, which says its own seconds."""
    return lambda: float(peer.ask()["seconds"])
