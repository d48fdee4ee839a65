"""Two workers: what each of them answers, and one that is killed.

Longer: ``python -m tests.scenarios.connect_failover``.
"""

from pathlib import Path

from odradek.testing import Cluster
from tests.scenarios.connect_failover import Run, free_port, run
from tests.scenarios.connect_process import SOURCE, Worker, until


def test_the_worker_that_leads_is_killed() -> None:
    made = run(connectors=2, lines=3_000, kills=1, stops=0)
    assert max(made.failover_s) < 10


def test_each_worker_takes_every_request(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    config = {"connector.class": SOURCE, "file": str(tmp_path / "lines"), "topic": "lines"}
    level = "/admin/loggers/odradek.connect"
    with Cluster() as cluster:
        made = Run(tmp_path, cluster.bootstrap, connectors=0, lines=0)
        made.workers += [made.start(index, free_port()) for index in range(2)]
        first, second = made.workers
        try:
            for name, worker in (("a", first), ("b", second)):
                assert worker.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201
            for worker, other in ((first, second), (second, first)):
                worker.becomes("a", "RUNNING")
                # What a worker has changed is known to it when it is asked next, and to the other
                # when that has read it.
                assert worker.ask("PATCH", "/connectors/a/config", {"x": worker.port})[0] == 200
                assert knows(worker, worker.port)
                until(lambda other=other, port=worker.port: knows(other, port))  # type: ignore[misc]
                assert worker.ask("PUT", "/connectors/a/pause")[0] == 202
                other.becomes("a", "PAUSED")
                assert worker.ask("PUT", "/connectors/a/resume")[0] == 202
                other.becomes("a", "RUNNING")
                # A worker that has not heard of b's task yet answers 404.
                worker.becomes("b", "RUNNING")
                # One of the two has to be passed on to the worker that runs the task.
                assert worker.ask("POST", "/connectors/a/tasks/0/restart")[0] == 204
                assert worker.ask("POST", "/connectors/b/tasks/0/restart")[0] == 204
                worker.becomes("b", "RUNNING")
            assert second.ask("PUT", f"{level}?scope=cluster", {"level": "DEBUG"})[0] == 204
            for worker in made.workers:
                until(lambda worker=worker: worker.ask("GET", level)[1]["level"] == "DEBUG")  # type: ignore[misc]
            ids = {f"127.0.0.1:{worker.port}" for worker in made.workers}
            until(lambda: {second.status(name)["tasks"][0]["worker_id"] for name in "ab"} == ids)
        finally:
            made.end()


def knows(worker: Worker, x: int) -> bool:
    return bool(worker.ask("GET", "/connectors/a/config")[1].get("x") == str(x))
