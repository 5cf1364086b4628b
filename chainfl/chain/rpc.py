"""A connection to a JSON-RPC endpoint, HTTP or WebSocket, whose failures are LedgerErrors and nothing else."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import requests
from web3 import Web3
from web3.exceptions import ContractLogicError, Web3Exception
from web3.providers import HTTPProvider
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from chainfl.errors import InputError, LedgerError

TIMEOUT_SECONDS = 20
_MAX_MESSAGE = 64 * 2**20


class WebSocketRpc(JSONBaseProvider):
    """One WebSocket, used by one caller at a time; a broken one is opened anew at the next call."""

    def __init__(self, url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Remember where to connect; the first call does."""
        super().__init__()
        self._url, self._timeout = url, timeout
        self._socket: ClientConnection | None = None
        self._open = ExitStack()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request and wait for its answer."""
        try:
            if self._socket is None:
                # No pings from a thread of their own: every answer is awaited with a time limit anyway.
                opening = connect(
                    self._url, open_timeout=self._timeout, max_size=_MAX_MESSAGE, ping_interval=None
                )
                self._socket = self._open.enter_context(opening)
            self._socket.send(self.encode_rpc_request(method, params).decode())
            return cast(RPCResponse, json.loads(self._socket.recv(self._timeout)))
        except (OSError, WebSocketException):
            self.close()
            raise

    def close(self) -> None:
        """Let go of the socket."""
        self._socket = None
        self._open.close()


def open_rpc(url: str, timeout: float = TIMEOUT_SECONDS) -> Web3:
    """Connect to an endpoint; nothing is sent yet.

    Raises:
        InputError: the address is neither HTTP nor WebSocket.
    """
    if url.startswith(("ws://", "wss://")):
        return Web3(WebSocketRpc(url, timeout))
    if url.startswith(("http://", "https://")):
        provider = HTTPProvider(url, request_kwargs={"timeout": timeout}, exception_retry_configuration=None)
        return Web3(provider)
    raise InputError(f"RPC address {url!r}: give http://, https://, ws:// or wss://")


@contextmanager
def outside(what: str) -> Iterator[None]:
    """Everything the endpoint can do wrong becomes a LedgerError that says what we were doing."""
    try:
        yield
    except ContractLogicError:
        raise
    except (Web3Exception, requests.RequestException, WebSocketException, OSError, ValueError) as error:
        raise LedgerError(f"{what}: {_one_line(error)}") from error


def has_answered(error: LedgerError) -> bool:
    """Whether the endpoint refused, rather than being away or silent: only then is asking for less worth a try."""
    cause = error.__cause__
    return isinstance(cause, requests.HTTPError) or not isinstance(cause, OSError | WebSocketException)


def check_chain(w3: Web3, expected: int | None) -> int:
    """The endpoint's chain id, refused when it is not the one that is meant."""
    with outside("asking the endpoint for its chain id"):
        found = w3.eth.chain_id
    if expected is not None and found != expected:
        raise LedgerError(
            f"the endpoint serves chain {found}, but chain {expected} is meant: check the RPC address"
        )
    return found


def _one_line(error: BaseException) -> str:
    if isinstance(error, requests.ConnectionError | ConnectionError):
        return "the endpoint does not answer: is it running, and is its address right?"
    if isinstance(error, requests.Timeout | TimeoutError):
        return "the endpoint did not answer in time"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        # Its own text has the address, and in that many keep the key of their account with a provider.
        return f"the endpoint answered {error.response.status_code} {error.response.reason}"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
