"""The Celery application as it is configured: what its options really are, not what was written."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import time

import pytest
from celery import signals
from kombu.utils.scheduling import cycle_by_name

from services import errors
from services.jobs.models import PURGE_JOBS, JobState, NewJob, Queue
from services.settings import load_settings
from tests.builders import claim, enqueue
from tests.builders import job as job_row
from workers.app import _Farewell, _Process, create_app
from workers.bell import SWEEP_TASK
from workers.broker import RedisTransport
from workers.job import REGISTRY, job

# Names that are in the brokers of running installations. A new kind is added here, none is ever renamed.
TASKS = {
    "cache.evict",
    "documents.embed_document",
    "documents.ingest_batch",
    "documents.ingest_file",
    "graph.backfill",
    "graph.embed_entities",
    "graph.evict",
    "graph.refresh",
    "jobs.purge_finished",
    "jobs.sweep",
    "memory.detect_correction",
    "memory.detect_missing",
    "memory.embed_correction",
    "memory.embed_messages",
    "memory.embed_missing",
    "memory.embed_summary",
    "memory.evict",
    "memory.extract_graph",
    "memory.summarize",
    "vectors.reconcile",
    "vectors.reembed",
    "vectors.remove_deleted",
}


@pytest.fixture(scope="module")
def settings():
    return load_settings(None, {"jobs.broker_url": "redis://127.0.0.1:1/0"})


@pytest.fixture(scope="module")
def app(settings):
    return create_app(settings)


@pytest.fixture(scope="module")
def tasks(app):
    # Tests of other modules may have declared kinds of their own in this process.
    return {name: task for name, task in app.tasks.items() if not name.startswith(("celery.", "test."))}


def test_the_task_names_are_the_known_ones(tasks):
    assert set(tasks) == TASKS


def test_two_applications_in_one_process_do_not_share_their_tasks(settings):
    first, second = create_app(settings), create_app(settings)
    for name in TASKS:
        assert first.tasks[name].run is not second.tasks[name].run, name


def test_every_task_but_the_sweep_takes_a_job_id_and_nothing_else(tasks):
    for name, task in tasks.items():
        wanted = [] if name == SWEEP_TASK else ["job_id"]
        assert list(inspect.signature(task.run).parameters) == wanted, name


def test_every_task_is_acknowledged_late_and_keeps_no_result(tasks):
    for name, task in tasks.items():
        assert (task.acks_late, task.ignore_result, task.reject_on_worker_lost) == (True, True, True), name


def test_only_json_is_spoken(app):
    assert app.conf.accept_content == ["json"]
    assert app.conf.result_accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.result_serializer == "json"


def test_no_result_is_kept_anywhere(app):
    assert app.conf.result_backend is None
    assert app.backend.__class__.__name__ == "DisabledBackend"


def test_every_queue_exists_and_every_task_has_its_own(app, settings):
    assert set(app.amqp.queues) == {queue.value for queue in Queue}
    for name, spec in REGISTRY.items():
        route = app.amqp.router.route({}, name)
        assert route["queue"].name == spec.kind.queue


def test_a_time_limit_suits_every_job_of_the_queue(tasks):
    for name, spec in REGISTRY.items():
        for other in REGISTRY.values():
            if name in tasks and other.kind.queue == spec.kind.queue:
                assert tasks[name].soft_time_limit >= other.soft_limit_seconds
                assert tasks[name].time_limit >= other.hard_limit_seconds


def test_every_option_that_is_set_is_one_that_celery_knows(app):
    assert set(app.conf.changes) - set(app.conf.defaults[-1]) == {"deprecated_settings"}


def test_a_misspelt_job_option_is_an_error():
    with pytest.raises(TypeError, match="soft_limit_second"):
        job(next(iter(REGISTRY.values())).kind, soft_limit_second=3)


def test_without_a_broker_there_is_no_application():
    with pytest.raises(errors.SettingsError, match=r"jobs\.broker_url is empty.*zeph worker"):
        create_app(load_settings(None, {"jobs.broker_url": ""}))


def test_importing_the_module_reads_no_settings(tmp_path):
    wrong = {"ZEPH_JOBS__NO_SUCH_SETTING": "1", "PATH": "", "HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", "import workers.app"], env=wrong, capture_output=True, check=False, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_workers_that_are_too_busy_for_a_request_to_sweep_take_jobs_back_all_the_same(app, build):
    """Requests waited behind bells until they expired, and jobs of killed workers for as long as the backlog lasted."""
    container = build(real_time=True, jobs__lease_secs=1, jobs__heartbeat_secs=0.4)
    farewell = _Farewell()
    busy = _Process(app, container.settings, farewell)
    (orphaned,) = enqueue(container, NewJob(PURGE_JOBS))
    claim(container, orphaned)
    # A lease, and then the time that its holder has for renewing it.
    for pause in (1.0, 0.15):
        time.sleep(pause)
        assert job_row(container, orphaned).state is JobState.RUNNING
        busy.sweep_if_due()
    found = job_row(container, orphaned)
    assert (found.state, found.lost_leases) == (JobState.PENDING, 1)
    farewell.say()
    busy.container.close()


def test_workers_that_live_shortly_come_to_every_queue():
    """Each began with the first queue, so that nobody came to the last ones where workers were killed all the time."""
    cycle = cycle_by_name(RedisTransport.Channel.queue_order_strategy)
    first = set()
    for _ in range(200):
        turns = cycle()
        turns.update([queue.value for queue in Queue])
        assert sorted(turns.consume(len(Queue))) == sorted(Queue)
        first.add(turns.consume(1)[0])
    assert first == set(Queue)


def test_a_worker_that_replaces_a_child_does_not_stand_still_to_collect_garbage(app):
    try:
        signals.worker_before_create_process.send(sender=app)
        settled = gc.get_freeze_count()
        assert settled > 100_000
        assert "services.adapters.database" in sys.modules
        # What comes later may become garbage.
        signals.worker_before_create_process.send(sender=app)
        assert gc.get_freeze_count() <= settled
    finally:
        gc.unfreeze()
