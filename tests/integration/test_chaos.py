"""Rounds under seeded faults of every kind: nobody honest pays for them, every round ends, audits, and replays."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chainfl.audit.history import PlayedRound
from chainfl.audit.verify import Verdict
from chainfl.chain.contracts import bonded_stake
from chainfl.chain.reader import read_call
from chainfl.protocol import events
from chainfl.types import Outcome, Phase
from chainfl.workflows.audit import audit, played_rounds
from tests.integration.again import expect_the_same_roots_again
from tests.integration.chaos import BEYOND, LONGEST, Fault, Kind, Nemesis, schedule
from tests.integration.chaos_rig import STAKE, Rig, open_rig
from tests.integration.links import HOST, open_links
from tests.processes import await_that

SEED = int(os.environ.get("CHAINFL_CHAOS_SEED", "20261118"))
SHORT, LONG = 10, 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_rounds_of_chaos_cost_nobody_honest_anything(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")

    survive(require("ipfs"), tmp_path, schedule(SEED, SHORT), SHORT)


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_two_hundred_rounds_of_chaos_cost_nobody_honest_anything(
    tmp_path: Path, require: Callable[[str], Path]
) -> None:
    require("anvil")
    rounds = int(os.environ.get("CHAINFL_CHAOS_ROUNDS", LONG))

    survive(require("ipfs"), tmp_path, schedule(SEED, rounds, BEYOND), rounds)


def survive(program: Path, home: Path, plan: list[Fault], rounds: int) -> None:
    """Play a task under these faults and hold it to all that must be true afterwards."""
    with open_rig(program, home, rounds) as rig:
        nemesis = Nemesis(rig, list(plan))
        with told(nemesis, plan):
            play(nemesis, min(70.0 * rounds + 100, 7000.0))

            played = played_rounds(rig.reader)
            assert_all_kinds_came(nemesis, rounds)
            assert_nobody_paid_who_is_not_excused(rig, nemesis)
            assert_every_round_ended_for_a_reason(played, rounds, nemesis)
            assert_fold_is_the_contracts_state(rig)
            assert_audits(rig, rounds)
            expect_the_same_roots_again(rig.reader)


@contextmanager
def told(nemesis: Nemesis, plan: list[Fault]) -> Iterator[None]:
    """A failure comes with the seed, the schedule and what was done."""
    try:
        yield
    except BaseException as error:
        error.add_note(story(nemesis, plan))
        raise
    finally:
        nemesis.heal(everything=True)
        (nemesis.rig.home / "story.txt").write_text(story(nemesis, plan))


def story(nemesis: Nemesis, plan: list[Fault]) -> str:
    """The seed, the schedule, what was done, and how each round ended."""
    reader = nemesis.rig.reader
    log = [logged.event for logged in reader.log]
    ended = [
        f"round {event.round}: {event.outcome.name}" for event in log if isinstance(event, events.RoundEnded)
    ]
    silent = [str(event) for event in log if isinstance(event, events.Silent)]
    planned = ["planned:", *map(str, plan)]
    deaths = [f"died at {place}" for place in nemesis.rig.nodes.deaths()]
    return "\n".join((f"CHAINFL_CHAOS_SEED={SEED}", *planned, *nemesis.said, *deaths, *ended, *silent))


def play(nemesis: Nemesis, seconds: float) -> None:
    """Let the nodes play the task to its end, with the faults of the schedule."""
    rig = nemesis.rig

    def is_over() -> bool:
        rig.nodes.revive()
        nemesis.heal()
        if rig.is_chain_away or not nemesis.strike(rig.reader.refresh()):
            return False

        # Read anew: a reorg may just have taken back what everybody had done, and then no deadline may pass.
        task = rig.reader.refresh()
        nemesis.pass_time(task)
        return task.round.phase is Phase.ENDED

    await_that(is_over, seconds, "the end of the task", pause=0.1)


# What must be true


def assert_all_kinds_came(nemesis: Nemesis, rounds: int) -> None:
    """The schedule was not idle: faults of every kind came, and only the last ones found no time any more."""
    assert nemesis.came == set(Kind)
    assert [fault for fault in nemesis.pending if fault.round < rounds - 1] == []
    assert nemesis.rig.nodes.deaths(), "nobody died in the middle of a step"


def assert_nobody_paid_who_is_not_excused(rig: Rig, nemesis: Nemesis) -> None:
    """No conviction, no silence but of who was kept from its duty, and everybody else's stake is whole."""
    log = [logged.event for logged in rig.reader.log]
    assert [event for event in log if isinstance(event, events.LieProven | events.Convicted)] == []
    silent = {(event.round, event.id) for event in log if isinstance(event, events.Silent)}
    assert silent <= nemesis.excused

    task, registry = rig.reader.task, rig.chain.deployment.registry_address
    slashed = {id_ for _, id_ in silent}
    for account in task.accounts.values():
        stake = bonded_stake(rig.chain.w3, registry, task.address, account.address)
        assert (stake == STAKE) is (account.id not in slashed), f"{account.id} has {stake}"


def assert_every_round_ended_for_a_reason(played: list[PlayedRound], rounds: int, nemesis: Nemesis) -> None:
    """Every phase was left, and a round without an absence is Final."""
    assert [one.number for one in played] == list(range(1, rounds + 1))
    absences = {number for number, _ in nemesis.excused}
    for one in played:
        assert one.outcome is Outcome.FINAL or one.number in absences, (
            f"round {one.number} is void: {reason(one)}"
        )
        assert reason(one)


def reason(played: PlayedRound) -> str:
    """Why a round ended as it did, from its events alone."""
    standing = played.standing()
    round_, config = standing.round, standing.config
    if played.outcome is Outcome.FINAL:
        attested = sum(round_.votes.values())
        return f"{attested} of {len(round_.committee)} attest" if 2 * attested > len(round_.committee) else ""
    if len(round_.updates) < config.min_updates:
        return "too few commitments, Train extended" if round_.extended else ""
    if round_.tally is None:
        return ""
    if sum(round_.tally.included) < config.min_updates:
        return "too few updates included"
    return "no proposal was attested" if round_.attempt == 3 else ""


def assert_fold_is_the_contracts_state(rig: Rig) -> None:
    """What the events tell is what the contract holds, after all that reorgs took back."""
    told_, address = rig.reader.refresh(), rig.made.address

    def view(name: str) -> object:
        return read_call(rig.chain.w3, "TrainingTask", address, name)[0]

    place = view("place")
    assert isinstance(place, tuple)
    assert place[0] == told_.round.number
    assert place[2] == told_.round.phase
    for name, value in (
        ("headRoot", told_.head_root),
        ("headBlock", told_.head_block),
        ("escrow", told_.escrow),
        ("owed", told_.owed),
        ("eligible", told_.eligible),
    ):
        assert view(name) == value, name


def assert_audits(rig: Rig, rounds: int) -> None:
    """Every round is redone without a difference, with the bytes of either daemon."""
    for daemon in rig.daemons:
        audited = list(audit(rig.reader, daemon.node.store))
        bad = [(one.played.number, f) for one in audited for f in one.findings if f.verdict is not Verdict.OK]
        assert bad == []
        assert len(audited) == rounds


# The tools


def test_a_schedule_is_a_function_of_its_seed_and_names_every_kind_early() -> None:
    plan = schedule(SEED, LONG, BEYOND)

    assert plan == schedule(SEED, LONG, BEYOND)
    assert plan != schedule(SEED + 1, LONG, BEYOND)
    assert [fault.round for fault in plan] == sorted(fault.round for fault in plan)
    assert {fault.kind for fault in plan if fault.round <= SHORT - 2} == set(Kind)
    assert any(fault.seconds == BEYOND for fault in plan)
    assert all(fault.seconds <= LONGEST for fault in schedule(SEED, LONG))


def test_a_link_can_be_cut_held_and_mended() -> None:
    with socket.create_server((HOST, 0)) as server, open_links() as links:
        link = links.add(lambda: int(server.getsockname()[1]))

        near, far = connected(link.port, server)
        near.sendall(b"through")
        assert far.recv(100) == b"through"

        link.hold()
        near.sendall(b"held")
        far.settimeout(0.3)
        with pytest.raises(TimeoutError):
            far.recv(100)
        link.mend()
        far.settimeout(20)
        assert far.recv(100) == b"held"

        link.cut()
        with pytest.raises(ConnectionResetError):
            near.recv(100)
        # Reset at once: while it is made, or when it is read.
        with pytest.raises(ConnectionResetError), socket.create_connection((HOST, link.port), 20) as refused:
            refused.recv(100)
        link.mend()
        near.close()
        far.close()

        near, far = connected(link.port, server)
        link.loss = 1.0
        near.sendall(b"lost")
        with pytest.raises(ConnectionResetError):
            near.recv(100)
        near.close()
        far.close()


def connected(port: int, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over a link."""
    near = socket.create_connection((HOST, port), 20)
    server.settimeout(20)
    far, _ = server.accept()
    far.settimeout(20)
    return near, far
