"""What a challenge would do, before it is sent: gas, cost, who loses what, and what the finder gets."""

import secrets
from dataclasses import dataclass
from typing import Literal

from hexbytes import HexBytes
from web3 import Web3
from web3.exceptions import ContractLogicError
from web3.types import TxParams

from chainfl.audit.challenge import Lie, find_lie, note_lie
from chainfl.audit.verify import Verdict
from chainfl.chain.abi import as_address, functions
from chainfl.chain.reader import read_call
from chainfl.chain.rpc import outside
from chainfl.chain.send import checksum, in_our_words
from chainfl.codec.commitments import finder_note
from chainfl.errors import StoreError, VerificationError
from chainfl.ports import BlobStore, Ledger
from chainfl.protocol import stake
from chainfl.protocol.events import Slashed
from chainfl.protocol.shared import SharedMap
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest, Id, Phase, Slash
from chainfl.workflows.audit import AuditedRound

State = Literal["nothing-stands", "no-lie", "too-late", "not-provable", "dry-run", "sent"]

_ANYONE = Address(bytes(19) + b"\x01")
"""Who asks for an estimate when no key is given; anyone may prove a lie."""
_NO_SALT = Digest(bytes(32))


@dataclass(frozen=True, slots=True)
class Guilty:
    """An account that proposed or attested the lie, and what it would lose."""

    id: int
    address: Address
    stake: int
    slashed: int


@dataclass(frozen=True, slots=True)
class ChallengePlan:
    """A challenge that would succeed now: two transactions, what they cost and what they do."""

    lie: Lie
    transaction: bytes
    note_gas: int
    proof_gas: int
    cost: int
    guilty: tuple[Guilty, ...]
    reward: int
    to_escrow: int
    burned: int


@dataclass(frozen=True, slots=True)
class Challenge:
    """How it stands with challenging a proposal: one word, one line, and the plan where there is a lie to prove."""

    state: State
    message: str
    plan: ChallengePlan | None = None


def challenge_standing(w3: Web3, task: Task, store: BlobStore, ledger: Ledger | None = None) -> Challenge:
    """Redo the standing proposal; try the proof of a lie on the chain, and send it where a ledger is given.

    Raises:
        ProtocolError: the contract refuses the proof, for instance because the phase ended meanwhile.
        LedgerError: the chain cannot be asked.
    """
    round_ = task.round
    if round_.phase is not Phase.CHALLENGE:
        phase = round_.phase.name.capitalize()
        return Challenge(
            "nothing-stands", f"round {round_.number} is in {phase}: there is no proposal to challenge"
        )

    where = f"round {round_.number}, attempt {round_.attempt}"
    try:
        lie = find_lie(store, task)
    except (StoreError, VerificationError) as error:
        return Challenge("not-provable", f"{where}: {error}")

    if lie is None:
        return Challenge("no-lie", f"{where}: every parameter of the proposed model is right")
    what = f"{where}: parameter {lie.position} is {lie.found}, redoing gives {lie.expected}"

    if ledger is None:
        return Challenge("dry-run", f"{what}; nothing was sent", plan_challenge(w3, task, lie))

    # Noted before the endpoint sees the proof: whoever reads it there comes too late to be the finder.
    salt = Digest(secrets.token_bytes(32))
    note_lie(ledger, task, lie, salt)
    plan = plan_challenge(w3, task, lie, ledger.key, salt)
    ledger.prove(lie.round, lie.attempt, lie.position, lie.evidence, salt)
    return Challenge("sent", f"{what}; it is proven", plan)


def past_challenge(audited: AuditedRound) -> Challenge:
    """What is left to say of a settled round."""
    number = audited.played.number
    if audited.verdict is Verdict.MISMATCH:
        return Challenge(
            "too-late", f"round {number} is settled: what is wrong with it can no longer be challenged"
        )
    return Challenge("nothing-stands", f"round {number} is settled: there is no proposal to challenge")


def plan_challenge(
    w3: Web3, task: Task, lie: Lie, sender: Address = _ANYONE, salt: Digest = _NO_SALT
) -> ChallengePlan:
    """Try the proof on the chain without sending it, and say what it would do.

    Raises:
        ProtocolError: the contract would refuse it, for instance because it comes too late.
        LedgerError: the chain cannot be asked.
    """

    # Only the note's gas is estimated, so any salt does.
    note = finder_note(task.chain_id, task.address, lie.round, lie.attempt, lie.position, sender, _NO_SALT)
    noting = functions("TrainingTask")["noteFinding"].call_data(note)
    proving = functions("TrainingTask")["prove"].call_data(
        lie.round, lie.attempt, lie.position, lie.evidence.to_bytes(), salt
    )
    note_gas, proof_gas = (_estimate(w3, sender, task.address, data) for data in (noting, proving))

    with outside("reading fees"):
        price = w3.eth.gas_price

    # The registry has the stakes; what it would take is worked out here by the same rules, without a transaction.
    (registry,) = read_call(w3, "TrainingTask", task.address, "registry")
    slashes = [_slash(w3, as_address(registry), task, id_, sender) for id_ in _guilty(task)]
    taken = [slashed for _, slashed in slashes]

    return ChallengePlan(
        lie,
        proving,
        note_gas,
        proof_gas,
        (note_gas + proof_gas) * price,
        tuple(guilty for guilty, _ in slashes),
        sum(each.to_finder for each in taken),
        sum(each.to_escrow for each in taken),
        sum(each.burned for each in taken),
    )


def _guilty(task: Task) -> list[Id]:
    round_ = task.round
    return [round_.proposer, *(id_ for id_ in round_.committee if round_.votes.get(id_, False))]


def _slash(w3: Web3, registry: Address, task: Task, id_: Id, finder: Address) -> tuple[Guilty, Slashed]:
    """What the registry would take from an account: its real stake, slashed by the rules."""
    account = task.by_id(id_).address
    config = task.config
    (values,) = read_call(w3, "StakeRegistry", registry, "allocation", task.address, account)
    held = stake.Allocation(*values)
    ledger = stake.Registry(allocations=SharedMap({(task.address, account): held}))
    parts = (finder, config.finder_part, config.burn_part)
    stake.slash(ledger, task.address, account, Slash.LIE, config.lie_slash, *parts)
    taken = next((event for event in ledger.events if isinstance(event, Slashed)), None)

    # Nothing was left to take: the registry emits no event then.
    if taken is None:
        taken = Slashed(task.address, account, Slash.LIE, 0, 0, finder, 0, 0, 0)
    whole = held.bonded + held.unbonding
    return Guilty(id_, account, whole, taken.from_bonded + taken.from_unbonding), taken


def _estimate(w3: Web3, sender: Address, to: Address, data: bytes) -> int:
    call: TxParams = {"from": checksum(sender), "to": checksum(to), "data": HexBytes(data)}
    try:
        with outside("trying the challenge"):
            return w3.eth.estimate_gas(call, "pending")
    except ContractLogicError as error:
        raise in_our_words(error) from None
