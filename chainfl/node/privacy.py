"""A node's private training: noise from the system's secure source, what was spent is written into the journal."""

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chainfl.node.journal import SqliteJournal
from chainfl.node.wrapped import WrappedTrainer
from chainfl.ports import Floats, Judgement, Trainer
from chainfl.types import Address

NOTE: Final = "privacy"
JOURNAL: Final = "journal.sqlite"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spent:
    """How often updates with which noise were made, and the epsilon that this comes to at delta."""

    history: tuple[tuple[float, int], ...] = ()
    delta: float = 0.0
    epsilon: float = 0.0

    @property
    def updates(self) -> int:
        """How many updates that were."""
        return sum(count for _, count in self.history)

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:.4g} at delta {self.delta:g}, updates: {self.updates}"

    def plain(self) -> dict[str, object]:
        """As the journal and `chainfl stake show` have it."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "updates": self.updates,
            "history": self.history,
        }


def read_spent(text: str | None) -> Spent:
    """What the journal says."""
    if text is None:
        return Spent()
    document = json.loads(text)
    history = tuple((float(noise), int(count)) for noise, count in document["history"])
    return Spent(history, float(document["delta"]), float(document["epsilon"]))


def spent_in(home: Path, chain_id: int, task: Address, accounts: Sequence[Address]) -> Spent | None:
    """What a node with this home has spent in a task, read beside the running node; None where it keeps no account."""
    path = home / JOURNAL
    if not path.is_file():
        return None

    # Read-only: the node that runs beside us owns the file.
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return None

    try:
        for account in accounts:
            row = db.execute(
                "select value from note where chain = ? and task = ? and account = ? and name = ?",
                (chain_id, task, account, NOTE),
            ).fetchone()
            if row is not None:
                return read_spent(row[0])
    except sqlite3.Error:
        return None
    finally:
        db.close()
    return None


@dataclass(slots=True)
class PrivateTrainer(WrappedTrainer):
    """A trainer whose updates are clipped and noised; each is written into the account before it can leave."""

    protect: Callable[[Floats, Floats], Floats]
    noise: float
    delta: float
    account: Callable[[Sequence[tuple[float, int]], float], float]
    journal: SqliteJournal
    on_spent: Callable[[float], None] = field(default=lambda _: None)

    def train(self, head_D: Floats, round_: int) -> Floats:
        """The private update. A round's update is made once: what is sealed is in the journal and not made again."""
        update_D = self.protect(head_D, self.inner.train(head_D, round_))
        spent = self._spend()
        _log.info(
            "round %d: privacy spent so far: epsilon %.4g at delta %g", round_, spent.epsilon, spent.delta
        )
        return update_D

    def score(self, models_KD: Sequence[Floats]) -> Sequence[Judgement]:
        """The scores of the inner trainer: no noise is added to them."""
        return self.inner.score(models_KD)

    def show_spent(self) -> None:
        """Show what has been spent before this process started."""
        self.on_spent(read_spent(self.journal.noted(NOTE)).epsilon)

    def _spend(self) -> Spent:
        counts = dict(read_spent(self.journal.noted(NOTE)).history)
        counts[self.noise] = counts.get(self.noise, 0) + 1
        history = tuple(sorted(counts.items()))
        spent = Spent(history, self.delta, self.account(history, self.delta))
        self.journal.note(NOTE, json.dumps(spent.plain()))
        self.on_spent(spent.epsilon)
        return spent


def private(
    trainer: Trainer, dp: str, journal: SqliteJournal, on_spent: Callable[[float], None]
) -> PrivateTrainer:
    """The same trainer under `--dp`.

    Raises:
        InputError: the setting is malformed, or the model cannot bear noise.
        ToolMissingError: the accountant is not installed; raised at the start and not in a round.
    """
    from chainfl.learning.privacy import (
        epsilon,
        expect_bearable,
        parse_privacy,
        private_update,
        secure_normal,
    )

    privacy = parse_privacy(dp)
    expect_bearable(trainer.layout)
    each = epsilon([(privacy.noise, 1)], privacy.delta)
    _log.info("each update costs epsilon %.4g at delta %g, clipped to %g", each, privacy.delta, privacy.clip)
    normal = secure_normal(os.urandom)
    made = PrivateTrainer(
        trainer,
        lambda head_D, update_D: private_update(head_D, update_D, privacy, normal),
        privacy.noise,
        privacy.delta,
        epsilon,
        journal,
        on_spent,
    )
    made.show_spent()
    return made
