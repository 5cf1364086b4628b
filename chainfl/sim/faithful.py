"""A network of the real roles whose learning is shared: everything is hashed, stored, redone and audited."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from chainfl.audit.history import PlayedRound
from chainfl.audit.verify import check_round
from chainfl.codec.records import Layout
from chainfl.errors import VerificationError
from chainfl.learning.learner import Flat
from chainfl.learning.score import Score
from chainfl.ports import Ledger
from chainfl.roles.validator import judge, seal_scores
from chainfl.sim.network import Network, training
from chainfl.sim.population import Population
from chainfl.types import Id


@dataclass(slots=True)
class SharedTraining:
    """The updates of the round that runs, trained together when the first of them is asked for."""

    population: Population
    round_: int = 0
    updates: dict[Id, Flat] = field(default_factory=dict)

    def update(self, ledger: Ledger, id_: Id, head_D: Flat, round_: int) -> Flat:
        """One participant's update of the round."""
        if round_ != self.round_:
            task = ledger.task()
            ids = training(task)
            rows_KD = self.population.updates(task, head_D, ids)
            self.updates, self.round_ = dict(zip(ids, rows_KD, strict=True)), round_
        return self.updates[id_]


@dataclass(frozen=True, slots=True)
class SharedTrainer:
    """One participant's Trainer: its own data and attack, trained beside the others."""

    shared: SharedTraining
    ledger: Ledger
    id_: Id

    @property
    def layout(self) -> Layout:
        """The tensors of the model."""
        return self.shared.population.trainers[self.id_].layout

    @property
    def samples(self) -> int:
        """How many samples a training pass uses."""
        return self.shared.population.trainers[self.id_].samples

    def train(self, head_D: Flat, round_: int) -> Flat:
        """The participant's update."""
        return self.shared.update(self.ledger, self.id_, head_D, round_)

    def score(self, models_KD: Sequence[Flat]) -> Sequence[Score]:
        """Each model judged as this participant judges."""
        population = self.shared.population
        trainer = population.trainers[self.id_]
        job = trainer.score_job(population.held_out(self.ledger.task(), self.id_))
        return trainer.learner.score(models_KD, job)


@dataclass(slots=True)
class FaithfulNetwork(Network):
    """The real roles; hostile validators write forged scores into their journals and commit to those."""

    population: Population = field(kw_only=True)

    def commit_scores(self, ids: Sequence[Id]) -> None:
        """Validators judge; what hostile ones post instead is in their journals before they commit."""
        active = [id_ for id_ in ids if id_ in self.population.active_validators(self.task)]
        silent = {id_ for id_ in active if not self._forge(id_, active)}
        Network.commit_scores(self, [id_ for id_ in ids if id_ not in silent])

    def check(self, played: PlayedRound) -> None:
        """Redo the round. A hostile validator's distances are found by the audit; all else must hold."""
        attack = self.population.adversary.validator
        lies = attack is not None and (attack.forges or attack.copies or attack.bends is not None)
        for finding in check_round(played, self.store, self.chain.mix_hash):
            forgiven = lies and finding.check == "scores" and played.before.config.rule.is_elected
            if not finding.is_ok and not forgiven:
                raise VerificationError(
                    f"round {played.number}, check {finding.number} ({finding.check}): {finding.verdict.value}: "
                    f"expected {finding.expected}, found {finding.found}"
                )

    def _forge(self, id_: Id, active: Sequence[Id]) -> bool:
        """Put what this validator posts into its journal; False when it stays silent."""
        attack = self.population.adversary.validator
        task = self.task
        if attack is None or not (attack.forges or attack.copies or attack.is_silent or attack.bends):
            return True

        # Only what the attack needs: its own honest scores and those of the first colluder, whom others copy.
        honest = {
            each: judge(self.participants[task.by_id(each).address], task)
            for each in dict.fromkeys((*active[:1], id_))
        }
        posted = self.population.posted(task, honest).get(id_)
        if posted is None:
            return False

        me = self.participants[task.by_id(id_).address]
        number = task.round.number
        me.journal.keep_scores(number, seal_scores(me, task, posted))
        return True
