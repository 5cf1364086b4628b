"""Who plays a demonstration: people, terms, and what data each of them has."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from chainfl.chain.keys import address_of
from chainfl.chain.send import checksum
from chainfl.codec.admission import ANYONE, Entry
from chainfl.codec.text import ETHER
from chainfl.devnet.processes import Person
from chainfl.sim.dealing import ReplayParticipant
from chainfl.sim.replay import DEVNET_SEED
from chainfl.types import Role
from chainfl.workflows.sponsor import Terms

NAMES = ("ada", "ben", "cleo", "dan", "eve", "finn", "gus", "hana", "ivo", "mal", "max", "moe")
HOSTILE = 3
HOSTILE_STAKE = ETHER * 4 // 3
HONEST_STAKE = 4 * ETHER


@dataclass(frozen=True, slots=True)
class Cast:
    """The people of a demonstration in order of enrolment, and the terms of their task."""

    people: Sequence[Person]
    terms: Terms
    described: Mapping[str, ReplayParticipant]
    """Everybody's part of the data, seed and attack, as a replay needs them too."""
    hostile: frozenset[str]
    internals: frozenset[str] = frozenset()
    """The appointed judges; empty where the draw picks them."""

    @property
    def names(self) -> list[str]:
        """What everybody is called."""
        return [person.name for person in self.people]

    def entries(self, keys: Mapping[str, Path]) -> list[Entry]:
        """The task's list of who may join: the internals, and anyone beside them; empty where there are none."""
        if not self.internals:
            return []
        inside = [(address_of(keys[name]), Role.INTERNAL) for name in self.names if name in self.internals]
        return [(ANYONE, Role.PARTICIPANT), *inside]

    def terms_for(self, home: Path, keys: Mapping[str, Path]) -> Terms:
        """The terms; internals are named in a file of their own, as a sponsor would do it."""
        if not self.internals:
            return self.terms
        file = home / "internals.txt"
        accounts = (checksum(account) for account, role in self.entries(keys) if role is Role.INTERNAL)
        file.write_text("".join(f"{account}\n" for account in accounts), encoding="utf-8")
        return replace(self.terms, internals=str(file))

    def participants(self) -> dict[str, object]:
        """Everybody by id, as `chainfl simulate --replay` reads them."""
        ids = {str(number): asdict(self.described[name]) for number, name in enumerate(self.names, 1)}
        return {"participants": ids}


def open_cast(rule: str, rounds: int) -> Cast:
    """Nine honest, three hostile with a tenth of the stake; the last round's first proposer is set to lie."""
    hostile = NAMES[-HOSTILE:]
    attacks = dict.fromkeys(hostile, "label-flip")

    people = [
        Person(name, HOSTILE_STAKE if name in hostile else HONEST_STAKE, attacks.get(name), rounds)
        for name in NAMES
    ]

    described = {
        name: ReplayParticipant(
            number,
            len(NAMES),
            partition_seed=DEVNET_SEED,
            master_seed=DEVNET_SEED,
            attack=attacks.get(name),
        )
        for number, name in enumerate(NAMES)
    }

    return Cast(people, open_terms(rule, rounds), described, frozenset(hostile))


def open_terms(rule: str, rounds: int) -> Terms:
    """A small model on the embedded digits, a short window for challenges, and 0.2 ether a round."""
    return Terms(
        rule=rule,
        rounds=rounds,
        escrow=rounds * ETHER // 5,
        learning_rate=0.3,
        local_epochs=2,
        challenge_seconds=6,
    )
