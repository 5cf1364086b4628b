"""Measure the audit API under load: scripts/bench api [--quick] [--json].

A server in a process of its own follows a history that goes on block by block: a round is always running. Reads are
offered at a fixed rate, whether or not earlier ones are answered; the health route is asked in between, a tenth as
often, so that a busy machine slows both. Time counts from when a request was due: a queue cannot hide.
"""

import argparse
import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from chainfl.api.app import create_app
from chainfl.api.server import make_server
from chainfl.api.settings import ApiSettings
from chainfl.api.source import EventSource, Snapshot
from chainfl.protocol.events import RoundEnded
from chainfl.report import Report, bar, narrate, report
from chainfl.types import Address
from scripts.benches._command import bench_parser, plain_table, show

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the network in memory belongs to the tests

RATE = 200
HEALTH_EVERY = 10
CLIENTS = 32
ROUNDS, MORE_ROUNDS = 6, 20
BLOCKS_PER_SECOND = 20


def main(argv: list[str]) -> int:
    """Measure, print a table for people or one JSON object for machines, and end 0 when every bar is kept."""
    known = bench_parser("api", "The audit API under load.", quick="5 seconds in place of 30")
    known.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = known.parse_args(argv)
    if options.serve is not None:
        return serve(options.serve)
    found = measure(5 if options.quick else 30)
    return show(found, plain_table, as_json=options.json)


# The server, in a process of its own


class Unrolling:
    """A source that tells a recorded history as if it happened now, a few blocks a second."""

    def __init__(self, source: EventSource, already: int) -> None:
        """Record what there is; the first rounds count as played already."""
        self._source = source
        self._whole = source.refresh()
        self._started = time.monotonic()
        (log,) = self._whole.tasks.values()
        ends = [event.block_number for event in log.events if isinstance(event.event, RoundEnded)]
        self._first = ends[already - 1]

    @property
    def chain_id(self) -> int:
        """The recorded chain's."""
        return self._source.chain_id

    def mix_hash(self, number: int) -> bytes | None:
        """The recorded chain's."""
        return self._source.mix_hash(number)

    def refresh(self) -> Snapshot:
        """Everything up to the block that it is time for."""
        now = self._first + int(BLOCKS_PER_SECOND * (time.monotonic() - self._started))
        ((address, log),) = self._whole.tasks.items()
        shown = tuple(event for event in log.events if event.block_number <= now)
        return Snapshot(now, {address: replace(log, events=shown)})

    def reread(self, tasks: Collection[Address]) -> None:
        """Nothing to do: the recording does not change."""


def serve(fd: int) -> int:
    """Serve a history that goes on, on a socket that is open already."""
    from tests.api.scene import play_plain, scene

    made = scene(rounds=1_000)
    for _ in range(ROUNDS + MORE_ROUNDS):
        play_plain(made.net)
    with tempfile.TemporaryDirectory(prefix="chainfl-bench-") as folder:
        settings = ApiSettings(index=Path(folder) / "index.sqlite", poll_seconds=0.5)
        app = create_app(Unrolling(made.source, ROUNDS), made.net.store, settings)
        make_server(app, settings).run(sockets=[socket.socket(fileno=fd)])
    return 0


# The load


def measure(seconds: int) -> Report:
    """Offer the load and compare block reads with the health route of the same run."""
    started = time.perf_counter()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        arguments = [sys.executable, str(Path(__file__).resolve()), "--serve", str(listener.fileno())]
        server = subprocess.Popen(arguments, pass_fds=[listener.fileno()], cwd=ROOT)

    try:
        url = f"http://127.0.0.1:{place[1]}"
        _await(url, server)
        first = httpx.get(f"{url}/tasks/1", timeout=30).json()["round"]
        narrate(f"offering {RATE} block reads/s for {seconds} s")
        load = asyncio.run(offer(place, seconds))
        played = httpx.get(f"{url}/tasks/1", timeout=30).json()["round"] - first
    finally:
        server.terminate()
        server.wait(20)

    blocks = load.blocks
    health = load.health
    errors = load.errors
    p99 = {"block": percentile(blocks, 99), "health": percentile(health, 99)}
    metrics: dict[str, object] = {
        "offered_per_second": RATE,
        "answered": len(blocks),
        "answered_per_second": len(blocks) / seconds,
        "errors": errors,
        "rounds_played_meanwhile": played,
        "block_ms": {name: percentile(blocks, name) * 1000 for name in (50, 90, 99)},
        "health_ms": {name: percentile(health, name) * 1000 for name in (50, 90, 99)},
    }

    bars = (
        bar("api.errors", errors, "==", 0),
        bar("api.answered", len(blocks) / (RATE * seconds), ">=", 1.0),
        bar("api.p99_ratio", p99["block"] / p99["health"], "<=", 5.0),
        bar("api.rounds_played", played, ">=", 1),
    )
    return report("bench-api", metrics, bars, seconds=time.perf_counter() - started)


def _await(url: str, server: "subprocess.Popen[bytes]", seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}")
        try:
            if httpx.get(f"{url}/health", timeout=5).json()["status"] == "ok":
                return
        except (httpx.HTTPError, ValueError):
            time.sleep(0.2)
    raise SystemExit(f"the server did not answer within {seconds:g} s")


@dataclass(slots=True)
class Load:
    """What was offered and what came of it."""

    blocks: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    errors: int = 0


async def offer(place: tuple[str, int], seconds: int) -> Load:
    """Send each request when it is due over the next free connection; times run from due to done."""
    load = Load()
    due = asyncio.Queue[tuple[float, str]]()
    start = time.perf_counter() + 0.5
    for number in range(RATE * seconds):
        at = start + number / RATE
        due.put_nowait((at, f"/blocks/1/{1 + number % ROUNDS}"))
        if number % HEALTH_EVERY == 0:
            due.put_nowait((at + 0.5 / RATE, "/health"))
    await asyncio.gather(*(_client(place, due, load) for _ in range(CLIENTS)))
    return load


async def _client(place: tuple[str, int], due: "asyncio.Queue[tuple[float, str]]", load: Load) -> None:
    reader, writer = await asyncio.open_connection(*place)
    while not due.empty():
        at, path = due.get_nowait()
        await asyncio.sleep(max(0.0, at - time.perf_counter()))

        # Requests are due at fixed times: a slow answer delays no later one's clock, so waiting in line counts.
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        except (OSError, asyncio.IncompleteReadError):
            load.errors += 1
            reader, writer = await asyncio.open_connection(*place)
            continue

        load.errors += not head.startswith(b"HTTP/1.1 200")
        times = load.health if path == "/health" else load.blocks
        times.append(time.perf_counter() - at)
    writer.close()


def percentile(times: Sequence[float], percent: int) -> float:
    """The value that this many percent do not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else float("nan")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
