"""The contracts' bytecode in an EVM within this process: no node, no RPC, thousands of transactions a second."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eth_abi.abi import encode as abi_encode
from pyrevm import EVM, AccountInfo, BlockEnv, CfgEnv, Env

from chainfl.artifacts import Artifact, load
from chainfl.chain.abi import functions
from chainfl.types import Address

RICH: Final = 10**30
_READER: Final = "0x" + "ee" * 20
_HISTORY: Final = "0x0000f90827f1c53a10cb7a02335b175320002935"
_HISTORY_BLOCKS: Final = 8191
_HISTORY_CODE: Final = bytes.fromhex(
    "3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff814303"
    "11604257611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500"
)
"""The bytes that EIP-2935 gives."""
_OUTPUT: Final = re.compile(r"output: 0x([0-9a-f]*)")


Word = int | bytes
"""A static value: a number, twenty bytes of an address or thirty-two bytes."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a contract emitted."""

    address: Address
    topics: tuple[bytes, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """How a transaction ended. `output` holds the returned bytes, or those of the revert."""

    ok: bool
    output: bytes
    logs: tuple[Log, ...]
    gas: int


class Chain:
    """An EVM with a clock that the caller sets."""

    def __init__(self, chain_id: int) -> None:
        """An empty chain."""
        self.evm: Any = EVM(env=Env(cfg=CfgEnv(chain_id=chain_id)))
        self.libraries: dict[str, str] = {}
        self._rich: set[Address] = set()

    def at(self, block_number: int, now: int) -> None:
        """Set the clock."""
        self.evm.set_block_env(BlockEnv(number=block_number, timestamp=now))

    def keep_history(self) -> None:
        """Put EIP-2935's contract where the hashes of the last 8191 blocks are asked for."""
        self.evm.insert_account_info(_HISTORY, AccountInfo(nonce=1, code=_HISTORY_CODE))

    def keep_hash(self, block_number: int, hash_: bytes) -> None:
        """What the history contract knows of a block."""
        slot = block_number % _HISTORY_BLOCKS
        self.evm.insert_account_storage(_HISTORY, slot, int.from_bytes(hash_, "big"))

    def deploy(self, artifact: Artifact, deployer: Address, arguments: bytes = b"") -> Address:
        """Deploy a contract and, once each, the libraries it needs."""
        self._fund(deployer)
        for name in artifact.links:
            if name not in self.libraries:
                self.libraries[name] = "0x" + self.deploy(load(name), deployer).hex()
        code = bytes.fromhex(artifact.link(self.libraries).removeprefix("0x")) + arguments
        found: str = self.evm.deploy(text(deployer), code)
        return Address(bytes.fromhex(found.removeprefix("0x")))

    def send(self, sender: Address, to: Address, data: bytes, value: int = 0) -> Answer:
        """One transaction."""
        self._fund(sender)
        try:
            output = bytes(self.evm.message_call(text(sender), text(to), data, value))
        except RuntimeError as error:
            return Answer(False, _reverted(str(error)), (), self.evm.result.gas_used)
        result = self.evm.result
        logs = tuple(
            Log(
                Address(bytes.fromhex(log.address[2:])),
                tuple(bytes.fromhex(topic.removeprefix("0x")) for topic in log.topics),
                bytes(log.data[1]),
            )
            for log in result.logs
        )
        return Answer(True, output, logs, result.gas_used)

    def read(self, contract: str, at: Address, name: str, *values: object) -> Any:
        """A view's answer; a single value comes bare."""
        function = functions(contract)[name]
        answer = function.result(self._view(at, function.call_data(*values)))
        return answer[0] if len(answer) == 1 else answer

    def expect(
        self, contract: str, at: Address, name: str, arguments: Sequence[Word], expected: bytes
    ) -> None:
        """A view answers just these bytes. Comparing bytes is several times faster than decoding them."""
        function = functions(contract)[name]
        output = self._view(at, function.selector + static(arguments))
        if output != expected:
            found, wanted = function.result(output), function.result(expected)
            raise AssertionError(f"{name}: the contract says {found}, the rules {wanted}")

    def _view(self, at: Address, data: bytes) -> bytes:
        return bytes(self.evm.message_call(_READER, text(at), data, is_static=True))

    def balance(self, of: Address) -> int:
        """Ether at an address."""
        return int(self.evm.get_balance(text(of)))

    def _fund(self, account: Address) -> None:
        if account not in self._rich:
            self._rich.add(account)
            self.evm.set_balance(text(account), RICH)


def text(address: bytes) -> str:
    """An address as the EVM's binding takes it."""
    return "0x" + address.hex()


def _reverted(message: str) -> bytes:
    """The bytes of a revert; whatever else stops the EVM is a fault of the test."""
    found = _OUTPUT.search(message)
    assert found is not None, f"the EVM stopped: {message}"
    return bytes.fromhex(found[1])


def packed(types: Sequence[str], values: Sequence[object]) -> bytes:
    """ABI-encoded constructor arguments."""
    return bytes(abi_encode(types, values))


def static(values: Iterable[Word]) -> bytes:
    """Static values, a word each."""
    return b"".join(
        bytes(value).rjust(32, b"\0") if isinstance(value, bytes) else int(value).to_bytes(32, "big")
        for value in values
    )


def dynamic(*arrays: Sequence[Word]) -> bytes:
    """Arrays of static values, as a function answers them."""
    heads, tail = [], b""
    for each in arrays:
        heads.append(32 * len(arrays) + len(tail))
        tail += static((len(each), *each))
    return static(heads) + tail
