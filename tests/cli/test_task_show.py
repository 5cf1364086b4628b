"""What `chainfl task show` says of a task in each phase."""

import pytest

from chainfl.cli.task_show import attempt_text, next_step, plain_manifest, plain_terms, waited_for
from chainfl.codec.manifest import AppManifest
from chainfl.codec.records import Layout, Tensor
from chainfl.protocol.term_table import TERMS
from chainfl.types import Phase, Rule
from tests.protocol.scene import config, scene

PHASES = [Phase.TRAIN, Phase.REVEAL, Phase.SCORE, Phase.TALLY, Phase.PROPOSE, Phase.CHALLENGE]


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_says_whom_it_waits_for(phase: Phase) -> None:
    played = scene()
    played.to(phase)
    task = played.task
    said = next_step(task)
    ids = waited_for(task)

    assert task.round.phase is phase
    assert all(str(id_) in said for id_ in ids)
    assert bool(ids) == (phase is not Phase.TRAIN)
    if phase in (Phase.SCORE, Phase.TALLY, Phase.CHALLENGE):
        assert set(ids) == set(task.round.committee)


def test_a_validator_that_acted_is_waited_for_no_longer() -> None:
    played = scene()
    played.to(Phase.SCORE)
    first, *others = played.committee()
    played.commit_scores(first)

    assert waited_for(played.task) == played.ids(others)


def test_a_later_attempt_says_why_there_is_one() -> None:
    assert attempt_text(1) == (
        "2: the first proposer was silent, outvoted or convicted, so the next one proposes"
    )
    assert attempt_text(2).startswith("3: the first 2 proposers were silent")


def test_every_term_is_told() -> None:
    told = plain_terms(config(Rule.FEDROB))

    assert set(told) == {term.name for term in TERMS}
    assert told["rule"] == "fedrob"
    assert isinstance(told["min_stake"], str)


def test_a_task_of_an_app_names_the_app_and_its_digest() -> None:
    layout = Layout((Tensor("w", (4,)),))
    manifest = AppManifest("mine", "ab" * 32, (), (), 0, 300, 20, layout)

    told = plain_manifest(manifest)

    assert (told["app"], told["digest"]) == ("mine", "ab" * 32)
