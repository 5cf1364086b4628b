from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.api.scene import Scene, client_of, history


@pytest.fixture(scope="session")
def made() -> Scene:
    """A history that tests only read."""
    return history()


@pytest.fixture(scope="session")
def client(made: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(made, tmp_path_factory.mktemp("api")) as found:
        yield found
