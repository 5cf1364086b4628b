"""Run a target on many inputs, and say which of them break it.

A defect is an exception that the target does not name, more than two seconds of computing, or more than a gigabyte of
memory. Inputs that end in a place of the code where none ended before are kept and changed further, which costs
nothing here: where a refusal was raised stands in its traceback.
"""

import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from types import FrameType, TracebackType
from typing import Final

from tests.fuzz.mutate import Mutator
from tests.fuzz.target import Target

MAX_SECONDS: Final = 2.0
MAX_WAIT_SECONDS: Final = 20.0
"""In all: a machine may be busy with something else, a reader may not wait for ever."""

MAX_MEMORY: Final = 1 << 30
MAX_FAILURES: Final = 10
MAX_SHRINKS: Final = 3000
SHRINK_SECONDS: Final = 20.0
PROGRESS_SECONDS: Final = 5.0

_warm: set[str] = set()

Place = tuple[object, ...]
"""Where an execution ended: an error's type and the lines that it passed; else what the target told, if anything."""


class HangError(BaseException):
    """An execution computes for too long. Not an Exception, so that no reader takes it for its own."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that breaks a target, and how."""

    target: str
    data: bytes
    what: str
    place: Place

    @property
    def file_name(self) -> str:
        """What its file is called in a corpus."""
        return f"crash-{sha256(self.data).hexdigest()[:12]}"


@dataclass(slots=True)
class Outcome:
    """What a run found."""

    target: str
    executions: int = 0
    accepted: int = 0
    places: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Executions a second."""
        return self.executions / self.seconds if self.seconds else 0.0


def execute(target: Target, data: bytes) -> tuple[Place, str | None]:
    """Run a target once: where it ended, and what is wrong with that, if anything."""
    started = time.perf_counter()
    place: Place = ()
    wrong = None
    try:
        told = target.read(data)
        place = () if told is None else (told,)
    except target.errors as error:
        place = place_of(error)
        if _is_out_of_memory(error):
            wrong = f"more than {MAX_MEMORY >> 20} MiB of memory: {error!r:.200}"
    except (Exception, HangError) as error:
        place = place_of(error)
        wrong = f"{type(error).__name__}: {error!s:.300}"
    waited = time.perf_counter() - started
    if wrong is None and waited > MAX_SECONDS:
        wrong = _hang(target, data, waited)
    return place, wrong


def _hang(target: Target, data: bytes, waited: float) -> str | None:
    """What took long: the target, if it takes that much computing again, or the machine, busy with something else."""
    computed = time.process_time()
    with suppress(Exception):
        target.read(data)
    computed = time.process_time() - computed
    if computed > MAX_SECONDS or waited > MAX_WAIT_SECONDS:
        return f"hang: {computed:.1f} s of computing, {waited:.1f} s in all"
    return None


def fuzz(
    target: Target,
    runs: int,
    seed: int = 0,
    seconds: float | None = None,
    on_outcome: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Run a target on its corpus, then on changed inputs: at most so many, for so long, up to the first ten defects."""
    corpus = list(target.corpus().values())
    mutator = Mutator(corpus, target.form, target.words, target.max_bytes, _seed(target, seed))
    outcome = Outcome(target.name)
    seen: set[Place] = set()
    warm(target)
    started = told = time.perf_counter()
    with _limited() as tick:
        while outcome.executions < runs and len(outcome.failures) < MAX_FAILURES:
            at = outcome.executions
            data = corpus[at] if at < len(corpus) else mutator.next()
            place, wrong = execute(target, data)
            tick()
            outcome.executions += 1
            outcome.accepted += not place or not isinstance(place[0], type)
            if place not in seen:
                seen.add(place)
                if wrong is not None:
                    outcome.failures.append(Failure(target.name, data, wrong, place))
                elif at >= len(corpus):
                    mutator.keep(data)
            elif wrong is not None and not _is_known(outcome.failures, place):
                outcome.failures.append(Failure(target.name, data, wrong, place))
            if at % 64 == 0:
                now = time.perf_counter()
                if seconds is not None and now - started > seconds:
                    break
                if now - told > PROGRESS_SECONDS:
                    told = now
                    outcome.places, outcome.seconds = len(seen), now - started
                    on_outcome(outcome)
    outcome.places, outcome.seconds = len(seen), time.perf_counter() - started
    return outcome


def warm(target: Target) -> None:
    """Import, compile and build what the executions of a target use, before any limit counts; once for each."""
    if target.name in _warm:
        return
    _warm.add(target.name)
    for name, data in target.corpus().items():
        if name.startswith("seed-"):
            with suppress(Exception):
                target.read(data)


def check(target: Target, data: bytes) -> Failure | None:
    """Whether this one input breaks a target."""
    warm(target)
    with _limited():
        place, wrong = execute(target, data)
    return None if wrong is None else Failure(target.name, data, wrong, place)


def shrink(target: Target, failure: Failure) -> Failure:
    """The same failure with as few bytes as can be found by leaving parts out, then by turning bytes to zero."""
    best = failure
    tries = 0
    until = time.perf_counter() + SHRINK_SECONDS

    def fails(data: bytes) -> bool:
        nonlocal best, tries
        tries += 1 if time.perf_counter() < until else MAX_SHRINKS
        place, wrong = execute(target, data)
        if wrong is None or place != failure.place:
            return False
        best = Failure(target.name, data, wrong, place)
        return True

    with _limited():
        size = len(best.data)
        while size and tries < MAX_SHRINKS:
            at = 0
            while at < len(best.data) and tries < MAX_SHRINKS:
                if not fails(best.data[:at] + best.data[at + size :]):
                    at += size
            size //= 2
        for at in range(min(len(best.data), MAX_SHRINKS)):
            if best.data[at] and tries < MAX_SHRINKS:
                fails(best.data[:at] + b"\0" + best.data[at + 1 :])
    return best


def place_of(error: BaseException) -> Place:
    """The lines that an error passed, outermost first, with those of its cause."""
    found: list[object] = [type(error)]
    cause: BaseException | None = error
    while cause is not None and len(found) < 64:
        trace: TracebackType | None = cause.__traceback__
        while trace is not None and len(found) < 64:
            found += (trace.tb_frame.f_code, trace.tb_lineno)
            trace = trace.tb_next
        cause = cause.__cause__
    return tuple(found)


def _is_known(failures: list[Failure], place: Place) -> bool:
    return any(failure.place == place for failure in failures)


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether a refusal hides that memory ran out."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _seed(target: Target, seed: int) -> int:
    return int.from_bytes(sha256(f"{target.name} {seed}".encode()).digest()[:8], "big")


@contextmanager
def _limited() -> Iterator[Callable[[], None]]:
    """Bound the memory of this process, and end an execution that computes for too long.

    Only computing counts, so that a busy machine makes no defects. The timer runs on and finds the same execution at
    work twice; setting it anew for each would take longer than most executions.
    """
    strikes = 0

    def tick() -> None:
        nonlocal strikes
        strikes = 0

    def strike(_signal: int, _frame: FrameType | None) -> None:
        nonlocal strikes
        strikes += 1
        if strikes > 2:
            strikes = 0
            raise HangError(f"computes for more than {MAX_SECONDS:g} s")

    before = signal.signal(signal.SIGPROF, strike)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS / 2, MAX_SECONDS / 2)
    try:
        with _memory(MAX_MEMORY):
            yield tick
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _memory(more: int) -> Iterator[None]:
    """Let this process map so many bytes more than it has now (on Linux; other systems do not enforce it)."""
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:  # noqa: PTH123 (no path is built here)
        now = int(file.read().split()[0]) * resource.getpagesize()
    wanted = now + more if soft == resource.RLIM_INFINITY else min(soft, now + more)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
