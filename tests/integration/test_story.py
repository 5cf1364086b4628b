"""A task told from its events: a captured committee is shown as such, and each update with its loss."""

from collections.abc import Callable
from pathlib import Path

from chainfl.devnet.story import Story
from chainfl.types import Phase, Rule
from tests.integration.chain import devchain, open_task
from tests.protocol.scene import ETHER


def test_a_captured_committee_is_shown_as_such(tmp_path: Path, require: Callable[[str], Path]) -> None:
    require("anvil")
    with devchain(tmp_path) as chain:
        task = open_task(chain, Rule.SOFTMAX, rounds=1, escrow=ETHER // 5)
        next(iter(task.people.values())).ledger.draw()
        reader = task.reader()
        drawn = reader.refresh()
        committee = [drawn.by_id(id_).address for id_ in drawn.round.committee]
        task.live(2)
        assert reader.refresh().round.phase is Phase.ENDED

        def told(hostile: int) -> tuple[Story, list[str]]:
            lines = list[str]()
            story = Story(reader.created, {}, frozenset(committee[:hostile]), lines.append)
            for logged in reader.log:
                story.take(logged.event, logged.block_number)
            return story, lines

        (one, minority), (two, majority) = told(1), told(2)

        (facts,) = one.rounds
        assert set(facts.losses) == set(facts.shares)
        assert all(loss > 0 for loss in facts.losses.values())
        assert len([line for line in minority if line.startswith("  losses     ")]) == 1
        assert (one.rounds[0].hostile_committee, two.rounds[0].hostile_committee) == (1, 2)
        assert not [line for line in minority if "captured" in line]
        (line,) = (line for line in majority if "captured" in line)
        assert line.startswith("  draw       committee ")
        assert line.endswith("<- captured: a hostile majority")
