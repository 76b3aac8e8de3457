import ctypes
import os
import sys
import threading
from pathlib import Path

import pytest

from tests.builders import in_processes
from workers.priority import give_way, give_way_as_a_session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="niceness of threads and sessions is Linux's")
AUTOGROUP = Path("/proc/self/autogroup")
NOBODY = 65534
PR_SET_DUMPABLE = 4
needs_autogroups = pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel has no autogroups")


def niceness():
    return os.getpriority(os.PRIO_PROCESS, 0)


def autogroup():
    """The niceness of the session, or None in one as old as the system: it has no group of its own."""
    group = AUTOGROUP.read_text().split()
    return int(group[-1]) if group else None


def lose_privileges():
    if os.getuid() == 0:
        os.setuid(NOBODY)
        # Files under /proc/self go on belonging to root without it.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def test_a_thread_gives_way_with_those_that_it_starts_and_no_other():
    before, seen = niceness(), []

    def work():
        give_way(7)
        seen.append(niceness())
        started = threading.Thread(target=lambda: seen.append(niceness()))
        started.start()
        started.join()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [max(7, before)] * 2
    assert niceness() == before


def test_what_is_nicer_already_stays_so_and_0_changes_nothing():
    def task(_number):
        give_way(0)
        assert niceness() == before
        os.nice(max(0, 12 - before))
        give_way(7)
        assert niceness() == max(12, before)

    before = niceness()
    in_processes(1, task)


def test_a_scheduling_policy_that_somebody_chose_stays():
    def task(_number):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        give_way(7)
        assert os.sched_getscheduler(0) == os.SCHED_BATCH

    in_processes(1, task)


@needs_autogroups
def test_only_the_leader_of_a_session_makes_it_give_way():
    def follower(_number):
        before = autogroup()
        give_way_as_a_session(7)
        assert autogroup() == before

    def leader(_number):
        os.setsid()
        give_way_as_a_session(0)
        assert autogroup() == 0
        give_way_as_a_session(7)
        assert autogroup() == 7

    in_processes(1, follower)
    in_processes(1, leader)


@needs_autogroups
def test_of_sessions_without_privileges_that_start_at_once_each_gives_way():
    def leader(_number):
        os.setsid()
        lose_privileges()
        give_way_as_a_session(7)
        assert autogroup() == 7

    in_processes(4, leader)
