"""Ctrl-C while a load is sent through librdkafka."""

import os
import signal

import pytest

from odradek.perf.librdkafka_engine import _Failures, _interrupted_between_polls


def test_ctrl_c_waits_for_the_next_check() -> None:
    """In a callback the exception was lost, and `poll` failed with a SystemError."""
    failures = _Failures("a:1")
    with _interrupted_between_polls(failures):
        os.kill(os.getpid(), signal.SIGINT)
        assert failures.is_interrupted
        with pytest.raises(KeyboardInterrupt):
            failures.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
