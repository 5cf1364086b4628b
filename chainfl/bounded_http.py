"""HTTP through urllib3, bounded: a whole call has one deadline and a number of bytes, whatever the other side does.

urllib3 limits each operation on a socket by itself, so an answer of one byte a second never ends. Here the socket has
the limits, so that connecting, proxies, TLS, headers, framing and trailers cannot escape them. Redirections are for the
caller to switch off: it depends on the request.
"""

import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError


class TooSlowError(TimeoutError):
    """The call did not end in time."""


class TooLongError(ValueError):
    """The other side sent more bytes than are allowed."""


@dataclass(slots=True)
class _Allowance:
    """What a call may still take; time on the monotonic clock."""

    until: float
    room: int

    def seconds(self) -> float:
        """The time left."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TooSlowError
        return left

    def received(self, count: int) -> None:
        """Count bytes that came in."""
        self.room -= count
        if self.room < 0:
            raise TooLongError


_ALLOWANCE: Final[ContextVar[_Allowance]] = ContextVar("allowance of the HTTP call")


@contextmanager
def bounded(until: float, max_bytes: int) -> Iterator[None]:
    """All that the connections below do in here ends at `until`, and receives at most so many bytes.

    Raises:
        TooSlowError, TooLongError: or what urllib3 makes of the first, one of its own timeouts.
    """
    token = _ALLOWANCE.set(_Allowance(until, max_bytes))
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


class _BoundedReader(io.RawIOBase):
    """What a socket receives, while the call has time and room."""

    def __init__(self, inner: socket.socket) -> None:
        super().__init__()
        self._socket = inner
        self._inner = inner.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive what is there, if there is time for it."""
        allowance = _ALLOWANCE.get()
        self._socket.settimeout(allowance.seconds())
        count = self._inner.readinto(buffer) or 0
        allowance.received(count)
        return count

    def close(self) -> None:
        """Close the socket."""
        self._inner.close()
        super().close()


class _BoundedSocket:
    """A connected socket that keeps to its caller's allowance; everything else is the socket's own."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        """What an HTTP response is read from."""
        return io.BufferedReader(_BoundedReader(self._inner))

    def sendall(self, data: Any) -> None:
        """Send all of it in the time left; the socket may still have the limit of a call before."""
        self._inner.settimeout(_ALLOWANCE.get().seconds())
        self._inner.sendall(data)

    def gettimeout(self) -> float:
        """The time left, which a TLS handshake on this socket takes as its own limit."""
        return _ALLOWANCE.get().seconds()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _bound(sock: object) -> socket.socket:
    return cast(socket.socket, sock if isinstance(sock, _BoundedSocket) else _BoundedSocket(cast(Any, sock)))


class _Plain(HTTPConnection):
    """A connection that keeps to its caller's allowance."""

    def _new_conn(self) -> socket.socket:
        """Connect to the first address that answers; all of a name's addresses share the time that is left."""
        name = self._dns_host
        failure: Exception | None = None
        try:
            for address in _addresses(name, self.port):
                self._dns_host = address
                self.timeout = _ALLOWANCE.get().seconds()
                try:
                    return _bound(super()._new_conn())
                except ConnectTimeoutError as error:  # one that is refused is of this kind too
                    failure = error
        finally:
            self._dns_host = name

        assert failure is not None, "every name has an address, or is given as one"
        raise failure


class _Secure(_Plain, HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        """Connect; the socket is another one once TLS is up."""
        super().connect()
        self.sock = _bound(self.sock)


def _addresses(name: str, port: int) -> list[str]:
    """The addresses of a name; itself where there are none, so that urllib3 says why."""
    try:
        found = socket.getaddrinfo(name.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return [name]
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _PlainPool(urllib3.HTTPConnectionPool):
    """Connections over HTTP."""

    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    """Connections over HTTPS."""

    ConnectionCls = _Secure


BOUNDED_POOLS: Final[dict[str, type[urllib3.HTTPConnectionPool]]] = {"http": _PlainPool, "https": _SecurePool}
"""The `pool_classes_by_scheme` of a manager whose calls are bounded."""
