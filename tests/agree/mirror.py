"""A world that also acts on the contracts' bytecode: what is written for the rules is tried on both.

Every action goes through a `Twin`, which compares answers, refusals, events and state; whatever else is asked,
the rules answer.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, cast

from chainfl.codec import merkle
from chainfl.protocol.state import Call
from chainfl.protocol.world import World
from chainfl.types import Address, TaskConfig
from tests.agree.evm import Chain
from tests.agree.twin import CHAIN_ID, Twin, new_twin
from tests.protocol import scene as scenes
from tests.protocol.scene import ETHER, HEAD, REACH, SPONSOR, Scene, config

FIRST: Final = 0x1000
"""Participants live above the precompiled contracts, which refuse ether."""
_ACTIONS: Final = frozenset(
    [
        "deposit",
        "allocate",
        "deallocate",
        "release",
        "set_operator",
        "enrol",
        "enrol_for",
        "enrol_admitted",
        "leave",
        "apply_change",
        "note_absent",
        "commit_update",
        "reveal_update",
        "commit_scores",
        "reveal_scores",
        "tally",
        "propose",
        "vote",
        "note_finding",
        "prove",
        "advance",
        "claim",
        "abandon",
        "refund",
    ]
)


class Mirror:
    """Looks like a `World`; its transactions run twice."""

    def __init__(self, twin: Twin) -> None:
        """A world over a twin of its own."""
        self.twin = twin

    def __getattr__(self, name: str) -> Any:
        """An action in both worlds, or what the rules know."""
        if name not in _ACTIONS:
            return getattr(self.twin.world, name)
        return lambda call, *arguments: self._act(name, call, *arguments)

    def draw(self, call: Call, task: Address, header: bytes, block_hash: object) -> object:
        """A draw; without a hash the block has to be out of the chain's reach."""
        opened = self.twin.world.tasks[task].round.draw_block
        assert (block_hash is None) == (call.block_number - opened > REACH)
        return self._act("draw", call, task, header)

    def withdraw(self, call: Call, amount: int, to: Address) -> object:
        """Free stake goes to its owner."""
        assert to == call.sender
        return self._act("withdraw", call, amount)

    def _act(self, name: str, call: Call, *arguments: object) -> object:
        self.twin.now, self.twin.block = call.now, call.block_number - 1
        if name == "propose" and len(arguments) == 5:
            arguments = (*arguments, ())
        if name == "allocate" and len(arguments) == 2:
            arguments = (*arguments, 0)
        getattr(self.twin, name)(call.sender, *arguments)
        if self.twin.refusal is not None:
            raise self.twin.refusal
        for task in self.twin.world.tasks:
            self.twin.check(task)
        return self.twin.result


@cache
def _chain() -> Chain:
    return Chain(CHAIN_ID)


def address(number: int) -> Address:
    """The address of participant `number`."""
    return scenes.address(FIRST + number)


def scene(
    terms: TaskConfig | None = None, stakes: Sequence[int] = (1,) * 8, escrow: int = ETHER // 2
) -> Scene:
    """The scene of the rules' tests, in both worlds."""
    terms = terms or config()
    twin = new_twin(_chain())
    task = twin.create_task(SPONSOR, terms, escrow)
    if task is None:
        assert twin.refusal is not None
        raise twin.refusal
    built = Scene(cast(World, Mirror(twin)), task, models={merkle.root(HEAD): HEAD}, block=twin.block)
    for number, amount in enumerate(stakes, 1):
        scenes.enrol(built, address(number), amount * scenes.usual_stake(terms))
    return built
