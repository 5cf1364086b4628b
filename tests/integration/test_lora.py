"""Eight participants fine-tune adapters of a transformer on a chain; what comes out loads where it is used."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chainfl.audit.history import PlayedRound
from chainfl.chain.abi import as_address
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import open_rpc
from chainfl.codec.model_file import read_model_file
from chainfl.devnet.processes import load_devnet
from chainfl.types import Outcome
from chainfl.workflows.audit import played_rounds
from tests.integration.test_apps import folder as folder  # the same bare checkout
from tests.integration.test_readme import typed
from tests.processes import await_that

ROUNDS = 3
UP = f"""
chainfl new ada --template lora
python ada/make_base.py
chainfl devnet up --app ada/app.py --participants 8 --committee 3 --rounds {ROUNDS}
"""


@pytest.fixture(autouse=True)
def _extra(require_extra: Callable[[str], None]) -> None:
    require_extra("hf")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_adapters_are_fine_tuned_on_a_chain_and_load_in_peft(
    folder: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    done = typed(UP, folder)
    assert done.returncode == 0, done.stderr
    home = folder / ".chainfl" / "devnet"
    net = load_devnet(home)
    reader = TaskReader(open_rpc(net.rpc_url), as_address(net.task), net.chain_id, net.from_block)
    await_that(lambda: len(_settled(reader)) == ROUNDS, 500, "all rounds are over", 1)

    # Every round is final, and the audit redoes each.
    assert [each.outcome for each in _settled(reader)] == [Outcome.FINAL] * ROUNDS
    told = typed(f". {home}/guest.env\nchainfl audit verify --json", folder)
    assert told.returncode == 0, told.stderr

    losses = [_loss(folder, number) for number in (0, ROUNDS)]
    assert losses[1] < losses[0]
    _expect_loads(folder)


def _settled(reader: TaskReader) -> list[PlayedRound]:
    return [each for each in played_rounds(reader) if each.outcome is not Outcome.OPEN]


def _loss(folder: Path, number: int) -> float:
    """The loss of a round's model on what the app holds out."""
    written = f"--out {number}.safetensors --app ada/app.py --peft adapters-{number}"
    script = f". .chainfl/devnet/guest.env\nchainfl model export --round {number} {written} >&2\n"
    script += f"chainfl model score {number}.safetensors --app ada/app.py --json"
    done = typed(script, folder)
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["metrics"]["loss"])


def _expect_loads(folder: Path) -> None:
    """PEFT itself loads the adapters onto the base; they are those on chain, and few beside what is frozen."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(folder / "ada" / "base")
    frozen = sum(each.numel() for each in base.parameters())
    loaded = PeftModel.from_pretrained(base, str(folder / f"adapters-{ROUNDS}"))
    found = {name: each for name, each in loaded.state_dict().items() if "lora" in name}
    file = read_model_file((folder / f"{ROUNDS}.safetensors").read_bytes())
    head_D = file.vector.astype("float64") / 2.0**file.about.s - 2.0 ** (31 - file.about.s)

    assert frozen >= 5_000_000
    assert len(file.vector) <= 200_000
    assert sorted(found) == [tensor.name for tensor in file.layout.tensors]
    for tensor, span in file.spans():
        assert abs(found[tensor.name].numpy().ravel() - head_D[span]).max() < 1e-6
