"""The blobs that a bundle takes are enough to redo every round of every rule, and no more than the page says."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from chainfl.audit.history import PlayedRound, rounds
from chainfl.audit.verify import check_round
from chainfl.audit.walk import walk_round
from chainfl.codec import cbor
from chainfl.codec.cid import Cid, Codec
from chainfl.errors import BlobNotFoundError
from chainfl.ports import LoggedEvent
from chainfl.sim.memory import MemoryStore
from chainfl.sim.network import Network, play_round
from chainfl.types import Outcome, Rule
from tests.api.scene import play_lie, play_plain, play_silence, play_void
from tests.sim.network import network


class Bag:
    """Takes what it is told of into a store of its own."""

    def __init__(self, source: MemoryStore) -> None:
        self._source, self.store, self.asked = source, MemoryStore(), list[Cid]()

    def record(self, cid: Cid) -> bytes | None:
        self.asked.append(cid)
        try:
            data = self._source.get(cid, cbor.MAX_BYTES)
        except BlobNotFoundError:
            return None
        self.store.put(data, cid.codec)
        return data

    def chunks(self, model: Cid, chunks: Sequence[Cid]) -> None:
        assert self.store.has(model)
        for chunk in chunks:
            self.record(chunk)


def settled(net: Network) -> list[PlayedRound]:
    task = net.task
    created = task.at_creation()
    log = [LoggedEvent(event, 0) for emitter, event in net.chain.world.log if emitter == task.address]
    return [one for one in rounds(created, log) if one.ended is not None]


def assert_enough(net: Network, one: PlayedRound) -> Bag:
    """What a round's walk takes, alone, gives the same findings as all there is."""
    assert isinstance(net.store, MemoryStore)
    bag = Bag(net.store)
    walk_round(one, bag)
    expected = list(check_round(one, net.store, net.chain.mix_hash))
    assert list(check_round(one, bag.store, net.chain.mix_hash)) == expected
    return bag


@pytest.mark.parametrize("rule", list(Rule))
def test_the_blobs_of_a_round_are_enough_to_redo_it(rule: Rule) -> None:
    net = network(rule, rounds=3)
    for _ in range(3):
        play_round(net)

    for one in settled(net):
        bag = assert_enough(net, one)
        updates = sum(update.revealed is not None for update in one.standing().round.updates.values())
        models = sum(cid.codec is Codec.RAW for cid in bag.asked)
        assert models == updates + 2  # each of these models is one chunk; head and result come to the updates


@pytest.mark.parametrize("play", [play_plain, play_lie, play_void, play_silence])
def test_whatever_happens_in_a_round_its_blobs_are_enough(play: Callable[[Network], None]) -> None:
    net = network(Rule.SOFTMAX, 12, 4)
    play_plain(net)
    play(net)
    play_plain(net)

    for one in settled(net):
        bag = assert_enough(net, one)
        assert (one.outcome is Outcome.VOID) == (len(bag.asked) < 5)


def test_models_of_another_size_than_the_tasks_are_not_followed() -> None:
    net = network(Rule.MEAN, rounds=2)
    play_round(net)
    (one,) = settled(net)
    other = replace(one.before, config=replace(one.before.config, scale=one.before.config.scale + 1))
    foreign = PlayedRound(one.number, other, one.events, one.ended)
    assert isinstance(net.store, MemoryStore)
    bag = Bag(net.store)

    walk_round(foreign, bag)

    assert all(cid.codec is Codec.DAG_CBOR for cid in bag.asked)
