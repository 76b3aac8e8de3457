"""Background priority: a processor that jobs keep busy is given at once to whoever is waited for.

An agent that stores a message waits for the disk. When that is done, Linux lets a job that computes go on until its turn
ends, 4 ms later, unless the one that waits has the shorter turn and the greater weight (EEVDF, Linux 6.12 and later).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import time
from contextlib import suppress
from pathlib import Path

# `sched_setattr`, which Python does not have.
_CALL_NUMBERS = {"x86_64": 314, "aarch64": 274}
# `struct sched_attr`: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
# Of a turn. Others have 3 ms at most, so that theirs is the shorter one; jobs lose nothing by it.
_TURN_NANOSECONDS = 8_000_000
_AUTOGROUP = Path("/proc/self/autogroup")
# Linux lets one process without privileges change its session's weight every .1 s, and tells the others to try again.
_PAUSES_BETWEEN_TRIES = [0.11] * 10


def give_way(niceness: int) -> None:
    """Let the calling thread, and all that it starts from now on, step aside for what is less nice.

    0 to 19 as in `nice`; 0 changes nothing, nor does what the system does not allow or know.
    """
    if niceness == 0:
        return
    with suppress(OSError):
        niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, 0))
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        _take_long_turns(niceness)


def give_way_as_a_session(niceness: int) -> None:
    """Do so for all processes of the session that this one leads, as a service does; 0 changes nothing.

    Linux weighs sessions first (sched(7), autogroup): niceness alone counts only among processes of the same terminal.
    """
    if niceness and os.getsid(0) == os.getpid():
        with suppress(OSError):
            _weigh_session(str(niceness))


def _weigh_session(niceness: str) -> None:
    for pause in _PAUSES_BETWEEN_TRIES:
        try:
            _AUTOGROUP.write_text(niceness)
        except BlockingIOError:
            time.sleep(pause)
        else:
            return


def _take_long_turns(niceness: int) -> None:
    number = _CALL_NUMBERS.get(platform.machine())
    if platform.system() != "Linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, _TURN_NANOSECONDS, 0, 0)
    # Kernels before 6.12 take no notice of the turn.
    ctypes.CDLL(None).syscall(number, 0, wanted, 0)
