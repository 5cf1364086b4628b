"""From an experiment to a network in memory: data dealt, stakes placed, everybody enrolled, the first draw open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from chainfl.blobs import name_model, put_model
from chainfl.codec import merkle
from chainfl.codec.commitments import keccak256, training_seed
from chainfl.codec.records import Layout
from chainfl.codec.text import ETHER
from chainfl.codec.vector import Vector, encode
from chainfl.errors import InputError
from chainfl.learning.attacks import validator_attack, worker_attack
from chainfl.learning.learner import Job
from chainfl.learning.privacy import expect_bearable, parse_privacy
from chainfl.ports import BlobStore
from chainfl.protocol.errors import BadConfigError
from chainfl.protocol.term_table import BUDGET, UNITS_PER_MIN_STAKE
from chainfl.protocol.terms import MAX_WEIGHT, Floors, check_config
from chainfl.protocol.world import World
from chainfl.roles.participant import Participant
from chainfl.sim.dealing import deal_app, deal_named
from chainfl.sim.experiment import Experiment
from chainfl.sim.faithful import FaithfulNetwork, SharedTrainer, SharedTraining
from chainfl.sim.memory import Chain, MemoryJournal, MemoryLedger, MemoryStore
from chainfl.sim.population import Adversary, Engine, Population, train_here
from chainfl.sim.quick import QuickNetwork
from chainfl.sim.robust.preview import preview_of
from chainfl.sim.robust.rule import robust_rule
from chainfl.sim.robust.table import pipeline_of
from chainfl.sim.terms import terms_of, within_bounds
from chainfl.types import Address, Id, TaskConfig

CHAIN_ID = 31337
SPONSOR, KEEPER, REGISTRY, TASK = (
    Address(keccak256(name)[:20]) for name in (b"sponsor", b"keeper", b"registry", b"task")
)
EQUAL_STAKE = 1000
"""ETH of everybody where stakes are equal and few enough take part."""

AnyNetwork: TypeAlias = QuickNetwork | FaithfulNetwork


@dataclass(slots=True)
class Simulation:
    """A network ready to play, and the samples that its head is tested on."""

    experiment: Experiment
    net: AnyNetwork
    population: Population
    tests: Sequence[Job]
    seen: Job | None = None
    """Training samples that the head's training loss is measured on."""


def set_up(
    experiment: Experiment,
    data: str | Path | None = None,
    *,
    faithful: bool = False,
    store: BlobStore | None = None,
    engine: Engine = train_here,
) -> Simulation:
    """Deal the data and open the task.

    Raises:
        InputError: data, model, partition and people do not fit together.
    """
    if faithful and pipeline_of(experiment.rule) is not None:
        raise InputError(
            f"rule {experiment.rule!r} is the simulator's own, no contract's: leave out --faithful"
        )
    if faithful and experiment.beyond_contract:
        raise InputError("--beyond-contract plays what no contract's records hold: leave out --faithful")

    # The order below is that of a task's life: data and people, terms and first model, stakes, then the round.
    dealt = deal_app(experiment) if experiment.app else deal_named(experiment, data)
    trainers = dealt.trainers
    privacy = parse_privacy(experiment.dp) if experiment.dp is not None else None
    population = Population(trainers, dealt.classes, adversary_of(experiment), engine, privacy=privacy)
    if privacy is not None:
        expect_bearable(population.learner.layout)
    first_D = encode(population.learner.initial(), experiment.scale)
    held_store = store if store is not None else MemoryStore()
    config = _config(experiment, first_D, population.learner.layout, held_store if faithful else None)

    # The seed of the chain's randomness follows from the experiment's, so the same experiment draws the same roles.
    chain = Chain(
        World(CHAIN_ID, REGISTRY, Floors(1)), keccak256(b"chain" + experiment.seed.to_bytes(32, "big"))
    )
    _create(chain, config, experiment)
    stakes = stakes_of(dealt.sizes, are_equal=experiment.stakes == "equal")
    enrol_all(chain, TASK, {account_of(id_): stake for id_, stake in zip(trainers, stakes, strict=True)})

    net = network(chain, held_store, population, first_D, faithful=faithful)
    population.preview = preview_of(experiment.rule, population)
    if isinstance(net, QuickNetwork):
        net.robust = robust_rule(experiment, data)
    return Simulation(experiment, net, population, dealt.tests, dealt.seen)


def network(
    chain: Chain, store: BlobStore, population: Population, head_D: Vector, *, faithful: bool
) -> AnyNetwork:
    """The participants of a task on this chain: with the real roles, or quick."""
    keeper = MemoryLedger(chain, TASK, KEEPER)
    if not faithful:
        return QuickNetwork(chain, keeper, store, {}, {}, population=population, head=head_D)

    # The real roles ask one participant at a time; all are trained together the first time that one asks.
    shared = SharedTraining(population)
    participants = {}
    for id_ in population.trainers:
        account = keeper.task().by_id(id_).address
        ledger = MemoryLedger(chain, TASK, account)
        participants[account] = Participant(
            ledger, store, SharedTrainer(shared, ledger, id_), MemoryJournal(keccak256(account))
        )
    return FaithfulNetwork(chain, keeper, store, participants, {}, population=population)


def account_of(id_: Id) -> Address:
    """A made-up address for a participant."""
    return Address(keccak256(b"participant" + id_.to_bytes(32, "big"))[:20])


def stakes_of(sizes: Sequence[int], *, are_equal: bool) -> list[int]:
    """Stakes in wei: equal, or an ETH for each sample; scaled down where the weights would not fit the tree."""
    wanted = [EQUAL_STAKE if are_equal else size for size in sizes]
    most = MAX_WEIGHT // UNITS_PER_MIN_STAKE
    total = sum(wanted)
    if total > most:
        wanted = [max(1, each * most // total) for each in wanted]
    return [each * ETHER for each in wanted]


def adversary_of(experiment: Experiment) -> Adversary:
    """Who is hostile, drawn from the experiment's seed, and how."""
    rng = np.random.Generator(np.random.Philox(training_seed(experiment.seed, "hostile", 0, 0)))

    # Drawn from a stream of its own: another attack or rule leaves the same participants hostile.
    chosen = rng.permutation(experiment.participants)[: experiment.hostile_participants]
    attack, values = worker_attack(experiment.worker_attack)
    return Adversary(
        frozenset(Id(int(client) + 1) for client in chosen),
        attack,
        values,
        validator_attack(experiment.validator_attack),
        experiment.max_hostile_committee == "half",
        experiment.hostile_workers,
        experiment.seed,
    )


def enrol_all(chain: Chain, task: Address, stakes: Mapping[Address, int]) -> None:
    """Stake and enrol everybody before the first draw opens, which would otherwise not wait for all of them."""
    calls = []
    for account, stake in stakes.items():
        chain.block_number += 1  # one block for the allocation, another for the enrolment
        calls.append((chain.call(account), stake))
    chain.world.enrol_all(calls, task)


def _config(experiment: Experiment, first_D: Vector, layout: Layout, store: BlobStore | None) -> TaskConfig:
    """The task's terms; with a store, the first model's bytes are put there."""
    if store is None:
        return terms_of(experiment, len(first_D), merkle.root(first_D), bytes(32))
    first = name_model(first_D, experiment.scale, layout)
    put_model(store, first)
    return terms_of(experiment, len(first_D), first.node.root, first.cid.digest)


_HINTS: Mapping[str, str] = {
    "minUpdates": "the rule needs more workers than a round has: take more participants or a smaller committee",
    "maxUpdates": "at most 128 updates a round, and 2048 scores: limit them with --max-updates, or --beyond-contract",
    "proofBytes": "the model is too large for so many updates a round: limit them with --max-updates, or "
    "--beyond-contract",
    "committeeSize": "a committee has 3 to 45 members, an odd number; more with --beyond-contract",
    "alpha": "alpha lies above 0 and at most 1",
    "beta": "beta is at most 1000",
    "keep": "keep lies above 0 and at most 1",
    "selected": "m is 1 to the least number of updates",
    "scale": "scale is at most 31",
    "redrawEvery": "redraw is at least 1",
}


def _create(chain: Chain, config: TaskConfig, experiment: Experiment) -> None:
    escrow = experiment.rounds * BUDGET
    bounds = within_bounds(config, beyond_contract=experiment.beyond_contract)
    try:
        check_config(bounds, escrow, chain.world.floors)
    except BadConfigError as error:
        field = str(error.args[0]) if error.args else str(error)
        hint = next((hint for name, hint in _HINTS.items() if name in str(error)), "")
        raise InputError(f"these terms are refused: {field}{': ' if hint else ''}{hint}") from None
    chain.world.open_task(chain.call(SPONSOR), TASK, config, escrow)
