"""A node asks for long turns on a core, where the kernel gives them, and changes nothing else."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from chainfl.node.scheduling import take_long_turns


def release() -> tuple[int, int]:
    """The kernel's version."""
    first, second = os.uname().release.split(".")[:2]
    return int(first), int(second)


def test_long_turns_are_given_where_the_kernel_has_them() -> None:
    if sys.platform != "linux" or release() < (6, 12) or os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("the kernel has no turns of a chosen length")
    with ThreadPoolExecutor(1) as pool:  # of this thread alone
        given = pool.submit(take_long_turns, 0.03).result()

    assert given


def test_niceness_and_policy_stay() -> None:
    def asked() -> tuple[int, int]:
        take_long_turns()
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)

    if sys.platform != "linux":
        assert not take_long_turns()
        return
    before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    with ThreadPoolExecutor(1) as pool:
        after = pool.submit(asked).result()

    assert after == before
