"""uvicorn around the app: listens, gives up clients that send or read too slowly, and leaves when told."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from chainfl.errors import InputError
from services.audit_api.settings import ApiSettings

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
    """A server for the app; `run(sockets=[…])` serves until it is told to stop."""
    config = uvicorn.Config(
        app,
        http=patient(settings.header_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=settings.connections,
        h11_max_incomplete_event_size=_MAX_HEADERS,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    return uvicorn.Server(config)


def patient(seconds: float) -> type[H11Protocol]:
    """HTTP that waits only so long for a request to arrive or an answer to be read: dribbling holds no connection."""

    class Patient(H11Protocol):
        """A connection with a deadline for its next whole request, and for room to go on with an answer."""

        _deadline: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect(self._give_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_answering():
                self._relax()
            elif self._deadline is None:
                self._expect(self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._relax()
            self._flow()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
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
            if not self._is_answering():
                self.transport.close()

    return Patient
