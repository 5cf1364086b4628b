"""Attacks by and on operators' keys; each runs on bytecode too (tests/agree)."""

from collections.abc import Callable

import pytest

from chainfl.codec import merkle
from chainfl.codec.commitments import finder_note, worker_payload
from chainfl.protocol import errors
from chainfl.protocol.state import FOR_GOOD, NO_ADDRESS
from chainfl.types import Address, Phase
from tests.protocol.scene import SALT, STRANGER, Scene, address, scene, usual_stake, vector


def hired(played: Scene, owner: Address, key: Address) -> None:
    """The owner names the key, and the key accepts."""
    played.world.set_operator(played.call(owner), played.task_address, key)
    played.world.enrol_for(played.call(key), played.task_address, owner)


def stolen() -> tuple[Scene, Address, Address]:
    """A running round, an owner in it, and the key that acts for it."""
    played = scene()
    key = address(101)
    hired(played, address(1), key)
    return played, address(1), key


def commit(played: Scene, key: Address) -> None:
    """The key commits to an update, in its own name."""
    payload = worker_payload(merkle.root(vector(1)), b"\x0c" * 32, 100)
    digest = played.seal(key, Phase.TRAIN, payload)
    played.world.commit_update(played.call(key), played.task_address, played.number, digest)


def reveal(played: Scene, key: Address) -> None:
    """The key opens its commitment."""
    root = merkle.root(vector(1))
    played.models[root] = vector(1)
    played.world.reveal_update(
        played.call(key), played.task_address, played.number, root, b"\x0c" * 32, 100, SALT
    )


def worker_with_key() -> tuple[Scene, Address, Address]:
    """A round in Train, one of its workers, and the worker's operator, who acts since this draw."""
    for number in range(64):  # on bytecode every task draws anew, and one in two owners works
        played = scene()
        owner = address(1 + number % 8)
        key = address(101)
        hired(played, owner, key)
        played.draw()
        if owner in played.workers():
            return played, owner, key
    raise AssertionError("nobody works")


def test_a_stolen_operator_key_moves_no_money() -> None:
    played, owner, key = stolen()
    task = played.task_address
    played.play_round()
    bonded = played.world.registry.allocation(task, owner)
    earned = played.task.credits.get(owner, 0)
    world = played.world
    tries: dict[type[errors.RuleError], list[Callable[[], object]]] = {
        errors.NotEnoughFreeError: [
            lambda: world.withdraw(played.call(key), 1, key),
            lambda: world.allocate(played.call(key), task, 1),
        ],
        errors.NotEnoughBondedError: [lambda: world.deallocate(played.call(key), task, 1)],
        errors.NoSuchRequestError: [lambda: world.release(played.call(key), task, 0)],
        errors.NothingToClaimError: [lambda: world.claim(played.call(key), task, [1])],
        errors.NotSponsorError: [
            lambda: world.abandon(played.call(key), task),
            lambda: world.refund(played.call(key), task),
        ],
        errors.NotOperatorError: [lambda: world.enrol_for(played.call(key), task, address(2))],
        errors.OperatorInUseError: [lambda: world.enrol(played.call(key), task)],
    }

    for refusal, acts in tries.items():
        for act in acts:
            with pytest.raises(refusal):
                act()
    world.set_operator(played.call(key), task, STRANGER)

    assert played.world.registry.allocation(task, owner) == bonded
    assert played.task.credits.get(owner, 0) == earned
    assert played.task.operator_of == {owner: key}
    assert not played.world.registry.free.get(key, 0)


def test_what_an_operator_earns_is_its_owners() -> None:
    played, owner, key = stolen()
    before = played.task.credits.get(owner, 0)
    played.draw()

    played.run_out()
    played.advance(key)
    played.run_out()
    played.advance(key)

    # Train was extended, which earns nothing, and then left.
    assert played.task.credits.get(key, 0) == 0
    assert played.task.credits[owner] == before + played.task.config.caller_fee


def test_the_finders_part_of_an_operators_proof_is_its_owners() -> None:
    played, owner, key = worker_with_key()
    played.to(Phase.PROPOSE)
    wrong = played.aggregate().copy()
    wrong[7] += 1
    played.propose(wrong)
    round_ = played.task.round
    chain = played.task.chain_id
    note = finder_note(chain, played.task_address, round_.number, round_.attempt, 7, key, SALT)
    played.world.note_finding(played.call(key), played.task_address, note)

    played.prove(key, 7)

    assert played.world.registry.free.get(key, 0) == 0
    assert played.world.registry.free[owner] > 0


def test_an_operator_dismissed_in_mid_round_opens_what_it_committed_and_is_out_at_the_next_draw() -> None:
    played, owner, key = worker_with_key()
    task = played.task_address
    commit(played, key)

    played.world.set_operator(played.call(owner), task, NO_ADDRESS)
    played.run_out()
    for worker in [w for w in played.workers() if w != owner]:
        played.now -= 1
        played.commit(worker)
        played.now += 1
    played.advance()
    reveal(played, key)
    id_ = played.task.accounts[owner].id
    assert played.task.round.updates[id_].revealed is not None
    assert key not in played.task.accounts
    for worker in [w for w in map(played.who, played.task.round.updates) if w != owner]:
        played.reveal(worker)
    played.advance()
    played.play_round()

    played.draw()
    with pytest.raises(errors.NotEnrolledError):
        commit(played, key)


def test_an_operator_named_in_mid_round_acts_from_the_next_draw_on() -> None:
    played, owner, key = worker_with_key()
    other = address(102)
    hired(played, owner, other)

    with pytest.raises(errors.NotEnrolledError):
        commit(played, other)
    commit(played, key)

    assert played.task.operators[key].until == played.number + 1
    assert played.task.operators[other].since == played.number + 1


def test_a_commitment_of_the_operator_cannot_be_opened_by_anybody_else() -> None:
    played, owner, key = worker_with_key()
    commit(played, key)
    for worker in [w for w in played.workers() if w != owner]:
        played.commit(worker)
    played.advance()

    with pytest.raises(errors.WrongRevealError):
        reveal(played, owner)
    with pytest.raises(errors.NotEnrolledError):
        reveal(played, STRANGER)
    reveal(played, key)


def test_nobody_can_make_somebody_elses_key_its_operator() -> None:
    """Naming binds nobody: the key goes on as it was until it accepts by itself."""
    played = scene()
    task = played.task_address
    victim = address(50)
    played.world.set_operator(played.call(address(1)), task, victim)

    played.world.allocate(played.call(victim), task, *(2 * [usual_stake(played.task.config)]))
    played.world.enrol(played.call(victim), task)

    assert played.task.accounts[victim].is_enrolled
    with pytest.raises(errors.OperatorInUseError):
        played.world.enrol_for(played.call(victim), task, address(1))


def test_one_key_acts_for_one_owner() -> None:
    played, _, key = stolen()
    task = played.task_address
    played.world.set_operator(played.call(address(2)), task, key)

    with pytest.raises(errors.OperatorInUseError):
        played.world.enrol_for(played.call(key), task, address(2))


def test_a_key_called_back_before_the_next_draw_never_stopped() -> None:
    played, owner, key = worker_with_key()
    task = played.task_address
    since = played.task.operators[key].since
    played.world.set_operator(played.call(owner), task, NO_ADDRESS)

    hired(played, owner, key)

    assert played.task.operators[key].since == since
    assert played.task.operators[key].until == FOR_GOOD
    commit(played, key)
