"""Random rounds: money, order and justice hold after every action (docs/protocol.md sections 5 and 9).

A machine plays whole tasks with honest, silent, lying, early, repeated and foreign actions. It keeps its own book of
who did what, and holds every slash and every wei against it.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chainfl.codec.commitments import finder_note
from chainfl.protocol import events
from chainfl.protocol.errors import RuleError
from chainfl.protocol.rewards import round_budget
from chainfl.protocol.views import claim_of
from chainfl.types import WAD, Address, Phase, Rule, Statistic
from tests.protocol.scene import (
    ETHER,
    SALT,
    SPONSOR,
    STRANGER,
    Scene,
    address,
    config,
    scene,
)

PEOPLE = 10
REACHED: Counter[str] = Counter()
"""What all machines together got to see; a test at the end asks for enough of everything."""

numbers = st.integers(1, PEOPLE + 2).map(address)


class Rounds(RuleBasedStateMachine):
    """A task with participants of every kind."""

    aggregation = Rule.SOFTMAX

    def __init__(self) -> None:
        """Nothing is there yet."""
        super().__init__()
        self.played: Scene = scene(stakes=())
        self.book: set[tuple[object, ...]] = set()
        self.lies: set[tuple[int, int]] = set()
        self.paid_in, self.paid_out, self.to_escrow, self.seen = 0, 0, 0, 0
        self.place: tuple[int, int, int] = (0, 0, 0)
        self.claimed: Counter[tuple[Address, int]] = Counter()

    @initialize(
        statistic=st.sampled_from(Statistic),
        alpha=st.sampled_from([WAD, 88 * WAD // 100]),
        redraw=st.sampled_from([1, 2, 10]),
        stakes=st.lists(st.integers(1, 9), min_size=PEOPLE, max_size=PEOPLE),
        goal=st.sampled_from([0, 0, 0, WAD]),
    )
    def create(self, statistic: Statistic, alpha: int, redraw: int, stakes: list[int], goal: int) -> None:
        terms = config(
            self.aggregation,
            statistic=statistic,
            alpha=WAD if self.aggregation is Rule.VARSEL else alpha,
            redraw_every=redraw,
            rounds=6,
            target=goal,
            max_updates=6,
        )
        self.played = scene(terms, stakes)
        self.paid_in = sum(stakes) * ETHER
        REACHED[self.aggregation.name] += 1

    # Tools

    @property
    def phase(self) -> Phase:
        """Where the round stands."""
        return self.played.task.round.phase

    def attempt(self, act: Callable[[], object]) -> bool:
        """Try an action; a refusal must leave everything as it was."""
        before = (self.played.task, self.played.world.registry, len(self.played.world.log))
        try:
            act()
        except RuleError:
            assert before[0] is self.played.task
            assert before[1] is self.played.world.registry
            assert before[2] == len(self.played.world.log)
            return False
        return True

    def note(self, kind: str, account: Address) -> None:
        """Write into the book that an account did its part."""
        round_ = self.played.task.round
        self.book.add((kind, round_.number, round_.attempt, account))

    def some(self, data: st.DataObject, accounts: list[Address]) -> Iterator[Address]:
        """All of them, mostly; else a part or nobody."""
        mood = data.draw(st.sampled_from(["all", "all", "all", "all", "most", "some", "none"]))
        for account in accounts:
            if mood == "all" or (
                mood != "none" and data.draw(st.integers(0, 9)) < (8 if mood == "most" else 4)
            ):
                yield account

    def move_on(self) -> None:
        """Leave the phase, early where everybody acted, else after its deadline."""
        leave = self.played.tally if self.phase is Phase.TALLY else self.played.advance
        if not self.attempt(leave):
            self.played.run_out()
            assert self.attempt(leave)

    # The round

    @rule(data=st.data(), steps=st.integers(1, 9))
    def play(self, data: st.DataObject, steps: int) -> None:
        """Some phases of a round, each with whoever acts in it."""
        acts = {
            Phase.DRAW: self.draw,
            Phase.TRAIN: self.train,
            Phase.REVEAL: self.reveal,
            Phase.SCORE: self.score,
            Phase.TALLY: self.tally,
            Phase.PROPOSE: self.propose,
            Phase.CHALLENGE: self.challenge,
        }
        for _ in range(steps):
            waits = self.phase is Phase.DRAW and not self.played.task.round.draw_block
            if self.phase is Phase.ENDED or waits:
                return
            acts[self.phase](data)
            self.check_everything()

    def draw(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 9)) == 9:
            self.played.draw_too_late()
            return
        self.played.draw()
        if data.draw(st.booleans()):
            self.played.apply_queued()

    def train(self, data: st.DataObject) -> None:
        for account in self.some(data, self.played.workers()):
            if self.attempt(lambda account=account: self.played.commit(account)):  # type: ignore[misc]
                self.note("commit", account)
        self.move_on()

    def reveal(self, data: st.DataObject) -> None:
        for account in self.some(data, [self.played.who(i) for i in self.played.task.round.updates]):
            self.played.reveal(account)
            self.note("reveal", account)
        self.move_on()

    def score(self, data: st.DataObject) -> None:
        for account in self.some(data, self.played.committee()):
            if self.attempt(lambda account=account: self.played.commit_scores(account)):  # type: ignore[misc]
                self.note("score", account)
        self.move_on()

    def tally(self, data: st.DataObject) -> None:
        committed = [self.played.who(i) for i in self.played.task.round.scores]
        for account in self.some(data, committed):
            self.played.reveal_scores(account)
            self.note("show", account)
        self.move_on()

    def propose(self, data: st.DataObject) -> None:
        does = data.draw(st.sampled_from(["right", "right", "lie", "lie", "silent"]))
        round_ = self.played.task.round
        proposer = self.played.who(round_.proposer)
        if does == "silent":
            self.played.run_out()
            self.played.advance()
            return
        model = self.played.aggregate().copy()
        if does == "lie":
            model[data.draw(st.integers(0, 199))] ^= np.uint32(1)
            self.lies.add((round_.number, round_.attempt))
        self.note("propose", proposer)
        self.played.propose(model)

    def challenge(self, data: st.DataObject) -> None:
        attests = data.draw(st.integers(0, 9)) > 1
        for account in self.some(data, self.played.voters()):
            if self.attempt(lambda account=account: self.played.vote(account, attests)):  # type: ignore[misc]
                self.note("vote", account)
                if attests:
                    self.note("attest", account)
        if (self.played.number, self.played.task.round.attempt) in self.lies and data.draw(st.booleans()):
            self.convict(data.draw(numbers), noted=data.draw(st.booleans()))
        else:
            self.move_on()

    def convict(self, finder: Address, noted: bool) -> None:
        """Find the wrong parameter and prove it."""
        task = self.played.task
        claim, right = claim_of(task), self.played.aggregate()
        position = int(np.flatnonzero(self.played.models[claim.root] != right)[0])
        if noted:
            at = (task.round.number, task.round.attempt, position)
            seal = finder_note(task.chain_id, task.address, *at, finder, SALT)
            self.attempt(lambda: self.played.world.note_finding(self.played.call(finder), task.address, seal))
        self.played.prove(finder, position)
        REACHED["conviction"] += 1

    # Anybody, anything, any time

    @rule(account=numbers, kind=st.integers(0, 11), data=st.data())
    def meddle(self, account: Address, kind: int, data: st.DataObject) -> None:
        played, task = self.played, self.played.task_address
        number = played.number + data.draw(st.sampled_from([-1, 0, 0, 0, 1]))
        call = played.call(account)
        acts: list[Callable[[], object]] = [
            lambda: played.world.commit_update(call, task, number, bytes(32)),
            lambda: played.world.reveal_update(call, task, number, SALT, SALT, 1, SALT),
            lambda: played.world.commit_scores(call, task, number, bytes(32)),
            lambda: played.world.reveal_scores(call, task, number, bytes(8), SALT),
            lambda: played.world.tally(call, task, number, [bytes(8)]),
            lambda: played.world.propose(call, task, number, 9, SALT, SALT),
            lambda: played.world.vote(call, task, number, 9, SALT, SALT, SALT, True),
            lambda: played.world.advance(call, task, number + 1),
            lambda: played.world.refund(call, task),
            lambda: played.world.abandon(call, task),
            lambda: played.world.claim(call, task, [played.number + 1]),
            lambda: played.world.release(call, task, 99),
        ]

        assert not self.attempt(acts[kind])

    # Stake and money

    @rule(account=numbers, amount=st.integers(1, 3))
    def join(self, account: Address, amount: int) -> None:
        played, value = self.played, amount * ETHER
        played.world.allocate(played.call(account), played.task_address, value, value)
        self.paid_in += value
        self.attempt(lambda: played.world.enrol(played.call(account), played.task_address))

    @rule(account=numbers, leaves=st.booleans(), part=st.integers(1, 4))
    def deallocate(self, account: Address, leaves: bool, part: int) -> None:
        played = self.played
        if leaves:
            self.attempt(lambda: played.world.leave(played.call(account), played.task_address))
        amount = played.world.registry.allocation(played.task_address, account).bonded // part
        self.attempt(lambda: played.world.deallocate(played.call(account), played.task_address, amount))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        played = self.played
        if not played.world.registry.requests:
            return
        task, account, number = data.draw(st.sampled_from(sorted(played.world.registry.requests)))
        locked = played.world.is_locked(task, account)
        roles = played.task.round.drawn
        released = self.attempt(lambda: played.world.release(played.call(account), task, number))
        if released and roles is not None and self.phase is not Phase.ENDED:
            assert not locked
            assert played.ids([account])[0] not in (*roles.committee, *roles.proposers)

    @rule(account=numbers)
    def withdraw(self, account: Address) -> None:
        amount = self.played.world.registry.free.get(account, 0)
        if self.attempt(lambda: self.played.world.withdraw(self.played.call(account), amount, account)):
            self.paid_out += amount

    @rule(account=numbers | st.just(STRANGER))
    def claim(self, account: Address) -> None:
        played = self.played
        rounds = self.unclaimed(account)
        before = played.world.balances[played.task_address]
        if self.attempt(lambda: played.world.claim(played.call(account), played.task_address, rounds)):
            self.claimed.update((account, number) for number in rounds)
            assert played.world.balances[played.task_address] < before
            assert not self.attempt(
                lambda: played.world.claim(played.call(account), played.task_address, rounds)
            )

    def unclaimed(self, account: Address) -> list[int]:
        """The rounds for which the account has worker's pay to claim, as its own book says."""
        task = self.played.task
        if account not in task.accounts:
            return []
        id_ = task.accounts[account].id
        return [n for n, pay in task.pays.items() if id_ in pay.workers and not self.claimed[account, n]]

    @precondition(lambda self: self.played.number >= 3)
    @rule()
    def abandon(self) -> None:
        self.attempt(lambda: self.played.world.abandon(self.played.call(SPONSOR), self.played.task_address))

    @precondition(lambda self: self.phase is Phase.ENDED)
    @rule()
    def refund(self) -> None:
        self.attempt(lambda: self.played.world.refund(self.played.call(SPONSOR), self.played.task_address))
        REACHED["refund"] += 1

    @rule(seconds=st.sampled_from([1, 59, 600]))
    def wait_between_rounds(self, seconds: int) -> None:
        if self.phase in (Phase.DRAW, Phase.ENDED):
            self.played.now += seconds

    # What always holds

    @invariant()
    def check_everything(self) -> None:
        """After every action, inside a played phase too."""
        self.only_the_silent_and_the_lying_are_slashed()
        self.the_task_holds_what_it_owes_and_its_escrow()
        self.the_registry_holds_what_came_in_and_did_not_go_out()
        self.round_attempt_and_phase_only_grow()
        self.shares_add_up()
        self.weights_and_the_number_of_the_eligible_add_up()

    def the_task_holds_what_it_owes_and_its_escrow(self) -> None:
        task = self.played.task
        workers = round_budget(task.funded, task.config).workers
        unclaimed = sum(
            workers * part // pay.whole
            for number, pay in task.pays.items()
            for id_, part in pay.workers.items()
            if (number, id_) not in task.claimed
        )

        assert self.played.world.balances[self.played.task_address] == task.escrow + task.owed
        assert task.owed == sum(task.credits.values()) + unclaimed
        assert task.escrow >= 0

    def the_registry_holds_what_came_in_and_did_not_go_out(self) -> None:
        held = self.played.world.registry.held()

        assert held == self.paid_in - self.paid_out - self.to_escrow

    def round_attempt_and_phase_only_grow(self) -> None:
        round_ = self.played.task.round
        place = (round_.number, round_.attempt, int(round_.phase))

        assert place >= self.place
        self.place = place

    def shares_add_up(self) -> None:
        tallied = self.played.task.round.tally
        if tallied is not None and tallied.shares:
            assert sum(tallied.shares) == 2**31

    def weights_and_the_number_of_the_eligible_add_up(self) -> None:
        task = self.played.task
        weights = [account.weight for account in task.accounts.values()]

        assert task.total_weight == sum(weights)
        assert task.eligible == sum(weight > 0 for weight in weights)

    def only_the_silent_and_the_lying_are_slashed(self) -> None:
        log = self.played.world.log
        for _, event in log[self.seen :]:
            if isinstance(event, events.Silent):
                self.check_silence(event)
            elif isinstance(event, events.Convicted):
                self.check_conviction(event)
            elif isinstance(event, events.Slashed):
                self.to_escrow += event.to_escrow
            elif isinstance(event, events.RoundEnded):
                REACHED[event.outcome.name] += 1
            elif isinstance(event, events.PhaseEntered):
                REACHED[event.phase.name] += 1
                REACHED[f"attempt {event.attempt}"] += 1
        self.seen = len(log)

    def check_silence(self, event: events.Silent) -> None:
        """The book knows nothing of the act that was missed."""
        account = self.played.who(event.id)
        attempts = range(4)

        def did(kind: str) -> bool:
            return any((kind, event.round, attempt, account) in self.book for attempt in attempts)

        if event.phase is Phase.REVEAL:
            assert did("commit")
            assert not did("reveal")
        elif event.phase is Phase.SCORE:
            assert not did("score")
        elif event.phase is Phase.TALLY:
            assert did("score")
            assert not did("show")
        elif event.phase is Phase.PROPOSE:
            assert not did("propose")
        else:
            assert event.phase is Phase.CHALLENGE
        REACHED[f"silent in {event.phase.name}"] += 1

    def check_conviction(self, event: events.Convicted) -> None:
        """The proposal was a lie, and the convicted proposed or attested it."""
        account = self.played.who(event.id)
        at = (event.round, event.attempt)

        assert at in self.lies
        assert ("propose", *at, account) in self.book or ("attest", *at, account) in self.book

    def teardown(self) -> None:
        """Everybody claims, the sponsor takes the rest, everybody leaves: nothing remains but what was burned."""
        played, task = self.played, self.played.task_address
        self.attempt(lambda: played.world.abandon(played.call(SPONSOR), task))
        while self.phase not in (Phase.DRAW, Phase.ENDED):
            self.move_on()
        accounts = [*played.task.addresses, STRANGER]
        for account in accounts:
            self.claim(account)
        if self.phase is Phase.ENDED:
            self.attempt(lambda: played.world.refund(played.call(SPONSOR), task))
            assert played.world.balances[task] == 0
        played.now += played.task.config.longest_round()
        for _, account in list(played.world.registry.allocations):
            self.deallocate(account, leaves=True, part=1)
        if self.phase is Phase.ENDED:
            for task_, account, number in sorted(played.world.registry.requests):
                played.world.release(played.call(account), task_, number)
            registry = played.world.registry
            assert all(a.bonded + a.unbonding == 0 for a in registry.allocations.values())
            assert registry.held() == registry.burned + sum(registry.free.values())


def play_at_random(rule_: Rule, tasks: int) -> None:
    """Let the machine loose on so many tasks of one rule."""
    machine = type(f"RoundsOf{rule_.name}", (Rounds,), {"aggregation": rule_})

    run_state_machine_as_test(machine, settings=settings(max_examples=tasks, stateful_step_count=25))


@pytest.mark.parametrize("rule_", Rule)
def test_money_order_and_justice_hold_in_random_rounds(rule_: Rule) -> None:
    play_at_random(rule_, max(5, settings().max_examples // 5))


def test_random_rounds_reach_every_phase_outcome_and_slash() -> None:
    if sum(REACHED.values()) < 1000:
        play_at_random(Rule.SOFTMAX, 30)
    wanted = [phase.name for phase in Phase if phase not in (Phase.DRAW, Phase.ENDED)]
    wanted += ["FINAL", "VOID", "conviction", "attempt 2", "attempt 3"]
    wanted += [f"silent in {phase}" for phase in ("REVEAL", "SCORE", "TALLY", "PROPOSE", "CHALLENGE")]

    missing = {name: REACHED[name] for name in wanted if not REACHED[name]}

    assert not missing


@pytest.mark.parametrize("rule_", Rule)
def test_four_honest_rounds_pay_everything_but_rounding(rule_: Rule) -> None:
    played = scene(config(rule_), (1,) * PEOPLE)
    for _ in range(4):
        played.play_round()
        if played.task.round.phase is Phase.DRAW:
            played.draw()
            played.apply_queued()
    task = played.task
    unspent = 4 * (12 - 6) * task.config.caller_fee
    if rule_ is Rule.VARSEL:
        # What the internals' own updates would have earned is the sponsor's.
        ended = [e for _, e in played.world.log if isinstance(e, events.RoundEnded)]
        unspent += sum(round_budget(task.funded, task.config).workers - each.workers_paid for each in ended)

    for account in [*task.addresses, STRANGER]:
        rounds = [
            n
            for n, pay in task.pays.items()
            if account in task.accounts and task.accounts[account].id in pay.workers
        ]
        if rounds or account in task.credits:
            played.world.claim(played.call(account), played.task_address, rounds)
    left = played.world.refund(played.call(SPONSOR), played.task_address)

    assert unspent <= left < unspent + 4 * 20
    assert played.world.balances[played.task_address] == 0
    assert not any(isinstance(e, events.Slashed) for _, e in played.world.log)
