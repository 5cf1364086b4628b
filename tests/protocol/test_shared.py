"""A task's draft shares what it does not change: the same answers as a dict, a list and a walk over all weights."""

import time

from hypothesis import given
from hypothesis import strategies as st

from chainfl.codec.commitments import keccak256
from chainfl.codec.json_codec import pack, unpack
from chainfl.protocol.draw import draw_ids
from chainfl.protocol.shared import SharedList, SharedMap
from chainfl.protocol.state import Account, Accounts, Task
from chainfl.protocol.weights import Weights
from chainfl.types import Id
from tests.protocol.scene import Scene, address, enrol, scene, usual_stake

keys = st.integers(0, 120)
steps = st.lists(
    st.tuples(st.sampled_from(("set", "delete", "copy", "back")), keys, st.integers()), max_size=400
)


@given(steps)
def test_a_shared_map_and_its_copies_say_what_dicts_and_theirs_say(taken: list[tuple[str, int, int]]) -> None:
    ours, theirs = SharedMap[int, int](), dict[int, int]()
    earlier: list[tuple[SharedMap[int, int], dict[int, int]]] = []

    for step, key, value in taken:
        if step == "set":
            ours[key] = theirs[key] = value
        elif step == "delete" and key in theirs:
            assert ours.pop(key) == theirs.pop(key)
        elif step == "copy":
            earlier.append((ours, theirs))
            ours, theirs = ours.copy(), dict(theirs)
        elif step == "back" and earlier:
            ours, theirs = earlier.pop()

        assert (len(ours), ours.get(key), key in ours) == (len(theirs), theirs.get(key), key in theirs)

    for one, other in [*earlier, (ours, theirs)]:
        assert one == other
        assert sorted(one) == sorted(other)


@given(st.lists(st.sampled_from(("append", "copy", "back")), max_size=60))
def test_a_shared_list_and_its_copies_say_what_lists_and_theirs_say(taken: list[str]) -> None:
    ours, theirs = SharedList[int](), list[int]()
    earlier: list[tuple[SharedList[int], list[int]]] = []

    for number, step in enumerate(taken):
        if step == "append":
            ours.append(number)
            theirs.append(number)
        elif step == "copy":
            earlier.append((ours, theirs))
            ours, theirs = ours.copy(), list(theirs)
        elif step == "back" and earlier:
            ours, theirs = earlier.pop()

    for one, other in [*earlier, (ours, theirs)]:
        assert one == other
        assert (list(one), one[:3], one[1:]) == (other, other[:3], other[1:])


@given(st.dictionaries(st.integers(1, 900), st.integers(0, 50), min_size=1), st.data())
def test_a_point_falls_on_the_id_that_a_walk_over_all_weights_finds(
    stakes: dict[int, int], data: st.DataObject
) -> None:
    ordered = [(Id(id_), weight) for id_, weight in sorted(stakes.items())]
    weights = Weights.of(ordered)
    tickets = [id_ for id_, weight in ordered for _ in range(weight)]

    assert (weights.total(), weights.staked) == (len(tickets), sum(weight > 0 for _, weight in ordered))
    if tickets:
        point = data.draw(st.integers(0, len(tickets) - 1))
        assert weights.at(point) == tickets[point]


def test_a_change_of_a_copy_leaves_the_weights_of_the_original() -> None:
    weights = Weights.of([(Id(id_), 5) for id_ in range(1, 1001)])

    rest = weights.without([Id(3), Id(700)])

    assert (weights.total(), weights.staked, weights.weight(Id(700))) == (5000, 1000, 5)
    assert (rest.total(), rest.staked, rest.weight(Id(700))) == (4990, 998, 0)


def test_the_weights_of_accounts_are_those_of_their_last_change() -> None:
    accounts = Accounts()
    for number in range(1, 601):
        accounts[address(number)] = Account(Id(number), address(number), True, number, 1)
    changed = accounts.copy()

    changed[address(599)] = Account(Id(599), address(599), False, 0, 1)

    pairs = [(account.id, account.weight) for account in changed.values()]
    assert draw_ids(keccak256(b"x"), changed.weights, 50) == draw_ids(keccak256(b"x"), pairs, 50)
    assert accounts.weights.weight(Id(599)) == 599


def test_a_task_goes_through_a_checkpoint_and_still_draws_the_same() -> None:
    played = scene(stakes=range(1, 301))

    again = unpack(Task, pack(played.task))

    assert again == played.task
    assert draw_ids(keccak256(b"x"), again.accounts.weights, 9) == draw_ids(
        keccak256(b"x"), played.task.accounts.weights, 9
    )


def test_who_enrols_late_does_not_pay_for_all_who_are_there() -> None:
    """Copies of the whole state for each transaction made the 6,000th cost thirty times the first."""
    built = scene()

    first = seconds_to_enrol(built, range(100, 600))
    seconds_to_enrol(built, range(600, 5_600))
    last = seconds_to_enrol(built, range(5_600, 6_100))

    assert last < 4 * first


def seconds_to_enrol(built: Scene, numbers: range) -> float:
    """What a hundred of them took in the best case: neither other threads nor a collection of garbage count."""
    taken = []
    for start in numbers[::100]:
        started = time.thread_time()
        for number in range(start, start + 100):
            enrol(built, address(number), usual_stake(built.task.config))
        taken.append(time.thread_time() - started)
    return min(taken)
