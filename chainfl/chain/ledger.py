"""`Ledger` on a chain: one task, read through its events, acted on through one sender."""

import time
from collections.abc import Sequence
from itertools import takewhile

from web3 import Web3
from web3.types import TxReceipt

from chainfl.chain.abi import functions
from chainfl.chain.development import is_development, make_block
from chainfl.chain.evidence import read_header
from chainfl.chain.reader import TaskReader
from chainfl.chain.rpc import outside
from chainfl.chain.send import Sender
from chainfl.codec.text import hex_of
from chainfl.errors import LedgerError
from chainfl.protocol.admission import Admission
from chainfl.protocol.errors import DrawTooEarlyError
from chainfl.protocol.events import Claimed
from chainfl.protocol.proof import Evidence
from chainfl.protocol.state import Task
from chainfl.types import Address, Digest, Id

_FIXED_GAS = 150_000
"""Enough for a commitment, a reveal of short data or a vote; asking for an estimate would double their time."""
_GAS_PER_BYTE = 60
_TRANSFER_GAS = 21_000
_MAY_BE_SILENT = ("applyChange", "noteFinding")
"""Calls that may change nothing, and then emit no event."""


class ChainLedger:
    """One task on a chain, as one account sees it and acts on it."""

    def __init__(
        self, w3: Web3, sender: Sender, reader: TaskReader, task: Address, owner: Address | None = None
    ) -> None:
        """Put the parts together; nothing is read or sent yet. With an owner the sender is its operator."""
        self._w3 = w3
        self._sender = sender
        self.reader = reader
        self._address = task
        self._owner = owner
        self._last = b""
        self._makes_blocks = is_development(reader.created.chain_id)

    @property
    def me(self) -> Address:
        """The account that takes part."""
        return self._owner or self.key

    @property
    def key(self) -> Address:
        """Who sends: the account itself, or its operator."""
        return self._sender.address

    def task(self) -> Task:
        """The task as it stands, read again."""
        return self.reader.refresh()

    def now(self) -> int:
        """The time the next block will have, as far as it can be known."""
        return max(self.reader.newest_time, int(time.time()))

    def acted_last(self) -> bool:
        """Whether the task's newest event, as far as it was read, came from this account's last action."""
        return bool(self.reader.log) and self.reader.log[-1].transaction == self._last

    def enrol(self, admission: Admission | None = None) -> None:
        """Take part from the next draw on."""
        if admission is not None:
            self._act("enrolAdmitted", self.me, admission.role, admission.proof)
        elif self._owner is None:
            self._act("enrol")
        else:
            self._act("enrolFor", self._owner)

    def leave(self) -> None:
        """Take no part in later draws."""
        self._act("leave")

    def apply_change(self, account: Address) -> None:
        """Bring an account's weight in line with its stake and wish."""
        self._act("applyChange", account)

    def can_draw(self) -> bool:
        """Whether a draw is open and the block that seeds it is there, or will be made on demand."""
        number = self.reader.task.round.draw_block
        return number > 0 and (self._makes_blocks or number <= self.reader.newest_block)

    def draw(self) -> None:
        """Draw the roles of the round, from the header of the block that the opening named."""
        # Read anew: the opening may be younger than the last look at the chain.
        number = self.task().round.draw_block
        if self._makes_blocks:
            self._make_blocks(number)
        header = read_header(self._w3, number)
        if header is None:
            raise DrawTooEarlyError(number)
        self._act("draw", header)

    def _make_blocks(self, until: int) -> None:
        """On a development chain nobody else does: ask for empty blocks, or fill them with transfers of nothing."""
        with outside("reading the chain's head"):
            newest = self._w3.eth.block_number
        for _ in range(newest, until):
            if not make_block(self._w3):
                self._sender.send(self.key, b"", gas=_TRANSFER_GAS)

    def note_absent(self, round_: int, ids: Sequence[Id]) -> None:
        """Note who was drawn to train and did not commit in time."""
        self._act("noteAbsent", round_, list(ids))

    def advance(self, round_: int) -> None:
        """Leave a phase that is over."""
        self._act("advance", round_)

    def tally(self, round_: int, vectors: Sequence[bytes]) -> None:
        """Turn the revealed scores into shares."""
        self._act("tally", round_, list(vectors))

    def commit_update(self, round_: int, digest: Digest) -> None:
        """Commit to an update."""
        self._act("commitUpdate", round_, digest, quick=True)

    def reveal_update(self, round_: int, root: Digest, cid: Digest, samples: int, salt: Digest) -> None:
        """Open the commitment to an update."""
        self._act("revealUpdate", round_, root, cid, samples, salt, quick=True)

    def commit_scores(self, round_: int, digest: Digest) -> None:
        """Commit to scores."""
        self._act("commitScores", round_, digest, quick=True)

    def reveal_scores(self, round_: int, scores: bytes, salt: Digest) -> None:
        """Open the commitment to scores."""
        self._act("revealScores", round_, scores, salt, quick=True)

    def propose(
        self, round_: int, attempt: int, model_root: Digest, block: Digest, shares: Sequence[int]
    ) -> None:
        """Post the next model."""
        self._act("propose", round_, attempt, model_root, block, list(shares))

    def vote(
        self,
        round_: int,
        attempt: int,
        model_root: Digest,
        block: Digest,
        shares_digest: Digest,
        attests: bool,
    ) -> None:
        """Attest a proposal or object to it."""
        name = "attest" if attests else "object"
        self._act(name, round_, attempt, model_root, block, shares_digest, quick=True)

    def note_finding(self, note: Digest) -> None:
        """Seal a finding before showing it."""
        self._act("noteFinding", note)

    def prove(self, round_: int, attempt: int, position: int, evidence: Evidence, salt: Digest) -> None:
        """Show one wrong parameter of the standing proposal."""
        self._act("prove", round_, attempt, position, evidence.to_bytes(), salt)

    def claim(self, rounds: Sequence[int]) -> int:
        """Pull what the account earned."""
        block = self._act("claim", list(rounds))["blockNumber"]
        paid = [
            logged.event
            for logged in self.reader.log
            if logged.block_number == block and isinstance(logged.event, Claimed)
        ]
        return sum(event.amount for event in paid if event.account == self.me)

    def _act(self, name: str, *values: object, quick: bool = False) -> TxReceipt:
        data = functions("TrainingTask")[name].call_data(*values)
        gas = _FIXED_GAS + _GAS_PER_BYTE * len(data) if quick else None
        left = max(0.0, float(self.reader.task.round.deadline - self.now()))
        receipt = self._sender.send(self._address, data, gas=gas, seconds_left=left, is_checked=False)
        self._last = bytes(receipt["transactionHash"])
        self.reader.refresh(receipt["blockNumber"])
        self._expect_logged(name, receipt)
        return receipt

    def _expect_logged(self, name: str, receipt: TxReceipt) -> None:
        """A receipt alone proves nothing: what was done must be among the task's events."""
        if name in _MAY_BE_SILENT:
            return
        newest = takewhile(lambda one: one.block_number >= receipt["blockNumber"], reversed(self.reader.log))
        if not any(one.transaction == self._last for one in newest):
            raise LedgerError(
                f"{name}: the endpoint says that transaction {hex_of(self._last)} was mined in block "
                f"{receipt['blockNumber']}, but the task's log has no event of it: retrying"
            )
