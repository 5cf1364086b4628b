"""Blobs behind the RPC of an IPFS daemon (Kubo, or any other with `/api/v0`).

The daemon is not trusted: what it returns is checked against name and size, every call has a time limit that
also holds when bytes trickle in, and a call that never arrived is tried again with growing pauses. All calls
may be repeated without harm, for names follow from content. docs/adr/0003-ipfs-client.md says why no client of
IPFS is used.
"""

import copy
import ipaddress
import json
import math
import secrets
import ssl
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError

from chainfl.bounded_http import BOUNDED_POOLS, TooLongError, bounded
from chainfl.codec.cid import Cid, Codec, Octets
from chainfl.errors import (
    BlobNotFoundError,
    BlobTooLargeError,
    CidError,
    InputError,
    StoreError,
    StoreFullError,
    StoreTimeoutError,
    WrongBytesError,
)
from chainfl.store._window import in_order

MAX_ANSWER_BYTES = 1 << 16

_READ_BYTES = 1 << 18
_FRAME_BYTES = 1 << 20
"""Received besides the body: headers, trailers."""
_FRAMES = 8
"""Bytes received for each of the body, at most: it may come in pieces of one byte, which take six."""
_KEPT = 64
"""Connections that are kept for later calls."""
_GATEWAY_FAILURES = (502, 503, 504)
_FORMATS = {Codec.RAW: "raw", Codec.DAG_CBOR: "dag-cbor"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a daemon's RPC listens."""

    host: str
    port: int
    tls: bool = False
    authorization: str = field(default="", repr=False)
    """The header that a daemon with `API.Authorizations`, or a server in front of it, asks for; never shown."""

    def __post_init__(self) -> None:
        if self.authorization and not (self.tls or self.is_local):
            raise InputError(f"{self}: credentials are only sent over https, or to this machine")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, which no proxy leads to."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def proxy(self) -> str:
        """The proxy on the way, as the environment says (`HTTPS_PROXY`, `NO_PROXY` …); none if empty."""
        if self.is_local or proxy_bypass(self.host):
            return ""
        return getproxies().get("https" if self.tls else "http", "")


@dataclass(frozen=True, slots=True)
class IpfsSettings:
    """Time limits in seconds, how often a call that never arrived is tried, how many run side by side."""

    call_seconds: float = 30.0
    fetch_seconds: float = 30.0
    pin_seconds: float = 300.0
    look_seconds: float = 1.0
    tries: int = 4
    first_pause: float = 0.1
    side_by_side: int = 8


class IpfsStore:
    """A BlobStore behind one daemon."""

    def __init__(self, endpoint: Endpoint, settings: IpfsSettings | None = None) -> None:
        self._endpoint = endpoint
        self._settings = settings or IpfsSettings()
        self._connections = _connections(endpoint)
        self._boundary = secrets.token_hex(16)
        self._until = math.inf
        self._whole: IpfsStore | None = None
        weakref.finalize(self, self._connections.clear)

    def __repr__(self) -> str:
        return f"IpfsStore({str(self._endpoint)!r})"

    def close(self) -> None:
        """Close idle connections; the store can be used again."""
        self._connections.clear()

    def within(self, until: float) -> "IpfsStore":
        """The same store, for a caller whose time ends then: the daemon gets the limit too, and no call outlasts it."""
        view = copy.copy(self)
        view._until = min(self._until, until)
        view._whole = self  # whose connections both use: they are closed when nobody holds it any more
        return view

    def put(self, data: Octets, codec: Codec) -> Cid:
        """Hand these bytes to the daemon, and check that it gives them our name.

        `format` without `cid-codec` is what both Kubo and js-ipfs understand.
        """
        cid = Cid.of(data, codec)
        answer = self._ask("block/put", self._form(data), format=_FORMATS[codec], mhtype="sha2-256")
        if answer.get("Key") != str(cid):
            raise WrongBytesError(f"{self._endpoint} named a block {answer.get('Key')!r:.80} that is {cid}")
        return cid

    def put_many(self, blobs: Iterable[tuple[Octets, Codec]]) -> Iterator[Cid]:
        """Put side by side; names come in the order given."""
        return in_order(lambda blob: self.put(*blob), blobs, self._settings.side_by_side)

    def get(self, cid: Cid, max_bytes: int) -> bytes:
        """The bytes of this name, checked, from the daemon or one that it is connected to.

        Raises:
            BlobNotFoundError: not found within `fetch_seconds`.
            BlobTooLargeError, WrongBytesError: the daemon sent something else.
        """
        seconds = self._limit(self._settings.fetch_seconds, "block/get")
        try:
            data = self._call("block/get", seconds, max_bytes, arg=str(cid), timeout=_duration(seconds))
        except _TooLongError:
            raise BlobTooLargeError(f"{cid} is larger than the {max_bytes} bytes allowed") from None
        except _RefusedError as error:
            raise BlobNotFoundError(f"{cid} was not found by {self._endpoint}: {error}") from error

        # The daemon is not trusted either: bytes count by their hash.
        if not cid.matches(data):
            raise WrongBytesError(
                f"{self._endpoint} sent {len(data)} bytes for {cid} that hash to another name"
            )
        return data

    def get_many(self, cids: Iterable[Cid], max_bytes: int) -> Iterator[bytes]:
        """Get side by side; bytes come in the order asked."""
        return in_order(partial(self.get, max_bytes=max_bytes), cids, self._settings.side_by_side)

    def has(self, cid: Cid) -> bool:
        """Whether the daemon itself has the bytes; one that cannot look offline is given `look_seconds`."""
        seconds = self._limit(self._settings.look_seconds, "block/stat")
        try:
            self._ask("block/stat", seconds=seconds, arg=str(cid), offline="true", timeout=_duration(seconds))
        except _RefusedError:
            return False
        return True

    def pin(self, cid: Cid, *, with_links: bool = True) -> None:
        """Have the daemon fetch this and all it links to (much faster than block by block) and keep it.

        Raises:
            BlobNotFoundError: a part was not found within `pin_seconds`.
        """
        seconds = self._limit(self._settings.pin_seconds, "pin/add")
        reach = str(with_links).lower()
        limit = _duration(seconds)
        try:
            self._ask("pin/add", seconds=seconds, arg=str(cid), recursive=reach, timeout=limit)
        except _RefusedError as error:
            # A recursive pin holds the blob itself too, so the wish is met.
            if not with_links and "already pinned recursively" in str(error):
                return
            raise BlobNotFoundError(f"{cid} could not be pinned by {self._endpoint}: {error}") from error

    def unpin(self, cid: Cid) -> None:
        """Remove a pin; one that is not there is no error."""
        try:
            self._ask("pin/rm", arg=str(cid), recursive="true")
        except _RefusedError as error:
            if "not pinned" not in str(error):
                raise

    def is_pinned(self, cid: Cid) -> bool:
        """Whether there is a pin of this very name, whoever made it; what other pins reach does not count."""
        return any(self._is_listed(cid, kind) for kind in ("recursive", "direct"))

    def _is_listed(self, cid: Cid, kind: str) -> bool:
        try:
            return bool(self._ask("pin/ls", arg=str(cid), type=kind).get("Keys"))
        except _RefusedError as error:
            if "not pinned" not in str(error):
                raise
            return False

    def pins(self) -> list[Cid]:
        """What is pinned with all it links to, sorted; names of another kind than ours are left out."""
        answer = self._ask("pin/ls", most=1 << 26, type="recursive")
        keys = answer.get("Keys")
        return sorted(_ours(keys)) if isinstance(keys, dict) else []

    def _ask(
        self,
        command: str,
        body: bytes = b"",
        seconds: float | None = None,
        most: int = MAX_ANSWER_BYTES,
        **query: str,
    ) -> dict[str, Any]:
        """A call that answers with one JSON object."""
        seconds = self._limit(self._settings.call_seconds, command) if seconds is None else seconds
        try:
            answer = json.loads(self._call(command, seconds, most, body, **query) or b"{}")
        except (_TooLongError, ValueError, RecursionError) as error:
            raise StoreError(f"{self._endpoint} answered {command} with something else than JSON") from error
        if not isinstance(answer, dict):
            raise StoreError(f"{self._endpoint} answered {command} with something else than a JSON object")
        return answer

    def _limit(self, seconds: float, command: str) -> float:
        """How long a call may take: its own limit, or what the caller has, less the time that the answer takes."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise StoreTimeoutError(f"{self._endpoint}: no time was left for {command}")
        return min(seconds, max(left - self._settings.look_seconds, left / 2))

    def _call(self, command: str, seconds: float, most: int, body: bytes = b"", **query: str) -> bytes:
        """One RPC, tried again while the daemon cannot be reached and time is left."""
        deadline = min(time.monotonic() + seconds + self._settings.look_seconds, self._until)
        pause = self._settings.first_pause

        for left in reversed(range(self._settings.tries)):
            try:
                return self._once(f"/api/v0/{command}?{urlencode(query)}", deadline, most, body)
            except TimeoutError as error:
                raise StoreTimeoutError(
                    f"{self._endpoint} did not answer {command} in {seconds:.3g} s"
                ) from error
            except _UnreachableError as error:
                self.close()  # idle connections to a daemon that has ended are closed too
                if not left or time.monotonic() + pause >= deadline:
                    raise StoreError(
                        f"{self._endpoint} cannot be reached{error}; is the daemon running?"
                    ) from error
                time.sleep(pause)
                pause *= 2
        raise StoreError(f"{self._endpoint}: no tries allowed; set tries to 1 or more")

    def _once(self, path: str, deadline: float, most: int, body: bytes) -> bytes:
        """One try; what urllib3 says of a failure is sorted here."""
        try:
            with bounded(deadline, _FRAMES * most + _FRAME_BYTES):
                return self._post(path, most, body)
        except TooLongError:
            raise _TooLongError from None
        except (OSError, HTTPError, UnicodeError) as error:
            if time.monotonic() >= deadline:
                raise TimeoutError from error
            raise _UnreachableError(self._way() + _reason(error)) from error

    def _post(self, path: str, most: int, body: bytes) -> bytes:
        headers = {"Content-Type": f"multipart/form-data; boundary={self._boundary}"} if body else {}
        if self._endpoint.authorization:
            headers["Authorization"] = self._endpoint.authorization

        response = self._connections.urlopen(
            "POST",
            f"{self._endpoint}{path}",
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )

        with closing(response):  # of an answer that was read to its end, the connection is kept
            if response.status != 200:
                raise _refusal(response)
            return _read(response, most)

    def _way(self) -> str:
        proxy = urllib3.util.parse_url(self._endpoint.proxy) if self._endpoint.proxy else None
        return f" through the proxy {proxy.host}:{proxy.port}: " if proxy else ": "

    def _form(self, data: Octets) -> bytes:
        head = (
            f"--{self._boundary}\r\n"
            'Content-Disposition: form-data; name="data"; filename="block"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        return b"".join((head.encode(), data, f"\r\n--{self._boundary}--\r\n".encode()))


def _connections(endpoint: Endpoint) -> urllib3.PoolManager:
    """Kept connections, through a proxy where one is on the way.

    Raises:
        InputError: the proxy is of a kind whose answers cannot be bounded.
    """
    options: dict[str, Any] = {"maxsize": _KEPT}
    if endpoint.tls:
        options["ssl_context"] = ssl.create_default_context()

    # Only answers through a plain connection to the proxy can be bounded in time and length.
    if endpoint.proxy:
        proxy = urllib3.util.parse_url(endpoint.proxy)
        if proxy.scheme != "http" or not proxy.host:
            raise InputError(f"{endpoint}: the proxy on the way must be http://HOST:PORT, not {proxy.scheme}")
        credentials = urllib3.make_headers(proxy_basic_auth=proxy.auth) if proxy.auth else None
        manager: urllib3.PoolManager = urllib3.ProxyManager(
            endpoint.proxy, proxy_headers=credentials, **options
        )
    else:
        manager = urllib3.PoolManager(**options)

    manager.pool_classes_by_scheme = BOUNDED_POOLS
    return manager


class _TooLongError(Exception):
    """An answer has more bytes than are wanted."""


class _RefusedError(StoreError):
    """The daemon refused the request."""


class _UnreachableError(Exception):
    """A call did not arrive, or its answer did not."""


def _read(response: urllib3.BaseHTTPResponse, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read(min(_READ_BYTES, most + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > most:
            raise _TooLongError
    return b"".join(parts)


def _reason(error: Exception) -> str:
    """Why a call did not arrive, in the words of whatever failed first."""
    while error.__cause__ is not None or isinstance(error.__context__, OSError | HTTPError):
        error = cast(Exception, error.__cause__ or error.__context__)
    return str(error) or type(error).__name__


def _refusal(response: urllib3.BaseHTTPResponse) -> Exception:
    """The daemon's own words, in one line."""
    text = response.read(MAX_ANSWER_BYTES).decode(errors="replace")
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        text = str(json.loads(text)["Message"])
    line = " ".join(text.split())[:200] or response.reason or "no reason given"
    line = f"{line} (HTTP {response.status})"

    # Kubo and js-ipfs have no code for a full disk, only this text.
    if "no space left" in line.lower():
        return StoreFullError(f"the IPFS daemon has no room left: {line}")
    if response.status in _GATEWAY_FAILURES:  # said by a server in front of a daemon that is away
        return HTTPError(line)
    if response.status in (401, 403):
        return StoreError(f"{line}: the IPFS daemon refuses these credentials; see CHAINFL_IPFS_AUTH_FILE")
    return _RefusedError(line)


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _ours(keys: Iterable[str]) -> Iterator[Cid]:
    for key in keys:
        with suppress(CidError):
            yield Cid.parse(key)
