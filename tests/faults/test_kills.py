"""F1, F2, F4 and F5: workers that are killed and stopped over and over under load, and what becomes of their jobs.

What Celery by itself makes of the same is measured beside it, on the same machine and in the same run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from operator import methodcaller

import pytest

from services.bootstrap import Container
from services.jobs.models import NewJob
from tests.builders import assert_healthy, enqueue, rows
from tests.faults import bare_app
from tests.faults.campaign import ForkedWorker, Watch, ask_to_stop, kill_a_child, strikes
from tests.faults.harness import PROFILE, SEED, History, Tripwire, amount, in_child, quantile, sample
from tests.faults.workload import NAMESPACES, accepting, effects, violations
from tests.services.harness import ALL_QUEUES, COUNTED, JOBS_APP, SCHEDULED, Process, Stack, wait_until
from tests.services.jobs_app import EFFECTS
from workers.app import create_app
from workers.bell import CeleryPublisher

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3_600)]

# Nightly with the defaults of the product; a commit's run cannot wait for them.
SETTINGS = {
    "jobs__lease_secs": amount(commit=4, nightly=30),
    "jobs__heartbeat_secs": amount(commit=1, nightly=10),
    "jobs__sweep_interval_secs": amount(commit=1, nightly=10),
    # Of so many kills three may hit one job by chance, which then would count as one that kills its workers.
    "jobs__max_lost_leases": 20,
    "memory__graph__enabled": True,
    "memory__summarization_threshold": 100_000,
}
BACKLOG = 1_000


def test_workers_killed_over_and_over_lose_and_double_nothing_f1(start: Callable[..., Stack]):
    stack = start(**SETTINGS)
    begin = partial(ForkedWorker, stack, JOBS_APP)
    kills, jobs = amount(commit=4, nightly=200), amount(commit=250, nightly=12_000)
    struck(stack, "F1 kill -9 of the worker and its children", kills, jobs, begin, methodcaller("kill"))


def test_embedded_workers_killed_over_and_over_lose_and_double_nothing_f1(start: Callable[..., Stack]):
    stack = start(broker=False, **SETTINGS)
    begin = partial(stack.embedded_worker, ALL_QUEUES, wait=False)
    kills, jobs = amount(commit=2, nightly=50), amount(commit=100, nightly=3_000)
    struck(stack, "F1 kill -9 of the embedded worker", kills, jobs, begin, methodcaller("kill"))


def test_a_worker_whose_children_are_killed_works_on_and_loses_and_doubles_nothing_f2(
    start: Callable[..., Stack],
):
    stack = start(**SETTINGS)
    begin = partial(ForkedWorker, stack, JOBS_APP)
    kills, jobs = amount(commit=4, nightly=100), amount(commit=150, nightly=6_000)
    struck(stack, "F2 kill -9 of one child", kills, jobs, begin, kill_a_child)
    assert len(stack.processes) == 1


def test_workers_asked_to_stop_over_and_over_fail_no_job_and_spend_no_attempt_f4(start: Callable[..., Stack]):
    # Nothing is to lapse here, however busy the machine is.
    stack = start(**SETTINGS | {"jobs__lease_secs": 30, "jobs__heartbeat_secs": 10})
    begin = partial(ForkedWorker, stack, JOBS_APP)
    stops, jobs = amount(commit=3, nightly=50), amount(commit=150, nightly=3_000)
    struck(stack, "F4 SIGTERM", stops, jobs, begin, ask_to_stop)
    sql = "SELECT kind, attempts, lost_leases, error_type FROM jobs WHERE state = 'done'"
    assert [row for row in rows(stack.container, sql) if row[1:] != (1, 0, None)] == []


@pytest.mark.parametrize("who", ["caller", "relay"])
def test_whoever_rings_may_be_killed_before_between_and_after_the_bells_f5(
    who: str, start: Callable[..., Stack]
):
    stack = start(jobs__lease_secs=1.5, jobs__heartbeat_secs=0.5)
    container, bells = stack.container, 4
    container.sessions().create_acp_session(EFFECTS)
    # It sweeps not, so that nobody else rings.
    worker = ForkedWorker(stack, JOBS_APP, [COUNTED.queue])
    points = sample(range(1, 2 * bells + 1), commit=3) * amount(commit=1, nightly=13)
    waits = []
    for rounds, point in enumerate(points):
        numbers = range(rounds * bells, (rounds + 1) * bells)
        if who == "relay":
            due = container.clock.now()
            enqueue(container, *(NewJob(COUNTED, {"number": number}, run_after=due) for number in numbers))

        def ring(numbers: range = numbers, point: int = point) -> None:
            publisher = Tripwire(point).watch(CeleryPublisher(create_app(stack.settings)))
            with Container(stack.settings, publisher=publisher) as doomed:
                if who == "relay":
                    doomed.ledger.ring(COUNTED.queue)
                else:
                    enqueue(doomed, *(NewJob(COUNTED, {"number": number}) for number in numbers))

        assert in_child(ring) is None, f"nobody died at call {point}"
        began = time.monotonic()

        def done(end: int = numbers.stop) -> bool:
            container.ledger.sweep()
            return effects(container).total() >= end

        wait_until(done, "all are done once another relay sweeps", worker, pause=0.1)
        waits.append(time.monotonic() - began)
        # A bell too many would have the next round's jobs done before anybody rings.
        wait_until(lambda: stack.redis.silent(COUNTED.queue), "every bell is answered", worker)
    print(
        f"F5 {who} killed {len(points)} times at {2 * bells} points: {len(points) * bells} jobs done once, "
        f"p95 {quantile(waits, 0.95):.1f} s later, max {max(waits):.1f} s (lease 1.5 s), seed {SEED}"
    )
    assert effects(container) == Counter(range(len(points) * bells))
    assert_healthy(container)


def struck(
    stack: Stack,
    what: str,
    times: int,
    jobs: int,
    begin: Callable[[], Process],
    strike: Callable[[Process], object],
) -> None:
    """Strike at workers while they have so many jobs to do: all are done, and nothing is there twice."""
    container, history = stack.container, History(stack.folder / "history")
    watch = Watch(container)
    container.sessions().create_acp_session(EFFECTS)
    with accepting(container, history, jobs, seed=SEED, backlog=BACKLOG) as load:
        began = time.monotonic()
        worker = strikes(
            times,
            jobs=jobs,
            done=partial(count, container, "done"),
            start=begin,
            strike=strike,
            look=watch.look,
        )
        seconds, left = time.monotonic() - began, jobs - count(container, "done")

        def ended() -> bool:
            return load.done() and not any(
                count(container, state) for state in ("pending", "running", "waiting")
            )

        wait_until(ended, f"all jobs have ended, seed {SEED}", worker, seconds=300, pause=0.2)
        counted = load.result()
    watch.look()
    slow = quantile(watch.seconds, 0.95)
    print(
        f"{what}: {times} in {seconds:.0f} s, {left} of {jobs} jobs left after the last ({counted} counted), "
        f"{len(watch.seconds)} jobs struck and running again within p95 {slow:.1f} s, "
        f"max {max(watch.seconds, default=0.0):.1f} s, seed {SEED}"
    )
    assert violations(container, history) == [], SEED
    assert effects(container) == Counter(range(counted)), SEED
    for namespace in NAMESPACES:
        with container.database.read() as unit:
            assert unit.texts.count_unread(namespace) == 0
    assert_healthy(container)
    if PROFILE == "nightly":
        assert slow <= 40
        assert max(watch.seconds, default=0.0) <= 45


def count(container: Container, state: str) -> int:
    """How many jobs are in this state, without those of the schedule."""
    sql = f"SELECT count(*) FROM jobs WHERE state = '{state}' AND kind <> '{SCHEDULED.name}'"
    return int(rows(container, sql)[0][0])


@pytest.mark.skipif(PROFILE == "commit", reason="a comparison that fails by nothing we change")
@pytest.mark.parametrize("options", ["careful", "usual"])
def test_what_celery_by_itself_makes_of_the_same_kills_is_counted_f1(
    options: str, start: Callable[..., Stack]
):
    kills, tasks = 200, 12_000
    stack = start(**SETTINGS)
    container, app, killed = stack.container, bare_app.create_app(stack.settings), list[float]()
    container.sessions().create_acp_session(EFFECTS)
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(tasks):
            app.send_task(bare_app.TASK, (number,), producer=producer)
    with closing(stack.redis.client()) as redis:

        def taken() -> int:
            return tasks - redis.llen(bare_app.QUEUE)

        strikes(
            kills,
            jobs=tasks,
            done=taken,
            start=partial(ForkedWorker, stack, f"tests.faults.bare_app:{options}", [bare_app.QUEUE]),
            strike=methodcaller("kill"),
            look=lambda: killed.append(time.time()),
        )
        still(lambda: (taken(), redis.hlen("unacked"), effects(container).total()))
        held = bare_app.held(redis)
    done = effects(container)
    twice = sum(times > 1 for times in done.values())
    stuck = sum(done[number] == 0 for number in held)
    lost = tasks - len(done.keys() | held)
    again = bare_app.seconds_until_again(bare_app.history(stack.settings), killed)
    waits = sorted(seconds for seconds in again if seconds is not None)
    print(
        f"F1 bare Celery, {options} options: {kills} kill -9, {tasks} tasks: {lost} lost, {twice} run twice or more, "
        f"{stuck} stuck until the visibility timeout; {len(again)} cut off, {len(waits)} of them run again, "
        f"p95 {quantile(waits, 0.95):.1f} s, max {max(waits, default=0):.1f} s, seed {SEED}"
    )
    assert set(done) | held <= set(range(tasks))


def still(look: Callable[[], object], *, seconds: float = 2 * bare_app.VISIBILITY_SECONDS) -> None:
    """Return when what is looked at has not changed for so long."""
    seen, since = look(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(1)
        now = look()
        if now != seen:
            seen, since = now, time.monotonic()
