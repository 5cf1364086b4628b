"""Deploy the contracts: libraries, then the factory, which makes the registry and the task implementation.

Every step is written to the deployments file before and after it is sent, so that a run that died anywhere is taken up
where it stopped: a step whose code is on the chain is never sent again.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from eth_abi.abi import encode as abi_encode
from eth_utils.address import to_checksum_address
from rlp import encode as rlp_encode  # type: ignore[import-untyped]
from web3 import Web3

from chainfl.artifacts import load
from chainfl.chain.reader import as_address, read_call
from chainfl.chain.rpc import check_chain, outside
from chainfl.chain.send import Sender, checksum
from chainfl.codec.commitments import keccak256
from chainfl.errors import InputError, LedgerError
from chainfl.types import Address

FACTORY = "TaskFactory"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeployedStep:
    """One contract: where it is, or will be, and the nonce that makes it so."""

    address: str
    nonce: int
    transaction: str = ""
    block: int = 0
    gas: int = 0


@dataclass(frozen=True, slots=True)
class Deployment:
    """The contracts of one chain."""

    chain_id: int
    deployer: str
    phase_floor: int
    steps: dict[str, DeployedStep] = field(default_factory=dict)
    factory: str = ""
    registry: str = ""
    block: int = 0
    implementation: str = ""

    @property
    def factory_address(self) -> Address:
        """The factory."""
        return as_address(self.factory)

    @property
    def registry_address(self) -> Address:
        """The stake registry."""
        return as_address(self.registry)


def write_deployment(path: Path, deployment: Deployment) -> None:
    """Replace the file in one step, so that it is never half-written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(asdict(deployment), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_deployment(path: Path) -> Deployment:
    """A deployment from its file.

    Raises:
        InputError: there is none, or it is not one.
    """
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        steps = {name: DeployedStep(**step) for name, step in plain.pop("steps").items()}
        return Deployment(**plain, steps=steps)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; deploy first: chainfl deploy") from None
    except (json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: not a deployments file ({error})") from None


def plan() -> list[str]:
    """What is deployed, in order: every library before what links to it, the factory last."""
    order: list[str] = []

    def visit(name: str) -> None:
        for library in sorted(load(name).links):
            visit(library)
        if name not in order:
            order.append(name)

    visit(FACTORY)
    return order


def deploy(
    w3: Web3, sender: Sender, path: Path, phase_floor: int, expected_chain: int | None, tell: Tell
) -> Deployment:
    """Deploy what is not yet on the chain, and answer where everything is.

    Raises:
        LedgerError: another chain answers, or the chain fails; run again to go on.
        InputError: the file belongs to another chain, deployer or floor.
    """
    chain_id = check_chain(w3, expected_chain)
    deployer = checksum(sender.address)
    state = read_deployment(path) if path.exists() else Deployment(chain_id, deployer, phase_floor)
    if (state.chain_id, state.deployer, state.phase_floor) != (chain_id, deployer, phase_floor):
        raise InputError(
            f"{path} tells of chain {state.chain_id}, deployer {state.deployer}, floor {state.phase_floor} s; "
            f"this is chain {chain_id}, {deployer}, {phase_floor} s: name another file"
        )
    for name in plan():
        state = _deploy_step(w3, sender, path, state, name, tell)
    factory = as_address(state.steps[FACTORY].address)
    (registry,) = read_call(w3, FACTORY, factory, "registry")
    (implementation,) = read_call(w3, FACTORY, factory, "implementation")
    done = replace(
        state,
        factory=checksum(factory),
        registry=to_checksum_address(registry),
        implementation=to_checksum_address(implementation),
        block=state.steps[FACTORY].block,
    )
    write_deployment(path, done)
    return done


def creation_code(name: str, state: Deployment) -> bytes:
    """What is sent to create a contract, its libraries linked."""
    addresses = {step: known.address for step, known in state.steps.items()}
    return bytes.fromhex(load(name).link(addresses).removeprefix("0x")) + constructor_arguments(name, state)


def constructor_arguments(name: str, state: Deployment) -> bytes:
    """What a contract's constructor is given, ABI-encoded."""
    return abi_encode(["uint32"], [state.phase_floor]) if name == FACTORY else b""


def _deploy_step(
    w3: Web3, sender: Sender, path: Path, state: Deployment, name: str, tell: Tell
) -> Deployment:
    known = state.steps.get(name)
    with outside(f"looking for {name}"):
        if known is not None and w3.eth.get_code(to_checksum_address(known.address)):
            tell(f"{name}: already at {known.address}")
            return state
        nonce = w3.eth.get_transaction_count(checksum(sender.address), "latest")
    address = created_address(sender.address, nonce)
    state = replace(state, steps=state.steps | {name: DeployedStep(checksum(address), nonce)})
    write_deployment(path, state)
    receipt = sender.send(None, creation_code(name, state))
    found = receipt["contractAddress"]
    if found is None or as_address(found) != address:
        raise LedgerError(f"{name} was created at {found}, not at {checksum(address)}: run again to go on")
    step = DeployedStep(
        checksum(address),
        nonce,
        receipt["transactionHash"].to_0x_hex(),
        receipt["blockNumber"],
        receipt["gasUsed"],
    )
    state = replace(state, steps=state.steps | {name: step})
    write_deployment(path, state)
    tell(f"{name}: {step.address} ({step.gas:,} gas)")
    return state


def created_address(sender: Address, nonce: int) -> Address:
    """Where a contract lands that this sender creates under this nonce."""
    number = nonce.to_bytes((nonce.bit_length() + 7) // 8, "big")
    return Address(keccak256(rlp_encode([bytes(sender), number]))[12:])


@dataclass(frozen=True, slots=True)
class Cost:
    """What deploying everything takes."""

    gas: int
    wei: int


def cost_of_deployment(w3: Web3) -> Cost:
    """The gas of all steps, from the size of their code, and what it costs at twice the current base fee."""
    gas = 0
    for name in plan():
        artifact = load(name)
        runtime = len(artifact.deployed_bytecode) // 2
        creation = len(artifact.bytecode) // 2
        gas += 53_000 + 200 * runtime + 16 * creation + 2 * (creation // 32)
        if name == FACTORY:
            made = sum(len(load(each).deployed_bytecode) // 2 for each in ("StakeRegistry", "TrainingTask"))
            gas += 64_000 + 200 * made
    with outside("reading the base fee"):
        base = int(w3.eth.get_block("latest").get("baseFeePerGas", 0))
    return Cost(gas, gas * (2 * base + 10**9))
