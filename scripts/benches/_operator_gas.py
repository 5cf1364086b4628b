"""What an operator costs: the same worker's commitment and reveal, sent by itself and by its operator."""

from typing import Final

from chainfl.chain.abi import as_address, functions
from chainfl.codec.commitments import worker_payload
from chainfl.codec.text import hex_of
from chainfl.types import Address, Phase, Rule, Statistic
from scripts.benches._gas_node import anvil, known
from scripts.benches._gas_scene import CID, SALT, scene, terms, who

_ZERO_BYTE_SAVES: Final = 12


def operated_gas() -> tuple[dict[str, int], dict[str, int]]:
    """What it costs one worker to commit and to reveal: itself where nobody has an operator, and by its operator."""
    return _one_workers_gas(is_operated=False), _one_workers_gas(is_operated=True)


def _one_workers_gas(is_operated: bool) -> dict[str, int]:
    """The first who can commit does so for the first time, so that it writes the same words whoever is drawn."""
    with anvil() as node:
        built = scene(node, terms(Rule.SOFTMAX, Statistic.MEDIAN, 6))
        registry = as_address(node.read("TrainingTask", built.task, "registry"))
        people = range(1, node.read("TrainingTask", built.task, "accountCount") + 1)
        for id_ in people if is_operated else ():
            node.rpc("anvil_setBalance", hex_of(key(id_)), hex(10**24))
            named = functions("StakeRegistry")["setOperator"].call_data(built.task, key(id_))
            node.send(who(id_), registry, named)
            built.call(key(id_), "enrolFor", who(id_))
        sender = key if is_operated else who

        built.draw(who(1))
        out = {*built.ids("committee"), built.ids("proposers")[0]}
        workers = [id_ for id_ in people if id_ not in out]
        update = known("update")
        payload = worker_payload(update.root, CID, 100)
        for id_ in workers:
            sealed = built.seal(sender(id_), Phase.TRAIN, payload)
            built.call(sender(id_), "commitUpdate", built.number, sealed)
        # Zero bytes of a commitment are cheaper, and it has them by chance.
        zeros = built.seal(sender(workers[0]), Phase.TRAIN, payload).count(0)
        built.call(who(1), "advance", built.number)
        for id_ in workers:
            built.call(sender(id_), "revealUpdate", built.number, update.root, CID, 100, SALT)
        return {
            "commitUpdate": built.gas["commitUpdate"][0] + _ZERO_BYTE_SAVES * zeros,
            "revealUpdate": built.gas["revealUpdate"][0],
        }


def key(id_: int) -> Address:
    """The address of its operator."""
    return Address((0x20_0000 + id_).to_bytes(20, "big"))
