"""Deploy the contracts: libraries, then the factory, which makes the registry and the task implementation.

Every step is written to the deployments file before and after it is sent, so that a run that died anywhere is taken up
where it stopped: a step whose code is on the chain, or whose transaction is on its way, is never sent again.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from eth_abi.abi import encode as abi_encode
from eth_utils.address import to_checksum_address
from web3 import Web3

from chainfl.artifacts import load
from chainfl.chain.abi import as_address
from chainfl.chain.development import is_development
from chainfl.chain.randomness import check_randomness
from chainfl.chain.reader import read_call
from chainfl.chain.rpc import check_chain, outside
from chainfl.chain.send import Sender, checksum
from chainfl.codec import plain_json, rlp
from chainfl.codec.commitments import keccak256
from chainfl.codec.text import GWEI
from chainfl.errors import InputError, LedgerError
from chainfl.types import Address, OnProgress

FACTORY = "TaskFactory"
_PATIENCE, _PAUSE = 300.0, 0.5


@dataclass(frozen=True, slots=True)
class DeployedStep:
    """One contract: where it is, or will be, and the nonce that makes it so.

    `block` is not after its creation. Without a transaction, the run that sent it died before it saw the receipt.
    """

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
    seed_delay: int = 2
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
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; deploy first: chainfl deploy") from None
    plain: Any = plain_json.loads(data, str(path))
    try:
        steps = {
            name: DeployedStep(**_typed(DeployedStep, step)) for name, step in plain.pop("steps").items()
        }
        return Deployment(**_typed(Deployment, plain), steps=steps)
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: not a deployments file ({error})") from None


def _typed(kind: type[Deployment | DeployedStep], plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same fields, if each is the number or the text that it has to be."""
    for each in fields(kind):
        if each.name in plain and type(plain[each.name]) is not each.type:
            raise TypeError(f"{each.name} is {plain[each.name]!r:.80}")
    return plain


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


def default_seed_delay(chain_id: int) -> int:
    """How many blocks ahead the one lies that seeds a draw: two, or one on chains that make blocks on demand."""
    return 1 if is_development(chain_id) else 2


def deploy(
    w3: Web3,
    sender: Sender,
    path: Path,
    phase_floor: int,
    expected_chain: int | None,
    on_progress: OnProgress,
    seed_delay: int | None = None,
) -> Deployment:
    """Deploy what is not yet on the chain, and answer where everything is.

    Raises:
        LedgerError: another chain answers, or the chain fails; run again to go on.
        InputError: the file belongs to another chain, deployer or factory, or the chain's randomness stands still.
    """
    chain_id = check_chain(w3, expected_chain)
    check_randomness(w3, allow_young=is_development(chain_id))

    state = begun(path, chain_id, sender.address, phase_floor, seed_delay)

    for name in plan():
        state = _deploy_step(w3, sender, path, state, name, on_progress)

    gone = still_to_deploy(w3, state)
    if gone:
        raise LedgerError(f"{gone[0]} is gone: the chain has reorganised; run again to go on")

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


def begun(
    path: Path, chain_id: int, deployer: Address, phase_floor: int, seed_delay: int | None
) -> Deployment:
    """The deployment that an earlier run has begun in this file, or a new one without steps.

    Raises:
        InputError: the file belongs to another chain, deployer or factory.
    """
    delay = default_seed_delay(chain_id) if seed_delay is None else seed_delay
    wanted = Deployment(chain_id, checksum(deployer), phase_floor, delay)
    state = read_deployment(path) if path.exists() else wanted
    if _terms(state) != _terms(wanted):
        raise InputError(
            f"{path} is of {_terms(state)}; this is {_terms(wanted)}: name another folder with --deployments"
        )
    return state


def _terms(state: Deployment) -> str:
    """What a factory is made with, and where."""
    return (
        f"chain {state.chain_id}, deployer {state.deployer}, floor {state.phase_floor} s, "
        f"seed delay {state.seed_delay} blocks"
    )


def creation_code(name: str, state: Deployment) -> bytes:
    """What is sent to create a contract, its libraries linked."""
    addresses = {step: known.address for step, known in state.steps.items()}
    return bytes.fromhex(load(name).link(addresses).removeprefix("0x")) + constructor_arguments(name, state)


def constructor_arguments(name: str, state: Deployment) -> bytes:
    """What a contract's constructor is given, ABI-encoded."""
    if name != FACTORY:
        return b""
    return abi_encode(["uint32", "uint64"], [state.phase_floor, state.seed_delay])


def still_to_deploy(w3: Web3, state: Deployment) -> list[str]:
    """The steps whose code is not on the chain: all of them, where no run has begun."""
    known = state.steps
    return [name for name in plan() if name not in known or not _stands(w3, name, known[name])]


def _stands(w3: Web3, name: str, step: DeployedStep) -> bool:
    """Whether the contract's code is there. After a reorg another's may be: no two have the same length."""
    with outside(f"looking for {name}"):
        return len(w3.eth.get_code(to_checksum_address(step.address))) == _runtime_bytes(name)


def _is_on_its_way(w3: Web3, sender: Sender, step: DeployedStep) -> bool:
    """Whether a run that died has sent this step, and it is not mined yet."""
    with outside("counting the deployer's transactions"):
        mined, sent = (
            w3.eth.get_transaction_count(checksum(sender.address), block) for block in ("latest", "pending")
        )
    return mined <= step.nonce < sent


def _await_step(w3: Web3, sender: Sender, name: str, step: DeployedStep, on_progress: OnProgress) -> bool:
    """Whether the step is done; one that is on its way is waited for."""
    until = time.monotonic() + _PATIENCE
    said = False
    while not _stands(w3, name, step):
        if not _is_on_its_way(w3, sender, step):
            return _stands(w3, name, step)
        if time.monotonic() > until:
            raise LedgerError(
                f"{name}: the transaction with nonce {step.nonce} is not mined after {_PATIENCE:.0f} s: run again later"
            )
        if not said:
            on_progress(f"{name}: sent by an earlier run, not mined yet")
        said = True
        time.sleep(_PAUSE)
    return True


def _deploy_step(
    w3: Web3, sender: Sender, path: Path, state: Deployment, name: str, on_progress: OnProgress
) -> Deployment:
    known = state.steps.get(name)
    if known is not None and _await_step(w3, sender, name, known, on_progress):
        on_progress(f"{name}: already at {known.address}")
        return state

    with outside(f"planning {name}"):
        nonce = w3.eth.get_transaction_count(checksum(sender.address), "pending")  # as it will be sent
        newest = w3.eth.block_number
    address = created_address(sender.address, nonce)

    # What comes later may link to where this was; it is made anew.
    before = {each: state.steps[each] for each in plan()[: plan().index(name)]}
    state = replace(state, steps=before | {name: DeployedStep(checksum(address), nonce, block=newest)})
    write_deployment(path, state)

    # Written down before it is sent: a process killed in between finds the contract at the planned address.
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
    on_progress(f"{name}: {step.address} ({step.gas:,} gas)")
    return state


def created_address(sender: Address, nonce: int) -> Address:
    """Where a contract lands that this sender creates under this nonce."""
    return Address(keccak256(rlp.encode([bytes(sender), rlp.encode_int(nonce)]))[12:])


@dataclass(frozen=True, slots=True)
class Cost:
    """What deploying everything takes."""

    gas: int
    wei: int


def cost_of_deployment(w3: Web3, names: Sequence[str] | None = None) -> Cost:
    """The gas of these steps (all of them), from the size of their code, and what it costs at twice the base fee."""
    gas = 0
    for name in plan() if names is None else names:
        creation = len(load(name).bytecode) // 2
        gas += 53_000 + 200 * _runtime_bytes(name) + 16 * creation + 2 * (creation // 32)
        if name == FACTORY:
            gas += 64_000 + 200 * sum(map(_runtime_bytes, ("StakeRegistry", "TrainingTask")))
    with outside("reading the base fee"):
        base = int(w3.eth.get_block("latest").get("baseFeePerGas", 0))
    return Cost(gas, gas * (2 * base + GWEI))


def _runtime_bytes(name: str) -> int:
    return len(load(name).deployed_bytecode.removeprefix("0x")) // 2
