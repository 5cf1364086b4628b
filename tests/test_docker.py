"""The Docker files name only what exists; there is no engine here to build them with."""

import re
from pathlib import Path

from chainfl.node.settings import NodeSettings

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
COMPOSE = (ROOT / "docker" / "compose.yml").read_text()


def test_every_path_that_the_images_copy_exists() -> None:
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    ]

    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_every_setting_in_the_compose_file_is_one_of_the_nodes() -> None:
    named = {name.lower() for name in re.findall(r"CHAINFL_([A-Z_]+)", COMPOSE)}

    assert named
    assert named <= set(NodeSettings.model_fields)


def test_the_images_install_the_torch_that_set_up_installs() -> None:
    setup = (ROOT / "scripts" / "setup").read_text()

    assert re.search(r"torch==[\d.]+", DOCKERFILE) is not None
    assert re.findall(r"torch==[\d.]+", DOCKERFILE)[0] in setup
