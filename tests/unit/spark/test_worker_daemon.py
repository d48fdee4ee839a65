"""The daemon that workers are forked from: none is forked while threads run."""

import threading

import pytest

from odradek.spark.worker_daemon import _refuse_threads


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
