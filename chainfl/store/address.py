"""Where a store is, as one word: `dir:PATH`, `ipfs:MULTIADDR`, or the URL of an IPFS daemon's RPC."""

import os
import re
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import urlsplit

from chainfl.errors import InputError
from chainfl.store.directory import DirectoryStore
from chainfl.store.ipfs import Endpoint, IpfsSettings, IpfsStore

DEFAULT_PORT = 5001
FORMS = "dir:/path, ipfs:/ip4/127.0.0.1/tcp/5001 or http://127.0.0.1:5001"
AUTH_FILE = "CHAINFL_IPFS_AUTH_FILE"
"""Names a file with the credentials of an IPFS daemon, in the form of Kubo's `--api-auth`."""

_MAX_AUTH_BYTES = 4096


def open_store(address: str, settings: IpfsSettings | None = None) -> DirectoryStore | IpfsStore:
    """The store at this address; an IPFS daemon is first asked when it is first used.

    Raises:
        InputError: the address has none of the known forms.
    """
    scheme, _, rest = address.partition(":")
    if scheme == "dir" and rest:
        return DirectoryStore(rest)
    if scheme == "ipfs":
        return IpfsStore(_authorized(parse_multiaddr(rest)), settings)
    if scheme in ("http", "https"):
        return IpfsStore(_authorized(parse_url(address)), settings)
    raise InputError(f"store address {address!r:.200}: expected {FORMS}")


def _authorized(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the credentials that the environment names a file of, if it does."""
    path = os.environ.get(AUTH_FILE)
    return replace(endpoint, authorization=read_authorization(Path(path))) if path else endpoint


def read_authorization(path: Path) -> str:
    """The header of `bearer:TOKEN` or `basic:USER:PASSWORD`, the first line of a file; messages do not repeat it.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        with path.open("rb") as file:
            line = file.read(_MAX_AUTH_BYTES).partition(b"\n")[0].decode().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"{AUTH_FILE}: {path} cannot be read: {reason}") from None

    # The line may hold a secret: no message repeats it.
    kind, _, secret = line.partition(":")
    is_visible = all(" " < letter <= "~" for letter in secret)
    if kind == "bearer" and secret and is_visible:
        return f"Bearer {secret}"
    if kind == "basic" and ":" in secret and secret.isprintable():
        return f"Basic {b64encode(secret.encode()).decode()}"
    raise InputError(f"{AUTH_FILE}: {path} must hold bearer:TOKEN or basic:USER:PASSWORD")


_HOST = re.compile(r"[A-Za-z0-9_:-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_HOSTS: dict[str, Callable[[str], object]] = {
    "ip4": IPv4Address,
    "ip6": IPv6Address,
    "dns": str,
    "dns4": str,
    "dns6": str,
}


def parse_multiaddr(text: str) -> Endpoint:
    """The endpoint of `/ip4|ip6|dns…/HOST/tcp/PORT`, with `/http` or `/https` after it or not."""
    match text.removeprefix("/").split("/"):
        case [kind, host, "tcp", port, *tail] if (
            kind in _HOSTS and _HOST.fullmatch(host) and tail in ([], ["http"], ["https"])
        ):
            with suppress(AddressValueError):
                _HOSTS[kind](host)
                return Endpoint(host, _port(text, port), tail == ["https"])
    raise InputError(f"store address {text!r:.200}: expected a multiaddr such as /ip4/127.0.0.1/tcp/5001")


def parse_url(text: str) -> Endpoint:
    """The endpoint of `http://HOST:PORT`; a path, user or password has no place in it."""
    try:
        parts = urlsplit(text)
        port = parts.port or 0 if ":" in parts.netloc.rpartition("]")[2] else DEFAULT_PORT
    except ValueError as error:
        raise InputError("store address: expected a URL such as http://127.0.0.1:5001") from error
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"store address: a user or password does not belong in it; put them in a file and name it in {AUTH_FILE}"
        )
    is_bare = parts.path in ("", "/", "/api/v0", "/api/v0/") and not parts.query and not parts.fragment
    host = parts.hostname or ""
    if not is_bare or not _HOST.fullmatch(host):
        raise InputError(f"store address {text!r:.200}: expected a URL such as http://127.0.0.1:5001")
    return Endpoint(host, _port(text, str(port)), parts.scheme == "https")


def _port(text: str, port: str) -> int:
    if not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        raise InputError(f"store address {text!r:.200}: port {port!r:.20} is not within 1 … 65535")
    return int(port)
