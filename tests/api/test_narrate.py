"""The demonstration and the dashboard tell a round in the same sentences."""

import pytest

from chainfl.api.narrate import steps_of
from chainfl.api.rounds import placed
from chainfl.api.source import PlacedEvent
from chainfl.audit.history import PlayedRound, rounds
from chainfl.audit.narrate import describe
from chainfl.codec.text import short_hex
from chainfl.devnet.story import Story
from chainfl.protocol import events
from chainfl.protocol.state import Task
from chainfl.sim.network import training
from chainfl.types import Id, Phase, Rule
from tests.api.scene import Scene, play_lie, play_plain, play_silence, play_void, scene
from tests.roles.test_way_back import NOWHERE, capture, lose_head

TOLD_TWICE = (
    events.Drawn,
    events.Tallied,
    events.Proposed,
    events.Voted,
    events.LieProven,
    events.Convicted,
    events.Silent,
    events.RoundEnded,
)

LABELS = {"draw", "score", "propose", "challenge", "convicted", "slashed", "end"}


@pytest.fixture(scope="module")
def played() -> list[PlayedRound]:
    """A plain round, one with a lie, one with silence, and one that is void."""
    made = scene()
    for play in (play_plain, play_lie, play_silence, play_void):
        play(made.net)
    return played_rounds(made)


def played_rounds(made: Scene) -> list[PlayedRound]:
    log = made.source.refresh().tasks[made.net.ledger.address]
    return [one for one in rounds(log.created, log.events) if one.ended is not None]


def numbered(task: Task) -> dict[bytes, str]:
    return {bytes(address): f"#{account.id}" for address, account in task.accounts.items()}


def test_demonstration_and_dashboard_say_the_same(played: list[PlayedRound]) -> None:
    last = played[-1].standing()
    lines = list[str]()
    story = Story(played[0].before, numbered(last), frozenset(), lines.append)
    shown = list[str]()
    for one in played:
        for logged in one.events:
            story.take(logged.event, logged.block_number)
        shown += [
            step.text
            for step in steps_of(one.standing(), placed(one))
            if step.event in {kind.__name__ for kind in TOLD_TWICE}
        ]

    told = [line[13:] for line in lines if line[2:12].strip() in LABELS]
    assert [text.lower() + "." for text in told] == [text.lower() for text in shown]
    assert {step for step in LABELS if any(line[2:12].strip() == step for line in lines)} == LABELS


def test_what_a_round_with_a_lie_is_told_as(played: list[PlayedRound]) -> None:
    steps = steps_of(played[1].standing(), placed(played[1]))
    told = {step.event: step for step in steps}

    lie = next(e.event for e in played[1].events if isinstance(e.event, events.LieProven))
    guilty = next(e.event for e in played[1].events if isinstance(e.event, events.Convicted))
    assert told["LieProven"].tone == "bad"
    assert told["LieProven"].text == (
        f"LIE PROVEN on chain: parameter 123 should be {lie.expected} and is {lie.found}; "
        f"shown by {short_hex(lie.finder)}."
    )
    assert any(
        step.text == f"#{guilty.id} is convicted and loses {guilty.slashed / 10**18:.4f} ETH of stake."
        for step in steps
    )
    assert told["RoundEnded"].tone == "good"
    assert told["RoundEnded"].text.startswith("Final: 0x")
    assert [step.phase for step in steps if step.event == "LieProven"] == ["challenge"]


def test_who_does_not_reveal_and_who_is_silent_are_told_apart(played: list[PlayedRound]) -> None:
    texts = [step.text for step in steps_of(played[2].standing(), placed(played[2]))]

    assert sum(" did not reveal and loses " in text for text in texts) == 1
    assert sum(" was silent in challenge and loses " in text for text in texts) == 1


def test_a_void_round_says_why(played: list[PlayedRound]) -> None:
    steps = steps_of(played[3].standing(), placed(played[3]))

    assert [step.text for step in steps if step.event == "TrainExtended"] == [
        "Too few updates in time: training runs once more."
    ]
    assert (steps[-1].text[:7], steps[-1].tone) == ("Void: 0", "warn")


def test_a_head_that_is_lost_and_bytes_that_nobody_has_are_told() -> None:
    made = scene(rounds=6)
    play_plain(made.net)
    capture(made.net)
    lose_head(made.net)
    lost = played_rounds(made)[2]

    steps = steps_of(lost.standing(), placed(lost))

    assert [(step.text, step.tone) for step in steps if step.event == "HeadDropped"] == [
        (f"A majority cannot get the head {short_hex(NOWHERE)}: the one before it is head again.", "warn")
    ]
    one = hiding()
    (hidden,) = (e.event for e in one.events if isinstance(e.event, events.Silent))
    told = [step.text for step in steps_of(one.standing(), placed(one)) if step.event == "Silent"]
    assert told == [
        f"#{hidden.id} showed an update that a majority could not get and loses "
        f"{hidden.slashed / 10**18:.4f} ETH of stake."
    ]


def hiding() -> PlayedRound:
    """A round in which one worker keeps its bytes to itself."""
    made = scene()
    net = made.net
    net.ledger.draw()
    net.play(Phase.TRAIN, net.commit_updates, training(net.task))
    before = set(net.store._blobs)  # type: ignore[attr-defined]
    first, *others = sorted(net.task.round.updates)
    net.reveal_updates([first])
    for cid in set(net.store._blobs) - before:  # type: ignore[attr-defined]
        del net.store._blobs[cid]  # type: ignore[attr-defined]
    net.play(Phase.REVEAL, net.reveal_updates, others)
    net.chain.now = net.task.round.deadline - 10
    net.play(Phase.SCORE, net.commit_scores, list(net.task.round.committee))
    net.play(Phase.TALLY, net.reveal_scores, sorted(net.task.round.scores))
    (one,) = played_rounds(made)
    return one


def test_who_is_absent_and_an_election_that_is_dropped_are_told(played: list[PlayedRound]) -> None:
    task = played[0].standing()

    def told(event: events.Event) -> str:
        sentence = describe(task, event, lambda account: numbered(task)[account])
        assert sentence is not None
        return sentence.text

    assert told(events.Absent(1, Id(4), 2)) == "#4 was drawn and did not commit, 2 of 3 times"
    assert told(events.Absent(1, Id(4), 3)) == "#4 did not commit 3 times in a row and is out of the draw"
    assert "another is drawn" in told(events.ElectionDropped(1))


def test_a_rule_without_losses_tells_of_none() -> None:
    made = scene(Rule.MEDIAN)
    play_plain(made.net)
    (one,) = played_rounds(made)
    tallied = next(e for e in one.events if isinstance(e.event, events.Tallied))
    assert isinstance(tallied, PlacedEvent)

    sentence = describe(one.standing(), tallied.event, lambda account: account.hex())

    assert sentence is not None
    assert (
        sentence.text
        == f"{len(one.standing().round.order)} of {len(one.standing().round.order)} updates count"
    )
