"""Benches on a machine that others use: disturbed turns do not count, and what cannot be told is no bar."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from scripts.benches._memory import tree_pss, watching
from scripts.benches._peers import start
from scripts.benches._quiet import Sample, Samples, judged, own_seconds, sample, told_lines, watched
from scripts.benches._turns import take_turns


def samples(*seconds: float) -> Samples:
    made = Samples()
    for each in seconds:
        made.add(Sample(each, 0.0))
    return made


def test_a_disturbed_turn_is_counted_and_thrown_away() -> None:
    found = samples(1.0, 2.0, 3.0)

    found.add(Sample(90.0, 0.5))

    assert found.plain() == {
        "median": 2.0,
        "low": 1.5,
        "high": 2.5,
        "kept": 3,
        "disturbed": 1,
        "disturbed_median": 90.0,
        "cpu": None,
    }


def test_a_ratio_clear_of_its_limit_is_a_bar() -> None:
    kept, _ = judged("x", samples(4.0, 4.1, 4.2), samples(1.0, 1.0, 1.1), ">=", 2.0)
    missed, told = judged("x", samples(4.0, 4.1, 4.2), samples(1.0, 1.0, 1.1), "<=", 2.0)

    assert kept is not None
    assert kept.ok
    assert missed is not None
    assert not missed.ok
    assert told["verdict"] == "missed"


def test_a_ratio_whose_spread_crosses_its_limit_is_undecided_and_no_bar() -> None:
    made, told = judged("x", samples(1.0, 2.0, 3.0), samples(1.0, 1.0, 1.0), ">=", 2.0)

    assert made is None
    assert told["verdict"] == "undecided"


def test_without_a_quiet_turn_nothing_is_decided() -> None:
    made, told = judged("x", Samples(), samples(1.0), ">=", 2.0)

    assert made is None
    assert told["why"] == "every turn was disturbed"


def test_a_turn_says_what_it_likes_and_may_start_the_process_that_it_watches() -> None:
    pids: list[int] = []

    def turn() -> str:
        pids.append(stack.enter_context(worker()).pid)
        return "started"

    with ExitStack() as stack:
        (answer, others), all_but_us = watched(lambda: watched(turn, pids), [])

    assert answer == "started"
    assert len(pids) == 1
    assert 0 <= others < all_but_us <= 1


def test_lines_for_people_name_verdict_value_spread_and_limit() -> None:
    _, decided_ = judged("x", samples(4.0, 4.1, 4.2), samples(1.0, 1.0, 1.0), ">=", 2.0)
    _, undecided = judged("y", Samples(), samples(1.0), ">=", 2.0)

    assert told_lines([decided_, undecided]) == [
        f"ok         {'x':<32} 4.10 (4.05 to 4.15), limit 2",
        f"undecided  {'y':<32} every turn was disturbed",
    ]


def test_memory_is_that_of_a_process_and_its_children() -> None:
    child = "x = bytearray(60 << 20); print('there', flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        with watching(other.pid) as peak:
            other.stdout.readline()
        largest = tree_pss(other.pid) / 2**20
        other.stdin.close()

    assert 60 < largest < 200
    assert 0 < peak.mb <= largest + 1


def test_what_a_contender_computes_is_its_own_and_not_that_of_others() -> None:
    with worker() as other:
        before = own_seconds([other.pid])

        inner, all_but_us = watched(lambda: sample(lambda: works(other), [other.pid]), [])

        assert own_seconds([other.pid]) - before > 0.05
        assert inner.seconds == 1.0
        assert 0 <= inner.foreign < all_but_us <= 1


def test_turns_say_what_a_contender_computed_in_each() -> None:
    says = 'print(\'{"answer": {"seconds": 1.0}}\', flush=True)'
    busy = f"import sys\nfor line in sys.stdin:\n    sum(range(5_000_000))\n    {says}"
    idle = f"import sys\nfor line in sys.stdin:\n    {says}"
    with start([sys.executable, "-c", busy]) as one, start([sys.executable, "-c", idle]) as other:
        found = take_turns({"busy": one, "idle": other}, 3)

    (computed,), (nothing,) = found["busy"].cpu, found["idle"].cpu
    assert computed > 0.02 > nothing


def test_a_turn_shorter_than_a_tick_of_the_clock_says_no_more_than_all_cores() -> None:
    assert all(0 <= sample(lambda: 1.0, []).foreign <= 1 for _ in range(2_000))


@contextmanager
def worker() -> Iterator[subprocess.Popen[str]]:
    """A process that computes for some tenths of a second when it starts and for every line that it is told."""
    busy = "import sys\nwhile True:\n    sum(range(20_000_000)); print(1, flush=True)\n    input()"
    with subprocess.Popen(
        [sys.executable, "-c", busy],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        yield other
        other.stdin.close()


def works(other: subprocess.Popen[str]) -> float:
    """Let a worker compute once."""
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("go\n")
    other.stdin.flush()
    other.stdout.readline()
    return 1.0
