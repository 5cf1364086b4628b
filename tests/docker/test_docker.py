"""The Docker files fit their specifications and name only what exists; there is no engine here to build them with."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from chainfl import tools
from chainfl.api.settings import ApiSettings
from chainfl.cli.audit_api import serve
from chainfl.node.settings import NodeSettings
from chainfl.node.status import Status

ROOT = Path(__file__).resolve().parents[2]
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
    named = {name.lower() for name in re.findall(r"CHAINFL_([A-Z_]+)", COMPOSE)} - {"factory"}
    for_the_api = {name.lower() for name in re.findall(r"CHAINFL_API_([A-Z_]+)", DOCKERFILE)}

    assert named
    assert named <= set(NodeSettings.model_fields)
    assert for_the_api
    assert for_the_api <= set(ApiSettings.model_fields)


def test_the_compose_file_says_which_settings_it_leaves_to_the_reader() -> None:
    header = COMPOSE.partition("services:")[0]
    services = compose()["services"]
    required = {name for name, field in NodeSettings.model_fields.items() if field.is_required()}
    left = {f"CHAINFL_{name.upper()}" for name in required} - set(services["node"]["environment"])
    given = services["dashboard"]["environment"]
    read = {str(option.envvar) for option in serve.params if option.envvar}

    assert left == {"CHAINFL_TASK"}
    assert {"CHAINFL_FACTORY", "CHAINFL_STORE"} <= read
    assert [name for name in left | {"CHAINFL_FACTORY"} - set(given) if name not in header] == []


def test_no_key_and_no_secret_reaches_an_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    mounted = [secret["file"] for secret in compose()["secrets"].values()]

    assert mounted
    assert all(file.startswith("./secrets/") for file in mounted)
    assert {"docker/secrets", "docker/data", "docker/.env", ".chainfl"} <= set(ignored)


def test_grafana_asks_prometheus_where_it_listens() -> None:
    source = yaml.safe_load((ROOT / "docker" / "grafana" / "source.yml").read_text())["datasources"][0]
    services = compose()["services"]

    # Prometheus shares the node's network, so the node's name is its name.
    assert services["prometheus"]["network_mode"] == "service:node"
    assert source["url"] == "http://node:9090"
    assert any(each.endswith(":9090") for each in services["node"]["ports"])


def test_the_images_install_the_torch_that_set_up_installs() -> None:
    setup = (ROOT / "scripts" / "setup").read_text()

    named = set(re.findall(r"torch==[\d.]+", DOCKERFILE))

    assert len(named) == 1
    assert named.pop() in setup


def test_the_devnet_image_installs_the_anvil_that_the_tests_use() -> None:
    assert f" @foundry-rs/anvil@{tools.FOUNDRY}\n" in DOCKERFILE


def test_a_dockerfile_linter_finds_nothing() -> None:
    linter = Path(sys.executable).parent / "hadolint"

    done = subprocess.run(
        [linter, "--no-color", ROOT / "docker" / "Dockerfile"], capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout) == (0, "")


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE)
    return loaded


def test_the_compose_file_fits_the_specification() -> None:
    """The schema is the Compose project's own, from its release 1.29.2."""
    schema = json.loads((ROOT / "tests" / "docker" / "compose_spec.json").read_text())
    check = jsonschema.Draft7Validator(schema)
    wrong = {"services": {"node": {"imag": "x"}}}

    assert [error.message for error in check.iter_errors(compose())] == []
    assert list(check.iter_errors(wrong)) != []


def test_the_compose_file_builds_targets_that_exist_and_pins_what_it_pulls() -> None:
    services = compose()["services"].values()
    targets = {each["build"]["target"] for each in services if "build" in each}
    images = [each["image"] for each in services if "image" in each]

    assert targets == {"${NODE_TARGET:-node}", "audit_api", "devnet"}
    stages = set(re.findall(r"^FROM .+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    assert {"node", "node_cuda", "audit_api", "devnet", "audit"} <= stages
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+$", image)] == []


def test_every_file_that_the_compose_file_mounts_is_there() -> None:
    mounted = re.findall(r'"\./([\w./]+\.\w+):', COMPOSE)

    assert len(mounted) == 4
    assert [name for name in mounted if not (ROOT / "docker" / name).is_file()] == []


def test_processes_of_the_images_are_not_root() -> None:
    """An image keeps the last user of its stage, or that of the stage it starts from."""
    for stage in re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[2:]:
        users = re.findall(r"^USER (\w+)$", stage, re.MULTILINE)
        assert users == [] or users[-1] == "chainfl"


def test_the_board_shows_the_numbers_of_a_node_by_their_names() -> None:
    board = json.loads((ROOT / "docker" / "grafana" / "node.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"chainfl_\w+", target["expr"])
    }

    shown = names_of(Status())
    assert len(asked) >= 8
    assert asked <= shown
    families = {name for name in shown if not re.search(r"_(created|bucket|count|sum)$", name)}
    assert families <= asked | {"chainfl_step_seconds"}, "every number has its panel"


def names_of(status: Status) -> set[str]:
    """The names of a node's numbers as Prometheus reads them, of a node that has just taken a step."""
    status.took("train", 1.0, {"chain": 0.5})
    status.failed(OSError())
    return {sample.name for family in status.registry.collect() for sample in family.samples} | {
        family.name for family in status.registry.collect() if family.type == "gauge"
    }


def test_prometheus_reads_the_port_where_the_image_shows_its_numbers() -> None:
    config = yaml.safe_load((ROOT / "docker" / "prometheus.yml").read_text())
    targets = config["scrape_configs"][0]["static_configs"][0]["targets"]

    assert targets == ["127.0.0.1:9100"]
    assert DOCKERFILE.count('"--status-port", "9100"') == 5
    assert compose()["services"]["prometheus"]["network_mode"] == "service:node"
