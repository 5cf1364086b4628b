"""An operator's stolen key calls every function of the contracts, in every phase: nothing becomes the thief's."""

from typing import cast

import pytest
from eth_abi.abi import encode as abi_encode

from chainfl.chain.abi import Function, functions
from chainfl.types import Address, Phase
from tests.agree import mirror
from tests.agree.evm import Chain
from tests.agree.mirror import Mirror
from tests.protocol import test_attacks_on_operators as operators
from tests.protocol.scene import Scene

pytestmark = pytest.mark.slow

CONTRACTS = ("StakeRegistry", "TrainingTask")
PHASES = [phase for phase in Phase if phase is not Phase.ENDED]


@pytest.fixture(autouse=True)
def _in_both_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenes act on rules and bytecode."""
    monkeypatch.setattr(operators, "scene", mirror.scene)
    monkeypatch.setattr(operators, "address", mirror.address)


def value_of(kind: str, named: Address, number: int) -> object:
    """A value of this type that fits as many functions as possible."""
    if kind.endswith("[]"):
        return [] if number else [value_of(kind.removesuffix("[]"), named, 1)]
    if kind == "address":
        return "0x" + named.hex()
    if kind == "bool":
        return True
    if kind == "bytes32":
        return number.to_bytes(32, "big")
    if kind == "bytes":
        return b""
    assert kind.startswith("uint"), kind
    return number


def calls_of(function: Function, played: Scene, owner: Address, key: Address) -> list[bytes]:
    """Its calls with the thief's and the owner's address, the task's, and small numbers among them the round's."""
    named = (key, owner, played.task_address)
    numbers = sorted({0, 1, played.number})
    values = [[value_of(kind, who, n) for kind in function.inputs] for who in named for n in numbers]
    # A task to act in comes first, and what is named after it is a person.
    if function.inputs[:1] == ("address",):
        task = "0x" + played.task_address.hex()
        values += [[task, *each[1:]] for each in values]
    return [function.selector + abi_encode(function.inputs, each) for each in values]


def money(chain: Chain, played: Scene, owner: Address, key: Address) -> dict[str, object]:
    """All that a thief could be after."""
    world, task = cast(Mirror, played.world).twin, played.task_address
    task_text = "0x" + task.hex()
    held = {who: "0x" + who.hex() for who in (owner, key)}
    return {
        "the task's ether": chain.balance(task),
        "the registry's ether": chain.balance(world.registry),
        "the key's ether": chain.balance(key),
        "the owner's ether": chain.balance(owner),
        **{
            f"stake of {name}": chain.read("StakeRegistry", world.registry, "allocation", task_text, name)
            for name in held.values()
        },
        **{
            f"free stake of {name}": chain.read("StakeRegistry", world.registry, "free", name)
            for name in held.values()
        },
        "the key's credit": chain.read("TrainingTask", task, "creditOf", held[key], []),
        "who the owner named": chain.read(
            "StakeRegistry", world.registry, "operatorOf", task_text, held[owner]
        ),
    }


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name.lower())
def test_a_stolen_key_that_calls_every_function_gets_nothing(phase: Phase) -> None:
    played, owner, key = operators.stolen()
    played.play_round()
    played.to(phase)
    twin = cast(Mirror, played.world).twin
    before = money(twin.chain, played, owner, key)
    tried = taken = 0

    for contract in CONTRACTS:
        at = twin.registry if contract == "StakeRegistry" else played.task_address
        for name, function in functions(contract).items():
            for data in calls_of(function, played, owner, key):
                kept = twin.chain.evm.snapshot()
                twin.chain.at(played.block + 1, played.now)
                answer = twin.chain.send(key, at, data)
                assert money(twin.chain, played, owner, key) == before, f"{contract}.{name} {data.hex()}"
                twin.chain.evm.revert(kept)
                tried, taken = tried + 1, taken + answer.ok

    # Most are refused, and views answer; that none was taken at all would mean that nothing was tried.
    assert 0 < taken < tried
    assert before["the key's credit"] == 0
