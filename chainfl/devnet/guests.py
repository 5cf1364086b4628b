"""Guests of a devnet: more participants, each with a key, stake and a process of its own, whenever they like."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from web3 import Web3

from chainfl.chain.abi import as_address
from chainfl.chain.contracts import allocate
from chainfl.chain.keys import address_of, unlock
from chainfl.chain.quorum import open_endpoints, open_reader
from chainfl.chain.rpc import open_rpc
from chainfl.chain.send import Sender
from chainfl.codec.text import ETHER
from chainfl.devnet.processes import PASSWORD, Devnet, Person, enrol, fund, make_keys, start_node
from chainfl.sim.dealing import ReplayParticipant
from chainfl.sim.replay import DEVNET_SEED
from chainfl.types import Address, OnProgress

_FUNDS = 100 * ETHER


def add_guests(
    net: Devnet, count: int, options: Mapping[str, Any], on_progress: OnProgress
) -> dict[str, int]:
    """Start so many guests and enrol them; returns their ids by name. Their data is noted in `participants.json`."""
    w3 = open_rpc(net.rpc_url)
    names = _free_names(net, count)
    people = [Person(name, 5 * ETHER) for name in names]
    keys = make_keys(Path(net.home), names)

    described = {}
    for number, person in enumerate(people):
        _put_stake(net, w3, keys[person.name], person.stake)
        # A guest's random numbers are nobody else's.
        seed = DEVNET_SEED + int(person.name.removeprefix("guest"))
        described[person.name] = ReplayParticipant(
            number, count, partition_seed=DEVNET_SEED, master_seed=seed, dataset=options.get("dataset"),
            threads=int(options["threads"]),
        )  # fmt: skip
        more = {**options, "master-seed": seed}
        start_node(net, person, number, count, "iid", DEVNET_SEED, more)

    on_progress(f"a process for each of {count} guests is starting")
    enrol(net, w3, keys, people, on_progress)
    ids = _ids(net, {person.name: address_of(keys[person.name]) for person in people})
    _describe(net, {ids[name]: one for name, one in described.items()})
    return ids


def _free_names(net: Devnet, count: int) -> list[str]:
    """guest1, guest2, … that no earlier guest has."""
    taken = {path.stem for path in (Path(net.home) / "keys").glob("guest*.json")}
    numbers = (number for number in range(1, 10_000) if f"guest{number}" not in taken)
    return [f"guest{number}" for number, _ in zip(numbers, range(count), strict=False)]


def _put_stake(net: Devnet, w3: Web3, key: Path, stake: int) -> None:
    sender = Sender(w3, unlock(key, PASSWORD), net.chain_id)
    fund(w3, sender.address, _FUNDS)
    allocate(sender, as_address(net.registry), as_address(net.task), stake)


def _ids(net: Devnet, addresses: Mapping[str, Address]) -> dict[str, int]:
    endpoints = open_endpoints(net.rpc_url, net.chain_id)
    reader = open_reader(endpoints, as_address(net.task), net.from_block, 0)
    accounts = reader.refresh().accounts
    return {name: accounts[address].id for name, address in addresses.items()}


def _describe(net: Devnet, guests: Mapping[int, ReplayParticipant]) -> None:
    """Add them to the file that a replay is given."""
    path = Path(net.home) / "participants.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    plain["participants"] |= {str(id_): asdict(one) for id_, one in guests.items()}
    path.write_text(json.dumps(plain) + "\n", encoding="utf-8")
