"""The real server over a history in memory, on a free loopback port, in a thread of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import FastAPI

from chainfl.api.app import create_app
from chainfl.api.server import address_of, listen, make_server
from chainfl.api.settings import ApiSettings
from tests.api.scene import Scene


@contextmanager
def serving(made: Scene, folder: Path, **changes: object) -> Iterator[str]:
    """Serve a scene; answers the address of the dashboard."""
    with serving_app(made, folder, **changes) as (url, _):
        yield url


@contextmanager
def serving_app(made: Scene, folder: Path, **changes: object) -> Iterator[tuple[str, FastAPI]]:
    """Serve a scene; answers the address of the dashboard, and the app behind it."""
    values: dict[str, object] = {"index": folder / "index.sqlite", "port": 0, "poll_seconds": 0.05} | changes
    settings = ApiSettings.model_validate(values)
    app = create_app(made.source, made.net.store, settings)
    server = make_server(app, settings)
    with listen(settings) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield address_of(listener), app
        finally:
            server.should_exit = True
            thread.join(timeout=20)
