"""A chain's run played again: its seeds, weights, silences and votes from a trace, its learning from the participants.

Everything else is done anew by the real roles, so that the same model root in every round shows that what is simulated
is what ran. A trace is what `chainfl task trace --json` prints; `Trace` is one that was read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from chainfl.audit.history import PlayedRound
from chainfl.blobs import get_manifest, name_model, put_model
from chainfl.codec import plain_json
from chainfl.codec.cid import Cid, Codec
from chainfl.codec.commitments import keccak256
from chainfl.codec.json_codec import unpack
from chainfl.codec.manifest import AnyManifest, decode_manifest
from chainfl.codec.scores import UNAVAILABLE, Scores, unavailable
from chainfl.codec.vector import Vector, encode
from chainfl.errors import InputError, VerificationError
from chainfl.learning.attacks import poisoned, worker_attack
from chainfl.learning.dataset import Dataset
from chainfl.learning.datasets import load
from chainfl.learning.partition import Parts, partition
from chainfl.learning.taskapp import is_builtin
from chainfl.learning.trainer import Trainer, spec_of_manifest
from chainfl.ports import BlobStore
from chainfl.protocol import events
from chainfl.protocol.fold import take
from chainfl.protocol.tally import score_kind
from chainfl.protocol.term_table import BUDGET
from chainfl.protocol.terms import Floors
from chainfl.protocol.world import World
from chainfl.roles.miner import propose
from chainfl.roles.participant import Participant
from chainfl.roles.validator import judge, seal_scores
from chainfl.sim.dealing import ReplayParticipant as ReplayParticipant
from chainfl.sim.dealing import app_trainers
from chainfl.sim.faithful import SharedTrainer, SharedTraining
from chainfl.sim.memory import Chain, MemoryJournal, MemoryLedger, MemoryStore
from chainfl.sim.network import Network, play_round
from chainfl.sim.population import Adversary, Population
from chainfl.types import Address, Id, Phase, Role, TaskConfig

_KEEPER, _SPONSOR, _REGISTRY = (Address(keccak256(n)[:20]) for n in (b"keeper", b"sponsor", b"registry"))
DEVNET_SEED: Final = 7
"""Deals the data of `chainfl devnet` and `demo`, and seeds their training."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace: the task's terms, its accounts, and its rounds as `trace_round` writes them."""

    chain_id: int
    task: Address
    config: TaskConfig
    manifest: AnyManifest
    accounts: Mapping[Id, Address]
    rounds: Sequence[Mapping[str, Any]]
    roles: Mapping[Id, Role] = field(default_factory=dict)
    """As what the list of who may join admitted them, where there is one."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How one round came out, and whether the chain had the same model."""

    round: int
    outcome: str
    model_root: str
    same: bool

    def as_plain(self) -> dict[str, object]:
        """The facts as JSON holds them."""
        return asdict(self)


# Traces and participants as files


def read_trace(path: Path, store: BlobStore | None = None) -> Trace:
    """A trace from its file; the manifest comes with it or from the store.

    Raises:
        InputError: the file is no trace, or nothing says what was trained.
        VerificationError: the manifest is not the one that the task names.
    """
    plain = _read_json(path)
    metrics = plain.get("metrics", plain)
    for name in ("task", "chain_id", "config", "accounts", "rounds"):
        if not isinstance(metrics, dict) or name not in metrics:
            raise InputError(
                f"{path} is no trace with terms: {name} is missing; take chainfl task trace --json"
            )

    # The file comes from anybody: each value is checked as it is read, and a bad one is named.
    config = unpack(TaskConfig, metrics["config"])
    try:
        chain_id = int(metrics["chain_id"])
        accounts = {
            Id(int(id_)): Address(_hex(path, "accounts", a)) for id_, a in metrics["accounts"].items()
        }
        roles = {Id(int(id_)): Role(role) for id_, role in metrics.get("roles", {}).items()}
        rounds = [one for one in metrics["rounds"] if one.get("model_root") is not None]
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} is no trace: {error}; take chainfl task trace --json") from None

    task = Address(_hex(path, "task", metrics["task"]))
    manifest = _manifest(path, metrics.get("manifest"), config, store)
    return Trace(chain_id, task, config, manifest, accounts, rounds, roles)


def read_participants(path: Path) -> dict[Id, ReplayParticipant]:
    """Who has which data, by enrolment id.

    Raises:
        InputError: the file is not such a map.
    """
    plain = _read_json(path)
    population = plain.get("participants", plain)
    try:
        return {Id(int(id_)): ReplayParticipant(**fields) for id_, fields in population.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: participants map enrolment ids to client, clients, …: {error}") from None


def participants_of(
    names: Sequence[str], attacks: Mapping[str, str], dataset: str | None = None
) -> dict[str, object]:
    """The participants of a devnet, in order of enrolment: iid parts, as `chainfl devnet up` deals them."""
    return {
        "participants": {
            str(number + 1): asdict(
                ReplayParticipant(
                    number,
                    len(names),
                    partition_seed=DEVNET_SEED,
                    master_seed=DEVNET_SEED,
                    dataset=dataset,
                    attack=attacks.get(name),
                )
            )
            for number, name in enumerate(names)
        }
    }


# Playing it again


def replay(
    trace: Trace,
    described: Mapping[Id, ReplayParticipant],
    data: str | Path | None = None,
    app: str | None = None,
) -> Iterator[Replayed]:
    """Play the rounds of a trace with these participants; each comes with whether the chain's root was the same.

    Raises:
        InputError: a participant of the trace is not described, or its data is not there.
        VerificationError: the first model is not the task's, or somebody acted who has no such role here.
    """
    missing = sorted(set(trace.accounts) - set(described))
    if missing:
        raise InputError(f"participants {', '.join(map(str, missing))} of the trace are not described")

    wanted = {id_: described[id_] for id_ in sorted(trace.accounts)}
    if is_builtin(trace.manifest):
        trainers = _trainers(trace, wanted, data)
    else:
        trainers = app_trainers(trace.manifest, wanted, app)

    population = Population(trainers, 0, Adversary())
    net = _network(trace, population)

    for record in trace.rounds:
        net.record = record
        net.begin()
        played = play_round(net)
        assert played.ended is not None
        root = played.ended.head_root.hex()
        yield Replayed(played.number, played.outcome.name.lower(), root, root == record["model_root"])

        # A long run's events are not needed again once its round was compared.
        net.chain.world.log.clear()


@dataclass(slots=True)
class ReplayNetwork(Network):
    """The real roles; who acts, which way each votes and who lied is what the trace says."""

    population: Population = field(kw_only=True)
    record: Mapping[str, Any] = field(default_factory=dict)
    later: list[Mapping[str, Any]] = field(default_factory=list)

    def begin(self) -> None:
        """Before the draw: the weights that it counted, its seed, an open draw."""
        number = self.task.round.number
        if number != self.record["round"]:
            raise VerificationError(f"the trace has round {self.record['round']}, the rules are at {number}")

        # Weights that changed before the draw enter it, later ones are applied after it, as on the chain.
        self.later, seen = [], set[int]()
        for change in self.record["changes"]:
            if self._is_early(change, seen):
                self._set_weight(change)
            else:
                self.later.append(change)
            seen.add(change["id"])
        self._fold(events.DrawOpened(number, self.chain.block_number))
        self.chain.known_seeds[number] = bytes.fromhex(self.record["seed"])

    def commit_updates(self, ids: Sequence[Id]) -> None:
        """Those who committed."""
        Network.commit_updates(self, self._acting("committed", ids))

    def reveal_updates(self, ids: Sequence[Id]) -> None:
        """Those who revealed; then the weights that changed since the draw."""
        Network.reveal_updates(self, self._acting("revealed", ids))
        convicted = {id_ for attempt in self.record["attempts"] for id_ in attempt["convicted"]}
        for change in self.later:
            if change["id"] not in convicted:
                self._set_weight(change)

    def commit_scores(self, ids: Sequence[Id]) -> None:
        """Those who scored; what they did not have then, head or update, they do not have now."""
        acting = self._acting("scored", ids)
        for id_ in acting:
            self._withhold(id_)
        Network.commit_scores(self, acting)

    def reveal_scores(self, ids: Sequence[Id]) -> None:
        """Those who revealed their scores."""
        Network.reveal_scores(self, self._acting("scores_revealed", ids))

    def propose(self, ids: Sequence[Id]) -> None:
        """The proposer, if it proposed; one that was convicted proposes a wrong model again."""
        attempt = self._attempt()
        if attempt is None:
            return
        if [attempt["proposer"]] != list(ids):
            raise VerificationError(
                f"round {self.record['round']}: {attempt['proposer']} proposed, the draw gives {ids[0]}"
            )
        me = self.participants[self.task.by_id(ids[0]).address]
        propose(me, _one_too_high if attempt["convicted"] else None)

    def prove_lie(self) -> bool:
        """Where somebody was convicted: the votes that stood by then, and the proof."""
        attempt = self._attempt()
        if attempt is None or not attempt["convicted"] or self.task.round.phase is not Phase.CHALLENGE:
            return False
        self.vote([Id(int(id_)) for id_ in attempt["votes"]])
        if not Network.prove_lie(self):
            raise VerificationError(
                f"round {self.record['round']}: a lie that was proven cannot be proven again"
            )
        return True

    def vote(self, ids: Sequence[Id]) -> None:
        """As the trace says; who is not named stayed silent."""
        round_ = self.task.round
        attempt = self._attempt()
        proposal = round_.proposal
        assert attempt is not None
        assert proposal is not None
        named = (proposal.model_root, proposal.block, proposal.shares_digest)

        # The chain's votes are cast again, right or wrong: the replay compares roots, it does not judge.
        for id_ in ids:
            attests = attempt["votes"].get(str(id_))
            if attests is not None:
                ledger = self.participants[self.task.by_id(id_).address].ledger
                ledger.vote(round_.number, round_.attempt, *named, bool(attests))

    def check(self, played: PlayedRound) -> None:
        """Convictions set weights that depend on stakes; the trace has the chain's."""
        del played
        for change in self.later:
            self._set_weight(change)

    def _acting(self, what: str, ids: Sequence[Id]) -> list[Id]:
        acted = [Id(int(id_)) for id_ in self.record[what]]
        strangers = sorted(set(acted) - set(ids))
        if strangers:
            raise VerificationError(
                f"round {self.record['round']}: {', '.join(map(str, strangers))} {what.replace('_', ' ')} "
                "on the chain, but the draw gives them no such role here"
            )
        return [id_ for id_ in ids if id_ in acted]

    def _attempt(self) -> Mapping[str, Any] | None:
        number = self.task.round.attempt
        return next((each for each in self.record["attempts"] if each["attempt"] == number), None)

    def _withhold(self, id_: Id) -> None:
        """Seal scores without what was missing then, so that the role commits to those."""
        task = self.task
        me = self.participants[self.task.by_id(id_).address]
        kind = score_kind(task.config.rule)
        number = task.round.number
        vouched = self.record.get("vouches", {}).get(str(id_))
        is_without_head = id_ in self.record.get("without_head", ())
        if vouched is None or (all(vouched) and not is_without_head):
            return

        # The numbers are this machine's own; only what was there then comes from the trace.
        honest = judge(me, task)
        head = UNAVAILABLE if is_without_head else honest.head
        entries = (
            entry if vouches else unavailable(kind)
            for entry, vouches in zip(honest.entries, vouched, strict=True)
        )
        me.journal.keep_scores(number, seal_scores(me, task, Scores(head, tuple(entries))))

    def _is_early(self, change: Mapping[str, Any], seen: set[int]) -> bool:
        """Whether a weight counted in this round's draw: it was set while the task still waited for enough.

        Where the trace does not say so, it is an account's first weight of the round if it counts from this round on.
        """
        early = change.get("before_draw")
        if early is not None:
            return bool(early)
        return change["active_from"] == self.record["round"] and change["id"] not in seen

    def _set_weight(self, change: Mapping[str, Any]) -> None:
        self._fold(events.WeightSet(Id(change["id"]), int(change["weight"]), int(change["active_from"])))

    def _fold(self, event: events.Event) -> None:
        take(self.task, event, self.chain.block_number)


def _network(trace: Trace, population: Population) -> ReplayNetwork:
    """The task as its creation and its enrolments left it, with the chain's own addresses."""
    chain = Chain(World(trace.chain_id, _REGISTRY, Floors(1)), bytes(32))
    store = MemoryStore()
    config = trace.config
    first = name_model(
        encode(population.learner.initial(), config.scale), config.scale, population.learner.layout
    )

    # Another version of torch or of the model would give another model in every round: say so at once.
    if first.node.root != config.first_root:
        raise VerificationError(
            f"the first model has root {first.node.root.hex()} here, the task's has {config.first_root.hex()}"
        )
    put_model(store, first)
    chain.world.create_task(
        chain.call(_SPONSOR), trace.task, config, config.rounds * min(BUDGET, config.min_stake // 5)
    )

    task = chain.world.tasks[trace.task]
    shared = SharedTraining(population)
    participants = dict[Address, Participant]()

    for id_, account in sorted(trace.accounts.items()):
        if id_ in trace.roles:
            take(task, events.Admitted(account, trace.roles[id_]), 0)
        take(task, events.Enrolled(id_, account), 0)
        ledger = MemoryLedger(chain, trace.task, account)
        trainer = SharedTrainer(shared, ledger, id_)
        participants[account] = Participant(ledger, store, trainer, MemoryJournal(keccak256(account)))

    keeper = MemoryLedger(chain, trace.task, _KEEPER)
    return ReplayNetwork(chain, keeper, store, participants, {}, population=population)


def _trainers(
    trace: Trace, described: Mapping[Id, ReplayParticipant], data: str | Path | None
) -> dict[Id, Trainer]:
    """Every participant's trainer, made as its node makes it."""
    spec = spec_of_manifest(trace.manifest)
    loaded: dict[str, Dataset] = {}
    dealt: dict[tuple[str, str, int, int], Parts] = {}
    trainers = {}
    for id_, one in described.items():
        name = one.dataset or spec.dataset
        if name not in loaded:
            loaded[name] = load(name, data)
        dataset = loaded[name]
        key = (name, one.partition, one.clients, one.partition_seed)

        # Dealt once for all who share data set, partition and seed: large sets are costly to deal.
        if key not in dealt:
            dealt[key] = partition(dataset, one.partition, one.clients, one.partition_seed)
        if not 0 <= one.client < one.clients:
            raise InputError(f"participant {id_}: client {one.client} of {one.clients}: parts count from 0")

        trainer = Trainer.of_rows(
            spec, dataset, dealt[key][one.client], master_seed=one.master_seed, id_=one.client
        )
        trainers[id_] = trainer if one.attack is None else _poisoned(trainer, one.attack, dataset)
    return trainers


def _poisoned(trainer: Trainer, attack_text: str, dataset: Dataset) -> Trainer:
    attack, _ = worker_attack(attack_text)
    return trainer.on(
        poisoned(trainer.train_on, attack, dataset.classes),
        poisoned(trainer.held_out, attack, dataset.classes),
    )


def _one_too_high(model_D: Vector) -> Vector:
    wrong = model_D.copy()
    wrong[len(wrong) // 2] += 1
    return wrong


def _manifest(
    path: Path, encoded_hex: str | None, config: TaskConfig, store: BlobStore | None
) -> AnyManifest:
    if encoded_hex is not None:
        encoded = _hex(path, "manifest", encoded_hex)
        if Cid.of(encoded, Codec.DAG_CBOR).digest != config.manifest:
            raise VerificationError(f"{path}: its manifest is not the one that the task names")
        return decode_manifest(encoded)
    if store is None:
        raise InputError(f"{path} has no manifest: name the task's store with --store dir:…")
    return get_manifest(store, config.manifest)


def _hex(path: Path, name: str, text: Any) -> bytes:
    try:
        return bytes.fromhex(str(text).removeprefix("0x"))
    except ValueError:
        raise InputError(f"{path}: {name} is {text!r}, not hexadecimal") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    plain = plain_json.loads(data, str(path))
    if not isinstance(plain, dict):
        raise InputError(f"{path}: expected an object, found {type(plain).__name__}")
    return plain
