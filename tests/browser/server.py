"""The real server over a history in memory, on a free loopback port, in a thread of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.audit_api.app import create_app
from services.audit_api.server import address_of, listen, make_server
from services.audit_api.settings import ApiSettings
from tests.audit_api.scene import Scene


@contextmanager
def serving(made: Scene, folder: Path, **changes: object) -> Iterator[str]:
    """Serve a scene; answers the address of the dashboard."""
    values: dict[str, object] = {"index": folder / "index.sqlite", "port": 0, "poll_seconds": 0.05} | changes
    settings = ApiSettings.model_validate(values)
    server = make_server(create_app(made.source, made.net.store, settings), settings)
    with listen(settings) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield address_of(listener)
        finally:
            server.should_exit = True
            thread.join(timeout=20)
