"""A connection to a JSON-RPC endpoint, HTTP or WebSocket, whose failures are LedgerErrors and nothing else.

An endpoint may answer with anything, for ever: an answer has a size, a number of values and a time within which all of
it must be here, and it must be the answer to what was asked. Errors name the endpoint by its host alone, for many keep
the key of their account with a provider in the rest of its address.
"""

import json
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import get_netrc_auth
from web3 import Web3
from web3.exceptions import ContractLogicError
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from chainfl.bounded_http import BOUNDED_POOLS, TooLongError, TooSlowError, bounded
from chainfl.errors import ChainflError, InputError, LedgerError

TIMEOUT_SECONDS = 20
"""Until all of an answer must be here."""
MAX_ANSWER = 32 * 2**20
"""Bytes of an answer, its headers included."""
_MAX_VALUES = 2_000_000
"""Values of an answer: brackets, braces and commas in its text. They take up to a hundred bytes of memory each."""
_MAX_DEPTH = 64
_WORD_BITS = 256
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LONGEST_LINE = 300
_TOO_LONG = f"answers with more than {MAX_ANSWER} bytes"


# web3 brings py_ecc, which raises this limit to 100,000: JSON nested as deep as that overruns the stack of its reader
# and kills the process without a word. Below, it is a RecursionError like any other malformed input.
sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))


class BadAnswerError(ValueError):
    """The endpoint answered, but not with what was asked for."""


class RefusedError(ValueError):
    """The endpoint answered that it will not."""


def endpoint_name(url: str) -> str:
    """An endpoint's host and port: the part of its address without secrets."""
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        port = ""
    return f"{parts.hostname or '?'}{port}"


def name_of(w3: Web3) -> str:
    """What to call the endpoint behind a connection."""
    name = str(getattr(w3.provider, "name", ""))
    return f"the endpoint {name}" if name else "the endpoint"


@contextmanager
def _known_as(name: str) -> Iterator[None]:
    """Whatever goes wrong has the endpoint's name on it."""
    try:
        yield
    except Exception as error:
        error.__dict__["endpoint"] = name
        raise


class _Adapter(HTTPAdapter):
    """Connects to endpoints in this way; goes through proxies as the environment says."""

    def init_poolmanager(self, *values: Any, **named: Any) -> None:
        """Use our connections."""
        super().init_poolmanager(*values, **named)
        self.poolmanager.pool_classes_by_scheme = BOUNDED_POOLS

    def proxy_manager_for(self, *values: Any, **named: Any) -> Any:
        """Use our connections there too."""
        manager = super().proxy_manager_for(*values, **named)
        manager.pool_classes_by_scheme = BOUNDED_POOLS
        return manager


class HttpRpc(JSONBaseProvider):
    """One HTTP endpoint. Threads may share it; each has a session of its own."""

    def __init__(self, url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Remember where to connect; the first call does."""
        super().__init__()
        self.name = endpoint_name(url)
        self._url = url
        self._timeout = timeout
        self._local = threading.local()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request and wait for its answer."""
        request = self.encode_rpc_request(method, params)
        with _known_as(self.name):
            return cast(RPCResponse, _answer_to(json.loads(request)["id"], parse_answer(self._post(request))))

    def make_batch_request(self, batch: Sequence[tuple[RPCEndpoint, Any]]) -> list[RPCResponse]:
        """Send several requests in one and wait for all answers, which come back in the order of the requests."""
        request = self.encode_batch_rpc_request(list(batch))
        with _known_as(self.name):
            found = parse_batch(self._post(request), len(batch))
            by_id = {str(each.get("id")): each for each in found if isinstance(each, dict)}
            wanted = [each["id"] for each in json.loads(request)]
            return [cast(RPCResponse, _answer_to(id_, by_id.get(str(id_)))) for id_ in wanted]

    def _post(self, request: bytes) -> bytes:
        """What the endpoint answers; asked again if it had closed a connection that was kept for later."""
        try:
            return self._post_in_time(request)
        except requests.ConnectionError as error:
            if not error.args or not isinstance(error.args[0], urllib3.exceptions.ProtocolError):
                raise
            return self._post_in_time(request)

    def _post_in_time(self, request: bytes) -> bytes:
        until = time.monotonic() + self._timeout
        try:
            with bounded(until, MAX_ANSWER):
                return self._post_once(request)
        except TooLongError:
            raise BadAnswerError(_TOO_LONG) from None
        except requests.ConnectionError:
            if time.monotonic() < until:
                raise
            raise TooSlowError from None

    def _post_once(self, request: bytes) -> bytes:
        """Redirections are not followed, and nothing is inflated."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        with self._session().post(
            self._url, request, headers=headers, timeout=self._timeout, stream=True, allow_redirects=False
        ) as response:
            if not response.ok or response.is_redirect:
                raise requests.HTTPError(response=response)
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise BadAnswerError("answers with packed bytes that were not asked for")
            length = response.headers.get("Content-Length", "0")
            if not length.isdecimal() or len(length) > 15 or int(length) > MAX_ANSWER:
                raise BadAnswerError(_TOO_LONG)
            return self._body(response)

    def _body(self, response: requests.Response) -> bytes:
        try:
            return bytes(response.raw.read(decode_content=False))
        except urllib3.exceptions.TimeoutError:
            raise TooSlowError from None
        except urllib3.exceptions.HTTPError:
            raise ConnectionError from None

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = _session_for(self._url)
        return session


def _session_for(url: str) -> requests.Session:
    """A session for one address.

    What the environment says of proxies, certificates and passwords is read now and not at every request, where it
    took a third of the time.
    """
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(max_retries=0))

    found = session.merge_environment_settings(url, {}, None, None, None)
    session.proxies, session.verify, session.cert = found["proxies"], found["verify"], found["cert"]
    session.auth = get_netrc_auth(url)
    session.trust_env = False
    return session


class WebSocketRpc(JSONBaseProvider):
    """One WebSocket; calls wait while it is in use. A broken one is opened again at the next call."""

    def __init__(self, url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """Remember where to connect; the first call does."""
        super().__init__()
        self.name = endpoint_name(url)
        self._url = url
        self._timeout = timeout
        self._socket: ClientConnection | None = None
        self._open = ExitStack()
        self._lock = threading.Lock()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request and wait for its answer."""
        request = self.encode_rpc_request(method, params)
        with self._lock, _known_as(self.name):
            try:
                if self._socket is None:
                    self._socket = self._connected()
                self._socket.send(request.decode())
                answer = self._socket.recv(self._timeout)
                return cast(RPCResponse, _answer_to(json.loads(request)["id"], parse_answer(answer)))
            except Exception:
                self.close()  # a late answer belongs to no request
                raise

    def _connected(self) -> ClientConnection:
        # No pings from a thread of their own: every answer is awaited with a time limit anyway.
        opening = connect(self._url, open_timeout=self._timeout, max_size=MAX_ANSWER, ping_interval=None)
        opened = self._open.enter_context(opening)
        # An endpoint that does not read must not hold us up either.
        patience = struct.pack("ll", max(1, int(self._timeout)), 0)
        opened.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        return opened

    def close(self) -> None:
        """Close the socket."""
        self._socket = None
        self._open.close()


def parse_answer(answer: bytes | str) -> Any:
    """A JSON value of bounded size."""
    text = answer if isinstance(answer, bytes) else answer.encode()
    opened = text.count(b"[") + text.count(b"{")
    if opened + text.count(b",") > _MAX_VALUES:
        raise BadAnswerError(f"answers with more than {_MAX_VALUES} values")
    if opened > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        raise BadAnswerError(f"answers with values nested more than {_MAX_DEPTH} deep")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadAnswerError("answers with something that is not JSON") from None


def parse_batch(answer: bytes, count: int) -> list[Any]:
    """The JSON values that answer as many requests."""
    found = parse_answer(answer)
    if not isinstance(found, list) or len(found) != count:
        raise BadAnswerError("answers a batch with something else")
    return found


def _depth(text: bytes) -> int:
    """How deep values are nested. The parser does not stop in time: web3 raises its limit to beyond the stack's."""
    marks = np.frombuffer(_STRING.sub(b"", text), np.uint8)
    opened = (marks == ord("[")) | (marks == ord("{"))
    closed = (marks == ord("]")) | (marks == ord("}"))
    return int(np.max(np.cumsum(opened.astype(np.int32) - closed), initial=0))


def _answer_to(id_: object, answer: Any) -> dict[str, Any]:
    """An answer that belongs to this request and is either a result or an error."""
    if not isinstance(answer, dict) or not ("result" in answer or "error" in answer):
        raise BadAnswerError("answers with something that is no JSON-RPC answer")
    if answer.get("error") is not None:
        error = answer["error"]
        return {**answer, "error": error if isinstance(error, dict) else {"code": 0, "message": str(error)}}
    if "result" not in answer or str(answer.get("id")) != str(id_):
        raise BadAnswerError("answers a question that was not asked")
    return {"jsonrpc": "2.0", "id": answer["id"], "result": answer["result"]}


def open_rpc(url: str, timeout: float = TIMEOUT_SECONDS) -> Web3:
    """Connect to an endpoint; nothing is sent yet.

    Raises:
        InputError: the address is neither HTTP nor WebSocket.
    """
    if url.startswith(("ws://", "wss://")):
        return Web3(WebSocketRpc(url, timeout))
    if url.startswith(("http://", "https://")):
        return Web3(HttpRpc(url, timeout))
    raise InputError(f"RPC address of {endpoint_name(url)}: give http://, https://, ws:// or wss://")


@contextmanager
def outside(what: str) -> Iterator[None]:
    """Everything the endpoint can do wrong becomes a LedgerError that says what we were doing."""
    try:
        yield
    except (ContractLogicError, ChainflError):
        raise
    except Exception as error:  # an answer can be anything, and so can what breaks on it
        raise LedgerError(f"{what}: {_one_line(error)}") from error


def has_answered(error: LedgerError) -> bool:
    """Whether the endpoint refused, rather than being away or silent: only then is asking for less worth a try."""
    cause = error.__cause__
    return isinstance(cause, requests.HTTPError) or not isinstance(cause, OSError | WebSocketException)


def check_chain(w3: Web3, expected: int | None) -> int:
    """The endpoint's chain id, refused when it is not the one that is meant."""
    with outside("asking for the chain id"):
        found = int(w3.eth.chain_id)
    if found.bit_length() > _WORD_BITS:  # too long to be told in decimals
        raise LedgerError(
            f"{name_of(w3)} answers with a chain id of {found.bit_length()} bits: ask another endpoint"
        )
    if expected is not None and found != expected:
        raise LedgerError(
            f"{name_of(w3)} serves chain {found}, but chain {expected} is meant: check the RPC address"
        )
    return found


def printable(text: object) -> str:
    """Text from outside on one short line, without what a terminal would act on."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(text)[: 4 * _LONGEST_LINE]).split())
    return words if len(words) <= _LONGEST_LINE else words[: _LONGEST_LINE - 3] + "..."


def _one_line(error: BaseException) -> str:
    name = getattr(error, "endpoint", "")
    who = f"the endpoint {name}" if name else "the endpoint"
    if isinstance(error, requests.Timeout | TimeoutError):
        return f"{who} did not answer in time"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{who} answered {error.response.status_code} {printable(error.response.reason)}"
    if isinstance(error, requests.RequestException | ConnectionError):
        return f"{who} does not answer: is it running, and is its address right?"
    if isinstance(error, BadAnswerError):
        return f"{who} {error}"
    return printable(error) or type(error).__name__
