"""A run as nodes play it, told as a trace, gives the same model roots when the simulator plays it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pytest

from chainfl.audit.history import PlayedRound, rounds
from chainfl.audit.trace import trace_of
from chainfl.blobs import get_record
from chainfl.cli.app import run
from chainfl.codec.cid import Cid
from chainfl.codec.commitments import keccak256
from chainfl.codec.records import Manifest
from chainfl.codec.text import ETHER
from chainfl.codec.vector import Vector
from chainfl.errors import InputError, VerificationError
from chainfl.learning.attacks import poisoned, worker_attack
from chainfl.learning.datasets import load
from chainfl.learning.partition import partition
from chainfl.learning.trainer import Trainer, spec_of_manifest
from chainfl.ports import LoggedEvent
from chainfl.protocol.events import Drawn
from chainfl.protocol.terms import Floors
from chainfl.protocol.world import World
from chainfl.roles.participant import Participant
from chainfl.sim.memory import Chain, MemoryJournal, MemoryLedger, MemoryStore
from chainfl.sim.network import Network, play_round
from chainfl.sim.replay import (
    Replayed,
    participants_of,
    read_participants,
    read_trace,
    replay,
)
from chainfl.types import Address, Id, Outcome
from chainfl.workflows.sponsor import Terms, prepare_task
from tests.roles.test_way_back import capture, lose_head

CLIENTS, ROUNDS, SEED = 11, 3, 7
NAMES = [f"p{number:02}" for number in range(1, CLIENTS + 1)]
ATTACKS = {"p10": "label-flip", "p11": "label-flip"}
KEEPER, SPONSOR, TASK = (Address(keccak256(name)[:20]) for name in (b"anyone", b"payer", b"the task"))


@dataclass(slots=True)
class Sleepy(Network):
    """Real participants, some of whom miss a step in some rounds."""

    asleep: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def commit_updates(self, ids: Sequence[Id]) -> None:
        Network.commit_updates(self, self._awake("train", ids))

    def reveal_updates(self, ids: Sequence[Id]) -> None:
        Network.reveal_updates(self, self._awake("reveal", ids))
        for account in self.task.addresses:
            self.ledger.apply_change(account)

    def commit_scores(self, ids: Sequence[Id]) -> None:
        Network.commit_scores(self, self._awake("score", ids))

    def propose(self, ids: Sequence[Id]) -> None:
        Network.propose(self, self._awake("propose", ids))

    def vote(self, ids: Sequence[Id]) -> None:
        Network.vote(self, self._awake("vote", ids))

    def _awake(self, step: str, ids: Sequence[Id]) -> list[Id]:
        number = self.task.round.number
        sleeping = self.asleep.get(step, set())
        first = [place for place, id_ in enumerate(ids) if (number, -1) in sleeping and place == 0]
        return [id_ for place, id_ in enumerate(ids) if (number, id_) not in sleeping and place not in first]


def live_network(rule: str, *, queued: bool = False, rounds: int = ROUNDS) -> tuple[Sleepy, Manifest]:
    """Participants with the trainers that nodes make, their stakes, and a task as a sponsor creates it."""
    store = MemoryStore()
    terms = Terms(
        rule=rule,
        rounds=rounds,
        min_updates=3 if queued else CLIENTS - 3 - (0 if rule.startswith("committee") else 1),
        score_samples=40,
        escrow=rounds * ETHER // 5,
    )
    config = prepare_task(store, terms)
    manifest = get_record(store, Cid.dag_cbor(config.manifest), Manifest)
    chain = Chain(World(1337, Address(b"\xaa" * 20), Floors(1)), keccak256(b"another chain"))
    chain.world.create_task(chain.call(SPONSOR), TASK, config, terms.escrow)
    dataset = load(manifest.dataset)
    parts = partition(dataset, "iid", CLIENTS, SEED)
    participants = {}
    for client, name in enumerate(NAMES):
        account = Address(keccak256(name.encode())[:20])
        ledger = MemoryLedger(chain, TASK, account)
        stake = (1 + client % 3) * ETHER * 2
        chain.world.allocate(chain.call(account), TASK, stake, stake)
        ledger.enrol()
        trainer = Trainer.of_rows(
            spec_of_manifest(manifest), dataset, parts[client], master_seed=SEED, id_=client, threads=1
        )
        if name in ATTACKS:
            attack, _ = worker_attack(ATTACKS[name])
            trainer = trainer.on(
                poisoned(trainer.train_on, attack, dataset.classes),
                poisoned(trainer.held_out, attack, dataset.classes),
            )
        participants[account] = Participant(ledger, store, trainer, MemoryJournal(keccak256(account)))
    net = Sleepy(chain, MemoryLedger(chain, TASK, KEEPER), store, participants, {})
    if not queued:
        chain.world.tasks[TASK].config = replace(config, min_updates=5 if "krum" in rule else 3)
    return net, manifest


def written(
    folder: Path, net: Network, manifest: Manifest, played: Sequence[PlayedRound]
) -> tuple[Path, Path]:
    trace, participants = folder / "trace.json", folder / "people.json"
    trace.write_text(
        json.dumps({"metrics": trace_of(net.task.config, manifest, with_enrolment(net, played))})
    )
    participants.write_text(json.dumps(participants_of(NAMES, ATTACKS)))
    return trace, participants


def with_enrolment(net: Network, played: Sequence[PlayedRound]) -> list[PlayedRound]:
    """The rounds as a chain's reader cuts them: the first one begins with the task's creation."""
    cut = cut_of(net)
    assert [one.number for one in cut] == [one.number for one in played]
    return cut


def cut_of(net: Network) -> list[PlayedRound]:
    """What was played, from the network's events."""
    task = net.task
    log = [LoggedEvent(event, 0) for emitter, event in net.chain.world.log if emitter == task.address]
    return [one for one in rounds(task.at_creation(), log) if one.ended is not None]


def play_again(
    folder: Path, net: Network, manifest: Manifest, played: Sequence[PlayedRound]
) -> list[Replayed]:
    trace, participants = written(folder, net, manifest, played)
    return list(replay(read_trace(trace), read_participants(participants)))


def roots(played: Sequence[PlayedRound]) -> list[str]:
    return [one.ended.head_root.hex() for one in played if one.ended is not None]


@pytest.mark.parametrize("rule", ["softmax", "committee-near", "fedrob:b=1,alpha=0.9", "krum:f=1"])
def test_a_replayed_run_has_the_same_model_root_in_every_round(tmp_path: Path, rule: str) -> None:
    net, manifest = live_network(rule)
    played = [play_round(net) for _ in range(ROUNDS)]

    again = play_again(tmp_path, net, manifest, played)

    assert [one.model_root for one in again] == roots(played)
    assert all(one.same for one in again)
    assert len(set(roots(played))) == ROUNDS


@pytest.mark.parametrize("rule", ["softmax", "committee-near"])
def test_silence_in_every_phase_is_played_again(tmp_path: Path, rule: str) -> None:
    net, manifest = live_network(rule)
    net.asleep = {
        "train": {(1, -1), (2, -1)},
        "reveal": {(2, -1)},
        "score": {(1, -1)} if rule == "softmax" else set(),
        "propose": {(2, -1)},
        "vote": {(3, -1)},
    }
    if rule == "softmax":
        net.asleep["train"] |= {(3, id_) for id_ in range(1, CLIENTS + 1)}
    played = [play_round(net) for _ in range(ROUNDS)]

    again = play_again(tmp_path, net, manifest, played)

    assert [one.model_root for one in again] == roots(played)
    assert [one.outcome for one in again] == [one.outcome.name.lower() for one in played]
    if rule == "softmax":
        assert played[-1].outcome is Outcome.VOID


def test_a_head_that_was_lost_is_lost_again_and_the_rounds_after_it_are_the_same(tmp_path: Path) -> None:
    """Nobody can compute the root without bytes that was head for a round; everything after it is the chain's again."""
    net, manifest = live_network("softmax", rounds=4)
    play_round(net)
    capture(net)
    lose_head(net)
    play_round(net)
    played = cut_of(net)

    again = play_again(tmp_path, net, manifest, played)

    assert [one.outcome for one in again] == ["final", "final", "void", "final"]
    assert [one.same for one in again] == [True, False, True, True]
    assert again[3].model_root == roots(played)[3]


def test_those_who_enrol_while_the_draw_is_open_join_a_round_later(tmp_path: Path) -> None:
    net, manifest = live_network("softmax", queued=True)
    played = [play_round(net) for _ in range(ROUNDS)]
    workers = [len(one.standing().round.updates) for one in played]

    again = play_again(tmp_path, net, manifest, played)

    assert workers[0] < workers[1]
    assert [one.model_root for one in again] == roots(played)


def test_a_convicted_liar_is_convicted_again_and_weighs_less_afterwards(tmp_path: Path) -> None:
    calm, _ = live_network("softmax")
    play_round(calm)
    net, manifest = live_network("softmax")
    drawn = next(event for _, event in calm.chain.world.log if isinstance(event, Drawn))
    net.liars = {net.task.by_id(drawn.proposers[0]).address: one_too_high}
    played = [play_round(net) for _ in range(ROUNDS)]

    again = play_again(tmp_path, net, manifest, played)

    assert played[0].ended is not None
    assert played[0].ended.attempt == 2
    assert [one.model_root for one in again] == roots(played)


def one_too_high(model_D: Vector) -> Vector:
    wrong = model_D.copy()
    wrong[5] += 1
    return wrong


def test_other_data_gives_another_model_and_the_replay_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, manifest = live_network("mean")
    played = [play_round(net)]
    trace, participants = written(tmp_path, net, manifest, played)
    holders = read_participants(participants)
    holders[Id(1)] = type(holders[Id(1)])(**{**asdict(holders[Id(1)]), "master_seed": 8})

    again = list(replay(read_trace(trace), holders))

    assert [one.same for one in again] == [False]

    # The command says in one line what may be the cause.
    plain = {"participants": {str(id_): asdict(one) for id_, one in holders.items()}}
    participants.write_text(json.dumps(plain))
    assert run(["simulate", "--replay", str(trace), "--participants", str(participants)]) == 1
    said = capsys.readouterr().err
    assert said.count("not the chain's model") == 1
    assert "trained with --dp, whose noise cannot be drawn again" in said


def changed(trace: Path, change: Mapping[str, object]) -> None:
    plain = json.loads(trace.read_text())
    plain["metrics"].update(change)
    trace.write_text(json.dumps(plain))


def test_a_trace_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    net, manifest = live_network("mean")
    played = [play_round(net)]
    trace, participants = written(tmp_path, net, manifest, played)

    few = {id_: one for id_, one in read_participants(participants).items() if id_ != 4}
    with pytest.raises(InputError, match="participants 4 of the trace are not described"):
        list(replay(read_trace(trace), few))
    plain = json.loads(trace.read_text())["metrics"]
    plain["rounds"][0]["scored"] = list(range(1, CLIENTS + 1))
    changed(trace, {"rounds": plain["rounds"]})
    with pytest.raises(VerificationError, match="no such role"):
        list(replay(read_trace(trace), read_participants(participants)))
    changed(trace, {"manifest": None})
    with pytest.raises(InputError, match="--store"):
        read_trace(trace)
    changed(trace, {"manifest": "00"})
    with pytest.raises(VerificationError, match="not the one that the task names"):
        read_trace(trace)
    participants.write_text('{"participants": {"1": {"client": 0, "hat": 1}}}')
    with pytest.raises(InputError, match="hat"):
        read_participants(participants)
    with pytest.raises(InputError, match="No such file"):
        read_trace(tmp_path / "none.json")


def test_the_participants_of_a_devnet_are_its_nodes_in_order(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps(participants_of(["ada", "ben", "moe"], {"moe": "label-flip"})))

    participants = read_participants(file)

    assert [one.client for one in participants.values()] == [0, 1, 2]
    assert [one.attack for one in participants.values()] == [None, None, "label-flip"]
    assert {one.clients for one in participants.values()} == {3}
