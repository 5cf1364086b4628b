"""What a contract's code says: that it is this release's, which contracts it works with, and a task's frozen terms.

A task's code is `TaskFront`, which every task has, and behind it the task's own terms; libraries and immutable values
are filled into a contract's code when it is created. So the code alone, without a call, shows how a task, its registry,
its factory and its libraries belong together.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError

from chainfl.artifacts import load
from chainfl.chain.abi import as_address, functions
from chainfl.codec.text import hex_of
from chainfl.errors import VerificationError
from chainfl.types import Address, Rule, Statistic, TaskConfig

_ORIGIN = ("address", "address", "uint64", "address", "uint128", "uint128", "uint128", "uint64")
_ORIGIN_BYTES = 32 * len(_ORIGIN)
_PUSH1, _PUSH32 = 0x60, 0x7F


@dataclass(frozen=True, slots=True)
class TaskCode:
    """What is written in a task's code: what it runs, and on which terms."""

    implementation: Address
    registry: Address
    task_id: int
    sponsor: Address
    config: TaskConfig
    seed_delay: int
    libraries: Mapping[str, Address]

    @property
    def parts(self) -> dict[str, Address]:
        """The contracts that it works with."""
        return {"TrainingTask": self.implementation, "StakeRegistry": self.registry}


@dataclass(frozen=True, slots=True)
class Contracts:
    """A task and all contracts whose code decides what it does."""

    task: Address
    made: TaskCode
    factory: Address
    libraries: Mapping[str, Address]

    @property
    def addresses(self) -> dict[str, Address]:
        """All of them by name."""
        return {"task": self.task, "TaskFactory": self.factory, **self.made.parts, **self.libraries}


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a contract's code that is filled when it is created: a library's address, or an immutable value."""

    at: int
    size: int
    library: str | None


@dataclass(frozen=True, slots=True)
class Fill:
    """What stands in those places."""

    libraries: Mapping[str, Address]
    immutables: frozenset[bytes]


CodeOf = Callable[[Address], bytes]
"""The code at an address, empty where there is none."""


def read_task_code(code: bytes) -> TaskCode:
    """The terms in a task's code, behind what the code of every task begins with.

    Raises:
        VerificationError: it is the code of something else.
    """
    front, _ = _template("TaskFront")
    args = code[len(front) :]
    try:
        libraries = fill_of("TaskFront", code[: len(front)]).libraries
    except VerificationError as error:
        raise VerificationError(f"its code is not that of a task: {error}") from error

    terms = functions("TrainingTask")["config"].outputs
    try:
        implementation, registry, task_id, sponsor, *_, delay = abi_decode(_ORIGIN, args[:_ORIGIN_BYTES])
        (values,) = abi_decode(terms, args[_ORIGIN_BYTES:])
        config = as_config(values)
    except (DecodingError, ValueError) as error:
        raise VerificationError(f"the terms in its code cannot be read: {error}") from error

    parts = (as_address(implementation), as_address(registry))
    return TaskCode(*parts, task_id, as_address(sponsor), config, delay, libraries)


def as_config(values: tuple[object, ...]) -> TaskConfig:
    """A task's terms from the values of the contract's struct.

    Raises:
        VerificationError: they name a rule or a statistic that there is not.
    """
    plain = dict(zip(TaskConfig.__dataclass_fields__, values, strict=True))
    rule = plain["rule"]
    statistic = plain["statistic"]
    assert isinstance(rule, int)
    assert isinstance(statistic, int)
    try:
        named = {"rule": Rule(rule), "statistic": Statistic(statistic)}
    except ValueError as error:
        raise VerificationError(f"the task's terms cannot be read: {error}") from error
    return TaskConfig(**plain | named)  # type: ignore[arg-type]


def contracts_of(task: Address, code_of: CodeOf) -> Contracts:
    """The contracts behind a task, every one with this release's code, each naming the others rightly.

    Raises:
        VerificationError: one of them runs another code, or belongs to another one.
    """
    made = read_task_code(code_of(task))
    found = {name: _fill(name, at, code_of) for name, at in made.parts.items()}
    # Each contract holds the others as immutables, so one true task leads to all of them.
    (word,) = _expect_immutables("StakeRegistry", found["StakeRegistry"], 1)
    factory = Address(word[-20:])
    filled = _fill("TaskFactory", factory, code_of)
    words = _expect_immutables("TaskFactory", filled, 4)
    if not {bytes(12) + made.registry, bytes(12) + made.implementation} <= words:
        raise VerificationError(f"factory {hex_of(factory)} makes its tasks with another registry or code")

    # A library's first immutable is its own address, by which it refuses to be called directly.
    libraries = found["TrainingTask"].libraries
    for name, at in (*made.libraries.items(), *filled.libraries.items()):
        if libraries.get(name) != at:
            raise VerificationError(f"task or factory work with another {name} than TrainingTask does")
    for name, at in libraries.items():
        if _expect_immutables(name, _fill(name, at, code_of), 1) != {bytes(12) + at}:
            raise VerificationError(f"{name} {hex_of(at)}: its code does not hold its own address")
    return Contracts(task, made, factory, libraries)


def fill_of(name: str, code: bytes) -> Fill:
    """What was filled into a contract's code when it was created.

    Raises:
        VerificationError: apart from that it is not the code of this release.
    """
    template, holes = _template(name)
    rest = bytearray(code)
    libraries = dict[str, Address]()
    immutables = set[bytes]()

    for hole in holes:
        value = code[hole.at : hole.at + hole.size]
        # Zeros, as in the template: what is left has to be equal byte for byte.
        rest[hole.at : hole.at + hole.size] = bytes(hole.size)
        if hole.library is None:
            immutables.add(value)
        elif libraries.setdefault(hole.library, Address(value)) != value:
            raise VerificationError(f"its code names two addresses for {hole.library}")

    if rest != template:
        raise VerificationError(
            f"its code is not {name} of this release; audit with the release that deployed it"
        )
    return Fill(libraries, frozenset(immutables))


def _fill(name: str, at: Address, code_of: CodeOf) -> Fill:
    try:
        return fill_of(name, code_of(at))
    except VerificationError as error:
        raise VerificationError(f"{name} {hex_of(at)}: {error}") from error


def _expect_immutables(name: str, fill: Fill, most: int) -> frozenset[bytes]:
    if not 1 <= len(fill.immutables) <= most:
        raise VerificationError(f"{name}: its code holds {len(fill.immutables)} immutable values, not {most}")
    return fill.immutables


@cache
def _template(name: str) -> tuple[bytes, tuple[Hole, ...]]:
    """A contract's code with zeros in its holes, and where these are."""
    artifact = load(name)
    code = artifact.deployed_bytecode.removeprefix("0x")
    holes = list[Hole]()
    for library, offsets in artifact.links.items():
        # The same text marks a library in the creation code, where the artifact tells its places.
        mark = artifact.bytecode[2 + 2 * offsets[0] : 42 + 2 * offsets[0]]
        while (at := code.find(mark)) >= 0:
            holes.append(Hole(at // 2, 20, library))
            code = code[:at] + "00" * 20 + code[at + 40 :]
    template = bytes.fromhex(code)
    holes += (Hole(at, 32, None) for at, word in _pushed_words(template) if not any(word))
    return template, tuple(holes)


def _pushed_words(code: bytes) -> Iterator[tuple[int, bytes]]:
    """The 32-byte constants in some code; one of zeros marks an immutable value, for 0 itself is pushed in one byte."""
    at = 0
    while at < len(code):
        size = max(0, code[at] - _PUSH1 + 1) if code[at] <= _PUSH32 else 0
        if size == 32:
            yield at + 1, code[at + 1 : at + 33]
        at += 1 + size
