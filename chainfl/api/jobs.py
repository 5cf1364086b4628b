"""Verification on demand: a few threads, a short queue, one run for all who ask, verdicts kept in the index."""

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from chainfl.api import schemas
from chainfl.api.clients import Share
from chainfl.api.evidence import evidence_of
from chainfl.api.follower import Follower
from chainfl.api.index import Index, KeptAudit
from chainfl.api.manifests import manifest_document
from chainfl.api.rounds import OUTCOMES
from chainfl.api.source import EventSource
from chainfl.audit.challenge import find_lie
from chainfl.audit.history import PlayedRound
from chainfl.audit.verify import CHECKS, Finding, Verdict, worst
from chainfl.blobs import get_manifest
from chainfl.chain.log import ChainEvent
from chainfl.codec.cid import Cid
from chainfl.codec.text import hex_of
from chainfl.errors import (
    BusyError,
    ChainflError,
    LedgerError,
    NotIndexedError,
    StoreError,
    VerificationError,
)
from chainfl.limits import DEFAULT_LIMITS, Limits, check_size
from chainfl.logs import one_line, traced
from chainfl.ports import BlobStore
from chainfl.protocol.events import UpdateRevealed
from chainfl.types import Outcome, Phase
from chainfl.workflows.audit import audit_round
from chainfl.workflows.model import ExportedModel, export_round

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
INDEX_CHECK = len(CHECKS) + 1
"""The index is compared after all that an audit checks."""
MOST_DIFFERENCES = 100
"""Differences of the index that are named at once; the others are counted."""


KEPT_MANIFESTS = 64
"""Manifests held in memory: each may be a megabyte."""


class JobPool:
    """Threads for work that takes long. The same work is done once for all who ask while it runs."""

    def __init__(self, threads: int, queue: int, per_client: int | None = None) -> None:
        """Start no thread yet."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="audit")
        self._limit = threads + queue
        most = self._limit if per_client is None else per_client
        self._share = Share(most, "audits or proofs running or waiting")
        self._running: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def do(self, key: Hashable, work: Callable[[], Result], client: str = "") -> "Future[Result]":
        """The result of this work, which may be under way already.

        It counts as the client's who asked first, until it is done: going away does not make room for more.

        Raises:
            LimitError: this client has enough under way; BusyError: too much is waiting.
        """
        with self._lock:
            # Who joins work that is under way costs nothing, and takes no place.
            found = self._running.get(key)
            if found is not None:
                return found

            if len(self._running) >= self._limit:
                raise BusyError(
                    f"{self._limit} audits are running or waiting, which is all there may be; try again soon"
                )

            self._share.take(client)
            try:
                future = self._pool.submit(_guarded, work)
            except RuntimeError:  # the pool is closed
                self._share.give(client)
                raise BusyError("the service is shutting down; try again soon") from None
            self._running[key] = future

        # Outside the lock: for work that is done already, this runs here and now, and takes the lock itself.
        future.add_done_callback(lambda _: self._done(key, client))
        return future

    @property
    def under_way(self) -> int:
        """How much is running or waiting."""
        return len(self._running)

    def close(self) -> None:
        """Take no more work; what runs is abandoned."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, key: Hashable, client: str) -> None:
        self._share.give(client)
        with self._lock:
            self._running.pop(key, None)


def _guarded(work: Callable[[], Result]) -> Result:
    """The work's result; what it fails with is one of our errors, whatever stored bytes or a defect brought forth.

    Raises:
        BusyError: memory ran out; VerificationError: something unforeseen, which the log shows in full.
    """
    try:
        return work()
    except ChainflError:
        raise
    except MemoryError:
        raise BusyError(
            "not enough memory for this now; try again later, or audit on your own machine"
        ) from None
    except Exception as error:
        _log.error("an audit or a proof failed: %s\n%s", one_line(error), traced(error))
        raise VerificationError(
            f"this cannot be redone ({one_line(error)}): what is stored is not as it should be, or this service has a "
            "defect; see its log"
        ) from error


class Auditor:
    """Redoes rounds of a followed chain from its events and a store."""

    def __init__(
        self,
        follower: Follower,
        source: EventSource,
        index: Index,
        store: BlobStore,
        pool: JobPool,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """Nothing is redone yet."""
        self._follower = follower
        self._source = source
        self._index = index
        self._store = store
        self.pool = pool
        self._limits = limits
        self._manifests: dict[Cid, str] = {}

    def audit(self, task: str, number: int, client: str = "") -> "Future[schemas.Audit]":
        """The verdict on a round: kept from before if it was about the very same events, else redone.

        Raises:
            ModelTooLargeError: its models are larger than this service takes on; nothing was fetched.
        """
        played, print_ = self._round(task, number)
        revealed = sum(isinstance(each.event, UpdateRevealed) for each in played.events)
        check_size(played.before.config, self._limits, revealed)
        key = ("audit", task, number, print_)
        return self.pool.do(key, lambda: self._audit(task, played, print_), client)

    def running(self, task: str, number: int) -> schemas.Audit:
        """What to answer while a verdict takes its time."""
        played, print_ = self._round(task, number)
        return _document(task, played, print_, (), None, 0.0).model_copy(
            update={"state": "running", "verdict": None}
        )

    def evidence(
        self, task: str, number: int, leaf: int, attempt: int | None, client: str = ""
    ) -> "Future[schemas.Evidence]":
        """The Merkle evidence of one leaf.

        Raises:
            ModelTooLargeError: as `audit`, though one update at a time is in memory.
        """
        played, print_ = self._round(task, number)
        check_size(played.before.config, self._limits, 1)

        # The fingerprint is in the key: after a reorg the same leaf is worked out again.
        key = ("proof", task, number, print_, leaf, attempt)
        return self.pool.do(key, lambda: evidence_of(played, self._store, leaf, attempt), client)

    def manifest(self, cid: Cid, client: str = "") -> "Future[str]":
        """A task's manifest from the store, as JSON; it can never change, so it is read once.

        Raises:
            LimitError: this client has enough under way; BusyError: too much is waiting.
        """
        kept = self._manifests.get(cid)
        if kept is not None:
            done = Future[str]()
            done.set_result(kept)
            return done
        return self.pool.do(("manifest", cid), lambda: self._read_manifest(cid), client)

    def _read_manifest(self, cid: Cid) -> str:
        found = manifest_document(cid, get_manifest(self._store, cid.digest)).model_dump_json()
        if len(self._manifests) >= KEPT_MANIFESTS:
            self._manifests.pop(next(iter(self._manifests)), None)
        self._manifests[cid] = found
        return found

    def model(self, task: str, number: int, client: str = "") -> "Future[ExportedModel]":
        """The model that a final round made, as a file with its statement.

        Raises:
            NotIndexedError: the round made none.
            ModelTooLargeError: as `audit`, though one model is in memory.
        """
        played, print_ = self._round(task, number)
        if played.outcome is not Outcome.FINAL:
            raise NotIndexedError(f"round {number} of task {task} made no model: only a final round does")
        check_size(played.before.config, self._limits, 1)

        # The statement names the block that settled the round.
        last = played.events[-1]
        settled_in = last.block_hash if isinstance(last, ChainEvent) else None
        name = model_name(number)
        return self.pool.do(
            ("model", task, number, print_),
            lambda: export_round(self._store, played.before, played, settled_in, name, limits=self._limits),
            client,
        )

    def index_check(self, client: str = "") -> "Future[schemas.IndexCheck]":
        """The whole index compared with the chain."""
        return self.pool.do("index", self._compare_index, client)

    def _compare_index(self) -> schemas.IndexCheck:
        first = list[schemas.Difference]()
        changed = 0
        for each in self._follower.check_index():
            changed += 1
            if len(first) < MOST_DIFFERENCES:
                line = (each.where, _short(each.expected), _short(each.found))
                first.append(schemas.Difference(where=line[0], expected=line[1], found=line[2]))
        return schemas.IndexCheck(
            verdict="mismatch" if changed else "ok",
            block_number=self._follower.standing.block_number,
            changed=changed,
            differences=first,
            unreadable=len(self._follower.unread),
        )

    def _round(self, task: str, number: int) -> tuple[PlayedRound, str]:
        found = self._follower.round(task, number)
        unread = self._follower.unread.get(task)
        if found is None and unread is not None:
            raise LedgerError(f"task {task} cannot be read now: {unread.reason}; it is tried again")
        if found is None:
            raise NotIndexedError(
                f"round {number} of task {task} has not begun, or the chain is not read yet"
            )
        return found

    def _audit(self, task: str, played: PlayedRound, print_: str) -> schemas.Audit:
        kept = self._index.audit(task, played.number)
        if kept is not None and kept.fingerprint == print_:
            audit = schemas.Audit.model_validate_json(kept.document)
        else:
            audit = self._redo(task, played, print_)
        return _with_finding(audit, self._check_index(task, played.number))

    def _redo(self, task: str, played: PlayedRound, print_: str) -> schemas.Audit:
        started = time.perf_counter()
        audited = audit_round(played, self._store, self._source.mix_hash, self._limits)
        findings = audited.findings
        verdict = audited.verdict

        # A ready proof is looked for only where something is wrong: it rebuilds every model of the round.
        challenge = self._challenge(played) if verdict is Verdict.MISMATCH else None
        seconds = round(time.perf_counter() - started, 6)

        audit = _document(task, played, print_, findings, challenge, seconds)
        # What is missing today may be there tomorrow, and an open round goes on: neither is kept.
        if played.ended is not None and verdict is not Verdict.UNAVAILABLE:
            document = audit.model_dump_json()
            kept = KeptAudit(print_, verdict.value, len(findings), document)
            self._index.keep_audit(task, played.number, kept)
        return audit

    def _challenge(self, played: PlayedRound) -> schemas.Challenge | None:
        """The call that convicts, while it still can: the proposal stands and is provably wrong."""
        standing = played.standing()
        if played.outcome is not Outcome.OPEN or standing.round.phase is not Phase.CHALLENGE:
            return None

        # Bytes that cannot be had make no challenge; the audit's findings say so already.
        try:
            lie = find_lie(self._store, standing)
        except (StoreError, VerificationError):
            return None
        if lie is None:
            return None

        return schemas.Challenge(
            attempt=lie.attempt,
            position=lie.position,
            expected=lie.expected,
            found=lie.found,
            evidence=hex_of(lie.evidence.to_bytes()),
        )

    def _check_index(self, task: str, number: int) -> schemas.Finding:
        """12. The index agrees with the chain's events of the round."""
        for each in self._follower.changed_rows(task, number):
            return _finding("mismatch", f"{each.where} = {_short(each.expected)}", _short(each.found))
        return _finding("ok", "the index agrees with the events", "it does")


def model_name(number: int) -> str:
    """What the file with a round's model is called."""
    return f"round-{number}.safetensors"


def _finding(verdict: schemas.VerdictName, expected: str, found: str) -> schemas.Finding:
    return schemas.Finding(number=INDEX_CHECK, check="index", verdict=verdict, expected=expected, found=found)


def _with_finding(audit: schemas.Audit, finding: schemas.Finding) -> schemas.Audit:
    verdict = audit.verdict if finding.verdict == "ok" else finding.verdict
    return audit.model_copy(update={"findings": [*audit.findings, finding], "verdict": verdict})


def _document(
    task: str,
    played: PlayedRound,
    print_: str,
    findings: tuple[Finding, ...],
    challenge: schemas.Challenge | None,
    seconds: float,
) -> schemas.Audit:
    listed = [
        schemas.Finding(
            number=one.number,
            check=one.check,
            verdict=one.verdict.value,
            expected=_short(one.expected),
            found=_short(one.found),
        )
        for one in findings
    ]

    return schemas.Audit(
        task=task,
        round=played.number,
        outcome=OUTCOMES[played.outcome],
        state="done",
        verdict=worst(findings).value,
        findings=listed,
        challenge=challenge,
        fingerprint=print_,
        seconds=seconds,
    )


def _short(text: str) -> str:
    return text if len(text) <= 2000 else text[:1999] + "…"
