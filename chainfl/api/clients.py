"""Who asks, and how much each may hold at once: no client takes what all others need."""

import ipaddress
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from chainfl.errors import InputError, LimitError

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_HOPS = 16
"""Proxies in a row that are trusted; entries of a header beyond them are ignored."""
_V6_PREFIX = 64
"""Who has one IPv6 address has the network of this size around it."""


class Share:
    """How much of one thing each client holds now, and the most it may; used by any thread."""

    def __init__(self, most: int, what: str) -> None:
        """Nobody holds anything yet; `what` names it in refusals."""
        self._most = most
        self._what = what
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, client: str) -> None:
        """One more for this client.

        Raises:
            LimitError: it holds all that it may.
        """
        with self._lock:
            if self._held[client] >= self._most:
                raise LimitError(
                    f"you have {self._most} {self._what}, which is all that one client may; wait for one of them"
                )
            self._held[client] += 1

    def give(self, client: str) -> None:
        """One less."""
        with self._lock:
            self._held[client] -= 1
            if self._held[client] <= 0:
                del self._held[client]

    @contextmanager
    def held(self, client: str) -> Iterator[None]:
        """One for as long as this lasts."""
        self.take(client)
        try:
            yield
        finally:
            self.give(client)

    @property
    def clients(self) -> int:
        """How many clients hold something."""
        return len(self._held)


def read_networks(text: str) -> tuple[IpNetwork, ...]:
    """Addresses and networks, separated by commas.

    Raises:
        InputError: one of them is none.
    """
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise InputError(f"{error}: give addresses or networks such as 10.0.0.1 or fd00::/8") from None


def client_name(peer: str | None, forwarded: Sequence[bytes], trusted: Sequence[IpNetwork]) -> str:
    """Who asks: the peer, or where that is a trusted proxy the last address in its headers that is not one.

    What a client itself writes into the header stands further left than what proxies append, and is never looked at.
    """
    address = _address(peer or "")
    if address is None:
        return peer or "local"
    if not _is_in(address, trusted):
        return _group(address)

    # From the right, where proxies append; bounded, for the header is of any length.
    hops = b",".join(forwarded).decode("latin-1").split(",")[::-1][:_HOPS]
    for hop in hops:
        found = _address(_without_port(hop.strip()))
        if found is None:
            break
        address = found
        if not _is_in(address, trusted):
            break
    return _group(address)


def is_trusted(peer: str | None, trusted: Sequence[IpNetwork]) -> bool:
    """Whether a connection is a proxy's, which carries many clients."""
    address = _address(peer or "")
    return address is not None and _is_in(address, trusted)


def _address(text: str) -> IpAddress | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    # The same client over both protocols counts once.
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _is_in(address: IpAddress, networks: Sequence[IpNetwork]) -> bool:
    return any(address in network for network in networks)


def _group(address: IpAddress) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    # One client has a whole network of IPv6 addresses to itself.
    return str(ipaddress.ip_network((int(address), _V6_PREFIX), strict=False))
