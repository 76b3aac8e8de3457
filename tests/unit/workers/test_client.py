from services.bootstrap import Silence
from workers.bell import BackgroundPublisher
from workers.client import open_container


def test_a_program_rings_for_celery_workers_where_there_is_a_broker(tmp_path):
    settings = {"data_dir": str(tmp_path), "jobs.broker_url": "redis://127.0.0.1:1/0"}
    with open_container(settings) as container:
        assert isinstance(container.publisher, BackgroundPublisher)


def test_a_program_without_a_broker_rings_for_nobody(tmp_path):
    with open_container({"data_dir": str(tmp_path)}) as container:
        assert isinstance(container.publisher, Silence)


def test_a_message_is_remembered_in_a_moment_while_the_broker_is_away(tmp_path, monkeypatch):
    settings = {
        "data_dir": str(tmp_path),
        "jobs.broker_url": "redis://127.0.0.1:1/0",
        "jobs.min_free_disk_bytes": 0,
        "embedding.provider": "fake",
    }
    with open_container(settings) as container:
        message = container.memory.remember("user", "the harbour closes at nine")
        assert [hit.message.id for hit in container.memory.recall("harbour").hits] == [message]
