"""An IPFS daemon's RPC on loopback over blobs in memory, which treats some names as a test says."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from chainfl.codec import cbor
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import BlobNotFoundError
from chainfl.sim.memory import MemoryStore
from chainfl.store.ipfs import IpfsSettings, IpfsStore
from tests.store.test_ipfs import Answer, Daemon, Handler, endless, hang, refuse, say, served, trickle

Spells = dict[Cid, Answer]
"""How the daemon answers when it is asked for a name, or for something that links to it."""
NO_LIMITS = IpfsSettings(fetch_seconds=3600, pin_seconds=3600, call_seconds=3600, look_seconds=0.2)
"""A store that would wait for an hour: only a caller's own limit ends a call."""


def hidden(handler: BaseHTTPRequestHandler) -> None:
    """Search until the time that the caller gave is over, as a real daemon does for what nobody has."""
    assert isinstance(handler.server, Daemon)
    limit = _query(handler).get("timeout", "3600000ms")
    if not handler.server.stopping.wait(int(limit.removesuffix("ms")) / 1000):
        refuse("context deadline exceeded")(handler)


def garbage(handler: BaseHTTPRequestHandler) -> None:
    """Something that is neither the block nor JSON."""
    say(b"\xff<garbage")(handler)


HOSTILE: Mapping[str, Answer] = {
    "hidden": hidden,
    "hangs": hang,
    "trickles": trickle,
    "endless": endless,
    "garbage": garbage,
}


class HostileDaemon(Daemon):
    """Serves what is in `blobs`, except where a spell says otherwise; knows what is pinned."""

    def __init__(self, blobs: MemoryStore, spells: Spells) -> None:
        super().__init__(self._answer)
        self.blobs, self.spells, self.pinned = blobs, spells, set[Cid]()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        command, query = urlsplit(handler.path).path.removeprefix("/api/v0/"), _query(handler)
        if command == "block/put":
            self._put(handler, Codec.RAW if query["format"] == "raw" else Codec.DAG_CBOR)
            return
        cid = Cid.parse(query["arg"])
        if command == "pin/rm":
            known = cid in self.pinned
            self.pinned.discard(cid)
            (say(b"{}") if known else refuse(f"{cid} is not pinned"))(handler)
            return
        if command == "pin/ls":
            keys = json.dumps({"Keys": {str(cid): {"Type": "recursive"}}}).encode()
            (say(keys) if cid in self.pinned else refuse(f"path '{cid}' is not pinned"))(handler)
            return
        try:
            spell, data = self._look(cid, is_deep=query.get("recursive") == "true")
        except BlobNotFoundError:
            spell, data = hidden, b""
        if spell is not None:
            spell(handler)
        elif command == "pin/add":
            self.pinned.add(cid)
            say(json.dumps({"Pins": [str(cid)]}).encode())(handler)
        else:
            say(data if command == "block/get" else b"{}")(handler)

    def _put(self, handler: BaseHTTPRequestHandler, codec: Codec) -> None:
        assert isinstance(handler, Handler)
        data = handler.body.split(b"\r\n\r\n", 1)[1].rsplit(b"\r\n--", 1)[0]
        say(json.dumps({"Key": str(self.blobs.put(data, codec))}).encode())(handler)

    def _look(self, cid: Cid, *, is_deep: bool) -> tuple[Answer | None, bytes]:
        """The spell on this name, or on something below it, and its bytes."""
        data = b"" if cid in self.spells else self.blobs.get(cid, 2**30)
        below = tuple(cbor.links(cbor.decode(data))) if is_deep and data else ()
        spells = (self.spells.get(each) for each in (cid, *below))
        for each in below:
            if each not in self.spells:
                self.blobs.get(each, 2**30)
        return next((spell for spell in spells if spell is not None), None), data


def _query(handler: BaseHTTPRequestHandler) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}


@contextmanager
def hostile_daemon(
    blobs: MemoryStore, spells: Spells, settings: IpfsSettings = NO_LIMITS
) -> Iterator[tuple[IpfsStore, HostileDaemon]]:
    """A store and the daemon behind it."""
    server = HostileDaemon(blobs, spells)
    with served(server, settings) as store:
        yield store, server
