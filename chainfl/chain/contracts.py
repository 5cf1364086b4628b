"""What people do with factory and registry: create tasks, list them, bond stake."""

from dataclasses import astuple, dataclass

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError
from web3.types import TxParams, Wei

from chainfl.chain.abi import as_address, decode_log, functions
from chainfl.chain.reader import read_call
from chainfl.chain.rpc import outside
from chainfl.chain.send import Sender, checksum, in_our_words
from chainfl.codec.text import GWEI
from chainfl.errors import LedgerError
from chainfl.protocol.events import Deallocated, TaskCreated
from chainfl.types import Address, TaskConfig


@dataclass(frozen=True, slots=True)
class CreatedTask:
    """A task on a chain, and the block from which its events are read."""

    task_id: int
    address: Address
    block: int
    gas: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Gas, and the most that it may cost."""

    gas: int
    wei: int


def create_task(sender: Sender, factory: Address, config: TaskConfig, escrow: int) -> CreatedTask:
    """Create a task with its escrow."""
    data = functions("TaskFactory")["createTask"].call_data(astuple(config))
    receipt = sender.send(factory, data, value=escrow)
    for log in receipt["logs"]:
        event = decode_log([bytes(topic) for topic in log["topics"]], bytes(log["data"]))
        if isinstance(event, TaskCreated):
            return CreatedTask(event.task_id, event.task, receipt["blockNumber"], receipt["gasUsed"])
    raise LedgerError(
        "the task was created, but the receipt does not name it: is the factory's address right?"
    )


def cost_of_task(w3: Web3, sponsor: Address, factory: Address, config: TaskConfig, escrow: int) -> Cost:
    """The estimated gas of creating a task, and what it costs at twice the base fee; nothing is sent.

    Raises:
        ProtocolError: the factory refuses the terms.
    """
    data = functions("TaskFactory")["createTask"].call_data(astuple(config))
    call: TxParams = {
        "from": checksum(sponsor),
        "to": checksum(factory),
        "data": HexBytes(data),
        "value": Wei(escrow),
    }
    try:
        with outside("estimating gas"):
            gas = int(w3.eth.estimate_gas(call, "pending"))
            base = int(w3.eth.get_block("latest").get("baseFeePerGas", 0))
    except ContractLogicError as error:
        raise in_our_words(error) from None
    return Cost(gas, gas * (2 * base + GWEI))


def task_count(w3: Web3, factory: Address) -> int:
    """How many tasks the factory has made."""
    return int(read_call(w3, "TaskFactory", factory, "taskCount")[0])


def task_at(w3: Web3, factory: Address, task_id: int) -> Address:
    """The address of a task by number, from 1."""
    return as_address(read_call(w3, "TaskFactory", factory, "taskAt", task_id)[0])


def allocate(sender: Sender, registry: Address, task: Address, amount: int) -> None:
    """Deposit and bond stake to a task in one transaction."""
    sender.send(registry, functions("StakeRegistry")["allocate"].call_data(task, amount), value=amount)


def deallocate(sender: Sender, registry: Address, task: Address, amount: int) -> int:
    """Start to take stake out of a task; answers the number of the request."""
    receipt = sender.send(registry, functions("StakeRegistry")["deallocate"].call_data(task, amount))
    for log in receipt["logs"]:
        event = decode_log([bytes(topic) for topic in log["topics"]], bytes(log["data"]))
        if isinstance(event, Deallocated):
            return event.request
    raise LedgerError("the stake is on its way out, but the receipt does not name the request")


def release(sender: Sender, registry: Address, task: Address, request: int) -> None:
    """Free a request that has waited long enough."""
    sender.send(registry, functions("StakeRegistry")["release"].call_data(task, request))


def withdraw(sender: Sender, registry: Address, amount: int, to: Address) -> None:
    """Send free stake to an account."""
    sender.send(registry, functions("StakeRegistry")["withdraw"].call_data(amount, to))


def set_operator(sender: Sender, registry: Address, task: Address, operator: Address) -> None:
    """Name the key that may act for the sender's stake in a task; the zero address: none."""
    sender.send(registry, functions("StakeRegistry")["setOperator"].call_data(task, operator))


def operator_named(w3: Web3, registry: Address, task: Address, account: Address) -> Address:
    """Whom an account named in a task; the zero address: nobody."""
    return as_address(read_call(w3, "StakeRegistry", registry, "operatorOf", task, account)[0])


def free_stake(w3: Web3, registry: Address, account: Address) -> int:
    """An account's stake that is bound to no task."""
    return int(read_call(w3, "StakeRegistry", registry, "free", account)[0])


def bonded_stake(w3: Web3, registry: Address, task: Address, account: Address) -> int:
    """An account's stake that counts in a task's draws."""
    return int(read_call(w3, "StakeRegistry", registry, "bonded", task, account)[0])


@dataclass(frozen=True, slots=True)
class Unbonding:
    """Stake on its way out: by which number it is released, what it is worth now, and from when on."""

    request: int
    worth: int
    release_at: int


def unbonding(w3: Web3, registry: Address, task: Address, account: Address) -> list[Unbonding]:
    """The account's requests that are not released yet."""
    (allocation,) = read_call(w3, "StakeRegistry", registry, "allocation", task, account)
    found = []
    for number in range(allocation[-1]):
        (request,) = read_call(w3, "StakeRegistry", registry, "request", task, account, number)
        shares, release_at, _ = request
        if shares:
            (worth,) = read_call(w3, "StakeRegistry", registry, "worth", task, account, number)
            found.append(Unbonding(number, int(worth), int(release_at)))
    return found
