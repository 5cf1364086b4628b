"""Contenders that take turns: a round of each, again and again, each seen beside what others computed meanwhile."""

from collections.abc import Callable, Mapping

from chainfl.report import narrate
from scripts.benches._peers import Peer
from scripts.benches._quiet import Samples, sample, tree_seconds


def take_turns(peers: Mapping[str, Peer], turns: int, warm_up: int = 2) -> dict[str, Samples]:
    """A round of each, again and again; the first ones are not counted."""
    found = {name: Samples() for name in peers}
    before = dict.fromkeys(peers, 0.0)
    for turn in range(turns + warm_up):
        if turn == warm_up:
            before = _computed(peers)
        for name, peer in peers.items():
            one = sample(round_of(peer), [peer.process.pid])
            if turn >= warm_up:
                found[name].add(one)
        narrate(f"turn {turn + 1} of {turns + warm_up}")

    # Over all turns: the kernel counts in hundredths of a second, and a turn may take a few of them.
    for name, seconds in _computed(peers).items():
        found[name].cpu.append((seconds - before[name]) / turns)
    return found


def _computed(peers: Mapping[str, Peer]) -> dict[str, float]:
    return {name: tree_seconds(peer.process.pid) for name, peer in peers.items()}


def round_of(peer: Peer) -> Callable[[], float]:
    """The peer's next round, which says its own seconds."""
    return lambda: float(peer.ask()["seconds"])
