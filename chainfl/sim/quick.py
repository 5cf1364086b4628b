"""A network that keeps updates as vectors: no update is hashed, no blob is written, nothing is redone.

The ledger, its rules and every decision are the same as with the real roles; only names of updates are made up. The
head's root is always the real one, and equal updates get equal names, as they would have equal roots.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from chainfl.audit.history import PlayedRound
from chainfl.codec import merkle
from chainfl.codec.commitments import keccak256, validator_payload, worker_payload
from chainfl.codec.scores import ScoreKind, Scores, encode_scores
from chainfl.codec.vector import Vector, decode, encode
from chainfl.errors import ParameterRangeError
from chainfl.execution import attested_shares
from chainfl.learning.models import Flat
from chainfl.protocol.actions import seal
from chainfl.protocol.combine import Input, combine, combine_ranks, squared_distances
from chainfl.protocol.state import Call, RevealedUpdate, Task
from chainfl.protocol.tally import score_kind
from chainfl.protocol.views import ordered_roots
from chainfl.sim.memory import MemoryLedger
from chainfl.sim.network import Network
from chainfl.sim.population import Population
from chainfl.sim.robust.rule import RobustRule
from chainfl.sim.spill import MOST_HELD, Spill, chunk_of, rows_at_once
from chainfl.types import Digest, Id, Phase

_SALT = bytes(32)
_SAMPLED = 1021
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decoded(Sequence[Flat]):
    """Vectors as floats, each decoded when it is looked at: a committee's scoring holds one at a time."""

    vectors: Sequence[Input]
    scale: int

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, index: int) -> Flat:  # type: ignore[override]
        flat_D: Flat = decode(self.vectors[index][:], self.scale)
        return flat_D


@dataclass(slots=True)
class Names:
    """Names for the vectors of a round: the same for equal vectors, the head's root for the head itself.

    A few parameters make the name; only where those agree are whole vectors compared.
    """

    taken: dict[bytes, list[tuple[Digest, Input]]] = field(default_factory=dict)

    def add(self, u_D: Vector, name: Digest | None = None, kept: Input | None = None) -> Digest:
        """The vector's name: what it has been given before, `name`, or a new one; `kept` is where it stays."""
        sample = u_D[:: max(1, len(u_D) // _SAMPLED)].tobytes()
        alike = self.taken.setdefault(sample, [])
        for known, other_D in alike:
            if np.array_equal(other_D[:], u_D):
                return known
        alike.append(
            (name or keccak256(sample + len(alike).to_bytes(32, "big")), u_D if kept is None else kept)
        )
        return alike[-1][0]


@dataclass(slots=True)
class QuickNetwork(Network):
    """The same rounds without bytes. `head` is the model of the task's head.

    Where a round's updates take more than `most_held` bytes and the rule weighs whole updates, they are on disk.
    """

    population: Population = field(kw_only=True)
    head: Vector = field(kw_only=True)
    updates: dict[Id, Input] = field(default_factory=dict)
    names: dict[Id, Digest] = field(default_factory=dict)
    scores: dict[Id, bytes] = field(default_factory=dict)
    proposed: Vector | None = None
    robust: RobustRule | None = None
    hostile: frozenset[Id] = frozenset()
    most_held: int = MOST_HELD
    spill: Spill | None = None

    def commit_updates(self, ids: Sequence[Id]) -> None:
        """Train everybody side by side; commit to what can be encoded."""
        task = self.task
        named = Names()
        named.add(self.head, task.head_root)
        self.updates, self.names = {}, {}
        if not ids:
            return
        self.hostile = frozenset(self.population.adversary.trainers(task, ids))

        head_D: Flat = decode(self.head, task.config.scale)
        left_out: dict[Id, ParameterRangeError] = {}
        commitments: list[tuple[Call, Digest]] = []
        spill = self._spill_for(task, len(ids))
        for id_, row_D in zip(ids, self._trained(task, head_D, ids, spill), strict=True):
            # An update out of range is never submitted, as a node would not submit it either.
            try:
                u_D = encode(row_D, task.config.scale, out=row_D.view(np.uint32))
            except ParameterRangeError as error:
                left_out[id_] = error
                continue

            # The row is the next group's, so that a spilled update is not looked at there again.
            self.updates[id_] = u_D if spill is None else spill.keep(len(self.updates), u_D)
            name = self.names[id_] = named.add(u_D, kept=self.updates[id_])
            sealed = self._seal(task, Phase.TRAIN, id_, worker_payload(name, name, self._samples(id_)))
            commitments.append((self._call(id_), sealed))

        # One transaction, not one for each: what is drafted and kept is the whole task.
        self.chain.world.commit_updates(commitments, task.address, task.round.number)
        _say_left_out(task, {id_: error for id_, error in left_out.items() if id_ not in self.hostile})

    def reveal_updates(self, ids: Sequence[Id]) -> None:
        """Show the names."""
        task = self.task
        names = ((id_, self.names[id_]) for id_ in ids)
        shown = [(self._call(id_), RevealedUpdate(name, name, self._samples(id_))) for id_, name in names]
        self.chain.world.reveal_updates(shown, task.address, task.round.number, _SALT)

    def commit_scores(self, ids: Sequence[Id]) -> None:
        """Let the whole committee judge at once."""
        task = self.task
        kind = score_kind(task.config.rule)
        posted = self.population.posted(task, self._judge(task, ids))
        self.scores = {id_: encode_scores(kind, scores) for id_, scores in posted.items()}
        roots = ordered_roots(task)
        for id_, scores in self.scores.items():
            sealed = self._seal(task, Phase.SCORE, id_, validator_payload(roots, scores))
            self._ledger(id_).commit_scores(task.round.number, sealed)

    def reveal_scores(self, ids: Sequence[Id]) -> None:
        """Show the scores."""
        for id_ in ids:
            self._ledger(id_).reveal_scores(self.task.round.number, self.scores[id_], _SALT)

    def propose(self, ids: Sequence[Id]) -> None:
        """Combine; the model's root is the real one."""
        task = self.task
        shares, self.proposed = self._next_model(task)
        root = merkle.root(self.proposed)
        block = keccak256(root + task.round.number.to_bytes(32, "big"))
        posted = shares if task.config.rule.is_attested else ()
        for id_ in ids:
            self._ledger(id_).propose(task.round.number, task.round.attempt, root, block, posted)

    def prove_lie(self) -> bool:
        """The model was combined in this very process, so nothing is compared."""
        return False

    def vote(self, ids: Sequence[Id]) -> None:
        """Attest."""
        round_ = self.task.round
        proposal = round_.posted
        named = (proposal.model_root, proposal.block, proposal.shares_digest)
        for id_ in ids:
            self._ledger(id_).vote(round_.number, round_.attempt, *named, True)

    def check(self, played: PlayedRound) -> None:
        """Keep the head's model; there are no bytes to redo the round from."""
        if played.ended is not None and played.ended.head_root != played.before.head_root:
            assert self.proposed is not None
            self.head = self.proposed
        self.proposed = None

    def _judge(self, task: Task, ids: Sequence[Id]) -> dict[Id, Scores]:
        ordered = [self.updates[id_] for id_ in task.round.order]
        kind = score_kind(task.config.rule)
        models = [self.head, *ordered] if kind is ScoreKind.LOSS else [self.head]
        judged = self.population.judge(task, Decoded(models, task.config.scale), ids) if ids else {}

        # In memory all bytes are there, so every update is vouched for unless an attack says otherwise.
        if kind is ScoreKind.LOSS:
            return {id_: Scores(scores[0], scores[1:]) for id_, scores in judged.items()}
        if kind is ScoreKind.VOUCH:
            return {id_: Scores(scores[0], (1,) * len(ordered)) for id_, scores in judged.items()}
        return {
            id_: Scores(scores[0], tuple(squared_distances(self.updates[id_], ordered)))
            for id_, scores in judged.items()
        }

    def _next_model(self, task: Task) -> tuple[tuple[int, ...], Vector]:
        tallied = task.round.decided
        ordered = [self.updates[id_] for id_ in task.round.order]
        included = [u_D for u_D, counts in zip(ordered, tallied.included, strict=True) if counts]
        if self.robust is not None:
            return (), self.robust.next_model(task, self.head, {id_: u[:] for id_, u in self.updates.items()})
        if task.config.rule.is_on_ranks:
            return tallied.shares, combine_ranks(self.head, included, tallied.shares)
        shares = tallied.shares
        if task.config.rule.is_attested:
            shares = attested_shares(task, [u[:] for u in included])
        return shares, combine(self.head, ordered, shares, chunk=chunk_of(ordered))

    def _trained(self, task: Task, head_D: Flat, ids: Sequence[Id], spill: Spill | None) -> Iterator[Flat]:
        """Everybody's update in turn, valid until the next; all stay valid where none is spilled."""
        if spill is None:
            yield from self.population.updates(task, head_D, ids)
            return
        for rows_KD in self.population.updates_in_groups(task, head_D, ids, rows_at_once(len(head_D))):
            yield from rows_KD

    def _spill_for(self, task: Task, updates: int) -> Spill | None:
        """Where this round's updates go, if they are too many for the memory and only ever weighed as a whole.

        Ranks and distances between updates read all of them again and again, and forgers see one another's.
        """
        rule = task.config.rule
        weighs_whole = not (rule.is_on_ranks or rule.is_attested or rule.is_elected or self.robust)
        if updates * self.head.nbytes <= self.most_held or not weighs_whole or self.population.forges_updates:
            return None
        if self.spill is None:
            self.spill = Spill()
        return self.spill

    def _ledger(self, id_: Id) -> MemoryLedger:
        return MemoryLedger(self.chain, self.ledger.address, self.task.by_id(id_).address)

    def _call(self, id_: Id) -> Call:
        return self.chain.call(self.task.by_id(id_).address)

    def _samples(self, id_: Id) -> int:
        return min(self.population.trainers[id_].samples, self.task.config.max_samples)

    def _seal(self, task: Task, phase: Phase, id_: Id, payload: Digest) -> Digest:
        return seal(task, phase, task.by_id(id_).address, payload, _SALT)


def _say_left_out(task: Task, errors: Mapping[Id, ParameterRangeError]) -> None:
    """Honest training that gave no numbers is the user's to mend: one line a round says so."""
    if not errors:
        return
    id_, error = next(iter(errors.items()))
    others = f" and of {len(errors) - 1} more" if len(errors) > 1 else ""
    _log.warning(
        "round %d: the update of participant %d%s is left out: %s", task.round.number, id_, others, error
    )
