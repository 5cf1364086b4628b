"""The list of who may join, and attempts to join without being on it; they run on bytecode too (tests/agree)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.commitments import keccak256
from chainfl.protocol import errors
from chainfl.protocol.admission import Admission, admit, admit_all, is_listed, leaf_of, list_root
from chainfl.types import Address, Role
from tests.protocol.scene import STRANGER, Scene, address, config, scene, usual_stake

ACCOUNTS = st.binary(min_size=20, max_size=20).map(Address)
ROLES = st.sampled_from([Role.PARTICIPANT, Role.INTERNAL])
ENTRIES = st.lists(
    st.tuples(ACCOUNTS, ROLES), min_size=1, max_size=40, unique_by=lambda entry: bytes(entry[0])
)


def members() -> list[Entry]:
    """Seven participants, and one internal."""
    return [(address(number), Role.PARTICIPANT) for number in range(1, 8)] + [(address(8), Role.INTERNAL)]


def listed(entries: Sequence[Entry]) -> Scene:
    """A task with this list, in which nobody takes part yet."""
    return scene(config(admission_root=list_root(entries)), stakes=())


def bond(played: Scene, owner: Address) -> None:
    """Stake enough to take part."""
    stake = usual_stake(played.task.config)
    played.world.allocate(played.call(owner), played.task_address, stake, stake)


def join(played: Scene, who: Address, shown: Admission) -> None:
    """Stake enough, and enrol with this proof."""
    bond(played, who)
    played.world.enrol_admitted(played.call(who), played.task_address, who, shown)


def shown_for(entries: Sequence[Entry], who: Address) -> Admission:
    """The proof of somebody who is on the list."""
    shown = admit(entries, who)
    assert shown is not None
    return shown


@given(ENTRIES)
def test_a_list_shows_everybody_on_it_in_the_role_it_names_and_in_no_other(entries: list[Entry]) -> None:
    root = list_root(entries)

    assert admit_all(entries) == {who: admit(entries, who) for who, _ in entries}
    for who, role in entries:
        shown = shown_for(entries, who)
        other = Role.INTERNAL if role is Role.PARTICIPANT else Role.PARTICIPANT
        assert shown.role is role
        assert is_listed(root, who, shown)
        assert not is_listed(root, who, Admission(other, shown.proof))


@given(ENTRIES, st.integers(0, 40))
def test_the_order_of_a_list_changes_nothing(entries: list[Entry], cut: int) -> None:
    assert list_root([*entries[cut:], *entries[:cut]]) == list_root(entries)


def test_a_leaf_is_an_account_in_a_role_as_the_contract_encodes_it() -> None:
    words = bytes(12) + address(5) + bytes(31) + b"\x02"

    assert leaf_of(address(5), Role.INTERNAL) == keccak256(words)


def test_whoever_is_on_the_list_joins_and_takes_part_in_a_round() -> None:
    entries = members()
    played = listed(entries)

    for who, _ in entries:
        join(played, who, shown_for(entries, who))
    played.play_round()

    assert played.task.roles == dict(entries)
    assert played.number == 2


def test_nobody_joins_a_task_with_a_list_without_a_proof() -> None:
    played = listed(members())
    bond(played, address(1))

    with pytest.raises(errors.NotAdmittedError):
        played.world.enrol(played.call(address(1)), played.task_address)

    assert played.task.accounts == {}


def test_a_proof_of_admission_admits_no_other_account() -> None:
    entries = members()
    played = listed(entries)

    for thief in (STRANGER, address(2)):
        with pytest.raises(errors.NotAdmittedError):
            join(played, thief, shown_for(entries, address(1)))

    assert played.task.accounts == {}


def test_a_proof_of_admission_admits_to_no_other_role() -> None:
    entries = members()
    played = listed(entries)

    for who, other in ((address(1), Role.INTERNAL), (address(8), Role.PARTICIPANT), (address(1), Role.NONE)):
        with pytest.raises(errors.NotAdmittedError):
            join(played, who, Admission(other, shown_for(entries, who).proof))

    assert played.task.accounts == {}


def test_a_proof_of_admission_to_one_task_admits_to_no_task_with_another_list() -> None:
    entries = members()
    other = listed([(who, role) for who, role in entries if who != address(2)])

    with pytest.raises(errors.NotAdmittedError):
        join(other, address(1), shown_for(entries, address(1)))


def test_a_proof_as_internal_of_one_task_admits_to_no_seat_in_another() -> None:
    entries = members()
    other = listed([(who, Role.PARTICIPANT) for who, _ in entries])

    with pytest.raises(errors.NotAdmittedError):
        join(other, address(8), shown_for(entries, address(8)))
    join(other, address(8), shown_for([(who, Role.PARTICIPANT) for who, _ in entries], address(8)))

    assert other.task.roles == {address(8): Role.PARTICIPANT}


def test_a_task_without_a_list_takes_no_proof() -> None:
    played = scene(stakes=())

    with pytest.raises(errors.NotAdmittedError):
        join(played, address(1), shown_for(members(), address(1)))


def test_a_proof_with_bytes_too_many_or_too_few_admits_nobody() -> None:
    entries = members()
    played = listed(entries)
    path = shown_for(entries, address(1)).proof

    assert len(path) == 3 * 20
    # Cut within and between siblings, from either end; with a byte or a whole sibling more.
    for other in (
        path[:-1],
        path[1:],
        path[:-20],
        path[20:],
        path[:-40],
        b"",
        path + b"\0",
        path + path[:20],
    ):
        with pytest.raises(errors.NotAdmittedError):
            join(played, address(1), Admission(Role.PARTICIPANT, other))


def test_a_proof_without_the_zero_that_it_ends_with_admits_nobody() -> None:
    """Behind the end of a call a contract reads zeros: such a proof reached the root if its length did not count."""
    other = next(
        address(number) for number in range(2, 10_000) if leaf_of(address(number), Role.PARTICIPANT)[19] == 0
    )
    entries = [(address(1), Role.PARTICIPANT), (other, Role.PARTICIPANT)]
    played = listed(entries)
    proof = shown_for(entries, address(1)).proof

    assert (len(proof), proof[-1]) == (20, 0)
    with pytest.raises(errors.NotAdmittedError):
        join(played, address(1), Admission(Role.PARTICIPANT, proof[:-1]))
    join(played, address(1), Admission(Role.PARTICIPANT, proof))


def test_a_list_of_one_needs_an_empty_proof() -> None:
    entries = [(address(1), Role.PARTICIPANT)]
    played = listed(entries)

    with pytest.raises(errors.NotAdmittedError):
        join(played, address(1), Admission(Role.PARTICIPANT, bytes(19)))
    join(played, address(1), Admission(Role.PARTICIPANT, b""))

    assert played.task.roles == {address(1): Role.PARTICIPANT}


def test_a_pair_of_nodes_is_no_entry() -> None:
    entries = members()
    played = listed(entries)
    own = leaf_of(address(1), Role.PARTICIPANT)
    path = shown_for(entries, address(1)).proof
    pair = keccak256(b"".join(sorted((own[:20], path[:20]))))

    # The accounts that a pair, or one of its halves, would be, with what is left of the way up.
    for who in (pair[:20], own[:20], path[:20]):
        for role in (Role.PARTICIPANT, Role.INTERNAL):
            for way in (path, path[20:], path[40:]):
                with pytest.raises(errors.NotAdmittedError):
                    join(played, Address(who), Admission(role, way))


def test_a_node_is_the_leading_bytes_of_two_others_and_the_root_is_whole() -> None:
    one, other = members()[:2]
    leaves = sorted(leaf_of(*entry) for entry in (one, other))

    assert list_root([one, other]) == keccak256(leaves[0][:20] + leaves[1][:20])
    assert shown_for([one, other], one[0]).proof == leaf_of(*other)[:20]
    assert list_root([one]) == leaf_of(*one)


def test_a_list_that_names_anyone_admits_everybody_as_participant_and_nobody_as_internal() -> None:
    entries = [(ANYONE, Role.PARTICIPANT), (address(8), Role.INTERNAL)]
    played = listed(entries)
    shown = shown_for(entries, STRANGER)

    join(played, STRANGER, shown)
    with pytest.raises(errors.NotAdmittedError):
        join(played, address(3), Admission(Role.INTERNAL, shown.proof))

    assert played.task.roles == {STRANGER: Role.PARTICIPANT}


def test_an_operator_shows_its_owners_proof_and_never_its_own() -> None:
    entries = members()
    played = listed(entries)
    key = address(101)
    bond(played, address(1))
    played.world.set_operator(played.call(address(1)), played.task_address, key)

    with pytest.raises(errors.NotAdmittedError):
        played.world.enrol_for(played.call(key), played.task_address, address(1))
    shown = shown_for(entries, address(1))
    played.world.enrol_admitted(played.call(key), played.task_address, address(1), shown)

    assert played.task.operator_of == {address(1): key}
    assert played.task.roles == {address(1): Role.PARTICIPANT}
    assert key not in played.task.accounts


def test_whoever_has_an_id_comes_back_without_a_proof() -> None:
    entries = members()
    played = listed(entries)
    join(played, address(1), shown_for(entries, address(1)))
    played.world.leave(played.call(address(1)), played.task_address)

    played.world.enrol(played.call(address(1)), played.task_address)

    assert played.task.accounts[address(1)].is_enrolled
    assert played.task.roles == {address(1): Role.PARTICIPANT}
