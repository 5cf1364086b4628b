"""Long turns on a shared core: nodes that train side by side leave one another's weights in the caches."""

import ctypes
import os
import platform
import struct
import sys
from typing import Final

SLICE_SECONDS: Final = 0.05
_SYSCALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""sched_setattr and sched_getattr, which Python does not have."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""Size, policy, flags, nice, priority, runtime, deadline, period."""
_ORDINARY: Final = 0


def take_long_turns(seconds: float = SLICE_SECONDS) -> bool:
    """Ask the kernel to interrupt this thread less often; whether it will.

    Linux does from 6.12 on, without privileges; elsewhere nothing changes. One that wakes up does not wait for it.
    """
    numbers = _SYSCALLS.get(platform.machine()) if sys.platform == "linux" else None
    if numbers is None or os.sched_getscheduler(0) != _ORDINARY:
        return False
    nanoseconds = round(seconds * 10**9)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, _ORDINARY, 0, nice, 0, nanoseconds, 0, 0)
    kernel = ctypes.CDLL(None)
    if kernel.syscall(numbers[0], 0, wanted, 0) != 0:
        return False
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if kernel.syscall(numbers[1], 0, found, _ATTRIBUTES.size, 0) != 0:
        return False
    return bool(_ATTRIBUTES.unpack(found.raw)[5] == nanoseconds)
