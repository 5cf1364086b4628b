"""Links between processes on loopback that can be slowed, made to lose connections, held or cut while they are used."""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
_CHUNK = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset and forgets what was not sent."""


@dataclass(slots=True, eq=False)
class Link:
    """A port whose connections go on to a target. Each call of `target` tells the port that it has then."""

    target: Callable[[], int]
    loop: asyncio.AbstractEventLoop
    port: int = 0
    delay: float = 0.0
    """Seconds by which every chunk of bytes comes later."""
    loss: float = 0.0
    """The chance that a chunk of bytes resets its connection instead of arriving."""
    rng: random.Random = field(default_factory=random.Random)
    is_cut: bool = False
    _flows: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where clients connect over HTTP."""
        return f"http://{HOST}:{self.port}"

    def cut(self) -> None:
        """Reset what is open and whatever connects, until mended."""
        self.is_cut = True
        self._in_loop(self.reset)

    def hold(self) -> None:
        """Let no byte through: nothing fails, nothing comes."""
        self._in_loop(self._flows.clear)

    def mend(self, *, with_reset: bool = False) -> None:
        """Be a good link again. What was held arrives now, or is lost with its connections."""
        self.delay = 0.0
        self.loss = 0.0
        self.is_cut = False
        if with_reset:
            self._in_loop(self.reset)
        self._in_loop(self._flows.set)

    def reset(self) -> None:
        """Reset every open connection."""
        for writer in list(self._open):
            _reset(writer)

    async def listen(self) -> asyncio.Server:
        """Begin to accept connections on a free port."""
        self._flows.set()
        server = await asyncio.start_server(self._connect, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection, both ways, until both ends are done or it is reset."""
        self._open.add(writer)
        try:
            if self.is_cut:
                return
            far_reader, far_writer = await asyncio.open_connection(HOST, self.target())
            self._open.add(far_writer)
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, far_writer))
                    pumps.create_task(self._pump(far_reader, writer))
            finally:
                self._open.discard(far_writer)
                _reset(far_writer)
        except (OSError, ExceptionGroup):
            pass  # reset by an end or by the link: both ends hear of it below
        finally:
            self._open.discard(writer)
            _reset(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry the bytes of one direction."""
        while data := await reader.read(_CHUNK):
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.loss and self.rng.random() < self.loss:
                raise ConnectionResetError
            await self._flows.wait()
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    def _in_loop(self, call: Callable[[], None]) -> None:
        """Do it where connections live, and wait until it is done."""
        done = threading.Event()

        def do() -> None:
            call()
            done.set()

        self.loop.call_soon_threadsafe(do)
        assert done.wait(20), "the links' thread does not answer"


def _reset(writer: asyncio.StreamWriter) -> None:
    if writer.is_closing():
        return
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


@dataclass(slots=True)
class Links:
    """All links of a test, carried by one thread."""

    loop: asyncio.AbstractEventLoop
    all: list[Link] = field(default_factory=list)
    _servers: list[asyncio.Server] = field(default_factory=list)

    def add(self, target: Callable[[], int]) -> Link:
        """A good link to a target."""
        link = Link(target, self.loop)
        self._servers.append(self._run(link.listen()))
        self.all.append(link)
        return link

    def close(self) -> None:
        """Accept nothing more and reset what is open."""
        self._run(self._close())

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for link in self.all:
            link.is_cut = True
            link._flows.set()
            link.reset()
        carried = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*carried, return_exceptions=True), 20)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@contextmanager
def open_links() -> Iterator[Links]:
    """Links that end with the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="links")
    thread.start()
    links = Links(loop)
    try:
        yield links
    finally:
        links.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
