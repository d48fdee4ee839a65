"""The daemon that workers are forked from: none is forked while threads run."""

import os
import socket
import threading
from pathlib import Path

import pytest

from odradek.spark import source, worker_daemon
from odradek.spark.arrow import kernels, loading
from odradek.spark.worker_daemon import _refuse_threads, without_delayed_acks


def test_it_does_not_fork_while_a_thread_runs() -> None:
    """That it does without one is what every test with Spark shows."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="a-thread")
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="a-thread"):
            _refuse_threads()
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize("announces", [True, False])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_person_is_told_that_the_first_query_compiles(
    announces: bool,
    is_compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(worker_daemon.ANNOUNCES, "1" if announces else "")
    monkeypatch.setattr(loading, "are_kernels_compiled", lambda: is_compiled)
    monkeypatch.setattr(loading, "load_kernels", lambda: None)
    worker_daemon._load("socket")
    said = worker_daemon.COMPILING if announces and not is_compiled else ""
    assert capsys.readouterr().err == said


def test_loops_of_an_older_file_are_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.load_kernels()
    assert loading.are_kernels_compiled()
    changed = tmp_path / "kernels.py"
    changed.touch()
    os.utime(changed, (2**32, 2**32))
    monkeypatch.setattr(kernels, "__file__", str(changed))
    assert not loading.are_kernels_compiled()


def test_what_java_sends_is_acknowledged_and_answered_at_once() -> None:
    seen: list[int] = []

    def worker(connection: socket.socket, authenticated: bool) -> int:
        assert authenticated
        if connection.family == socket.AF_INET:
            seen.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return 7

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert without_delayed_acks(worker)(accepted, True) == 7
    assert seen[0] != 0
    one, other = socket.socketpair()
    with one, other:
        assert without_delayed_acks(worker)(one, True) == 7


def test_a_source_that_is_made_in_a_process_of_sparks_is_no_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process that plans writes makes one from its class for each micro-batch."""
    frozen: list[bool] = []
    monkeypatch.setattr(worker_daemon, "_is_forked_by_spark", lambda: True)
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(True))
    worker_daemon.freeze_loaded_objects.cache_clear()
    try:
        source.OdradekDataSource({})
        source.OdradekDataSource({})
    finally:
        worker_daemon.freeze_loaded_objects.cache_clear()
    assert frozen == [True]
