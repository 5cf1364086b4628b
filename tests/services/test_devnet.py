"""What a devnet tells its guest."""

import shlex
from pathlib import Path

from services.devnet import Devnet, write_guest
from services.node.settings import NodeSettings


def test_the_guests_file_sets_what_a_node_and_its_commands_need(tmp_path: Path) -> None:
    home = tmp_path / "a folder with spaces"
    home.mkdir()
    net = Devnet(str(home), "http://127.0.0.1:8545", factory="0xf", registry="0xr", task="0xt", from_block=9)

    lines = write_guest(net).read_text().splitlines()

    words = [shlex.split(line) for line in lines]
    assert {word[0] for word in words} == {"export"}
    told = dict(word[1].split("=", 1) for word in words)
    assert told["CHAINFL_STORE"] == f"dir:{home}/store"
    assert told["CHAINFL_KEYSTORE"] == f"{home}/keys/guest.json"
    names = {name.removeprefix("CHAINFL_").lower() for name in told} - {"factory"}
    assert names <= set(NodeSettings.model_fields)
    required = {name for name, field in NodeSettings.model_fields.items() if field.is_required()}
    assert required <= names
