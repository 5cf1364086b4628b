"""What a list of who may join costs: enrolments with a proof, beside the same ones in a task without a list."""

from collections.abc import Callable
from dataclasses import replace
from statistics import mean
from typing import Final

from chainfl.chain.abi import functions
from chainfl.codec.admission import Entry
from chainfl.codec.commitments import keccak256
from chainfl.codec.text import hex_of
from chainfl.protocol.admission import admit_all, list_root
from chainfl.types import Address, Role, Rule, Statistic, TaskConfig
from scripts.benches._gas_node import anvil
from scripts.benches._gas_scene import ETHER, empty_scene, terms

_PEOPLE: Final = 14
_WAITING: Final = slice(8, None)
"""Those who enrol while the draw is open: their weight is written later, so a proof is dearest beside the rest."""


def enrolments_gas(accounts: int) -> tuple[float, float]:
    """What it costs to enrol while a draw is open: in a task for all, and in one with a list of so many accounts."""
    # How many zero bytes an address has is chance: none of them is small.
    people = [Address(keccak256(b"%d" % i)[-20:]) for i in range(accounts)]
    entries: list[Entry] = [(each, Role.PARTICIPANT) for each in people]
    config = terms(Rule.SOFTMAX, Statistic.MEDIAN, 2)
    shown = admit_all(entries)

    freely = _gas(config, people, lambda _: ("enrol",))
    by_proof = _gas(
        replace(config, admission_root=list_root(entries)),
        people,
        lambda each: ("enrolAdmitted", each, shown[each].role, shown[each].proof),
    )
    return freely, by_proof


def _gas(config: TaskConfig, people: list[Address], call: Callable[[Address], tuple[object, ...]]) -> float:
    with anvil() as node:
        built, registry = empty_scene(node, config)
        allocate = functions("StakeRegistry")["allocate"].call_data(built.task, ETHER)
        spent = []
        for each in people[:_PEOPLE]:
            node.rpc("anvil_setBalance", hex_of(each), hex(10**24))
            node.send(each, registry, allocate, ETHER)
            name, *values = call(each)
            spent.append(built.call(each, str(name), *values))
        return mean(spent[_WAITING])
