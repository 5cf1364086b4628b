"""uvicorn around the app: listens, gives up clients that send or read too slowly, and stops on request."""

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from chainfl.api.clients import IpNetwork, Share, client_name, is_trusted
from chainfl.api.problems import MEDIA_TYPE, RETRY_SECONDS
from chainfl.api.settings import ApiSettings
from chainfl.errors import InputError, LimitError

_MAX_HEADERS = 16 * 1024
_GOODBYE_SECONDS = 1


def listen(settings: ApiSettings) -> socket.socket:
    """A listening socket.

    Raises:
        InputError: the address cannot be had.
    """
    try:
        return socket.create_server((settings.host, settings.port), backlog=256)
    except OSError as error:
        raise InputError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; give another --host or --port"
        ) from None


def address_of(listener: socket.socket) -> str:
    """Where people point their browsers."""
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}/"


def make_server(app: FastAPI, settings: ApiSettings) -> uvicorn.Server:
    """A server for the app; `run(sockets=[…])` serves until it is stopped."""
    config = uvicorn.Config(
        app,
        http=patient(settings.header_seconds, settings.connections_per_client, settings.proxies),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # or anybody on this machine could name itself: the guard knows whom to trust
        limit_concurrency=settings.connections,
        h11_max_incomplete_event_size=_MAX_HEADERS,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    return uvicorn.Server(config)


def patient(
    seconds: float, per_client: int | None = None, trusted: Sequence[IpNetwork] = ()
) -> type[H11Protocol]:
    """HTTP that waits only so long for a request to arrive or an answer to be read: dribbling holds no connection.

    A client that has as many connections as it may gets an answer at once and no connection; a trusted proxy, which
    carries many clients, may have any number.
    """
    share = Share(per_client, "connections open") if per_client is not None else None

    class TimeoutProtocol(H11Protocol):
        """A connection with a deadline for its next whole request, and for room to go on with an answer."""

        _deadline: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None
        _held_by: str | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            try:
                self._take_place(transport)
            except LimitError as error:
                transport.write(_refusal(str(error)))
                transport.close()
                return
            self._expect(self._give_up)

        def _take_place(self, transport: asyncio.Transport) -> None:
            peer = _peer(transport)
            if share is None or is_trusted(peer, trusted):
                return
            # The peer's own address, never a header: that is yet to be read.
            client = client_name(peer, (), ())
            share.take(client)
            self._held_by = client

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # A whole request has come: from here on the limit of the request's own work counts.
            if self._is_answering():
                self._relax()
            elif self._deadline is None:
                self._expect(self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            if share is not None and self._held_by is not None:
                share.give(self._held_by)
                self._held_by = None
            self._relax()
            self._flow()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            # The client reads slower than we write: an answer may wait in memory for so long, then the connection
            # goes.
            self._flow()
            self._stuck = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._flow()
            super().resume_writing()

        def _flow(self) -> None:
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None

        def _is_answering(self) -> bool:
            cycle: RequestResponseCycle | None = self.cycle
            return cycle is not None and not cycle.response_complete

        def _expect(self, act: Callable[[], None]) -> None:
            self._deadline = self.loop.call_later(seconds, act)

        def _relax(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            # An answer may have begun while the timer was firing.
            if not self._is_answering():
                self.transport.close()

    return TimeoutProtocol


def _peer(transport: asyncio.Transport) -> str | None:
    found = transport.get_extra_info("peername")
    return str(found[0]) if isinstance(found, tuple) and found else None


def _refusal(detail: str) -> bytes:
    """An answer to a connection too many, whatever it was going to ask."""
    status = HTTPStatus.TOO_MANY_REQUESTS
    body = {"type": "urn:chainfl:limit", "title": status.phrase, "status": status.value, "detail": detail}
    data = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(data)}\r\n"
        f"Retry-After: {RETRY_SECONDS}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + data
