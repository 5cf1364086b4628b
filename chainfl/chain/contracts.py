"""What people do with factory and registry: create tasks, list them, put stake behind themselves."""

from dataclasses import astuple, dataclass

from web3 import Web3

from chainfl.chain.abi import as_address, decode_log, functions
from chainfl.chain.reader import read_call
from chainfl.chain.send import Sender
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
    """Send free stake away."""
    sender.send(registry, functions("StakeRegistry")["withdraw"].call_data(amount, to))


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
