"""The daemon that workers are forked from: which Spark it takes; none forks with threads."""

import threading
from pathlib import Path

import pytest

from odradek.spark.worker_daemon import _refuse_threads, prefer_unpacked


def installed(tmp_path: Path) -> tuple[str, str]:
    package = tmp_path / "site-packages" / "pyspark"
    (package / "python" / "lib").mkdir(parents=True)
    (package / "worker.py").touch()
    return str(tmp_path / "site-packages"), str(package / "python" / "lib" / "pyspark.zip")


def test_the_installed_package_is_taken_and_not_its_zip_file(tmp_path: Path) -> None:
    site, archive = installed(tmp_path)
    assert prefer_unpacked([archive, "/other/py4j.zip", site]) == ["/other/py4j.zip", site]


def test_a_zip_file_without_its_package_on_the_path_stays(tmp_path: Path) -> None:
    _, archive = installed(tmp_path)
    assert prefer_unpacked([archive, "/elsewhere"]) == [archive, "/elsewhere"]


def test_a_zip_file_of_a_cluster_stays(tmp_path: Path) -> None:
    site, _ = installed(tmp_path)
    path = ["/opt/spark/python/lib/pyspark.zip", site]
    assert prefer_unpacked(path) == path


def test_it_does_not_fork_while_a_thread_runs() -> None:
    _refuse_threads()
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="a-thread")
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="a-thread"):
            _refuse_threads()
    finally:
        end.set()
        thread.join()
